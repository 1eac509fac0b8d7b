"""The PersistentPodState that a workload requests by annotations, and other workloads that want the same name."""

from typing import Any

import pytest

from pykruise.kinds.persistentpodstate.plan import plan_state
from pykruise.kinds.persistentpodstate.snapshot import StateSnapshot
from pykruise.kinds.persistentpodstate.view import GENERATED, RecordedWorkload, StateView, workload_of
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document
from pykruise.runtime.actions import Create, Patch
from pykruise.runtime.plan import Plan
from support.state_world import AUTO, PREFERRED, REQUIRED, UID, StateWorld

NOW = parse_time("2026-01-31T12:00:00Z")
GOES = "2026-01-31T11:59:00Z"
ASKS = {AUTO: "true", REQUIRED: "zone"}
ASKS_OTHERWISE = {AUTO: "true", PREFERRED: "host"}


def namesake(annotations: Document | None = None, *, uid: str = UID, **metadata: Any) -> RecordedWorkload:
    meta = {"name": "web", "namespace": "shop", "uid": uid, "annotations": annotations or {}, **metadata}
    return workload_of({"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "metadata": meta})


def state(*, owner: str = UID, **metadata: Any) -> StateView:
    """The PersistentPodState of this name; `owner`: uid of the workload that requested it."""
    world = StateWorld(owner=owner)
    assert world.state is not None
    world.state["metadata"] |= metadata
    return world.view


def none() -> StateView:
    world = StateWorld()
    world.state = None
    return world.view


def planned(view: StateView, *namesakes: RecordedWorkload) -> Plan:
    return plan_state(StateSnapshot(state=view, namesakes=namesakes, now=NOW))


def told(plan: Plan) -> list[str]:
    """Uids of the workloads that get an event because they get no PersistentPodState."""
    return [note.about.uid for note in plan.notes if note.about is not None]


def test_the_first_workload_with_the_annotation_gets_a_state_and_others_get_an_event() -> None:
    others = [
        namesake({AUTO: "true"}, uid="says-no-topology"),
        namesake({REQUIRED: "zone"}, uid="does-not-ask"),
        namesake(ASKS, uid="goes", deletionTimestamp=GOES),
    ]
    # given a workload that requests one, beside the others
    plan = planned(none(), *others, namesake(ASKS, uid="first"), namesake(ASKS, uid="second"))
    # then
    (step,) = plan.steps
    assert isinstance(step.action, Create)
    assert step.action.body["metadata"]["ownerReferences"][0]["uid"] == "first"
    assert (told(plan), plan.status, plan.waiting) == (["second", "says-no-topology"], None, None)
    # and without that workload there is nothing to do
    assert not list(planned(none(), *others).steps)
    assert planned(none(), *others[1:]) == Plan()


def test_a_request_without_a_topology_is_reported_even_after_the_state_was_made() -> None:
    for view in (none(), state()):
        plan = planned(view, namesake({AUTO: "true"}))
        (note,) = plan.notes
        assert (list(plan.steps), told(plan), note.warning) == ([], [UID], True)
        assert "kruise.io/required-persistent-topology" in note.message


def test_a_failed_write_is_a_warning_event_on_the_workload() -> None:
    (step,) = planned(none(), namesake(ASKS)).steps
    for note, warns in ((step.done, False), (step.failed, True)):
        assert note is not None
        assert note.about is not None
        assert (note.warning, note.about.uid) == (warns, UID)


def test_the_workload_that_owns_the_state_gets_no_event_and_another_one_does() -> None:
    plan = planned(state(), namesake(ASKS), namesake(ASKS, uid="another"))
    assert (list(plan.steps), told(plan)) == ([], ["another"])


def test_a_changed_request_is_written_only_at_the_resource_version_that_was_read() -> None:
    view = state(resourceVersion="71")
    (step,) = planned(view, namesake(ASKS_OTHERWISE)).steps
    assert isinstance(step.action, Patch)
    assert (step.action.uid, step.action.resource_version) == (view.uid, "71")


def test_an_owned_state_that_was_not_generated_is_not_deleted() -> None:
    """LIFT-10"""
    view = state(annotations={})
    assert list(planned(view, namesake()).steps) == []
    assert list(planned(view, namesake({REQUIRED: "host"})).steps) == []


def test_an_owned_state_is_marked_as_generated_while_its_workload_requests_it() -> None:
    """LIFT-10: OpenKruise writes no mark"""
    (step,) = planned(state(annotations={}), namesake(ASKS)).steps
    assert isinstance(step.action, Patch)
    assert step.action.body == {"metadata": {"annotations": {GENERATED: "true"}}}
    # then with a changed request, it is one write
    (step,) = planned(state(annotations={}), namesake(ASKS_OTHERWISE)).steps
    assert isinstance(step.action, Patch)
    assert {*step.action.body} == {"spec", "metadata"}
    assert list(planned(state(annotations={}), namesake({AUTO: "true"})).steps) == []


@pytest.mark.parametrize("annotations", [ASKS_OTHERWISE, {}], ids=["asks for something else", "does not ask"])
def test_a_terminating_state_or_workload_causes_no_change(annotations: Document) -> None:
    going = namesake(annotations, deletionTimestamp=GOES)
    assert len(list(planned(state(), namesake(annotations)).steps)) == 1
    assert list(planned(state(deletionTimestamp=GOES), namesake(annotations)).steps) == []
    assert list(planned(state(), going).steps) == []


def test_a_state_to_be_deleted_records_nothing() -> None:
    """persistentpodstate case 44"""
    world = StateWorld(owner=UID)
    world.put_node("n0", zone="z0")
    world.put_pod(0, node="n0")
    plan = world.plan()
    assert len(list(plan.steps)) == 1
    assert (plan.status, plan.waiting) == (None, None)


def test_an_owner_that_is_not_the_controller_does_not_count_as_the_requester() -> None:
    """LIFT-10"""
    view = state(ownerReferences=[{"uid": UID}, {"uid": "another", "controller": True}])
    assert list(planned(view, namesake()).steps) == []
    (step,) = planned(view, namesake(uid="another")).steps
    assert step.action.uid == view.uid
