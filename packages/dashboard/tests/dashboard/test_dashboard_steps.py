"""Steps of an OpenKruise Rollout, shown with the workload that it references."""

from typing import Any

import pytest

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
