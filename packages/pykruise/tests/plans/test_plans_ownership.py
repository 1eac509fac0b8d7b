"""Adopting orphans, releasing objects that no longer match, and changes of stored revisions."""

from typing import Any

import pytest

from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.plans.ownership import Adopter, plan_adoption, release_pods
from pykruise.plans.pod_writes import write_phases
from pykruise.plans.purposes import Purpose
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView
from pykruise.pods.workload.selector_guard import record_of
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Stage

SELECTOR = {"matchLabels": {"app": "web"}}
POD = PodView(namespace="shop", name="a", uid="uid-a", resource_version=5)
REVISION = RevisionView(
    namespace="shop", name="web-1", uid="uid-1", resource_version=7, number=1, template={}, meaning=b""
)
ADOPTER = Adopter(
    resource=Resource("example.com", "v1", "widgets", "Widget"),
    key=Key("shop", "web"),
    uid="u",
    resource_version=9,
    reference={"kind": "Widget", "name": "web", "uid": "u", "controller": True},
    selector=SELECTOR,
)


def patches(stage: Stage) -> dict[str, Patch]:
    patches = {chain.subject: chain.steps[0].action for chain in stage.chains}
    return {name: action for name, action in patches.items() if isinstance(action, Patch)}


@pytest.mark.parametrize(
    ("pods", "revisions"),
    [([POD], []), ([], [REVISION]), ([POD], [REVISION])],
    ids=["pods", "revisions", "both"],
)
def test_orphans_are_adopted_after_the_adopter_is_read_again(pods: list[Any], revisions: list[Any]) -> None:
    check, adoptions = plan_adoption(ADOPTER, pods, revisions)
    assert (check.purpose, adoptions.purpose) == (Purpose.CHECK_ADOPTER, Purpose.ADOPT)
    result = patches(adoptions)
    assert result.keys() == {pod.name for pod in (*pods, *revisions)}
    assert all(patch.body["metadata"]["ownerReferences"] == [ADOPTER.reference] for patch in result.values())
    if pods:
        # only in the version that was seen, since its labels are the reason
        assert result["a"].resource_version == "5"
    if revisions:
        # with the selector that selects the pods from now on
        assert result["web-1"].body["metadata"]["annotations"] == record_of(SELECTOR)


def test_no_adoption_is_planned_without_orphans() -> None:
    assert plan_adoption(ADOPTER, [], []) == []


def test_pods_are_released_at_the_version_that_was_seen() -> None:
    (stage,) = write_phases(release_pods([POD], owner_uid="u"))
    assert stage.purpose == Purpose.RELEASE
    patch = patches(stage)["a"]
    assert (patch.uid, patch.resource_version) == ("uid-a", "5")
    assert patch.body["metadata"]["ownerReferences"] == [{"$patch": "delete", "uid": "u"}]
    assert write_phases(release_pods([], owner_uid="u")) == ()
