"""Containers that change now, and those that change later."""

from typing import Any

import pytest

from pykruise.kube.documents import Document
from pykruise.pods.in_place import InPlaceSettings, RefMetadata, UpdateSpec, UpdateState
from pykruise.pods.in_place.batches import Batch, find_next_batch
from pykruise.pods.in_place.completion import judge_containers
from support.updatable_pod import NOW, PaperPod, container, pod_document


def batch(spec: UpdateSpec, *containers: str | Document, state: UpdateState | None = None) -> Batch:
    pod = PaperPod(pod_document(*containers)).view()
    settings = InPlaceSettings(vertical_scaling=True)
    return find_next_batch(
        pod, spec, state or UpdateState(revision="r", started_at=NOW), now=NOW, settings=settings
    )


def c(name: str, priority: int | None = None, **fields: Any) -> Document:
    return container(name, priority=priority, **fields)


ALL = UpdateSpec(images={"c1": "c1:v2", "c2": "c2:v2", "c3": "c3:v2"})


@pytest.mark.parametrize(
    ("priorities", "now"),
    [
        ((None, None, None), {"c1", "c2", "c3"}),
        ((10, 0, 0), {"c1"}),
        ((0, 10, None), {"c2", "c3"}),
        ((0, -1, -2), {"c1"}),
        ((5, 5, 1), {"c1", "c2"}),
    ],
)
def test_containers_of_the_highest_priority_and_those_without_one_change_first(
    priorities: tuple[int | None, ...], now: set[str]
) -> None:
    """inplace-update cases 32, 35"""
    result = batch(ALL, *(c(f"c{number}", priority) for number, priority in enumerate(priorities, 1)))
    assert set(result.images) == now
    assert set(result.state.next_images) == {"c1", "c2", "c3"} - now
    assert result.state.required_ready == (tuple(sorted(now)) if now != {"c1", "c2", "c3"} else ())


def test_only_changing_containers_affect_the_batch() -> None:
    result = batch(UpdateSpec(images={"c2": "c2:v2"}), c("c1", 10), c("c2", 0))
    assert result.images == {"c2": "c2:v2"}
    assert not result.state.has_next


@pytest.mark.parametrize(("key", "priority"), [("p_7", 7), ("p_-3", -3), ("p_x", 0), ("", 0), (None, None)])
def test_a_barrier_names_a_priority(key: str | None, priority: int | None) -> None:
    """inplace-update 6.4 step 3, pitfall 8"""
    source = {} if key is None else {"valueFrom": {"configMapKeyRef": {"name": "web-a-barrier", "key": key}}}
    pod = PaperPod(pod_document(c("c1", env=[{"name": "KRUISE_CONTAINER_BARRIER", **source}])))
    assert pod.view().containers[0].launch_priority == priority


def fed(*names: str, **labels: str) -> dict[str, RefMetadata]:
    return dict.fromkeys(names, RefMetadata(labels=labels))


def test_containers_fed_from_the_same_annotation_change_together() -> None:
    """inplace-update case 36"""
    ref = RefMetadata(annotations={"n": "2"})
    result = batch(UpdateSpec(ref_metadata={"c1": ref, "c2": ref}), c("c1", 10), c("c2", 0))
    assert result.annotations == {"n": "2"}
    assert result.state.batches[-1].containers == ("c1", "c2")
    assert not result.state.has_next


def test_sharing_reaches_through_a_chain() -> None:
    """inplace-update case 37"""
    refs = {
        "c1": RefMetadata(labels={"a": "1"}),
        "c2": RefMetadata(labels={"a": "1", "b": "1"}),
        "c3": RefMetadata(labels={"b": "1"}),
    }
    result = batch(UpdateSpec(ref_metadata=refs), c("c1", 10), c("c2", 5), c("c3", 0))
    assert result.labels == {"a": "1", "b": "1"}
    assert result.state.batches[-1].containers == ("c1", "c2", "c3")


def test_a_label_and_an_annotation_of_one_name_are_not_shared() -> None:
    refs = {"c1": RefMetadata(labels={"a": "1"}), "c2": RefMetadata(annotations={"a": "1"})}
    result = batch(UpdateSpec(ref_metadata=refs), c("c1", 10), c("c2", 0))
    assert set(result.state.next_ref_metadata) == {"c2"}


