"""Pods of an older revision that fail under OrderedReady: the set waits for them, so the newest revision never starts.

Slot ──▶ explain_older_pod() ──▶ Reason ──▶ scale.py (explain), waiting.py (the condition)

Pure. The template may be correct already, so the remedy is to delete the pod: its successor has the newest revision. If
the partition would keep the successor at the older revision, the partition must be lowered first.
"""

from typing import Final

from pykruise.kinds.statefulset.building import StatefulSetRevisionChoice
from pykruise.kinds.statefulset.never_ready import NeverReady
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.statefulset.working_set import Slot, StatefulSetWorkingSet
from pykruise.pods.reasons import Code
from pykruise.pods.workload.options import REPLACE_NEVER_READY
from pykruise.runtime.reasons import Reason

_WAITS: Final = "OrderedReady updates only pods that are available"


def explain_older_pod(ws: StatefulSetWorkingSet, slot: Slot, never_ready: NeverReady) -> Reason | None:
    """Return why a pod that is not available keeps its older revision, and how the pod is replaced; None: nothing keeps
    the pod at an older revision.
    """
    pod = slot.pod
    if ws.spec.is_parallel or pod is None or pod.is_deleting or ws.is_updated(pod):
        return None
    owner = ws.snapshot.statefulset
    delete = f"kubectl delete pod {pod.name} -n {owner.namespace}"
    if StatefulSetRevisionChoice(ws).choose_revision(slot).hash != ws.update.hash:
        message = f"it has an older revision, which the partition keeps, and {_WAITS}"
        lower = "set spec.updateStrategy.rollingUpdate.partition to 0"
        return Reason(Code.OLDER_REVISION, message, f"{lower}; then {delete}")
    instead = f"delete the pod ({delete}): a pod of the newest revision replaces it"
    if replaced := never_ready.explain(pod):
        return Reason(
            Code.OLDER_REVISION,
            replaced,
            f"no action is needed: the manager replaces the pod automatically; or {instead} immediately",
        )
    option = REPLACE_NEVER_READY.annotation
    if never_ready.is_on and not pod.is_never_ready:
        kept = f"{_WAITS}; the pod was ready, or may have been ready, so it is not replaced automatically"
        return Reason(Code.OLDER_REVISION, f"it has an older revision, and {kept}", instead)
    may_be_replaced = pod.is_never_ready and not (ws.spec.is_on_delete or ws.spec.is_paused)
    annotate = f"kubectl annotate {ADVANCED_STATEFUL_SETS}/{owner.name} {option}=60 -n {owner.namespace}"
    also = f"; or let the manager replace pods that are never ready ({annotate})" if may_be_replaced else ""
    return Reason(Code.OLDER_REVISION, f"it has an older revision, and {_WAITS}", f"{instead}{also}")
