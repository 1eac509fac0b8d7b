"""Decisions that phases of all kinds make about a pod, and their writes."""

from typing import Any

import pytest

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS
from pykruise.plans.phases import (
    ChangePod,
    CreatePod,
    DecidedStage,
    DeletePod,
    PlanPhase,
    SpecifyPod,
    UpdatePod,
    decide_deletion,
    list_alternatives,
    skip,
)
from pykruise.plans.pod_writes import chain_of, stage_of, write_phases, write_pod_phases
from pykruise.plans.purposes import Purpose
from pykruise.pods.in_place import PodPatch
from pykruise.pods.lifecycle.states import LifecycleHook
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import ConditionView, PodView
from pykruise.runtime.actions import Delete, Patch, delete_object
from pykruise.runtime.plan import Chain, Note, Step
from pykruise.runtime.reasons import Reason

NOW = parse_time("2026-01-31T12:00:00Z")
HOOK = LifecycleHook(labels_handler={"hook": "on"})
MARKING = LifecycleHook(labels_handler={"hook": "on"}, mark_pod_not_ready=True)
GATES = (keys.KRUISE_POD_READY,)
HELD = ConditionView(
    keys.KRUISE_POD_READY, "False", message='[{"userAgent":"Lifecycle","key":"preDeleteHook"}]'
)


def pod(*, hooked: bool = False, serving: bool = True, **fields: Any) -> PodView:
    return PodView(
        namespace="shop",
        name="a",
        uid="uid-a",
        resource_version=5,
        labels={"hook": "on"} if hooked else {},
        is_serving=serving,
        **fields,
    )


def deletion(pod: PodView, hook: LifecycleHook | None = None) -> tuple[Step | None, Reason | None]:
    decision = decide_deletion(pod, hook=hook, now=NOW, because="surplus")
    if isinstance(decision, Reason):
        return None, decision
    (step,) = chain_of(decision).steps
    return step, None


@pytest.mark.parametrize(
    ("item", "hook", "insists"),
    [
        (pod(), None, False),
        (pod(serving=False), None, True),
        (pod(), HOOK, True),
        (pod(state="PreparingDelete"), HOOK, True),
        (pod(hooked=True), None, False),
    ],
    ids=["serving", "not serving", "the hook might come back", "released by its hook", "a label of no hook"],
)
def test_a_pod_that_nothing_holds_is_deleted(
    item: PodView, hook: LifecycleHook | None, insists: bool
) -> None:
    """The deletion requires the version that was seen if a newer version might stay."""
    step, waits = deletion(item, hook)
    assert step is not None
    assert waits is None
    assert isinstance(step.action, Delete)
    assert (step.action.uid, step.action.resource_version) == ("uid-a", "5" if insists else "")
    assert step.failed is not None
    assert step.failed.warning


def prepared(pod: PodView, hook: LifecycleHook) -> tuple[Document, str, str]:
    """The single patch: its body, its subresource, and the version that it requires."""
    step, waits = deletion(pod, hook)
    assert step is not None
    assert waits is None
    assert isinstance(step.action, Patch)
    return step.action.body, step.action.subresource, step.action.resource_version


@pytest.mark.parametrize(("serving", "version"), [(True, ""), (False, "5")])
def test_a_pod_that_its_hook_holds_prepares_first(serving: bool, version: str) -> None:
    """A pod that is deleted because it does not serve must not have become ready since."""
    body, subresource, insists_on = prepared(pod(hooked=True, serving=serving), HOOK)
    assert body["metadata"]["labels"] == {keys.STATE_LABEL: "PreparingDelete"}
    assert ("status" in body, subresource, insists_on) == (False, "", version)


@pytest.mark.parametrize("state", ["Normal", "PreparingDelete"])
def test_a_hook_that_takes_pods_out_of_service_does_so_in_the_same_write(state: str) -> None:
    """A pod that prepared before the change of the hook also gets this write."""
    body, subresource, insists_on = prepared(pod(hooked=True, state=state, readiness_gates=GATES), MARKING)
    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"]) == (keys.KRUISE_POD_READY, "False")
    assert body["metadata"]["labels"] == {keys.STATE_LABEL: "PreparingDelete"}
    assert (subresource, insists_on) == ("status", "5")


@pytest.mark.parametrize(
    ("item", "hook"),
    [
        (pod(hooked=True, state="PreparingDelete", readiness_gates=GATES), HOOK),
        (pod(hooked=True, state="PreparingDelete"), MARKING),
        (pod(hooked=True, state="PreparingDelete", readiness_gates=GATES, conditions=(HELD,)), MARKING),
    ],
    ids=["it takes no pod out of service", "without the readiness gate", "out of service"],
)
def test_a_pod_that_has_prepared_waits_for_its_hook(item: PodView, hook: LifecycleHook) -> None:
    step, waits = deletion(item, hook)
    assert step is None
    assert waits is not None
    assert waits.code == Code.PRE_DELETE_HOOK


