"""Containers that run their new spec: image ids, container ids, names, hashes, resources."""

import copy
from typing import Any

import orjson
import pytest

from pykruise.agent.rules.container_metadata import compute_container_hash
from pykruise.pods.in_place import (
    CompletionVerdict,
    ImageRecord,
    InPlaceSettings,
    UpdateState,
    judge_containers,
    judge_image,
    judge_pod,
)
from pykruise.pods.in_place.images import is_running, mean_the_same, parse_image_name
from pykruise.pods.in_place.pod import RUNTIME_META_ANNOTATION
from pykruise.pods.in_place.runtime_meta import compute_environment_hash
from pykruise.pods.in_place.state import BatchRecord, encode_state
from pykruise.pods.view import keys
from pykruise.pods.view.containers import ContainerFacts, ContainerStatusFacts
from support.updatable_pod import NOW, PaperPod, container, fed_from, pod_document, with_sidecars

DIGEST = "sha256:" + "ab" * 32
OTHER_DIGEST = "sha256:" + "cd" * 32
SCALING = InPlaceSettings(vertical_scaling=True)


def judge(
    image: str,
    *,
    shows: str,
    image_id: str = "id-1",
    container_id: str = "cid-1",
    recorded: str = "id-1",
    recorded_container: str = "",
    seconds: float = 1.0,
    ready: bool = True,
    waiting: str = "",
) -> CompletionVerdict:
    """Verdict on a container with this image in its spec, and `shows` in its status, some seconds after the change."""
    return judge_image(
        ContainerFacts(name="c1", image=image),
        ContainerStatusFacts(
            name="c1",
            image=shows,
            image_id=image_id,
            container_id=container_id,
            ready=ready,
            waiting=waiting,
        ),
        ImageRecord(image_id=recorded, container_id=recorded_container),
        changed_at=NOW,
        now=NOW + seconds,
    )


def test_an_unchanged_image_id_is_complete_only_under_the_name_that_is_wanted() -> None:
    """inplace-update case 45"""
    assert not judge("app:v2", shows="app:v1").is_complete
    assert judge("app:v2", shows="app:v2").is_complete


def test_an_image_without_a_tag_is_the_latest() -> None:
    """inplace-update case 46"""
    assert judge("nginx", shows="nginx:latest").is_complete


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ("nginx:1.25", "docker.io/library/nginx:1.25"),
        ("acme/app:v2", "docker.io/acme/app:v2"),
        ("docker.io/nginx:1.25", "docker.io/library/nginx:1.25"),
        ("index.docker.io/acme/app:v2", "acme/app:v2"),
        ("registry:5000/app", "registry:5000/app:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("my.app:v2", "docker.io/library/my.app:v2"),
        (f"app@{DIGEST}", f"docker.io/library/app@{DIGEST}"),
        (f"app:v2@{DIGEST}", f"docker.io/library/app@{DIGEST}"),
    ],
)
def test_image_names_are_compared_in_their_full_form(spec: str, shown: str) -> None:
    """inplace-update pitfall 12: registry prefixes, ports, digests"""
    assert mean_the_same(spec, shown)
    assert judge(spec, shows=shown).is_complete


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("nginx:1", "nginx:2"),
        ("nginx", "acme/nginx"),
        ("registry:5000/app", "registry:6000/app"),
        ("quay.io/app:1", "app:1"),
        (f"app@{DIGEST}", f"app@{OTHER_DIGEST}"),
        (f"app@{DIGEST}", "app:latest"),
        (f"app:latest@{DIGEST}", "app"),
        ("app", f"app:latest@{DIGEST}"),
        ("localhost/app:1", "docker.io/localhost/app:1"),
    ],
)
def test_different_names_are_different_images(text: str, other: str) -> None:
    assert not mean_the_same(text, other)


def test_a_port_is_not_a_tag_and_a_digest_has_no_default_tag() -> None:
    """inplace-update pitfall 12"""
    assert parse_image_name("registry:5000/app").tag == "latest"
    assert parse_image_name("registry:5000/app").repository == "registry:5000/app"
    assert parse_image_name(f"app@{DIGEST}").tag == ""


def test_an_image_named_by_digest_runs_when_the_kubelet_reports_that_digest() -> None:
    status = ContainerStatusFacts(name="c1", image="registry/app:v1", image_id=f"registry/app@{DIGEST}")
    assert is_running(status, f"registry/app@{DIGEST}")
    assert not is_running(status, f"registry/app@{OTHER_DIGEST}")
    mirrored = ContainerStatusFacts(name="c1", image=f"mirror/app@{DIGEST}", image_id="id-1")
    assert is_running(mirrored, f"registry/app@{DIGEST}")


