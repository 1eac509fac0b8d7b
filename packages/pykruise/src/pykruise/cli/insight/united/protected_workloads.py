"""Protected workloads of a UnitedDeployment: the UnitedDeployment cannot delete them, or its own foreground deletion
cannot end.

document, workloads + the manager's settings ──▶ find_protected_workloads() ──▶ Wait with the label and its removal

Pure. The webhook rejects the deletions of the manager and of the garbage collector (admission/protection.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pykruise.admission.protection import ALWAYS, CASCADING, LABEL
from pykruise.admission.settings import make_admission_settings
from pykruise.cli.insight.explanations import Wait
from pykruise.kinds.uniteddeployment.workloads import SubsetWorkload
from pykruise.kube.documents import Document, get_path
from pykruise.kube.values.counts import format_first
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.reasons import Code

_MOST_NAMED: Final = 5
"""Maximum number of workloads that the words name."""


def find_protected_workloads(
    document: Document, workloads: Sequence[SubsetWorkload], settings: ManagerSettings | None
) -> Iterator[Wait]:
    """Yield a wait for each kind of protected workloads, if the UnitedDeployment is deleted after its workloads, or if
    the spec no longer has their subsets. Without the feature gate of the manager, the label has no effect.
    """
    meta = document["metadata"]
    is_ending = "deletionTimestamp" in meta
    if is_ending and "foregroundDeletion" not in (meta.get("finalizers") or ()):
        return
    subsets = get_path(document, "spec", "topology", "subsets", default=())
    wanted = {subset.get("name") for subset in subsets if isinstance(subset, Mapping)}
    is_off = (
        settings is not None
        and settings.is_known
        and not make_admission_settings(settings.gates).deletion_protection
    )
    if is_off:
        return
    held: dict[str, list[SubsetWorkload]] = {}
    for workload in workloads:
        must_go = is_ending or (workload.subset and workload.subset not in wanted)
        if must_go and not workload.is_deleting and _is_protected(workload):
            held.setdefault(workload.template, []).append(workload)
    for each in held.values():
        resource, names = each[0].resource, sorted(workload.name for workload in each)
        kind = resource.kind if len(names) == 1 else f"{resource.kind}s"
        values = " or ".join(sorted({workload.labels[LABEL] for workload in each}))
        command = f"kubectl label {resource} -n {each[0].namespace} {' '.join(names)} {LABEL}-"
        protects = f"label {LABEL}={values} protects {kind} {format_first(names, _MOST_NAMED)}"
        remedy = f"if they must be deleted, remove the label from them ({command})"
        if is_ending:
            why = "the webhook rejects their deletion, and the UnitedDeployment is deleted only after them"
        else:
            why = "the webhook rejects their deletion, and spec.topology.subsets no longer has their subsets"
            remedy += "; or add their subsets to spec.topology.subsets again"
        yield Wait(
            code=Code.WEBHOOK,
            words=f"{protects}: {why}",
            since=str(meta.get("deletionTimestamp") or ""),
            remedy=remedy,
        )


def _is_protected(workload: SubsetWorkload) -> bool:
    value = workload.labels.get(LABEL)
    return value == ALWAYS or (value == CASCADING and workload.replicas > 0)
