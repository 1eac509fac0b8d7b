"""Workloads whose deletion protection keeps their UnitedDeployment from being deleted with foreground deletion.

document, workloads + the manager's settings ──▶ find_protected_workloads() ──▶ Wait with the label and its removal

Pure. The webhook rejects the deletions of the garbage collector (admission/protection.py).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pykruise.admission.protection import ALWAYS, CASCADING, LABEL
from pykruise.admission.settings import make_admission_settings
from pykruise.cli.insight.explanations import Wait
from pykruise.kinds.uniteddeployment.workloads import SubsetWorkload
from pykruise.kube.documents import Document
from pykruise.kube.values.counts import format_first
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.reasons import Code

_MOST_NAMED: Final = 5
"""Maximum number of workloads that the words name."""


def find_protected_workloads(
    document: Document, workloads: Sequence[SubsetWorkload], settings: ManagerSettings | None
) -> Iterator[Wait]:
    """Yield a wait for each kind of protected workloads, if the UnitedDeployment is deleted after its workloads.
    Without the feature gate of the manager, the label has no effect.
    """
    meta = document["metadata"]
    if "deletionTimestamp" not in meta or "foregroundDeletion" not in (meta.get("finalizers") or ()):
        return
    is_off = (
        settings is not None
        and settings.is_known
        and not make_admission_settings(settings.gates).deletion_protection
    )
    if is_off:
        return
    held: dict[str, list[SubsetWorkload]] = {}
    for workload in workloads:
        if not workload.is_deleting and _is_protected(workload):
            held.setdefault(workload.template, []).append(workload)
    for each in held.values():
        resource, names = each[0].resource, sorted(workload.name for workload in each)
        kind = resource.kind if len(names) == 1 else f"{resource.kind}s"
        values = " or ".join(sorted({workload.labels[LABEL] for workload in each}))
        command = f"kubectl label {resource} -n {each[0].namespace} {' '.join(names)} {LABEL}-"
        yield Wait(
            code=Code.WEBHOOK,
            words=f"label {LABEL}={values} protects {kind} {format_first(names, _MOST_NAMED)}: the webhook rejects"
            " their deletion, and the UnitedDeployment is deleted only after them",
            since=str(meta["deletionTimestamp"]),
            remedy=f"if they must be deleted, remove the label from them ({command})",
        )


def _is_protected(workload: SubsetWorkload) -> bool:
    value = workload.labels.get(LABEL)
    return value == ALWAYS or (value == CASCADING and workload.replicas > 0)
