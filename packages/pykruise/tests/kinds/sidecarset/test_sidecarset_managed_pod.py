"""A pod of a SidecarSet: whether it is managed, consistent with its spec, and ready."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.sidecarset.managed_pod import ManagedPod, build_managed_pod, is_managed
from pykruise.kinds.sidecarset.view import project_sidecarset
from pykruise.kube.documents import Document, encode
from support.sidecar_world import SidecarWorld
from support.sidecarsets import container, hot, sidecarset

LIST = "kruise.io/sidecarset-injected-list"
STATE = "kruise.io/sidecarset-inplace-update-state"
DIGEST, OTHER = (f"sha256:{letter * 64}" for letter in "ab")


def running(*sidecars: Document) -> SidecarWorld:
    """A running pod web-0 with these sidecars."""
    sidecar_world = SidecarWorld(sidecarset("log", *sidecars))
    sidecar_world.add()
    return sidecar_world


def seen(world: SidecarWorld) -> ManagedPod:
    return build_managed_pod(world.pod_view("web-0"), world.view)


def status_of(world: SidecarWorld, name: str, /, **fields: Any) -> None:
    """Change fields in the status of one container."""

    def change(pod: Document) -> None:
        next(status for status in pod["status"]["containerStatuses"] if status["name"] == name).update(fields)

    world.edit("web-0", change)


def was_upgraded(world: SidecarWorld, **image_ids: str) -> None:
    """Record the images that the containers ran before an upgrade."""
    statuses = {name: {"imageID": image_id} for name, image_id in image_ids.items()}
    text = orjson.dumps({"log": {"lastContainerStatuses": statuses}}).decode()
    world.edit("web-0", lambda pod: pod["metadata"]["annotations"].update({STATE: text}))


# ── managed ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda _: None, True),
        (lambda pod: pod["metadata"]["annotations"].pop(LIST), False),
        (lambda pod: pod["metadata"]["annotations"].update({LIST: "other"}), False),
        (lambda pod: pod["spec"]["containers"].pop(0), False),
        # only one container of a hot sidecar
        (lambda pod: pod["spec"]["containers"].pop(2), False),
    ],
)
def test_a_pod_is_managed_that_lists_the_sidecarset_and_has_all_its_containers(
    change: Any, *, expected: bool
) -> None:
    """section 6.8"""
    world = running(container("a"), hot("mesh"))
    world.edit("web-0", change)
    assert is_managed(world.pod_view("web-0"), world.view) is expected


def test_a_sidecarset_that_cannot_be_read_manages_no_pod() -> None:
    world = running(container("a"))
    doc = sidecarset("log", container("a", env="text"), metadata={"uid": "u", "resourceVersion": "1"})
    assert not is_managed(world.pod_view("web-0"), project_sidecarset(encode(doc)))


# ── consistent ───────────────────────────────────────────────────────────────


def test_containers_of_the_pods_own_do_not_matter() -> None:
    """section 6.10: only sidecars with an image by digest are checked"""
    world = running(container("log", f"log@{DIGEST}", podInjectPolicy="AfterAppContainer"))
    status_of(world, "log", imageID=f"log@{DIGEST}")
    status_of(world, "main", imageID="anything")
    assert seen(world).is_consistent
    status_of(world, "log", imageID=f"log@{OTHER}")
    assert not seen(world).is_consistent


def test_a_sidecar_by_digest_of_which_nothing_is_known_is_not_consistent() -> None:
    """section 6.10"""
    world = running(container("log", f"log@{DIGEST}"))
    status_of(world, "log", name="another")
    assert not seen(world).is_consistent


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        # the old image, and not yet the name of the new one
        ({"imageID": "old", "image": "log:0"}, False),
        # a tag of the same image
        ({"imageID": "old", "image": "log:1"}, True),
        # another image, however the runtime names it
        ({"imageID": "new", "image": "log:0"}, True),
        # no image is reported yet
        ({"name": "another"}, True),
    ],
)
def test_an_upgrade_is_complete_when_the_container_runs_another_image(
    status: Document, *, expected: bool
) -> None:
    """section 6.10, step 4"""
    world = running(container("log"))
    was_upgraded(world, log="old")
    status_of(world, "log", **status)
    assert seen(world).is_consistent is expected


# ── ready ────────────────────────────────────────────────────────────────────


def test_a_pod_is_ready_when_it_is_running_and_has_the_condition() -> None:
    """section 6.10"""
    world = running(container("log"))
    assert seen(world).is_ready
    world.edit("web-0", lambda pod: pod["status"].update(phase="Pending"))
    assert not seen(world).is_ready


@pytest.mark.parametrize(
    ("empty", "other_image", "expected"),
    [("empty:1", "empty:1", True), ("empty:1", "mesh:0", False), ("", "mesh:0", True)],
)
def test_a_pod_in_a_hot_upgrade_is_unready_unless_one_container_is_empty(
    empty: str, other_image: str, *, expected: bool
) -> None:
    """section 6.10"""
    world = running(hot("mesh", empty=empty), container("log"))
    world.edit("web-0", lambda pod: pod["spec"]["containers"][1].update(image=other_image))
    world.runs("web-0")
    assert seen(world).is_ready is expected
    assert [pair.sidecar.name for pair in seen(world).pairs] == ["mesh"]