def test_another_image_id_completes_the_update_under_any_image_name() -> None:
    assert judge("app:v2", shows="app:nightly", image_id="id-2", recorded_container="cid-1").is_complete


def test_a_second_tag_of_the_same_image_completes_once_the_container_is_another() -> None:
    """Both tags have one digest: the runtime may still show the image with its first tag."""
    given: dict[str, Any] = {"shows": "app:v1", "recorded_container": "cid-1"}
    before = judge("app:v2", **given, seconds=3600)
    assert not before.is_complete
    assert before.look_at is None
    just_after = judge("app:v2", **given, container_id="cid-2", seconds=2)
    assert (just_after.is_complete, just_after.look_at) == (False, NOW + 10)
    assert judge("app:v2", **given, container_id="cid-2", seconds=10).is_complete
    named = judge("app:v2", shows="app:v2", recorded_container="cid-1", container_id="cid-2", seconds=2)
    assert named.is_complete


def test_an_unready_container_with_another_image_name_never_completes_the_update() -> None:
    """After two updates it may run the image between them, and be terminating."""
    given: dict[str, Any] = {"shows": "app:v2", "image_id": "id-2", "recorded": "id-1", "seconds": 60}
    assert not judge("app:v3", **given, ready=False).is_complete
    assert judge("app:v3", **given, ready=True).is_complete


def test_the_same_image_in_another_spelling_waits_for_the_restart() -> None:
    """`nginx` to `docker.io/library/nginx:latest`: the name matches already, but the kubelet restarts the container."""
    given: dict[str, Any] = {"shows": "docker.io/library/nginx:latest", "recorded_container": "cid-1"}
    assert not judge("nginx:latest", **given).is_complete
    assert judge("nginx:latest", **given, container_id="cid-2").is_complete


def test_an_image_that_cannot_be_pulled_is_not_complete_and_has_a_reason() -> None:
    verdict = judge("app:bad", shows="app:v1", waiting="ImagePullBackOff", recorded_container="cid-1")
    assert verdict.because == "container c1 does not run app:bad yet (ImagePullBackOff)"


def test_a_container_that_never_ran_is_not_complete_by_having_no_image_id() -> None:
    verdict = judge("app:v2", shows="app:v2", image_id="", container_id="", recorded="id-1", ready=False)
    assert not verdict.is_complete
    assert judge("app:v2", shows="app:v2", image_id="", container_id="", ready=True).is_complete


@pytest.mark.parametrize(("image_id", "container_id"), [("id-2", ""), ("", "cid-2")])
def test_a_container_with_only_one_id_is_judged_by_that_id(image_id: str, container_id: str) -> None:
    given: dict[str, Any] = {"image_id": image_id, "container_id": container_id, "ready": False}
    assert judge("app:v2", shows="app:v2", **given).is_complete
    assert not judge("app:v2", shows="app:v1", **given).is_complete


def test_a_container_without_an_image_id_does_not_complete_the_update() -> None:
    verdict = judge("app:v2", shows="app:v2", image_id="", recorded_container="cid-1")
    assert not verdict.is_complete
    assert verdict.because == "container c1 does not run app:v2 yet"


def test_another_image_in_another_container_is_complete_before_it_is_ready() -> None:
    verdict = judge(
        "app:v2",
        shows="app:nightly",
        image_id="id-2",
        container_id="cid-2",
        recorded_container="cid-1",
        ready=False,
    )
    assert verdict.is_complete


def test_an_unknown_image_after_an_unfinished_change_must_persist() -> None:
    given: dict[str, Any] = {"shows": "app:b", "image_id": "id-b"}
    early = judge("app:c", **given, seconds=1)
    assert (early.is_complete, early.look_at) == (False, NOW + 10)
    assert judge("app:c", **given, seconds=10).is_complete


def pod_with(state: UpdateState | None = None, *containers: Any, **annotations: str) -> PaperPod:
    pod = PaperPod(pod_document(*(containers or ("c1",))))
    if state is not None:
        annotations[keys.IN_PLACE_STATE_ANNOTATION] = encode_state(state)
    pod.document["metadata"]["annotations"] = annotations
    return pod


def verdict(pod: PaperPod, settings: InPlaceSettings | None = None) -> CompletionVerdict:
    return judge_pod(pod.view(), now=NOW + 60, settings=settings or InPlaceSettings())


def record(**image_ids: str) -> UpdateState:
    records = {name: ImageRecord(image_id=image_id) for name, image_id in image_ids.items()}
    return UpdateState(revision="web-new", started_at=NOW, image_records=records, update_images=True)


