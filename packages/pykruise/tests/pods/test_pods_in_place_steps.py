"""An update in place from its first write to its last, on a pod that takes patches as the API server does."""

import copy
from base64 import b64encode
from typing import Any

import orjson
import pytest

from pykruise.kube.documents import Document
from pykruise.pods.in_place import (
    Broken,
    Complete,
    Continue,
    InPlaceSettings,
    NextStep,
    PodPatch,
    RefMetadata,
    UpdateSpec,
    Waiting,
    find_next_step,
    is_at_rest,
    judge_pod,
    start,
    takes_out_of_service,
)
from pykruise.pods.in_place.update_spec import WHOLE_POD
from pykruise.pods.lifecycle.states import LifecycleState, build_state_metadata
from pykruise.pods.view import keys
from support.updatable_pod import NOW, PaperPod, container, fed_from, pod_document, with_sidecars

STATE, GRACE = keys.IN_PLACE_STATE_ANNOTATION, keys.IN_PLACE_GRACE_ANNOTATION
LEGACY_STATE, LEGACY_GRACE = keys.LEGACY_IN_PLACE_STATE_ANNOTATION, keys.LEGACY_IN_PLACE_GRACE_ANNOTATION
SETTINGS = InPlaceSettings()
SCALING = InPlaceSettings(vertical_scaling=True)


def images(revision: str = "web-new", *, grace: int = 0, **images: str) -> UpdateSpec:
    return UpdateSpec(revision=revision, images=images, grace_seconds=grace)


def begin(
    pod: PaperPod,
    spec: UpdateSpec,
    *,
    now: float = NOW,
    settings: InPlaceSettings = SETTINGS,
    metadata: Document | None = None,
) -> list[str]:
    """Start an update and carry out all writes; return the subresources of the writes."""
    before = len(pod.subresources)
    labels = {keys.REVISION_LABEL: spec.revision}
    pod.write(*start(pod.view(), spec, labels=labels, now=now, settings=settings, metadata=metadata))
    return pod.subresources[before:]


def step(pod: PaperPod, *, after: float = 1.0, settings: InPlaceSettings = SETTINGS) -> NextStep:
    return find_next_step(pod.view(), now=NOW + after, settings=settings)


def go_on(pod: PaperPod, *, after: float = 1.0, settings: InPlaceSettings = SETTINGS) -> Continue:
    result = step(pod, after=after, settings=settings)
    assert isinstance(result, Continue), result
    pod.write(*result.writes)
    return result


def waits(pod: PaperPod, *, after: float = 1.0, settings: InPlaceSettings = SETTINGS) -> Waiting:
    result = step(pod, after=after, settings=settings)
    assert isinstance(result, Waiting), result
    return result


def completes(pod: PaperPod, *, after: float = 1.0, settings: InPlaceSettings = SETTINGS) -> Complete:
    completes = step(pod, after=after, settings=settings)
    assert isinstance(completes, Complete), completes
    return completes


def broken(pod: PaperPod) -> str:
    result = step(pod)
    assert isinstance(result, Broken), result
    return result.problem


# Starting


