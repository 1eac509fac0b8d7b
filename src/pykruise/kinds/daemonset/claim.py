"""Whose pods and revisions are the DaemonSet's: adopting what nobody has, releasing what no longer matches.

Snapshot ──▶ claim() ──▶ Claimed: the pods that count, and the stages that make it so

Pure. Only reached when the selector is the one that pods are managed by (pods/selector_guard.py). A pod whose
own labels were changed is let go: that is how people put one aside. A revision is never let go.
"""

from collections.abc import Sequence

import msgspec

from pykruise.kinds.daemonset.snapshot import Snapshot
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.plans.ownership import Adopter, adoption_stages, release_stages
from pykruise.plans.plan import Stage
from pykruise.pods.views import PodView

__all__ = ["Claimed", "claim"]


class Claimed(msgspec.Struct, frozen=True):
    """What belongs to the DaemonSet from this plan on."""

    pods: Sequence[PodView]
    stages: Sequence[Stage]


def claim(snapshot: Snapshot) -> Claimed:
    """Its own pods that match, and those of nobody that match and have a node to be counted on."""
    daemonset = snapshot.daemonset
    selector = daemonset.selector
    assert selector is not None
    assert daemonset.spec is not None
    own: list[PodView] = []
    strangers: list[PodView] = []
    for pod in snapshot.pods:
        (own if selector.matches(pod.labels) else strangers).append(pod)
    adopted = [pod for pod in snapshot.orphans if not pod.is_deleting and selector.matches(pod.labels)]
    adopter = Adopter(
        resource=DAEMON_SETS,
        key=daemonset.key,
        uid=daemonset.uid,
        resource_version=daemonset.resource_version,
        reference=daemonset.owner_reference,
        selector=msgspec.to_builtins(daemonset.spec.selector),
    )
    stages = [
        *adoption_stages(adopter, adopted, snapshot.orphaned_revisions),
        *release_stages(strangers, owner_uid=daemonset.uid),
    ]
    return Claimed([*own, *adopted], stages)
