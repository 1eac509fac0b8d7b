"""The two annotations with the state of an update, in the format of all managers."""

import copy

import msgspec
import orjson
import pytest

from pykruise.kube.documents import Document
from pykruise.pods.in_place import AnnotationError, ImageRecord, RefMetadata, UpdateSpec, UpdateState
from pykruise.pods.in_place.grace import compute_grace_end, encode_grace, parse_grace
from pykruise.pods.in_place.state import BatchRecord, encode_state, parse_state
from pykruise.pods.in_place.update_spec import add_pending, merge_metadata
from support.updatable_pod import NOW

FULL_STATE = (
    '{"revision":"web-new","updateTimestamp":"2026-01-31T12:00:00Z",'
    '"lastContainerStatuses":{"c1":{"imageID":"id-1"}},'
    '"updateEnvFromMetadata":true,"updateResources":true,"updateImages":true,'
    '"nextContainerImages":{"c2":"c2:v2"},'
    '"nextContainerRefMetadata":{"c2":{"creationTimestamp":null,"labels":{"a":"1"},"annotations":{"b":"2"}}},'
    '"nextContainerResources":{"c2":{"limits":{"cpu":"2"},"requests":{"memory":"1Gi"}}},'
    '"preCheckBeforeNext":{"containersRequiredReady":["c1"]},'
    '"containerBatchesRecord":[{"timestamp":"2026-01-31T12:00:00Z","containers":["c1"]}]}'
)


def test_a_state_is_written_in_the_order_and_form_that_others_use() -> None:
    """inplace-update 2.3"""
    state = UpdateState(
        revision="web-new",
        started_at=NOW,
        image_records={"c1": ImageRecord(image_id="id-1")},
        update_env_from_metadata=True,
        update_resources=True,
        update_images=True,
        next_images={"c2": "c2:v2"},
        next_ref_metadata={"c2": RefMetadata(labels={"a": "1"}, annotations={"b": "2"})},
        next_resources={"c2": {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}}},
        required_ready=("c1",),
        batches=(BatchRecord(at=NOW, containers=("c1",)),),
    )
    assert encode_state(state) == FULL_STATE
    assert parse_state(FULL_STATE) == state


def test_names_are_written_sorted_and_a_container_that_ran_nothing_has_an_empty_record() -> None:
    """inplace-update 2.3"""
    records = {"c2": ImageRecord(image_id="id-2"), "c1": ImageRecord()}
    batch = BatchRecord(at=NOW, containers=("c2", "c1"))
    state = UpdateState(
        image_records=records, next_images={"c3": "c3:v2"}, required_ready=("c2", "c1"), batches=(batch,)
    )
    assert encode_state(state) == (
        '{"revision":"","updateTimestamp":null,"lastContainerStatuses":{"c1":{},"c2":{"imageID":"id-2"}},'
        '"nextContainerImages":{"c3":"c3:v2"},"preCheckBeforeNext":{"containersRequiredReady":["c1","c2"]},'
        '"containerBatchesRecord":[{"timestamp":"2026-01-31T12:00:00Z","containers":["c1","c2"]}]}'
    )


def test_a_container_was_changed_with_the_last_batch_that_it_was_in_or_else_at_the_start() -> None:
    batches = [BatchRecord(at=NOW + at, containers=(name,)) for at, name in ((1, "c1"), (2, "c2"), (3, "c1"))]
    state = UpdateState(started_at=NOW, batches=(*batches, BatchRecord(at=NOW + 4, containers=("c3",))))
    result = {name: state.find_change_time(name) for name in ("c1", "c2", "c3", "c4")}
    assert result == {"c1": NOW + 3, "c2": NOW + 2, "c3": NOW + 4, "c4": NOW}