def test_the_pod_leaves_service_before_its_spec_changes() -> None:
    """inplace-update case 22"""
    # given
    pod = PaperPod(pod_document("c1"))
    # when
    writes = start(
        pod.view(), images(c1="c1:v2"), labels={keys.REVISION_LABEL: "web-new"}, now=NOW, settings=SETTINGS
    )
    # then
    assert [write.subresource for write in writes] == ["status", ""]
    assert writes[1].body["metadata"]["annotations"].keys() == {STATE}
    pod.write(writes[0])
    gate, ready = pod.condition(keys.IN_PLACE_READY), pod.condition("Ready")
    assert gate == {
        "type": keys.IN_PLACE_READY,
        "status": "False",
        "reason": "StartInPlaceUpdate",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
    assert (ready["status"], ready["reason"]) == ("False", "ReadinessGatesNotReady")
    assert keys.IN_PLACE_READY in ready["message"]
    assert "'False'" in ready["message"]
    assert pod.images() == {"c1": "c1:v1"}
    pod.write(writes[1])
    assert pod.images() == {"c1": "c1:v2"}
    assert pod.labels()[keys.REVISION_LABEL] == "web-new"


def test_a_whole_update_is_three_writes() -> None:
    # given
    pod = PaperPod(pod_document("c1"))
    begin(pod, images(c1="c1:v2"))
    assert "does not run c1:v2 yet" in waits(pod).because
    # when
    pod.restarts("c1")
    complete = completes(pod)
    # then
    assert len(complete.conditions) + len(pod.subresources) == 3
    assert complete.conditions[0]["status"] == "True"


def test_the_last_write_leaves_a_clean_condition() -> None:
    # given
    pod = PaperPod(pod_document("c1"))
    begin(pod, images(c1="c1:v2"))
    pod.restarts("c1")
    # when
    apply_conditions(pod, completes(pod, after=7))
    # then
    assert pod.condition(keys.IN_PLACE_READY) == {
        "type": keys.IN_PLACE_READY,
        "status": "True",
        "lastTransitionTime": "2026-01-31T12:00:07Z",
    }
    assert completes(pod).conditions == ()
    assert is_at_rest(pod.view())


def apply_conditions(pod: PaperPod, complete: Complete) -> None:
    body: Document = {"status": {"conditions": list(complete.conditions)}}
    pod.write(PodPatch(body=body, because="", subresource="status"))


def test_a_pod_without_the_readiness_gate_is_updated_in_one_write() -> None:
    """inplace-update case 23"""
    pod = PaperPod(pod_document("c1", gated=False))
    assert not takes_out_of_service(pod.view(), images(c1="c1:v2"), settings=SETTINGS)
    assert begin(pod, images(c1="c1:v2")) == [""]
    pod.restarts("c1")
    assert completes(pod).conditions == ()


def test_a_change_of_metadata_alone_keeps_the_pod_in_service() -> None:
    """inplace-update 9.2: no container is affected, so the pod stays in service"""
    pod = PaperPod(pod_document("c1"))
    spec = UpdateSpec(revision="web-new", metadata_patch={"metadata": {"labels": {"k": "v"}}})
    assert not takes_out_of_service(pod.view(), spec, settings=SETTINGS)
    assert begin(pod, spec) == [""]
    assert pod.labels()["k"] == "v"
    assert pod.state()["containerBatchesRecord"] == [{"timestamp": "2026-01-31T12:00:00Z", "containers": []}]
    assert completes(pod).conditions == ()


def resizable(*policies: dict[str, str], **bounds: Any) -> Document:
    bounds = bounds or {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}
    return container("c1", resources=bounds, resizePolicy=list(policies))


POLICIES = (
    {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    {"resourceName": "memory", "restartPolicy": "RestartContainer"},
)


@pytest.mark.parametrize(("resource", "amount", "leaves"), [("cpu", "2", False), ("memory", "2Gi", True)])
def test_a_resize_takes_the_pod_out_of_service_only_if_it_restarts_the_container(
    resource: str, amount: str, leaves: bool
) -> None:
    """inplace-update case 24"""
    pod = PaperPod(pod_document(resizable(*POLICIES)))
    spec = UpdateSpec(revision="web-new", resources={"c1": {"limits": {resource: amount}}})
    assert takes_out_of_service(pod.view(), spec, settings=SCALING) is leaves
    assert begin(pod, spec, settings=SCALING) == (["resize?dryRun", "status"] if leaves else []) + [
        "resize",
        "",
    ]


def test_a_grace_period_separates_leaving_service_and_the_change() -> None:
    """inplace-update case 25"""
    pod = PaperPod(pod_document("c1"))
    assert begin(pod, images(c1="c1:v2", grace=30)) == ["status", ""]
    assert pod.images() == {"c1": "c1:v1"}
    assert pod.labels()[keys.REVISION_LABEL] == "web-new"
    assert orjson.loads(pod.annotations()[GRACE]) == {
        "revision": "web-new",
        "containerImages": {"c1": "c1:v2"},
        "graceSeconds": 30,
    }
    assert pod.state()["updateImages"] is True
    assert "containerBatchesRecord" not in pod.state()
    assert waits(pod, after=0).look_at == NOW + 30


def test_the_shortest_grace_period_is_respected() -> None:
    pod = PaperPod(pod_document("c1"))
    begin(pod, images(c1="c1:v2", grace=1))
    assert pod.images() == {"c1": "c1:v1"}
    assert waits(pod, after=0).look_at == NOW + 1


def test_a_change_that_restarts_no_container_has_no_grace_period() -> None:
    """inplace-update 9.2: the pod stays in service, so no grace period is needed"""
    pod = PaperPod(pod_document("c1"))
    patch = {"metadata": {"labels": {"k": "v"}}}
    assert begin(pod, UpdateSpec(revision="web-new", metadata_patch=patch, grace_seconds=30)) == [""]
    assert pod.labels()["k"] == "v"
    assert GRACE not in pod.annotations()


def test_a_repeated_start_leaves_what_one_start_leaves() -> None:
    """inplace-update case 26; pitfall: every write can be lost and sent again"""
    # given
    once, twice = PaperPod(pod_document("c1")), PaperPod(pod_document("c1"))
    begin(once, images(c1="c1:v2"))
    writes = start(
        twice.view(), images(c1="c1:v2"), labels={keys.REVISION_LABEL: "web-new"}, now=NOW, settings=SETTINGS
    )
    # when: the answers are lost, and everything is sent twice
    twice.write(*writes, *writes)
    # then
    for pod in (once, twice):
        pod.document["metadata"].pop("resourceVersion")
    assert once.document == twice.document
    assert len(once.state()["containerBatchesRecord"]) == 1


def test_an_update_interrupted_after_its_first_write_is_repeated_or_reverted() -> None:
    # given
    pod = PaperPod(pod_document("c1"))
    spec = images(c1="c1:v2")
    first, _ = start(pod.view(), spec, labels={}, now=NOW, settings=SETTINGS)
    pod.write(first)
    # then: no manager continues the update, and the pod comes back into service
    assert completes(pod).conditions[0]["status"] == "True"
    # or: the update is started again
    assert begin(pod, spec) == ["status", ""]
    assert pod.images() == {"c1": "c1:v2"}


def test_the_legacy_state_makes_room_for_the_new_one() -> None:
    """inplace-update case 27"""
    pod = PaperPod(pod_document("c1", annotations={LEGACY_STATE: '{"revision":"web-older"}'}))
    begin(pod, images(c1="c1:v2"))
    assert LEGACY_STATE not in pod.annotations()
    assert pod.state()["revision"] == "web-new"


CPU_2 = UpdateSpec(revision="web-new", resources={"c1": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}})


def test_resources_are_patched_in_the_spec_of_an_older_server_and_by_resize_on_a_newer_one() -> None:
    """inplace-update case 28"""
    older = PaperPod(pod_document(resizable()))
    newer = PaperPod(pod_document(resizable()))
    assert begin(older, CPU_2, settings=InPlaceSettings(vertical_scaling=True, uses_resize=False)) == [""]
    assert begin(newer, CPU_2, settings=SCALING) == ["resize", ""]
    for pod in (older, newer):
        assert pod.spec_of("c1")["resources"] == {
            "limits": {"cpu": "2", "memory": "1Gi"},
            "requests": {"cpu": "2", "memory": "1Gi"},
        }


def test_the_pod_write_holds_no_resources_where_there_is_a_resize() -> None:
    """inplace-update case 28"""
    pod = PaperPod(pod_document(resizable()))
    resize, write = start(pod.view(), CPU_2, labels={}, now=NOW, settings=SCALING)
    assert resize.body == {
        "spec": {
            "containers": [{"name": "c1", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}]
        }
    }
    assert "spec" not in write.body


def test_resources_that_are_set_already_are_not_sent_again() -> None:
    """inplace-update case 29"""
    live = resizable(limits={"cpu": "2000m", "memory": "1Gi"}, requests={"cpu": "2", "memory": "1Gi"})
    pod = PaperPod(pod_document(live))
    assert begin(pod, CPU_2, settings=SCALING) == [""]
    assert pod.spec_of("c1")["resources"]["limits"]["cpu"] == "2000m"


def test_a_refused_resize_leaves_the_pod_in_its_revision_so_that_it_is_tried_again() -> None:
    """inplace-update case 30: the resize comes first, and a failure ends the chain"""
    pod = PaperPod(pod_document(resizable()))
    resize, write = start(
        pod.view(), CPU_2, labels={keys.REVISION_LABEL: "web-new"}, now=NOW, settings=SCALING
    )
    assert resize.subresource == "resize"
    assert "labels" in write.body["metadata"]


def test_unknown_fields_survive_the_update() -> None:
    """inplace-update case 31, pitfall 1"""
    # given
    document = pod_document("side", container("c1", futureField={"a": [1]}), "c2")
    document["spec"]["futureSpec"] = [{"x": None}, 1.5]
    document["metadata"]["futureMeta"] = {"y": True}
    pod = PaperPod(document)
    before = copy.deepcopy(pod.document)
    # when
    begin(pod, images(c1="c1:v2"))
    # then
    after = copy.deepcopy(pod.document)
    assert after["spec"]["containers"][1].pop("image") == "c1:v2"
    before["spec"]["containers"][1].pop("image")
    assert after["spec"] == before["spec"]
    for part in (before, after):
        part["metadata"].pop("resourceVersion")
        part["metadata"]["labels"].pop(keys.REVISION_LABEL)
    assert after["metadata"].pop("annotations").keys() == {STATE}
    assert after["metadata"] == before["metadata"]


def test_the_lifecycle_state_is_part_of_the_same_write() -> None:
    """lifecycle 6.1; lifecycle case 12"""
    pod = PaperPod(pod_document("c1"))
    assert begin(
        pod, images(c1="c1:v2"), metadata=build_state_metadata(LifecycleState.UPDATING, now=NOW)
    ) == [
        "status",
        "",
    ]
    assert pod.labels()[keys.STATE_LABEL] == "Updating"
    assert pod.annotations()[keys.STATE_TIME_ANNOTATION] == "2026-01-31T12:00:00Z"
    assert pod.labels()[keys.REVISION_LABEL] == "web-new"
    assert not is_at_rest(pod.view())


def test_the_unready_condition_is_written_even_if_the_pod_is_already_unready() -> None:
    """inplace-update pitfall 3"""
    pod = PaperPod(pod_document("c1"))
    begin(pod, images(c1="c1:v2"))
    pod.conditions().reverse()
    since = pod.condition(keys.IN_PLACE_READY)["lastTransitionTime"]
    assert begin(pod, images("web-newer", c1="c1:v3"), now=NOW + 5) == ["status", ""]
    assert pod.condition(keys.IN_PLACE_READY)["lastTransitionTime"] == since


def test_template_metadata_that_others_changed_on_the_pod_is_kept() -> None:
    """inplace-update pitfall 15"""
    document = pod_document("c1", labels={"theirs": "1"}, annotations={"note": "x"}, finalizers=["theirs/f"])
    pod = PaperPod(document)
    patch = {"metadata": {"labels": {"gone": None, "k": "v"}, "finalizers": ["ours/f"]}}
    begin(pod, UpdateSpec(revision="web-new", metadata_patch=patch))
    assert pod.labels()["theirs"] == "1"
    assert pod.annotations()["note"] == "x"
    assert sorted(pod.document["metadata"]["finalizers"]) == ["ours/f", "theirs/f"]


def test_a_container_that_the_pod_does_not_have_is_not_added() -> None:
    pod = PaperPod(pod_document("c1"))
    begin(pod, images(c1="c1:v2", gone="gone:v2"))
    assert pod.images() == {"c1": "c1:v2"}


def test_a_message_of_the_condition_does_not_outlast_the_start() -> None:
    pod = PaperPod(pod_document("c1"))
    pod.condition(keys.IN_PLACE_READY)["message"] = "old"
    begin(pod, images(c1="c1:v2"))
    assert pod.condition(keys.IN_PLACE_READY).keys() == {"type", "status", "reason", "lastTransitionTime"}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"proxy": "proxy:v2"}, {"initContainers": [{"name": "proxy", "image": "proxy:v2"}]}),
        ({"c1": "c1:v2"}, {"containers": [{"name": "c1", "image": "c1:v2"}]}),
        (
            {"c1": "c1:v2", "logger": "logger:v2"},
            {
                "containers": [{"name": "c1", "image": "c1:v2"}],
                "initContainers": [{"name": "logger", "image": "logger:v2"}],
            },
        ),
    ],
)
def test_a_native_sidecar_gets_its_image_as_the_init_container_that_it_is(
    wanted: dict[str, str], expected: Document
) -> None:
    """inplace-update 9.2"""
    pod = PaperPod(with_sidecars(pod_document("c1"), "proxy", "logger"))
    spec = UpdateSpec(revision="web-new", images=wanted)
    out, write = start(pod.view(), spec, labels={}, now=NOW, settings=SETTINGS)
    assert write.body["spec"] == expected
    assert "message" not in out.body["status"]["conditions"][0]


