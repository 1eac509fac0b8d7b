"""Which pods and revisions are the DaemonSet's: adopting orphans, releasing what no longer matches.

Snapshot ──▶ claim() ──▶ the stages that make the pods that count (node_state.py) its own, and no others

Pure. Only reached when the selector is the one that pods are managed by (pods/selector_guard.py). A pod whose
own labels were changed is let go: that is how people put one aside. A revision is never let go.
"""

from pykruise.kinds.daemonset.snapshot import Snapshot
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.plans.ownership import adopter_of, adoption_stages, release_stages
from pykruise.runtime.plan import Stage

__all__ = ["claim"]


def claim(snapshot: Snapshot) -> list[Stage]:
    """Adopts orphans that match, and releases its own pods that do not match."""
    daemonset = snapshot.daemonset
    assert daemonset.spec is not None
    adopted = [pod for state in snapshot.overview.open for pod in state.pods if pod.controller is None]
    mismatched = [pod for state in snapshot.overview.open for pod in state.mismatched]
    adopter = adopter_of(daemonset, DAEMON_SETS, selector=daemonset.spec.selector)
    return [
        *adoption_stages(adopter, adopted, snapshot.orphaned_revisions),
        *release_stages(mismatched, owner_uid=daemonset.uid),
    ]