@pytest.mark.parametrize(
    ("flag", "refs", "expected"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_later_batches_wait_for_the_agent_only_if_environments_are_among_them(
    flag: bool, refs: bool, expected: bool
) -> None:
    later = {"c2": RefMetadata(labels={"a": "1"})} if refs else {}
    state = UpdateState(update_env_from_metadata=flag, next_images={"c2": "c2:v2"}, next_ref_metadata=later)
    assert state.next_spec.update_env_from_metadata is expected


def test_a_container_may_wait_for_an_image_an_environment_or_resources() -> None:
    assert UpdateState(next_images={"c1": "c1:v2"}).has_next
    assert UpdateState(next_ref_metadata={"c1": RefMetadata(labels={"a": "1"})}).has_next
    assert UpdateState(next_resources={"c1": {"limits": {"cpu": "2"}}}).has_next
    assert not UpdateState(image_records={"c1": ImageRecord()}).has_next


def test_an_empty_state_has_its_two_nulls_and_nothing_optional() -> None:
    """inplace-update 2.3"""
    assert encode_state(UpdateState(revision="r")) == (
        '{"revision":"r","updateTimestamp":null,"lastContainerStatuses":null}'
    )


def test_a_batch_of_no_container_is_an_empty_list() -> None:
    """inplace-update 2.3: metadata-only updates"""
    state = UpdateState(revision="r", started_at=NOW, batches=(BatchRecord(at=NOW),))
    assert encode_state(state).endswith(
        '"containerBatchesRecord":[{"timestamp":"2026-01-31T12:00:00Z","containers":[]}]}'
    )


def test_readers_take_nulls_and_unknown_keys() -> None:
    """inplace-update 2.3"""
    text = (
        '{"revision":"r","updateTimestamp":null,"lastContainerStatuses":null,"future":{"x":1},'
        '"nextContainerResources":{"c":{"limits":null,"requests":{"cpu":"1"}}},'
        '"nextContainerRefMetadata":{"c":{"creationTimestamp":null}},"preCheckBeforeNext":null,'
        '"containerBatchesRecord":[{"timestamp":null,"containers":null}]}'
    )
    state = parse_state(text)
    assert state.started_at is None
    assert state.next_ref_metadata == {"c": RefMetadata()}
    assert state.next_resources == {"c": {"requests": {"cpu": "1"}}}
    assert state.batches == (BatchRecord(at=None),)


def test_the_container_id_is_recorded_beside_its_image_id() -> None:
    state = UpdateState(image_records={"c1": ImageRecord(image_id="id", container_id="cid")})
    assert orjson.loads(encode_state(state))["lastContainerStatuses"] == {
        "c1": {"imageID": "id", "containerID": "cid"}
    }
    assert parse_state(encode_state(state)) == state


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', '{"revision":5}', '{"updateTimestamp":"noon"}'])
def test_an_invalid_in_place_state_is_refused_with_its_annotations_name(text: str) -> None:
    with pytest.raises(AnnotationError, match="inplace-update-state cannot be read"):
        parse_state(text)


FULL_GRACE = (
    '{"revision":"web-new","containerImages":{"c1":"c1:v2"},'
    '"containerRefMetadata":{"c1":{"creationTimestamp":null,"labels":{"a":"1"}}},'
    '"containerResources":{"c1":{"limits":{"cpu":"2"}}},'
    '"metaDataPatch":"eyJtZXRhZGF0YSI6eyJsYWJlbHMiOnsiayI6InYifX19",'
    '"updateEnvFromMetadata":true,"graceSeconds":30}'
)


def test_a_grace_period_keeps_the_whole_spec() -> None:
    """inplace-update 2.3"""
    spec = UpdateSpec(
        revision="web-new",
        images={"c1": "c1:v2"},
        ref_metadata={"c1": RefMetadata(labels={"a": "1"})},
        resources={"c1": {"limits": {"cpu": "2"}}},
        metadata_patch={"metadata": {"labels": {"k": "v"}}},
        update_env_from_metadata=True,
        grace_seconds=30,
    )
    assert encode_grace(spec) == FULL_GRACE
    assert parse_grace(FULL_GRACE) == spec


@pytest.mark.parametrize(("seconds", "end"), [(0, "}"), (1, ',"graceSeconds":1}'), (-1, "}")])
def test_a_grace_annotation_is_sorted_and_leaves_out_what_is_empty(seconds: int, end: str) -> None:
    """inplace-update 2.3"""
    spec = UpdateSpec(
        images={"c2": "b", "c1": "a"},
        ref_metadata={
            "c2": RefMetadata(labels={"y": "1", "x": "1"}),
            "c1": RefMetadata(annotations={"n": "1", "m": "1"}),
        },
        resources={"c2": {"limits": {"memory": "1Gi", "cpu": "1"}}, "c1": {"requests": {"cpu": "1"}}},
        grace_seconds=seconds,
    )
    assert encode_grace(spec) == (
        '{"revision":"","containerImages":{"c1":"a","c2":"b"},'
        '"containerRefMetadata":{"c1":{"creationTimestamp":null,"annotations":{"m":"1","n":"1"}},'
        '"c2":{"creationTimestamp":null,"labels":{"x":"1","y":"1"}}},'
        '"containerResources":{"c1":{"requests":{"cpu":"1"}},"c2":{"limits":{"cpu":"1","memory":"1Gi"}}}'
        + end
    )


def written(patch: Document) -> str:
    """A grace annotation with this patch."""
    return orjson.dumps({"metaDataPatch": msgspec.to_builtins(orjson.dumps(patch))}).decode()


def test_nulls_in_a_grace_annotation_are_ignored() -> None:
    """inplace-update 2.3"""
    update_spec = parse_grace(
        '{"containerImages":null,"containerResources":{"c1":{"limits":null,"requests":{"cpu":"1"}}},'
        '"metaDataPatch":null}'
    )
    assert update_spec == UpdateSpec(resources={"c1": {"requests": {"cpu": "1"}}})
    assert parse_grace(written({"metadata": None})).metadata_patch == {"metadata": None}


def test_templates_in_a_grace_annotation_of_another_version_are_tolerated() -> None:
    """inplace-update 2.3"""
    assert parse_grace('{"revision":"r","oldTemplate":{"spec":{}},"newTemplate":null}').revision == "r"


@pytest.mark.parametrize(
    "text",
    [
        *("{", "[]", '{"graceSeconds":"x"}'),
        *('{"metaDataPatch":"%%"}', '{"metaDataPatch":"W10="}', written({"metadata": [1]})),
    ],
)
def test_an_invalid_grace_annotation_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(AnnotationError, match="inplace-update-grace cannot be read"):
        parse_grace(text)


@pytest.mark.parametrize(
    ("passed", "left"), [(0.0, 30), (0.9, 30), (10.2, 20), (29.5, 1), (30.0, None), (99.0, None)]
)
def test_the_rest_of_a_grace_period_is_rounded_up_to_seconds(passed: float, left: int | None) -> None:
    """inplace-update case 40"""
    result = compute_grace_end(NOW, seconds=30, now=NOW + passed)
    assert result == (None if left is None else pytest.approx(NOW + passed + left))


def test_a_grace_period_with_an_unknown_start_has_ended() -> None:
    assert compute_grace_end(None, seconds=30, now=NOW) is None


def test_two_metadata_patches_become_one() -> None:
    first = {
        "labels": {"a": "1", "b": "1"},
        "finalizers": ["f"],
        "$deleteFromPrimitiveList/finalizers": ["g"],
    }
    second = {"labels": {"b": None}, "annotations": {"n": "1"}, "finalizers": ["g", "h"]}
    third = {"$deleteFromPrimitiveList/finalizers": ["f"]}
    joined = merge_metadata(merge_metadata(first, second), third)
    assert joined == {
        "labels": {"a": "1", "b": None},
        "annotations": {"n": "1"},
        "finalizers": ["g", "h"],
        "$deleteFromPrimitiveList/finalizers": ["f"],
    }


def test_pending_changes_fill_only_what_the_new_spec_leaves_open() -> None:
    """inplace-update pitfall 6"""
    pending = UpdateSpec(
        revision="b",
        images={"c1": "c1:b", "c2": "c2:b"},
        resources={"c1": {"limits": {"cpu": "1", "memory": "1Gi"}}},
        ref_metadata={"c1": RefMetadata(labels={"a": "b"}, annotations={"n": "b"})},
        metadata_patch={"metadata": {"labels": {"x": "b", "y": "b"}}},
        update_env_from_metadata=True,
    )
    new = UpdateSpec(
        revision="c",
        images={"c1": "c1:c"},
        resources={"c1": {"limits": {"cpu": "2"}}, "c2": {"requests": {"cpu": "1"}}},
        ref_metadata={"c2": RefMetadata(labels={"y": "c"})},
        metadata_patch={"metadata": {"labels": {"a": None}}},
    )
    update_spec = add_pending(new, pending)
    assert update_spec == UpdateSpec(
        revision="c",
        images={"c1": "c1:c", "c2": "c2:b"},
        resources={"c1": {"limits": {"cpu": "2", "memory": "1Gi"}}, "c2": {"requests": {"cpu": "1"}}},
        ref_metadata={
            "c1": RefMetadata(annotations={"n": "b"}),
            "c2": RefMetadata(labels={"y": "c"}),
        },
        metadata_patch={"metadata": {"labels": {"x": "b", "a": None}}},
        update_env_from_metadata=True,
    )


GONE = "$deleteFromPrimitiveList/finalizers"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({}, {}, {}),
        ({"labels": None, "finalizers": None}, {"annotations": None, GONE: None}, {}),
        ({"annotations": {"a": "1"}}, {"annotations": {"a": "2"}}, {"annotations": {"a": "2"}}),
        ({"finalizers": ["f"]}, {"finalizers": ["f", "g"]}, {"finalizers": ["f", "g"]}),
        ({GONE: ["f"]}, {GONE: ["f", "g"]}, {GONE: ["f", "g"]}),
        ({"finalizers": ["f", "g"]}, {GONE: ["f"]}, {"finalizers": ["g"], GONE: ["f"]}),
        ({GONE: ["f", "g"]}, {"finalizers": ["f"]}, {"finalizers": ["f"], GONE: ["g"]}),
    ],
)
def test_one_merged_patch_has_the_effect_of_two_sequential_patches(
    first: Document, second: Document, expected: Document
) -> None:
    assert merge_metadata(first, second) == expected