# Batches


def ordered_pod() -> PaperPod:
    return PaperPod(pod_document(container("c1", priority=10), container("c2", priority=0)))


def test_the_second_batch_waits_for_the_first_and_then_ends_the_update() -> None:
    """inplace-update cases 32, 33, 34"""
    # given
    pod = ordered_pod()
    # when
    begin(pod, images(c1="c1:v2", c2="c2:v2"))
    # then
    assert pod.images() == {"c1": "c1:v2", "c2": "c2:v1"}
    assert pod.state()["nextContainerImages"] == {"c2": "c2:v2"}
    assert pod.state()["preCheckBeforeNext"] == {"containersRequiredReady": ["c1"]}
    assert "c1 does not run c1:v2 yet" in waits(pod).because
    # when
    pod.restarts("c1", ready=False)
    assert waits(pod).because == "waits until c1 is ready; then the next containers are updated"
    pod.status_of("c1")["ready"] = True
    result = go_on(pod, after=9)
    # then
    assert [write.checked for write in result.writes] == [True]
    assert pod.images() == {"c1": "c1:v2", "c2": "c2:v2"}
    state = pod.state()
    assert not [key for key in state if key.startswith("next") or key == "preCheckBeforeNext"]
    assert [batch["containers"] for batch in state["containerBatchesRecord"]] == [["c1"], ["c2"]]
    assert state["updateTimestamp"] == "2026-01-31T12:00:00Z"
    waits(pod, after=9)
    pod.restarts("c2")
    assert completes(pod, after=9).conditions