def test_image_ids_are_recorded_before_the_change() -> None:
    """inplace-update 6.4 step 4; cloneset 9.3"""
    result = batch(UpdateSpec(images={"c1": "c1:v2"}), "c1", "c2")
    record = result.state.image_records["c1"]
    assert record.image_id == "docker.io/library/c1@sha256:c1:v1"
    assert record.container_id == "containerd://c1-1"
    assert set(result.state.image_records) == {"c1"}


def test_a_container_with_the_wanted_image_is_not_restarted() -> None:
    result = batch(UpdateSpec(images={"c1": "c1:v1", "c2": "c2:v2"}), c("c1", 10), c("c2", 0))
    assert result.images == {"c2": "c2:v2"}
    assert set(result.state.image_records) == {"c2"}


def test_changes_for_containers_missing_in_the_pod_are_not_waited_for() -> None:
    amounts, ref = {"limits": {"cpu": "2"}}, RefMetadata(labels={"a": "1"})
    spec = UpdateSpec(
        images={"gone": "gone:v2"},
        resources={"gone": amounts},
        ref_metadata={"gone": ref, "c1": RefMetadata()},
    )
    result = batch(spec, c("c1"))
    assert (result.images, result.resources, result.labels, result.state.has_next) == ({}, {}, {}, False)
    assert result.state.batches[-1].containers == ()


def test_resources_are_not_changed_without_the_gate() -> None:
    """inplace-update 6.4 step 5"""
    spec = UpdateSpec(resources={"c1": {"limits": {"cpu": "2"}}})
    pod, state = PaperPod(pod_document("c1")).view(), UpdateState()
    batch = find_next_batch(pod, spec, state, now=NOW, settings=InPlaceSettings())
    assert (batch.resources, batch.state.has_next) == ({}, False)


def test_containers_of_a_batch_are_recorded_by_name() -> None:
    names = [f"c{number}" for number in range(9)]
    spec = UpdateSpec(images={name: f"{name}:v2" for name in (*names, "last")})
    update_state = batch(spec, *(c(name, 1) for name in reversed(names)), c("last", 0)).state
    assert update_state.required_ready == update_state.batches[-1].containers == tuple(names)


def test_a_batch_does_not_change_the_spec() -> None:
    """inplace-update 6.4: the spec is used again after a conflict"""
    spec = UpdateSpec(images={"c1": "c1:v2", "c2": "c2:v2"}, ref_metadata=fed("c1", a="1"))
    before = UpdateSpec(images={"c1": "c1:v2", "c2": "c2:v2"}, ref_metadata=fed("c1", a="1"))
    batch(spec, c("c1", 10), c("c2", 0))
    assert spec == before


def test_earlier_batches_and_records_of_the_same_update_are_kept() -> None:
    """inplace-update 6.6 step 2: the next batch keeps revision, time, image ids and batch records"""
    first = batch(ALL, c("c1", 2), c("c2", 1), c("c3", 0)).state
    second = batch(first.next_spec, c("c1", 2, image="c1:v2"), c("c2", 1), c("c3", 0), state=first).state
    assert [batch.containers for batch in second.batches] == [("c1",), ("c2",)]
    assert set(second.image_records) == {"c1", "c2"}
    assert set(second.next_images) == {"c3"}
    assert (second.revision, second.started_at) == ("r", NOW)


def test_a_container_without_a_status_yet_is_waited_for_too() -> None:
    """The status may only be late: a container that counts as updated could still run the old image."""
    # given a pod whose container has no status yet
    document = pod_document("c1")
    document["status"].pop("containerStatuses")
    pod = PaperPod(document).view()
    state = UpdateState(revision="r", started_at=NOW)
    # when its image changes
    batch = find_next_batch(
        pod, UpdateSpec(images={"c1": "c1:v2"}), state, now=NOW, settings=InPlaceSettings()
    )
    # then the old container does not count as the new one when its status appears
    reported = pod_document("c1")
    reported["spec"]["containers"][0]["image"] = "c1:v2"
    late = PaperPod(reported).view()
    assert not judge_containers(late, batch.state, now=NOW, settings=InPlaceSettings()).is_complete