def test_a_recorded_container_without_a_status_is_not_complete() -> None:
    """inplace-update case 47"""
    pod = pod_with(record(c1="id-1"))
    pod.document["status"]["containerStatuses"] = []
    assert verdict(pod).because == "container c1 has no status yet"


def test_a_pod_that_was_never_updated_is_complete() -> None:
    """inplace-update 6.8"""
    assert verdict(pod_with()).is_complete


@pytest.mark.parametrize(
    "annotations",
    [
        {keys.IN_PLACE_GRACE_ANNOTATION: '{"revision":"web-new"}'},
        {keys.IN_PLACE_GRACE_ANNOTATION: ""},
        {keys.LEGACY_IN_PLACE_GRACE_ANNOTATION: ""},
        {keys.IN_PLACE_STATE_ANNOTATION: "not JSON"},
        {keys.IN_PLACE_STATE_ANNOTATION: '{"nextContainerImages":{"c1":"c1:v2"}}'},
    ],
)
def test_open_business_makes_the_pod_incomplete(annotations: dict[str, str]) -> None:
    """inplace-update case 52; 6.8"""
    assert not verdict(pod_with(None, **annotations)).is_complete


def test_a_state_that_cannot_be_read_is_broken() -> None:
    assert verdict(pod_with(None, **{keys.IN_PLACE_STATE_ANNOTATION: "not JSON"})).is_broken


def test_a_record_of_a_container_that_the_pod_does_not_have_is_not_waited_for() -> None:
    assert verdict(pod_with(record(gone="id-1"))).is_complete


def settling(**changed_at: float) -> CompletionVerdict:
    """Verdict on containers whose status has an unknown image name; those changed at 0 have the old image id, too."""
    records = {name: ImageRecord(image_id="older") for name in reversed(changed_at)}
    state = UpdateState(
        started_at=NOW,
        image_records=records,
        batches=tuple(BatchRecord(at=at, containers=(name,)) for name, at in changed_at.items()),
    )
    pod = pod_with(state, *changed_at)
    for name, at in changed_at.items():
        pod.status_of(name)["image"] = "app:nightly"
        if not at:
            pod.status_of(name)["imageID"] = "older"
    return judge_pod(pod.view(), now=NOW + 60, settings=InPlaceSettings())


def test_the_first_of_several_open_containers_is_named_and_the_earliest_time_counts() -> None:
    verdict = settling(c1=0, c2=NOW + 58, c3=NOW + 55)
    assert verdict.because == "container c1 does not run c1:v1 yet"
    assert verdict.look_at == NOW + 65
    verdict = settling(c1=NOW + 50, c2=NOW + 58, c3=NOW + 55)
    assert (verdict.because, verdict.look_at) == ("container c2 does not run c2:v1 yet", NOW + 65)
    assert settling(c1=0).look_at is None


def test_the_patience_has_ended_when_no_time_is_known() -> None:
    state = UpdateState(image_records={"c1": ImageRecord(image_id="older")})
    pod = pod_with(state)
    pod.status_of("c1")["image"] = "app:nightly"
    assert verdict(pod).is_complete


def test_the_report_of_the_agent_does_not_count_for_a_sidecar() -> None:
    """inplace-update 6.8 step 4: the report covers regular containers only"""
    # given a sidecar that still runs the old image
    document = with_sidecars(pod_document("c1"), "proxy")
    document["spec"]["initContainers"][1]["image"] = "proxy:v2"
    running = document["status"]["initContainerStatuses"][0]["imageID"]
    for state, is_complete in ((record(proxy=running), False), (record(c1="older"), True)):
        document["metadata"]["annotations"] = {keys.IN_PLACE_STATE_ANNOTATION: encode_state(state)}
        pod = PaperPod(document)
        # when the agent reports that regular containers run their spec
        assert verdict(with_meta(pod, meta_of(pod))).is_complete is is_complete


def meta_of(pod: PaperPod, *, environment: dict[str, int] | None = None, **changes: Any) -> str:
    """Runtime meta of the agent when all containers run their spec; the statuses are reversed."""
    entries = []
    for status in reversed(pod.document["status"]["containerStatuses"]):
        name = status["name"]
        hashes = {"plainHash": compute_container_hash(name, pod.images()[name])}
        if environment and name in environment:
            hashes["extractedEnvFromMetadataHash"] = environment[name]
        entry = {"name": name, "containerID": status["containerID"], "restartCount": 0, "hashes": hashes}
        entries.append(entry | changes)
    return orjson.dumps({"containers": entries, "newer": 1}).decode()