def test_a_wait_counts_from_the_last_batch_or_else_from_the_start() -> None:
    # given an update with three batches
    priorities = {"c1": 2, "c2": 1, "c3": 0}
    pod = PaperPod(
        pod_document(*(container(name, priority=priority) for name, priority in priorities.items()))
    )
    begin(pod, images(c1="c1:v2", c2="c2:v2", c3="c3:v2"))
    assert waits(pod).since == NOW
    pod.restarts("c1")
    go_on(pod, after=9)
    assert waits(pod, after=10).since == NOW + 9
    pod.restarts("c2", ready=False)
    assert waits(pod, after=10).since == NOW + 9
    pod.status_of("c2")["ready"] = True
    go_on(pod, after=20)
    assert waits(pod, after=20).since == NOW + 20
    # and for an update of a manager that recorded no batches
    state = pod.state()
    del state["containerBatchesRecord"]
    pod.annotations()[STATE] = orjson.dumps(state).decode()
    assert waits(pod, after=10).since == NOW
    # or for one that waits until the first batch is ready
    pod.annotations()[STATE] = orjson.dumps(
        {"updateTimestamp": "2026-01-31T12:00:00Z", "nextContainerImages": {"c2": "c2:v3"}}
        | {"preCheckBeforeNext": {"containersRequiredReady": ["c1"]}}
    ).decode()
    pod.status_of("c1")["ready"] = False
    assert waits(pod, after=10).since == NOW


def test_a_second_batch_of_only_resources_is_executed() -> None:
    """inplace-update case 38, pitfall 4"""
    # given
    amounts = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    second = container("c2", priority=0, resources=amounts, resizePolicy=policy)
    pod = PaperPod(pod_document(container("c1", priority=1), second))
    spec = UpdateSpec(revision="web-new", images={"c1": "c1:v2"}, resources={"c2": {"limits": {"cpu": "2"}}})
    assert begin(pod, spec, settings=SCALING) == ["resize?dryRun", "status", ""]
    pod.restarts("c1")
    # when
    result = go_on(pod, settings=SCALING)
    # then
    assert [(write.subresource, write.checked) for write in result.writes] == [("resize", True), ("", False)]
    assert pod.spec_of("c2")["resources"]["limits"] == {"cpu": "2"}
    assert "has not provided the resources of container c2" in waits(pod, settings=SCALING).because
    pod.status_of("c2")["resources"] = copy.deepcopy(pod.spec_of("c2")["resources"])
    completes(pod, settings=SCALING)


@pytest.mark.parametrize("grace_s", [0, 30])
def test_resources_without_a_restart_change_before_the_pod_leaves_service_in_any_batch(
    grace_s: int,
) -> None:
    # given
    amounts = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    second = container("c2", priority=0, resources=amounts)
    pod = PaperPod(pod_document(container("c1", priority=1), second))
    spec = UpdateSpec(
        revision="web-new",
        images={"c1": "c1:v2"},
        resources={"c2": {"limits": {"cpu": "2"}}},
        grace_seconds=grace_s,
    )
    # when
    writes = begin(pod, spec, settings=SCALING)
    # then
    assert writes == ["resize", "status", ""]
    assert pod.spec_of("c2")["resources"]["limits"] == {"cpu": "2"}
    # when the grace period is over
    if grace_s:
        assert "resize" not in [write.subresource for write in go_on(pod, after=31, settings=SCALING).writes]
    pod.restarts("c1")
    # then the update is complete as soon as the resources are in effect
    assert "has not provided the resources of container c2" in waits(pod, after=40, settings=SCALING).because
    pod.status_of("c2")["resources"] = copy.deepcopy(pod.spec_of("c2")["resources"])
    completes(pod, settings=SCALING)


