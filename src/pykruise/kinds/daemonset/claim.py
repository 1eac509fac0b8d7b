"""Whose pods and revisions are the DaemonSet's: adopting what nobody has, releasing what no longer matches.

Snapshot ──▶ claim() ──▶ Claimed: the pods that count, and the stages that make it so

Pure. Only reached when the selector is the one that pods are managed by (pods/selector_guard.py). A pod whose
own labels were changed is let go: that is how people put one aside. A revision is never let go.
"""

from collections.abc import Sequence

import msgspec

from pykruise.kinds.daemonset.snapshot import Snapshot
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.patches.types import PatchType
from pykruise.plans.actions import Patch
from pykruise.plans.ownership import adopt_pod, adopt_revision, release_pod
from pykruise.plans.phases import pod_chain
from pykruise.plans.plan import Chain, Note, Stage, Step
from pykruise.pods.revisions import RevisionView
from pykruise.pods.views import PodView

__all__ = ["Claimed", "claim"]


class Claimed(msgspec.Struct, frozen=True):
    """What belongs to the DaemonSet from this plan on."""

    pods: Sequence[PodView]
    stages: Sequence[Stage]


def claim(snapshot: Snapshot) -> Claimed:
    """Its own pods that match, and those of nobody that match and have a node to be counted on."""
    selector = snapshot.daemonset.selector
    assert selector is not None
    own: list[PodView] = []
    strangers: list[PodView] = []
    for pod in snapshot.pods:
        (own if selector.matches(pod.labels) else strangers).append(pod)
    adopted = [pod for pod in snapshot.orphans if not pod.is_deleting and selector.matches(pod.labels)]
    stages = [
        *_adoption(snapshot, adopted, snapshot.orphaned_revisions),
        *_release(snapshot, strangers),
    ]
    return Claimed([*own, *adopted], stages)


def _adoption(snapshot: Snapshot, pods: Sequence[PodView], revisions: Sequence[RevisionView]) -> list[Stage]:
    if not pods and not revisions:
        return []
    chains = [
        *(_adopt_revision(snapshot, one) for one in revisions),
        *(_adopt_pod(snapshot, one) for one in pods),
    ]
    return [_still_there(snapshot), Stage(name="adopt", chains=tuple(chains))]


def _still_there(snapshot: Snapshot) -> Stage:
    """A write that changes nothing, and that the API server refuses when the DaemonSet is gone, is going, or is
    another: an adoption would bring back what its deletion has just let go."""
    daemonset = snapshot.daemonset
    action = Patch(
        resource=DAEMON_SETS,
        key=daemonset.key,
        patch_type=PatchType.MERGE,
        body={},
        subresource="status",
        uid=daemonset.uid,
        resource_version=str(daemonset.resource_version),
    )
    step = Step(action=action, because="asks whether it is still there, as it was seen")
    return Stage(name="check before adoption", chains=(Chain(subject="", steps=(step,)),))


def _adopt_pod(snapshot: Snapshot, pod: PodView) -> Chain:
    return pod_chain(pod, adopt_pod(pod, owner=snapshot.daemonset.owner_reference))


def _adopt_revision(snapshot: Snapshot, revision: RevisionView) -> Chain:
    spec = snapshot.daemonset.spec
    assert spec is not None
    selector = msgspec.to_builtins(spec.selector)
    return adopt_revision(revision, owner=snapshot.daemonset.owner_reference, selector=selector)


def _release(snapshot: Snapshot, pods: Sequence[PodView]) -> list[Stage]:
    uid = snapshot.daemonset.uid
    chains = tuple(pod_chain(pod, release_pod(pod, owner_uid=uid, done=_released(pod))) for pod in pods)
    return [Stage(name="release pods", chains=chains)] if chains else []


def _released(pod: PodView) -> Note:
    message = f"released pod {pod.name}: its labels no longer match the selector"
    return Note(reason="PodReleased", message=message)