def with_meta(pod: PaperPod, text: str) -> PaperPod:
    pod.document["metadata"]["annotations"][RUNTIME_META_ANNOTATION] = text
    return pod


def test_matching_hashes_are_proof_even_if_the_image_id_is_the_old_one() -> None:
    """inplace-update case 48"""
    # given
    pod = pod_with(record(c1="docker.io/library/c1@sha256:c1:v1"))
    pod.spec_of("c1")["image"] = "c1:v2"
    assert not verdict(pod).is_complete
    # then
    assert verdict(with_meta(pod, meta_of(pod))).is_complete
    assert not verdict(with_meta(pod, meta_of(pod, containerID="containerd://older"))).is_complete


def test_hashes_that_do_not_match_prove_nothing() -> None:
    """inplace-update 6.8 step 4: an older kubelet computes another hash"""
    pod = pod_with(record(c1="some-older-id"))
    waiting = pod_with(record(c1="docker.io/library/c1@sha256:c1:v1"))
    waiting.spec_of("c1")["image"] = "c1:v2"
    for hashes in ({"plainHash": 1}, {}, None):
        assert verdict(with_meta(pod, meta_of(pod, hashes=hashes))).is_complete
        assert not verdict(with_meta(waiting, meta_of(waiting, hashes=hashes))).is_complete


def test_the_agents_report_must_cover_all_running_containers() -> None:
    # given a container that still runs its old image, beside one that does not change
    pod = pod_with(record(c1="docker.io/library/c1@sha256:c1:v1"), "c1", "c2")
    pod.spec_of("c1")["image"] = "c1:v2"
    full = orjson.loads(meta_of(pod))["containers"]
    for containers in (full[:1], [full[0], full[1] | {"hashes": {"plainHash": 1}}], [], None):
        paper_pod = with_meta(pod, orjson.dumps({"containers": containers}).decode())
        assert not verdict(paper_pod).is_complete
    # and a container without a status is not covered
    pod.document["status"]["containerStatuses"].pop(1)
    assert not verdict(with_meta(pod, orjson.dumps({"containers": full}).decode())).is_complete


def test_runtime_meta_that_cannot_be_read_is_not_complete() -> None:
    """inplace-update 6.8 step 1"""
    result = verdict(with_meta(pod_with(record(c1="some-older-id")), "["))
    assert (result.is_complete, result.is_broken) == (False, True)


def fed_pod() -> PaperPod:
    state = UpdateState(revision="web-new", started_at=NOW, update_env_from_metadata=True)
    fed = container("c2", env=[fed_from("labels", "k"), {"name": "E", "value": "1"}])
    pod = pod_with(state, "c1", fed)
    pod.labels()["k"] = "v"
    return pod


def expected_hashes(pod: PaperPod) -> dict[str, int]:
    view = pod.view()
    return {
        container.name: compute_environment_hash(container, labels=view.labels, annotations=view.annotations)
        for container in view.containers
    }


def test_an_environment_from_labels_needs_the_agents_report() -> None:
    """inplace-update case 49"""
    assert "agent" in verdict(fed_pod()).because


def test_an_environment_is_complete_when_all_containers_have_the_present_values() -> None:
    """inplace-update 6.8 step 2, pitfall 13: matched by name, the agent lists containers in its own order"""
    pod = fed_pod()
    hashes = expected_hashes(pod)
    assert verdict(with_meta(pod, meta_of(pod, environment=hashes))).is_complete
    text = meta_of(pod, environment=hashes)
    pod.annotations()[keys.IN_PLACE_STATE_ANNOTATION] = encode_state(
        UpdateState(update_env_from_metadata=True, image_records={"c2": ImageRecord(image_id="id")})
    )
    pod.status_of("c2").update(imageID="id", image="c2:v0")
    pod.spec_of("c2")["image"] = "c2:v2"
    assert verdict(with_meta(pod, text)).because == "container c2 does not run c2:v2 yet"
    for changes in ({"containerID": "containerd://older"}, {"name": "another"}):
        missing = verdict(with_meta(pod, meta_of(pod, environment=hashes, **changes)))
        assert missing.because == "container c1 has not been restarted with its new environment yet"
    stale = verdict(with_meta(pod, meta_of(pod, environment=hashes | {"c2": 7})))
    assert stale.because == "container c2 has not been restarted with its new environment yet"


def test_no_update_waits_for_environments_without_the_gate() -> None:
    assert verdict(fed_pod(), InPlaceSettings(env_from_metadata=False)).is_complete