@pytest.mark.parametrize("reported", [True, False])
def test_a_dry_run_and_the_first_write_after_it_need_the_same_pod(reported: bool) -> None:
    # given a container whose image the status reports, or not yet
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    amounts = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    pod = PaperPod(pod_document(container("c1", resources=amounts, resizePolicy=policy)))
    if not reported:
        pod.status_of("c1")["imageID"] = ""
    spec = UpdateSpec(revision="web-new", images={"c1": "c1:v2"}, resources={"c1": {"limits": {"cpu": "2"}}})
    # when
    writes = start(pod.view(), spec, labels={}, now=NOW, settings=SCALING)
    # then
    assert [write.is_dry_run for write in writes] == [True, False, False, False]
    assert [write.checked for write in writes] == [not reported, not reported, False, False]


def test_pending_changes_of_an_unfinished_update_are_part_of_the_next_one() -> None:
    """inplace-update case 39, pitfall 6"""
    # given
    pod = ordered_pod()
    begin(pod, images("web-b", c1="c1:b", c2="c2:b"))
    # when
    begin(pod, images("web-c", c1="c1:c"), now=NOW + 5)
    pod.restarts("c1")
    go_on(pod, after=20)
    # then
    assert pod.images() == {"c1": "c1:c", "c2": "c2:b"}
    assert pod.state()["revision"] == "web-c"


def test_pending_metadata_is_overridden_by_the_new_update() -> None:
    """inplace-update pitfall 6"""
    # given
    fed = [fed_from("labels", "a"), fed_from("labels", "b", variable="FED_B")]
    pod = PaperPod(pod_document(container("c1", priority=1), container("c2", priority=0, env=fed)))
    refs = {"c2": RefMetadata(labels={"a": "pending", "b": "pending"})}
    begin(
        pod,
        UpdateSpec(revision="web-b", images={"c1": "c1:b"}, ref_metadata=refs, update_env_from_metadata=True),
    )
    assert "a" not in pod.labels()
    # when: the next template drops one of the labels
    patch = {"metadata": {"labels": {"a": None}}}
    begin(pod, UpdateSpec(revision="web-c", metadata_patch=patch))
    # then
    assert pod.labels().get("b") == "pending"
    assert "a" not in pod.labels()


def test_a_new_update_still_waits_for_containers_of_the_last_one() -> None:
    # given an update of c1 that the kubelet has not carried out
    pod = PaperPod(pod_document("c1", "c2"))
    begin(pod, images("web-b", c1="c1:b"))
    # when
    begin(pod, images("web-c", c2="c2:c"), now=NOW + 1)
    pod.restarts("c2")
    # then
    assert "container c1 does not run c1:b yet" in waits(pod).because
    pod.restarts("c1")
    completes(pod)


def test_a_new_update_drops_the_records_of_the_previous_update() -> None:
    pod = PaperPod(pod_document("c1", "c2"))
    begin(pod, images("web-b", c1="c1:b"))
    pod.restarts("c1")
    begin(pod, images("web-c", c2="c2:c"), now=NOW + 20)
    assert pod.state()["lastContainerStatuses"].keys() == {"c2"}


NEW_IMAGE = UpdateSpec(revision="web-new", images={"c2": "c2:v2"})
NEW_LABEL = UpdateSpec(
    revision="web-new", ref_metadata={"c1": RefMetadata(labels={"k": "v"})}, update_env_from_metadata=True
)


@pytest.mark.parametrize(
    ("first", "second", "flags"),
    [
        (NEW_LABEL, NEW_IMAGE, {"updateEnvFromMetadata", "updateImages"}),
        (NEW_IMAGE, CPU_2, {"updateImages", "updateResources"}),
        (CPU_2, NEW_LABEL, {"updateResources", "updateEnvFromMetadata"}),
        (NEW_IMAGE, NEW_IMAGE, {"updateImages"}),
    ],
)
def test_a_new_update_waits_for_every_kind_of_change_of_the_last_one(
    first: UpdateSpec, second: UpdateSpec, flags: set[str]
) -> None:
    # given an update that neither the kubelet nor the agent has carried out
    pod = PaperPod(pod_document({**resizable(), "env": [fed_from("labels", "k")]}, "c2"))
    begin(pod, first, settings=SCALING)
    # when
    begin(pod, second, settings=SCALING, now=NOW + 1)
    # then
    assert {key for key in pod.state() if key.startswith("update") and key != "updateTimestamp"} == flags


def test_an_environment_that_changes_takes_the_pod_out_of_service() -> None:
    """inplace-update 6.3 step 2: the agent restarts the container"""
    pod = PaperPod(pod_document(container("c1", env=[fed_from("labels", "k")]), "c2"))
    assert takes_out_of_service(pod.view(), NEW_LABEL, settings=SETTINGS)
    assert begin(pod, NEW_LABEL) == ["status", ""]


