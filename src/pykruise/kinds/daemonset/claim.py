"""Whose pods and revisions are the DaemonSet's: adopting what nobody has, releasing what no longer matches.

Snapshot ──▶ claim() ──▶ Claimed: the pods that count, and the stages that make it so

Pure. Only reached when the selector is the one that pods are managed by (pods/selector_guard.py). A pod whose
own labels were changed is let go: that is how people put one aside. A revision is never let go.
"""

from collections.abc import Sequence

import msgspec

from pykruise.kinds.daemonset.snapshot import Snapshot
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.ids import Key
from pykruise.kube.owners import adoption_patch, release_patch
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.plans.actions import Patch
from pykruise.plans.phases import pod_chain, pod_key
from pykruise.plans.plan import Chain, Note, Stage, Step
from pykruise.pods.revisions import RevisionView
from pykruise.pods.selector_guard import record_of
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
        *(_adopt(snapshot, one) for one in pods),
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


def _adopt(snapshot: Snapshot, pod: PodView) -> Chain:
    action = Patch(
        resource=PODS,
        key=pod_key(pod),
        patch_type=PatchType.STRATEGIC,
        body=adoption_patch(snapshot.daemonset.owner_reference, uid=pod.uid),
        uid=pod.uid,
        resource_version=str(pod.resource_version),
    )
    return pod_chain(pod, Step(action=action, because="it matches the selector, and nobody controls it"))


def _adopt_revision(snapshot: Snapshot, revision: RevisionView) -> Chain:
    """The record of the selector comes with it: the one it was stored with may be that of another set."""
    spec = snapshot.daemonset.spec
    assert spec is not None
    body = adoption_patch(snapshot.daemonset.owner_reference, uid=revision.uid)
    body["metadata"]["annotations"] = record_of(msgspec.to_builtins(spec.selector))
    action = Patch(
        resource=CONTROLLER_REVISIONS,
        key=Key(revision.namespace, revision.name),
        patch_type=PatchType.STRATEGIC,
        body=body,
        uid=revision.uid,
    )
    step = Step(action=action, because="it matches the selector, and nobody controls it")
    return Chain(subject=revision.name, steps=(step,))


def _release(snapshot: Snapshot, pods: Sequence[PodView]) -> list[Stage]:
    chains = tuple(
        pod_chain(
            pod,
            Step(
                action=Patch(
                    resource=PODS,
                    key=pod_key(pod),
                    patch_type=PatchType.STRATEGIC,
                    body=release_patch(owner_uid=snapshot.daemonset.uid, uid=pod.uid),
                    uid=pod.uid,
                    # Only the labels that were seen are a reason to let it go.
                    resource_version=str(pod.resource_version),
                ),
                because="its labels no longer match the selector",
                done=Note(
                    reason="PodReleased",
                    message=f"released pod {pod.name}: its labels no longer match the selector",
                ),
            ),
        )
        for pod in pods
    )
    return [Stage(name="release pods", chains=chains)] if chains else []
