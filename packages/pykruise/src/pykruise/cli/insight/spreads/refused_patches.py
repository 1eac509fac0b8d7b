"""Subsets whose patch makes the API server reject their pods. Other subsets with room then get the pods.

SpreadSight ──a pod of the workload with each patch, dry run──▶ see_refused() ──▶ the SpreadSight with the rejections

This module writes nothing. A pod is tried only while a subset lacks pods. Without permission to create pods, nothing is
found.
"""

from collections.abc import Iterator

import msgspec

from pykruise.cli.insight.explanations import Wait
from pykruise.cli.insight.injection_check import find_refused_additions
from pykruise.cli.insight.refused_writes import find_template_remedy, make_refusal_wait
from pykruise.cli.insight.spreads.look import SpreadSight
from pykruise.kinds.workloadspread.kind import KIND
from pykruise.kinds.workloadspread.limits import ANY_NUMBER, LimitError, limit_of
from pykruise.kinds.workloadspread.patch_validation import find_errors_by_subset
from pykruise.kinds.workloadspread.status import compute_spread
from pykruise.kinds.workloadspread.subset_grouping import group_pods
from pykruise.kinds.workloadspread.types import WorkloadSpreadStatus
from pykruise.kube.client.client import Client
from pykruise.pods.reasons import Code
from pykruise.runtime.refusals import explain_refusal


async def see_refused(client: Client, sight: SpreadSight) -> SpreadSight:
    """Return the sight with the rejections of patched pods, by the field of the patch."""
    lacking = set(_list_lacking(sight))
    if sight.target is None or not lacking:
        return sight
    refusals = await find_refused_additions(client, sight.target, KIND, sight.document, fields=lacking)
    refused = {origin.field: str(error) for origin, error in refusals.items()}
    return msgspec.structs.replace(sight, refused=refused)


def _list_lacking(sight: SpreadSight) -> Iterator[str]:
    """Yield the fields of the patches of subsets that could have more pods: the workload lacks pods, or later subsets
    have some.
    """
    snapshot, subsets = sight.snapshot, sight.view.subsets
    if sight.problem or not any(subset.patch for subset in subsets):
        return
    entries = compute_spread(snapshot, group_pods(snapshot)).status.subset_statuses or ()
    elsewhere = sum(entry.replicas for entry in entries)
    for number, (subset, entry) in enumerate(zip(subsets, entries, strict=False)):
        elsewhere -= entry.replicas
        try:
            limit = limit_of(subset, replicas=snapshot.replicas)
        except LimitError:
            continue
        has_room = limit == ANY_NUMBER or entry.replicas < limit
        lacks = elsewhere > 0 or len(snapshot.pods) < snapshot.replicas
        if subset.patch and has_room and lacks:
            yield _name_field(number)


def _name_field(number: int) -> str:
    return f"spec.subsets[{number}].patch"


def explain_refused(sight: SpreadSight, status: WorkloadSpreadStatus) -> Iterator[tuple[str, Wait]]:
    """Yield the subsets whose pods are rejected, each with its wait. Patches that make invalid pods are left out.
    `status`: the status that the plan computes.
    """
    if not sight.refused:
        return
    entries = status.subset_statuses or ()
    last = max((number for number, entry in enumerate(entries) if entry.replicas), default=-1)
    invalid = {name for name, _ in find_errors_by_subset(sight.view.subsets, sight.target)}
    for number, subset in enumerate(sight.view.subsets):
        field = _name_field(number)
        message = sight.refused.get(field)
        if message is None or subset.name in invalid:
            continue
        known = explain_refusal(message, namespace=sight.view.namespace)
        code = Code.WRITE_FAILED if known is None else Code(known[0].value)
        wait = make_refusal_wait(code, message, namespace=sight.view.namespace)
        origin = f"{field} of {sight.document['kind']} {sight.view.name}"
        what = f"pods of subset {subset.name} are rejected because of its patch"
        if number < last:
            what += ", and created in other subsets"
        remedy = find_template_remedy(wait, origin, namespace=sight.view.namespace)
        if origin not in remedy:
            remedy = (
                f"correct {origin}; or {remedy}" if code in (Code.POLICY, Code.QUOTA) else f"correct {origin}"
            )
        yield (
            subset.name,
            msgspec.structs.replace(wait, words=f"{what}: {wait.words}", remedy=remedy),
        )