def test_a_pod_with_a_missing_condition_leaves_service() -> None:
    # given
    document = pod_document("c1")
    document["status"]["conditions"].pop(0)
    pod = PaperPod(document)
    # when
    begin(pod, images(c1="c1:v2"))
    # then
    gate = pod.condition(keys.IN_PLACE_READY)
    assert (gate["status"], gate["lastTransitionTime"]) == ("False", "2026-01-31T12:00:00Z")


def test_a_container_changed_again_is_recorded_with_its_present_image_id() -> None:
    """inplace-update pitfall 7"""
    pod = PaperPod(pod_document("c1"))
    begin(pod, images("web-b", c1="c1:b"))
    pod.restarts("c1")
    pod.status_of("c1")["imageID"] = "sha256:b"
    begin(pod, images("web-c", c1="c1:c"))
    assert pod.state()["lastContainerStatuses"]["c1"]["imageID"] == "sha256:b"


def test_the_container_id_of_a_container_changed_again_is_recorded_only_if_unchanged() -> None:
    # given an update of two containers, of which only one has been restarted
    pod = PaperPod(pod_document("c1", "c2"))
    begin(pod, images("web-b", c1="c1:b", c2="c2:b"))
    pod.restarts("c1")
    # when
    begin(pod, images("web-c", c1="c1:c", c2="c2:c"), now=NOW + 1)
    # then the other may keep running, in case the second change reverts the first
    records = pod.state()["lastContainerStatuses"]
    assert {name: record.get("containerID") for name, record in records.items()} == {
        "c1": "containerd://c1-2",
        "c2": None,
    }


def test_an_update_reverted_before_the_kubelet_saw_it_completes() -> None:
    """The kubelet never restarts the container, since the spec is the original one again."""
    # given
    pod = PaperPod(pod_document("c1"))
    begin(pod, images("web-b", c1="c1:b"))
    # when
    begin(pod, images("web-a", c1="c1:v1"))
    # then
    assert completes(pod).conditions[0]["status"] == "True"


# Grace


def in_grace(**metadata: Any) -> PaperPod:
    pod = PaperPod(pod_document("c1", **metadata))
    begin(pod, images(c1="c1:v2", grace=30))
    return pod


def test_the_rest_of_a_grace_period_is_rounded_up() -> None:
    """inplace-update case 40"""
    waiting = waits(in_grace(), after=10.2)
    assert waiting.look_at == pytest.approx(NOW + 10.2 + 20)
    assert waiting.since == NOW


def test_images_change_after_the_grace_period_and_both_annotations_are_removed() -> None:
    """inplace-update case 41, pitfall 16"""
    pod = in_grace(annotations={LEGACY_GRACE: '{"revision":"web-older"}'})
    pod.document["metadata"]["annotations"][LEGACY_GRACE] = "{}"
    result = go_on(pod, after=30)
    assert result.writes[0].checked
    assert pod.images() == {"c1": "c1:v2"}
    assert not {GRACE, LEGACY_GRACE} & pod.annotations().keys()
    assert [batch["containers"] for batch in pod.state()["containerBatchesRecord"]] == [["c1"]]
    pod.restarts("c1")
    completes(pod, after=31)


def test_metadata_waits_for_the_end_of_the_grace_period_too() -> None:
    pod = PaperPod(pod_document("c1"))
    spec = UpdateSpec(
        revision="web-new",
        images={"c1": "c1:v2"},
        metadata_patch={"metadata": {"labels": {"k": "v"}}},
        grace_seconds=5,
    )
    begin(pod, spec)
    assert "k" not in pod.labels()
    go_on(pod, after=5)
    assert pod.labels()["k"] == "v"


def test_a_grace_period_for_a_revision_that_the_pod_left_is_dropped() -> None:
    """inplace-update case 42"""
    pod = in_grace()
    pod.labels()[keys.REVISION_LABEL] = "web-other"
    before = copy.deepcopy(pod.annotations())
    assert go_on(pod, after=60).writes[0].checked
    assert pod.images() == {"c1": "c1:v1"}
    assert pod.annotations() == {key: value for key, value in before.items() if key != GRACE}


def test_the_short_hash_in_the_label_is_the_same_revision() -> None:
    pod = in_grace()
    pod.labels()[keys.REVISION_LABEL] = "new"
    go_on(pod, after=30)
    assert pod.images() == {"c1": "c1:v2"}


def test_a_grace_period_without_a_state_is_reported() -> None:
    """inplace-update case 43"""
    pod = in_grace()
    pod.annotations().pop(STATE)
    assert STATE in broken(pod)


@pytest.mark.parametrize("key", [STATE, GRACE])
def test_an_annotation_that_cannot_be_read_is_reported_and_the_next_update_starts_over(key: str) -> None:
    """inplace-update 6.6 step 2, 6.7 steps 2 and 3"""
    pod = in_grace()
    pod.annotations()[key] = "{"
    assert key in broken(pod)
    begin(pod, images("web-c", c1="c1:c"))
    assert pod.images() == {"c1": "c1:c"}
    assert GRACE not in pod.annotations()


def test_a_report_of_the_agent_that_cannot_be_read_is_reported() -> None:
    """inplace-update 6.8 step 1"""
    pod = PaperPod(pod_document("c1"))
    begin(pod, images(c1="c1:v2"))
    pod.annotations()[keys.RUNTIME_META_ANNOTATION] = "["
    assert keys.RUNTIME_META_ANNOTATION in broken(pod)