def test_a_hook_holds_only_pods_that_have_prepared() -> None:
    step, waits = deletion(pod(hooked=True), HOOK)
    assert (step is not None, waits) == (True, None)


@pytest.mark.parametrize("metadata", [{}, {"labels": {"a": "b"}}])
@pytest.mark.parametrize("unchanged", [True, False])
@pytest.mark.parametrize(("conditions", "subresource"), [([], ""), ([{"type": "Ready"}], "status")])
def test_a_pod_gets_metadata_and_conditions_in_one_write(
    metadata: Document, unchanged: bool, conditions: list[Document], subresource: str
) -> None:
    change = ChangePod(
        pod=pod(), metadata=metadata, conditions=conditions, because="due", unchanged=unchanged
    )
    (step,) = chain_of(change).steps
    assert isinstance(step.action, Patch)
    assert (step.action.resource_version, step.action.subresource) == ("5" if unchanged else "", subresource)
    expected: Document = {"metadata": metadata} if metadata else {}
    if conditions:
        expected["status"] = {"conditions": conditions}
    assert step.action.body == expected


@pytest.mark.parametrize(
    ("checked", "is_serving", "insists_on"),
    [(False, True, ""), (True, True, "5"), (False, False, "5"), (True, False, "5")],
)
def test_only_the_first_write_requires_the_version_that_was_seen(
    checked: bool, is_serving: bool, insists_on: str
) -> None:
    """The pod's version changes with the first write. A pod that does not serve may have become ready since, and
    its update would then count against the budget."""
    writes = [
        PodPatch(body={}, because="resize", subresource="resize", checked=checked),
        PodPatch(body={}, because="images", checked=checked),
        PodPatch(body={}, because="more", checked=checked),
    ]
    steps = chain_of(UpdatePod(pod=pod(serving=is_serving), writes=writes, revision="web-2")).steps
    patches = [step.action for step in steps if isinstance(step.action, Patch)]
    assert [(patch.subresource, patch.resource_version) for patch in patches] == [
        ("resize", insists_on),
        ("", ""),
        ("", ""),
    ]
    # and the event is recorded after the last write
    assert [step.done is not None for step in steps] == [False, False, True]


def test_a_dry_run_insists_like_the_first_write_after_it() -> None:
    """A dry run changes nothing, so the write after it finds the same version."""
    writes = [
        PodPatch(body={}, because="asks", subresource="resize", is_dry_run=True),
        PodPatch(body={}, because="images"),
        PodPatch(body={}, because="resize", subresource="resize"),
    ]
    steps = chain_of(UpdatePod(pod=pod(serving=False), writes=writes, revision="web-2")).steps
    patches = [step.action for step in steps if isinstance(step.action, Patch)]
    assert [(patch.is_dry_run, patch.resource_version) for patch in patches] == [
        (True, "5"),
        (False, "5"),
        (False, ""),
    ]


@pytest.mark.parametrize("is_serving", [True, False])
def test_a_continued_update_needs_no_precondition_and_has_no_start_event(
    is_serving: bool,
) -> None:
    writes = [PodPatch(body={}, because="images")]
    (step,) = chain_of(UpdatePod(pod=pod(serving=is_serving), writes=writes)).steps
    assert isinstance(step.action, Patch)
    assert (step.action.resource_version, step.done) == ("", None)


@pytest.mark.parametrize("revision", ["web-2", ""])
def test_a_failed_update_write_is_a_warning_event(revision: str) -> None:
    writes = [PodPatch(body={}, because="images"), PodPatch(body={}, because="more")]
    steps = chain_of(UpdatePod(pod=pod(), writes=writes, revision=revision)).steps
    assert all(step.failed is not None and step.failed.warning for step in steps)


@pytest.mark.parametrize("unchanged", [True, False])
def test_a_pod_is_specified_for_its_deletion_with_the_events_of_its_kind(unchanged: bool) -> None:
    done, failed = Note(reason="Done", message=""), Note(reason="Failed", message="", warning=True)
    mark = SpecifyPod(pod=pod(), because="recreated", unchanged=unchanged, done=done, failed=failed)
    (step,) = chain_of(mark).steps
    assert isinstance(step.action, Patch)
    assert step.action.body == {"metadata": {"labels": {keys.SPECIFIED_DELETE_LABEL: "true"}}}
    assert step.action.resource_version == ("5" if unchanged else "")
    assert (step.done, step.failed) == (done, failed)


