"""Steps of an OpenKruise Rollout, shown with the workload that it references."""

from typing import Any

import pytest

from pykruise.dashboard.actions import actions_of, argv_of
from pykruise.dashboard.asking import ticket_of
from pykruise.dashboard.objects import ROLLOUTS
from pykruise.dashboard.steps import MOST_STEPS, build_steps_part, is_about
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.resources import DEPLOYMENTS


def rollout(strategy: dict[str, Any], **status: Any) -> dict[str, Any]:
    """A Rollout of the CloneSet web."""
    ref = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}
    return {
        "metadata": {"name": "r", "namespace": "shop"},
        "spec": {"workloadRef": ref, "strategy": strategy},
        "status": status,
    }


STEPS = [
    {"traffic": "5%", "replicas": 1, "pause": {}},
    {"replicas": "50%", "pause": {"duration": 60}, "matches": [{"headers": []}]},
    {"weight": 100},
]


def test_a_rollout_belongs_only_to_the_workload_that_it_refers_to() -> None:
    canary = rollout({"canary": {"steps": STEPS}})
    assert is_about(canary, CLONE_SETS, "web")
    assert not is_about(canary, CLONE_SETS, "other")
    assert not is_about(canary, DEPLOYMENTS, "web")
    older = {"spec": {"objectRef": {"workloadRef": canary["spec"]["workloadRef"]}}}
    assert is_about(older, CLONE_SETS, "web")
    assert not is_about({}, CLONE_SETS, "web")


@pytest.mark.parametrize(("name", "field"), [("canary", "canaryStatus"), ("blueGreen", "blueGreenStatus")])
def test_steps_and_the_current_step_are_shown_to_users_who_may_list_rollouts(name: str, field: str) -> None:
    own = {"currentStepIndex": 2, "currentStepState": "StepPaused"}
    part = build_steps_part(rollout({name: {"steps": STEPS}}, phase="Progressing", **{field: own}))
    assert (part.resource, part.namespace) == ("rollouts.rollouts.kruise.io", "shop")
    assert (part.body["strategy"], part.body["current"], part.body["state"]) == (name, 2, "StepPaused")
    assert part.body["workload"] == {
        "resource": "clonesets.apps.kruise.io",
        "kind": "CloneSet",
        "namespace": "shop",
        "name": "web",
    }
    assert part.body["steps"] == [
        {"number": 1, "traffic": "5%", "replicas": "1", "waits_for_approval": True},
        {"number": 2, "replicas": "50%", "has_matches": True, "pause_s": 60},
        {"number": 3, "traffic": "100%"},
    ]


def test_a_rollout_without_status_or_with_many_steps_shows_as_many_steps_as_fit() -> None:
    part = build_steps_part(rollout({"canary": {"steps": [{"replicas": 1}] * (MOST_STEPS + 2)}}))
    assert (part.body["current"], len(part.body["steps"]), part.body["more"]) == (0, MOST_STEPS, 2)


# ── approvals ────────────────────────────────────────────────────────────────


def paused(field: str, step: int, **more: Any) -> dict[str, Any]:
    """A Rollout that waits in this step for an approval."""
    status = {"currentStepIndex": step, "currentStepState": "StepPaused", **more}
    document = rollout({"canary": {"steps": STEPS}}, **{field: status})
    document["metadata"] |= {"uid": "u", "generation": 2}
    return {"apiVersion": ROLLOUTS.api_version, "kind": ROLLOUTS.kind, **document}


def ask_for_approval(document: dict[str, Any]) -> str:
    """The ticket of the question about an approval."""
    action = next(action for action in actions_of(ROLLOUTS, document) if action.id == "approve")
    return ticket_of(b"key", user="ann", document=document, argv=argv_of(action, {}))


@pytest.mark.parametrize(
    ("field", "revision"), [("canaryStatus", "canaryRevision"), ("blueGreenStatus", "updatedRevision")]
)
def test_a_confirmed_approval_is_for_one_step_of_one_release(field: str, revision: str) -> None:
    # given a user who confirms the approval of the first step
    ticket = ask_for_approval(paused(field, 1, **{revision: "a"}))
    # then the ticket is valid while the Rollout waits in this step
    assert ticket == ask_for_approval(paused(field, 1, **{revision: "a"}, message="waits"))
    # and neither in the next step nor in the first step of another release
    assert ticket != ask_for_approval(paused(field, 2, **{revision: "a"}))
    assert ticket != ask_for_approval(paused(field, 1, **{revision: "b"}))