def test_a_rollback_during_the_grace_period_restores_the_pod_immediately() -> None:
    # given
    pod = in_grace()
    # when: the pod never got the new image, so nothing must be reverted
    assert begin(pod, images("web-old", c1="c1:v1"), now=NOW + 5) == [""]
    # then
    assert pod.images() == {"c1": "c1:v1"}
    assert GRACE not in pod.annotations()
    assert pod.labels()[keys.REVISION_LABEL] == "web-old"
    assert completes(pod, after=5).conditions[0]["status"] == "True"


def test_another_update_during_the_grace_period_holds_what_the_first_one_was_to_do() -> None:
    """inplace-update pitfall 6"""
    # given
    pod = PaperPod(pod_document("c1", "c2"))
    patch = {"metadata": {"labels": {"k": "b", "l": "b"}}}
    spec = UpdateSpec(
        revision="web-b", images={"c1": "c1:b", "c2": "c2:b"}, metadata_patch=patch, grace_seconds=30
    )
    begin(pod, spec)
    # when
    later = UpdateSpec(
        revision="web-c",
        images={"c1": "c1:c"},
        metadata_patch={"metadata": {"labels": {"l": None}}},
        grace_seconds=30,
    )
    begin(pod, later, now=NOW + 10)
    go_on(pod, after=40)
    # then
    assert pod.images() == {"c1": "c1:c", "c2": "c2:b"}
    assert pod.labels()["k"] == "b"
    assert "l" not in pod.labels()


def test_an_empty_grace_annotation_is_removed_without_a_grace_period() -> None:
    """inplace-update case 52"""
    pod = PaperPod(pod_document("c1", annotations={GRACE: ""}))
    assert not judge_pod(pod.view(), now=NOW, settings=SETTINGS).is_complete
    assert not is_at_rest(pod.view())
    go_on(pod)
    assert GRACE not in pod.annotations()
    assert judge_pod(pod.view(), now=NOW, settings=SETTINGS).is_complete


def test_the_present_spelling_decides_even_if_it_is_empty() -> None:
    pod = in_grace()
    pod.annotations().update({LEGACY_GRACE: pod.annotations()[GRACE], GRACE: ""})
    go_on(pod, after=30)
    assert not {GRACE, LEGACY_GRACE} & pod.annotations().keys()
    assert pod.images() == {"c1": "c1:v1"}


# The end


def test_a_new_pod_gets_its_condition_once() -> None:
    """inplace-update case 44"""
    document = pod_document("c1")
    document["status"]["conditions"].pop(0)
    pod = PaperPod(document)
    complete = completes(pod)
    assert complete.conditions == (
        {"type": keys.IN_PLACE_READY, "status": "True", "lastTransitionTime": "2026-01-31T12:00:01Z"},
    )
    apply_conditions(pod, complete)
    assert completes(pod).conditions == ()


def test_a_true_condition_with_leftovers_is_cleaned() -> None:
    """inplace-update 6.6 step 4"""
    pod = PaperPod(pod_document("c1"))
    pod.condition(keys.IN_PLACE_READY).update(reason="X", message="y")
    apply_conditions(pod, completes(pod))
    condition = pod.condition(keys.IN_PLACE_READY)
    assert condition == {
        "type": keys.IN_PLACE_READY,
        "status": "True",
        "lastTransitionTime": "2026-01-31T11:00:00Z",
    }


@pytest.mark.parametrize(
    ("status", "leftover"),
    [("True", "reason"), ("True", "message"), ("False", "reason"), ("False", "message")],
)
def test_only_existing_fields_of_a_condition_are_nulled(status: str, leftover: str) -> None:
    """inplace-update 6.6 step 4"""
    pod = PaperPod(pod_document("c1"))
    pod.condition(keys.IN_PLACE_READY).update({"status": status, leftover: "x"})
    moved = {} if status == "True" else {"lastTransitionTime": "2026-01-31T12:00:01Z"}
    (result,) = completes(pod).conditions
    assert result == {"type": keys.IN_PLACE_READY, "status": "True", leftover: None, **moved}


def test_a_completed_update_returns_its_conditions_without_a_patch() -> None:
    """inplace-update case 51, pitfall 2: conditions, not a patch that could be sent without its version"""
    pod = PaperPod(pod_document("c1"))
    begin(pod, images(c1="c1:v2"))
    pod.restarts("c1")
    complete = completes(pod)
    assert not hasattr(complete, "writes")
    assert [condition["type"] for condition in complete.conditions] == [keys.IN_PLACE_READY]


def test_a_pod_is_at_rest_before_and_after_an_update_but_not_during_it() -> None:
    pod = ordered_pod()
    assert is_at_rest(pod.view())
    begin(pod, images(c1="c1:v2", c2="c2:v2"))
    assert not is_at_rest(pod.view())
    pod.restarts("c1")
    go_on(pod)
    pod.restarts("c2")
    assert not is_at_rest(pod.view())
    apply_conditions(pod, completes(pod))
    assert is_at_rest(pod.view())


def test_a_pod_in_state_updating_is_not_at_rest() -> None:
    """lifecycle case 14: the lifecycle state must still be changed"""
    pod = PaperPod(pod_document("c1", labels={keys.STATE_LABEL: "Updating"}))
    assert completes(pod).conditions == ()
    assert not is_at_rest(pod.view())
    pod.labels()[keys.STATE_LABEL] = "Normal"
    assert is_at_rest(pod.view())