@pytest.mark.parametrize(
    "spec",
    [
        UpdateSpec(images={"c1": "c1:v2"}),
        UpdateSpec(ref_metadata={"c1": RefMetadata(labels={"a": "1"})}),
        UpdateSpec(resources={"c1": {"limits": {"cpu": "2"}}}),
        UpdateSpec(metadata_patch={"metadata": {"labels": {"k": "v"}}}),
    ],
)
def test_each_kind_of_pending_change_makes_an_update_spec_non_empty(spec: UpdateSpec) -> None:
    assert not spec.is_empty
    assert add_pending(spec, None) == spec
    owed = add_pending(UpdateSpec(revision="new"), spec)
    assert msgspec.structs.replace(owed, revision="") == spec
    assert add_pending(UpdateSpec(metadata_patch={}), spec).ref_metadata == spec.ref_metadata
    assert UpdateSpec(revision="web-new", metadata_patch={}).is_empty


def test_pending_metadata_that_a_newer_update_sets_is_dropped() -> None:
    """inplace-update pitfall 6"""
    pending = UpdateSpec(
        ref_metadata={"c1": RefMetadata(labels={"a": "old"}), "c2": RefMetadata(annotations={"n": "old"})},
        metadata_patch={"metadata": {"annotations": {"m": "old", "o": "old"}, "finalizers": ["f"]}},
    )
    new = UpdateSpec(
        ref_metadata={"c1": RefMetadata(annotations={"n": "new", "m": "new"})},
        metadata_patch={"metadata": {"labels": {"a": None}}},
    )
    before = copy.deepcopy(pending)
    update_spec = add_pending(new, pending)
    assert update_spec.ref_metadata == new.ref_metadata
    assert update_spec.metadata_patch == {
        "metadata": {"labels": {"a": None}, "annotations": {"o": "old"}, "finalizers": ["f"]}
    }
    assert pending == before
    nothings: list[Document | None] = [None, {}]
    for nothing in nothings:
        assert add_pending(new, UpdateSpec(metadata_patch=nothing)).metadata_patch == new.metadata_patch


@pytest.mark.parametrize(("new", "owed"), [(True, True), (True, False), (False, True), (False, False)])
def test_the_agent_is_awaited_if_either_update_feeds_an_environment(new: bool, owed: bool) -> None:
    pending = UpdateSpec(update_env_from_metadata=owed)
    update_spec = add_pending(UpdateSpec(update_env_from_metadata=new), pending)
    assert update_spec.update_env_from_metadata is (new or owed)


def test_only_bounds_that_change_are_owed() -> None:
    pending = UpdateSpec(resources={"c1": {"limits": {"cpu": "1"}, "requests": {}}, "c2": {}})
    new = UpdateSpec(resources={"c1": {"limits": {"memory": "1Gi"}}})
    assert add_pending(new, pending).resources == {"c1": {"limits": {"cpu": "1", "memory": "1Gi"}}, "c2": {}}
