"""The patch of one pod: the containers with a new image, and the annotations that are kept."""

from typing import Any

import orjson
import pytest

from pykruise.kinds.sidecarset.managed_pod import build_managed_pod
from pykruise.kinds.sidecarset.upgrade import can_be_reset, upgrade_patch
from pykruise.kube.documents import Document
from support.sidecar_world import SidecarWorld
from support.sidecarsets import NOW, container, hot, sidecarset

HASH = "kruise.io/sidecarset-hash"
IMAGELESS = "kruise.io/sidecarset-hash-without-image"
STATE = "kruise.io/sidecarset-inplace-update-state"
WORKING = "kruise.io/sidecarset-working-hotupgrade-container"


def started(*containers: Document) -> SidecarWorld:
    """A settled pod web-0 with these sidecars."""
    sidecar_world = SidecarWorld(sidecarset("log", *containers))
    sidecar_world.add()
    sidecar_world.settle()
    return sidecar_world


def patch(world: SidecarWorld) -> Document:
    """The patch for an upgrade of web-0, without a check of its turn."""
    managed = build_managed_pod(world.pod_view("web-0"), world.view)
    return upgrade_patch(managed, world.view, revision="log-2", now=NOW)


def new_images(world: SidecarWorld) -> dict[str, str]:
    return {
        container["name"]: container["image"]
        for container in (patch(world).get("spec") or {}).get("containers", ())
    }


def annotate(world: SidecarWorld, key: str, value: Any) -> None:
    text = orjson.dumps(value).decode()
    world.edit("web-0", lambda pod: pod["metadata"]["annotations"].update({key: text}))


def state_of(**image_ids: str) -> Document:
    return {name: {"imageID": image_id} for name, image_id in image_ids.items()}


# ── containers ───────────────────────────────────────────────────────────────


def test_containers_stay_in_the_order_of_the_pod() -> None:
    """An API server refuses a pod whose containers change places, so such an upgrade could never be written."""
    # given sidecars whose order is not that of their names, one of them hot
    world = started(container("z"), hot("m"), container("a", podInjectPolicy="AfterAppContainer"))
    before = [container["name"] for container in world.pods["web-0"]["spec"]["containers"]]
    assert before == ["z", "m-1", "m-2", "main", "a"]
    # when
    world.change(
        container("z", "z:2"), hot("m", "m:2"), container("a", "a:2", podInjectPolicy="AfterAppContainer")
    )
    world.settle()
    # then
    assert [container["name"] for container in world.pods["web-0"]["spec"]["containers"]] == before
    assert world.images("web-0") == {"z": "z:2", "m-1": "empty:1", "m-2": "m:2", "main": "web:1", "a": "a:2"}


def test_a_pod_that_has_the_image_already_gets_annotations_alone() -> None:
    """section 3.4: the state is written even when no image differs"""
    world = started(container("log"))
    world.change(container("log", "log:2"))
    world.edit("web-0", lambda pod: pod["spec"]["containers"][0].update(image="log:2"))
    body = patch(world)
    assert body.keys() == {"metadata"}
    assert orjson.loads(body["metadata"]["annotations"][STATE])["log"]["lastContainerStatuses"] == {}


def test_a_sidecar_missing_in_the_pod_is_not_added() -> None:
    """pitfall 4"""
    world = started(container("log"), container("other"))
    world.change(container("log", "log:2"), container("other", "other:2"))
    world.edit("web-0", lambda pod: pod["spec"]["containers"].pop(0))
    assert new_images(world) == {"other": "other:2"}


def test_a_hot_sidecar_with_an_unchanged_image_is_not_changed() -> None:
    """section 6.12: only its neighbour changes"""
    world = started(hot("mesh"), container("log"))
    world.change(hot("mesh"), container("log", "log:2"))
    assert new_images(world) == {"log": "log:2"}
    assert WORKING not in patch(world)["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("first", "second", "serving", "working", "target"),
    [
        # an idle container gets the image, for any value of the annotation
        ("empty:1", "mesh:1", "12", "mesh-1", "mesh-1"),
        ("mesh:1", "empty:1", "12", "mesh-2", "mesh-2"),
        # if both have an image, the one that does not serve
        ("mesh:1", "mesh:0", "1", "mesh-2", "mesh-2"),
        ("mesh:0", "mesh:1", "2", "mesh-1", "mesh-1"),
        # and if both serve or none does, the one that is not working
        ("mesh:1", "mesh:0", "12", "mesh-1", "mesh-2"),
        ("mesh:0", "mesh:1", "12", "mesh-2", "mesh-1"),
        ("mesh:0", "mesh:1", "", "mesh-2", "mesh-1"),
        ("mesh:0", "mesh:1", "", "none of them", "mesh-1"),
    ],
)
def test_the_idle_container_of_a_hot_pair_gets_the_image(
    first: str, second: str, serving: str, working: str, target: str
) -> None:
    """section 6.12, step 1"""
    # given a second hot pair without a change
    world = started(hot("b"), hot("mesh"))

    def both(pod: Document) -> None:
        pod["spec"]["containers"][2]["image"] = first
        pod["spec"]["containers"][3]["image"] = second

    world.edit("web-0", both)
    world.runs("web-0", failing=tuple(f"mesh-{text}" for text in "12" if text not in serving))
    annotate(world, WORKING, {"b": "b-1", "mesh": working})
    # when
    world.change(hot("b"), hot("mesh", "mesh:9"))
    # then
    assert new_images(world) == {target: "mesh:9"}