def test_a_pod_without_the_gate_is_not_at_rest_while_containers_wait_for_a_batch() -> None:
    document = ordered_pod().document
    document["spec"]["readinessGates"] = []
    pod = PaperPod(document)
    begin(pod, images(c1="c1:v2", c2="c2:v2"))
    assert not is_at_rest(pod.view())


def test_a_pod_as_another_manager_left_it_is_taken_over() -> None:
    """State and grace as the Go manager writes them, in the middle of an update."""
    # given
    state = {
        "revision": "web-new",
        "updateTimestamp": "2026-01-31T11:59:00Z",
        "lastContainerStatuses": {"c1": {"imageID": "docker.io/library/c1@sha256:c1:v0"}},
        "updateImages": True,
        "nextContainerImages": {"c2": "c2:v2"},
        "nextContainerRefMetadata": {
            "c2": {"creationTimestamp": None, "labels": {"k": "v"}, "annotations": {"n": "1"}}
        },
        "preCheckBeforeNext": {"containersRequiredReady": ["c1"]},
        "containerBatchesRecord": [{"timestamp": "2026-01-31T11:59:00Z", "containers": ["c1"]}],
        "somethingNew": {"x": 1},
    }
    document = ordered_pod().document
    document["metadata"]["annotations"] = {STATE: orjson.dumps(state).decode()}
    document["metadata"]["labels"][keys.REVISION_LABEL] = "web-new"
    pod = PaperPod(document)
    # when
    go_on(pod)
    # then
    assert pod.images() == {"c1": "c1:v1", "c2": "c2:v2"}
    assert (pod.labels()["k"], pod.annotations()["n"]) == ("v", "1")
    assert pod.state()["updateTimestamp"] == "2026-01-31T11:59:00Z"
    pod.restarts("c2")
    completes(pod)


def test_a_grace_period_that_another_manager_began_is_ended() -> None:
    # given
    patch = b64encode(
        b'{"metadata":{"$setElementOrder/finalizers":["f"],"finalizers":["f"],"labels":{"k":"v"}}}'
    ).decode()
    grace = {
        "revision": "web-new",
        "containerImages": {"c1": "c1:v2"},
        "metaDataPatch": patch,
        "graceSeconds": 30,
        "oldTemplate": {"spec": {"containers": []}},
    }
    state = {"revision": "web-new", "updateTimestamp": "2026-01-31T11:59:00Z", "lastContainerStatuses": None}
    annotations = {GRACE: orjson.dumps(grace).decode(), STATE: orjson.dumps(state).decode()}
    pod = PaperPod(pod_document("c1", annotations=annotations, labels={keys.REVISION_LABEL: "web-new"}))
    # when
    go_on(pod)
    # then
    assert pod.images() == {"c1": "c1:v2"}
    assert pod.labels()["k"] == "v"
    assert pod.document["metadata"]["finalizers"] == ["f"]


def test_a_pod_with_an_unreported_container_is_updated_only_at_the_version_that_was_seen() -> None:
    # given a container without a status, which may run already, and one with a status
    document = pod_document("main", "side")
    del document["status"]["containerStatuses"][0]
    # when
    pod, spec = PaperPod(document), images(main="main:v2", side="side:v2")
    writes = start(pod.view(), spec, labels={}, now=NOW, settings=SETTINGS)
    # then the version is checked: with a newer status, the old image would count as the new one
    assert [write.checked for write in writes] == [True, False]
    # likewise while the status has no image id
    document = pod_document("main")
    document["status"]["containerStatuses"][0]["imageID"] = ""
    pod, spec = PaperPod(document), images(main="main:v2")
    assert start(pod.view(), spec, labels={}, now=NOW, settings=SETTINGS)[0].checked
    # and a container with a status is updated whatever other clients have written
    known = start(PaperPod(pod_document("main")).view(), spec, labels={}, now=NOW, settings=SETTINGS)
    assert [write.checked for write in known] == [False, False]


def whole_pod(cpu: str) -> PaperPod:
    document = pod_document("c1")
    document["spec"]["resources"] = {"limits": {"cpu": cpu}, "requests": {"cpu": cpu}}
    return PaperPod(document)


WHOLE_PODS = InPlaceSettings(vertical_scaling=True, resizes_pods=True)
POD_CPU_2 = UpdateSpec(
    revision="web-new", resources={WHOLE_POD: {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}
)


def test_pod_level_resources_are_resized_without_leaving_service() -> None:
    # given
    pod = whole_pod("1")
    # when
    resize, write = start(pod.view(), POD_CPU_2, labels={}, now=NOW, settings=WHOLE_PODS)
    # then
    assert resize.subresource == "resize"
    assert resize.body == {"spec": {"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}}
    assert "spec" not in write.body
    # a pod that has these resources already is not resized
    (write,) = start(whole_pod("2").view(), POD_CPU_2, labels={}, now=NOW, settings=WHOLE_PODS)
    assert write.subresource == ""


def test_a_pod_level_resize_completes_when_the_node_grants_the_spec() -> None:
    # given
    pod = whole_pod("1")
    begin(pod, POD_CPU_2, settings=WHOLE_PODS)
    # when its node still provides the old amount
    pod.document["status"]["resources"] = {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}
    # then it waits
    waiting = step(pod, settings=WHOLE_PODS)
    assert isinstance(waiting, Waiting)
    assert "the node has not provided the resources of the pod yet" in waiting.because
    # until it provides the new amount, in any format
    pod.document["status"]["resources"] = {"limits": {"cpu": "2000m"}, "requests": {"cpu": "2"}}
    assert isinstance(step(pod, settings=WHOLE_PODS), Complete)