@pytest.mark.parametrize(
    ("env", "labels", "annotations", "expected"),
    [
        ([], {}, {}, 86995377),
        ([fed_from("labels", "k", variable="e2")], {"k": "foo"}, {"k": "x"}, 2053173458),
        ([fed_from("labels", "k", variable="e2")], {}, {"k": "x"}, 1885397378),
        ([fed_from("annotations", "k", variable="e2")], {"k": "x"}, {"k": "foo"}, 2053173458),
    ],
)
def test_environment_hashes_are_those_of_the_agent(
    env: list[dict[str, Any]], labels: dict[str, str], annotations: dict[str, str], expected: int
) -> None:
    """inplace-update 6.8, check values"""
    facts = PaperPod(pod_document(container("c1", env=env))).view().containers[0]
    assert compute_environment_hash(facts, labels=labels, annotations=annotations) == expected


@pytest.mark.parametrize(
    ("name", "image", "expected"),
    [("test_container", "foo/image:v1", 0x8E45CBD0), ("foo", "bar", 0x11A6D6D6)],
)
def test_container_hashes_are_those_of_the_kubelet(name: str, image: str, expected: int) -> None:
    """inplace-update 6.8, check values"""
    assert compute_container_hash(name, image) == expected


AMOUNTS = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "2", "memory": "1Gi"}}


def resized_pod() -> PaperPod:
    state = UpdateState(revision="web-new", started_at=NOW, update_resources=True)
    return pod_with(state, container("c1", resources=copy.deepcopy(AMOUNTS)), "c2")


def test_resources_are_complete_when_the_kubelet_reports_them() -> None:
    """inplace-update case 50"""
    pod = resized_pod()
    assert verdict(pod, SCALING).is_complete
    pod.status_of("c1")["resources"]["limits"]["cpu"] = "2000m"
    assert verdict(pod, SCALING).is_complete
    pod.status_of("c1")["resources"]["limits"]["cpu"] = "1"
    assert verdict(pod, SCALING).because == "the node has not provided the resources of container c1 yet"
    # and an update without changed resources does not wait
    pod.annotations()[keys.IN_PLACE_STATE_ANNOTATION] = encode_state(UpdateState(started_at=NOW))
    assert verdict(pod, SCALING).is_complete


def test_no_update_waits_for_resources_without_the_gate() -> None:
    """inplace-update 6.8 step 3"""
    pod = resized_pod()
    pod.status_of("c1").pop("resources")
    assert not verdict(pod, SCALING).is_complete
    assert verdict(pod).is_complete


def test_every_container_must_have_a_status_to_judge_resources() -> None:
    """inplace-update 6.8 step 3"""
    pod = resized_pod()
    pod.document["status"]["containerStatuses"].pop(1)
    assert "container c2" in verdict(pod, SCALING).because


def test_absent_and_empty_resources_are_the_same() -> None:
    """inplace-update 9.2"""
    pod = resized_pod()
    pod.status_of("c2")["resources"] = {}
    assert verdict(pod, SCALING).is_complete


def test_an_infeasible_resize_is_reported() -> None:
    """inplace-update 9.2"""
    pod = resized_pod()
    pod.status_of("c1")["resources"]["limits"]["cpu"] = "1"
    pod.conditions().append(
        {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "not enough cpu"}
    )
    assert verdict(pod, SCALING).because.endswith("(Infeasible: not enough cpu)")


def test_containers_changed_so_far_can_be_complete_while_others_wait() -> None:
    pod = pod_with(record(c1="older-id"), "c1", "c2")
    state = UpdateState(
        started_at=NOW, image_records={"c1": ImageRecord(image_id="older-id")}, next_images={"c2": "c2:v2"}
    )
    assert judge_containers(pod.view(), state, now=NOW, settings=InPlaceSettings()).is_complete
    pod.document["metadata"]["annotations"] = {keys.IN_PLACE_STATE_ANNOTATION: encode_state(state)}
    assert verdict(pod).because == "containers wait for a later batch"


@pytest.mark.parametrize("reason", ["Infeasible", "Deferred"])
def test_a_resize_pending_at_the_kubelet_is_open_for_any_reported_resources(
    reason: str,
) -> None:
    # given containers whose status has the resources of the spec already
    pod = resized_pod()
    assert verdict(pod, SCALING).is_complete
    # when
    pending = {"type": "PodResizePending", "status": "True", "reason": reason, "message": "not enough cpu"}
    pod.conditions().append(pending)
    # then
    assert not verdict(pod, SCALING).is_complete
    assert verdict(pod, SCALING).because.endswith(f"({reason}: not enough cpu)")
    # and a condition that is False, or an update without changed resources, does not block
    pending["status"] = "False"
    assert verdict(pod, SCALING).is_complete