def test_a_container_serves_only_when_it_runs_the_image_of_its_spec() -> None:
    """section 6.12, step 1: ready, and consistent"""
    # given a first container that is ready with the old image, and a second one that is ready with its own image
    world = started(hot("mesh"))

    def both(pod: Document) -> None:
        pod["spec"]["containers"][1]["image"] = "mesh:0"

    world.edit("web-0", both)
    world.runs("web-0")
    world.edit("web-0", lambda pod: pod["spec"]["containers"][0].update(image="mesh:5"))
    annotate(
        world,
        STATE,
        {"log": {"lastContainerStatuses": state_of(**{"mesh-1": "registry/mesh-1@sha256:mesh:1"})}},
    )
    annotate(world, WORKING, {"mesh": "mesh-1"})
    # when
    world.change(hot("mesh", "mesh:9"))
    # then
    assert new_images(world) == {"mesh-1": "mesh:9"}


def test_a_container_without_a_status_is_not_ready() -> None:
    """pitfall 4"""
    world = started(hot("mesh"))
    world.edit("web-0", lambda pod: pod["spec"]["containers"][1].update(image="mesh:0"))
    world.edit("web-0", lambda pod: pod["status"].pop("containerStatuses"))
    world.change(hot("mesh", "mesh:9"))
    assert new_images(world) == {"mesh-2": "mesh:9"}


# ── annotations ──────────────────────────────────────────────────────────────


def test_one_record_of_the_older_form_has_both_annotations_written_and_others_keep_their_time() -> None:
    """section 3.3"""
    # given
    world = started(container("log"))
    other = {
        "updateTimestamp": "2020-01-01T00:00:00Z",
        "hash": "h",
        "sidecarSetName": "other",
        "sidecarList": ["o"],
    }
    full = {**world.note("web-0", HASH), "other": other, "older": "h"}
    imageless = {**world.note("web-0", IMAGELESS), "other": other}
    annotate(world, HASH, full)
    annotate(world, IMAGELESS, imageless)
    # when
    world.now += 60
    world.change(container("log", "log:2"))
    world.settle()
    # then
    times = [
        {name: value["updateTimestamp"] for name, value in world.note("web-0", key).items()}
        for key in (HASH, IMAGELESS)
    ]
    upgraded = {"log": "2026-01-31T12:01:00Z", "other": "2020-01-01T00:00:00Z"}
    assert times == [{**upgraded, "older": "2026-01-31T12:01:00Z"}, upgraded]


def test_the_state_keeps_where_upgrades_began_and_what_others_wrote() -> None:
    """section 3.4"""
    # given
    world = started(container("log"), container("z"))
    first = world.view.hashes.full
    other = {
        "revision": "r",
        "updateTimestamp": "2020-01-01T00:00:00Z",
        "lastContainerStatuses": state_of(x="i"),
    }
    annotate(world, STATE, {"other": other})
    # when two upgrades change one sidecar each
    world.change(container("log", "log:2"), container("z"))
    began = world.view.hashes.full
    world.settle()
    world.now += 60
    world.change(container("log", "log:2"), container("z", "z:2"))
    world.settle()
    # then
    assert first != began != world.view.hashes.full
    assert world.note("web-0", STATE) == {
        "other": other,
        "log": {
            "revision": began,
            "updateTimestamp": "2026-01-31T12:00:00Z",
            "lastContainerStatuses": state_of(log="registry/log@sha256:log:1", z="registry/z@sha256:z:1"),
        },
    }


# ── the end of a hot upgrade ─────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("phase", "is_ready", "failing", "is_over"),
    [
        # the pod is ready, so no container is checked
        ("Running", "True", ("main",), True),
        ("Pending", "True", ("main",), False),
        # or all are ready, except the one that becomes idle
        ("Running", "False", (), True),
        ("Pending", "True", (), True),
        ("Running", "False", ("mesh-1",), True),
        ("Running", "False", ("mesh-2",), False),
        ("Running", "False", ("main",), False),
    ],
)
def test_a_hot_upgrade_is_complete_when_all_but_the_old_container_are_ready(
    phase: str, is_ready: str, failing: tuple[str, ...], *, is_over: bool
) -> None:
    """section 6.12"""
    # given the second container has taken over
    world = started(hot("mesh"))
    world.change(hot("mesh", "mesh:2"))
    world.round()
    world.runs("web-0", failing=failing)

    def seen(pod: Document) -> None:
        pod["status"]["phase"] = phase
        pod["status"]["conditions"] = [{"type": "Ready", "status": is_ready}]

    world.edit("web-0", seen)
    # then
    assert can_be_reset(build_managed_pod(world.pod_view("web-0"), world.view), world.view) is is_over


@pytest.mark.parametrize(("name", "is_over"), [("mesh-1", True), ("mesh-2", False)])
def test_the_image_of_the_old_hot_container_does_not_matter(name: str, *, is_over: bool) -> None:
    """section 6.12: consistent, except the old container"""
    world = started(hot("mesh"))
    world.change(hot("mesh", "mesh:2"))
    world.round()
    world.runs("web-0")
    image_id = next(
        status["imageID"]
        for status in world.pods["web-0"]["status"]["containerStatuses"]
        if status["name"] == name
    )
    annotate(world, STATE, {"log": {"lastContainerStatuses": state_of(**{name: image_id})}})

    def shows_the_old_image(pod: Document) -> None:
        for status in pod["status"]["containerStatuses"]:
            if status["name"] == name:
                status["image"] = "mesh:0"

    world.edit("web-0", shows_the_old_image)
    assert can_be_reset(build_managed_pod(world.pod_view("web-0"), world.view), world.view) is is_over