def test_claims_are_written_in_the_chain_of_their_pod() -> None:
    first, last = (
        Step(action=delete_object(PERSISTENT_VOLUME_CLAIMS, pod(), unchanged=False), because=because)
        for because in ("before", "after")
    )
    document = {"metadata": {"namespace": "shop", "name": "new"}}
    decisions = (
        CreatePod(subject="new", document=document, because="missing", created="created", before=(first,)),
        DeletePod(pod=pod(), because="surplus", unchanged=False, before=(first,), after=(last,)),
        ChangePod(pod=pod(), metadata={"labels": {}}, because="due", before=(first,)),
    )
    chains = [chain_of(decision) for decision in decisions]
    assert [[step.because for step in chain.steps] for chain in chains] == [
        ["before", "missing"],
        ["before", "surplus", "after"],
        ["before", "due"],
    ]
    assert [chain.subject for chain in chains] == ["new", "a", "a"]
    assert [chain.has_random_name for chain in chains] == [True, False, False]


def test_a_stage_without_writes_does_not_exist() -> None:
    assert stage_of(Purpose.UPDATE_PODS, []) == ()
    (stage,) = stage_of(Purpose.UPDATE_PODS, [Chain(subject="a", steps=())])
    assert stage.purpose == Purpose.UPDATE_PODS
    # and no writes without decisions
    due = ChangePod(pod=pod(), because="due")
    phase = PlanPhase(
        decided=(
            DecidedStage(purpose=Purpose.CREATE_PODS, decisions=[]),
            DecidedStage(purpose=Purpose.UPDATE_PODS, decisions=[due], regardless=True),
        )
    )
    (stage,) = write_phases(PlanPhase(), phase)
    assert (stage.purpose, stage.regardless, stage.chains) == (Purpose.UPDATE_PODS, True, (chain_of(due),))


def test_stages_of_a_later_alternative_replace_all_earlier_ones() -> None:
    due = ChangePod(pod=pod(), because="due")

    def phase(*purposes: Purpose) -> PlanPhase:
        return PlanPhase(
            decided=tuple(DecidedStage(purpose=purpose, decisions=[due]) for purpose in purposes)
        )

    create, delete, update = Purpose.CREATE_PODS, Purpose.DELETE_PODS, Purpose.UPDATE_PODS
    scale = PlanPhase(decided=list_alternatives(phase(create), PlanPhase(), phase(delete)))
    stages = list_alternatives(scale, phase(Purpose.SPEND_BUDGETS, update))
    assert [(stage.purpose, stage.instead_of) for stage in stages] == [
        (create, ()),
        (delete, (create,)),
        (Purpose.SPEND_BUDGETS, (create, delete)),
        (update, (create, delete)),
    ]


def test_stages_of_pods_need_only_the_stages_that_prepare_them() -> None:
    # given
    due = ChangePod(pod=pod(), because="due")
    (prepared,) = stage_of(Purpose.STORE_REVISION, [Chain(subject="", steps=())])
    phase = PlanPhase(
        decided=(
            DecidedStage(purpose=Purpose.SPEND_BUDGETS, decisions=[due]),
            DecidedStage(purpose=Purpose.UPDATE_PODS, decisions=[due], only_after=(Purpose.SPEND_BUDGETS,)),
            DecidedStage(purpose=Purpose.DELETE_PODS, decisions=[due], regardless=True),
        )
    )
    # when
    stages = write_pod_phases(phase, prepared=(prepared, prepared))
    # then
    assert all(stage.regardless for stage in stages)
    assert [stage.only_after for stage in stages] == [
        (Purpose.STORE_REVISION,),
        (Purpose.STORE_REVISION, Purpose.SPEND_BUDGETS),
        (),
    ]


def test_optional_stages_are_last_in_every_phase() -> None:
    due = ChangePod(pod=pod(), because="due")

    def phase(purpose: Purpose) -> PlanPhase:
        late = DecidedStage(purpose=purpose, decisions=[due], is_last=True, is_optional=True)
        return PlanPhase(decided=(late, DecidedStage(purpose=purpose, decisions=[due])))

    stages = write_phases(phase(Purpose.REFRESH_PODS), phase(Purpose.UPDATE_PODS))
    assert [(stage.purpose, stage.is_optional) for stage in stages] == [
        (Purpose.REFRESH_PODS, False),
        (Purpose.UPDATE_PODS, False),
        (Purpose.REFRESH_PODS, True),
        (Purpose.UPDATE_PODS, True),
    ]


def test_skipped_pods_have_one_reason() -> None:
    reason = Reason(Code.PAUSED, "updates are paused")
    assert skip([pod()], reason) == {"a": reason}
