"""Checks of ResourceQuotas and LimitRanges for a write.

writes.py ──▶ check(core, call, new, old) ──▶ Refusal (403), or the write continues and is counted in its quotas
plugins/builtin.py ──▶ admit_pod(core, call, pod) ──▶ the pod with its namespace's default requests and limits

Same messages as Kubernetes' admission plugins ResourceQuota and LimitRanger. A quota's status has the enforced limits
and the current usage. In a simulated cluster, quota_books.py maintains the status. Otherwise a client writes the
status, and the usage of each accepted write is added to it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pykruise.kube.documents import Document, decode
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.plugins.limit_ranges import default_resources, find_violations
from pykruise.sandbox.apiserver.plugins.namespace_limits import QUOTAS
from pykruise.sandbox.apiserver.plugins.quota_usage import (
    ZERO,
    Amounts,
    describe_missing_requests,
    format_amounts,
    is_concerned,
    parse_amounts,
    select_matching,
    usage_of,
)
from pykruise.sandbox.apiserver.requests.call import Call
from pykruise.sandbox.apiserver.requests.statuses import Refusal, make_forbidden

_UNCOUNTED: Final = ("bindings", "events", "events.events.k8s.io")


def admit_pod(core: Core, call: Call, pod: Document) -> None:
    """Give a new pod the default requests and limits of its namespace."""
    ranges = core.limits.ranges.get(call.namespace)
    if ranges and not call.subresource:
        for name in sorted(ranges):
            default_resources(pod, ranges[name])


def check(core: Core, call: Call, new: Document, old: Document | None) -> None:
    """Reject a write that violates a limit range or exceeds a quota of the namespace. Raises Refusal (403)."""
    limits = core.limits
    if call.namespace in limits.ranges:
        _check_ranges(call, new, old, limits.ranges[call.namespace])
    if call.namespace in limits.quotas:
        _check_quotas(core, call, new, old, limits.quotas[call.namespace])


def _make_refusal(call: Call, doc: Document, why: str) -> Refusal:
    return make_forbidden(call.entry.resource, doc["metadata"].get("name") or "", why)


# ── limit ranges ─────────────────────────────────────────────────────────────


def _check_ranges(call: Call, new: Document, old: Document | None, ranges: Mapping[str, Document]) -> None:
    shelf, subresource = call.entry.shelf, call.subresource
    is_pod = shelf == "pods" and (old is None or subresource == "resize")
    is_claim = shelf == "persistentvolumeclaims" and not subresource
    if not (is_pod or is_claim) or (old is not None and old["metadata"].get("deletionTimestamp")):
        return
    for name in sorted(ranges):
        result = find_violations(shelf, new, ranges[name])
        if result:
            raise _make_refusal(call, new, result[0] if len(result) == 1 else f"[{', '.join(result)}]")


# ── quotas ───────────────────────────────────────────────────────────────────


def _check_quotas(
    core: Core, call: Call, new: Document, old: Document | None, quotas: Mapping[str, Document]
) -> None:
    shelf = call.entry.shelf
    if not _is_charged(call, new, old):
        return
    usage = usage_of(shelf, new)
    before = usage_of(shelf, old) if old is not None else {}
    charges: list[tuple[str, Amounts]] = []
    for name in sorted(quotas):
        quota = quotas[name]
        status = quota.get("status") or {}
        hard, used = parse_amounts(status.get("hard")), parse_amounts(status.get("used"))
        limited = select_matching(shelf, hard)
        if not limited or not is_concerned(quota, shelf, new):
            continue
        if shelf == "pods" and (missing := describe_missing_requests(limited, new)):
            raise _make_refusal(call, new, f"failed quota: {name}: {missing}")
        if not all(text in used for text in limited):
            listed = ",".join(sorted(limited))
            raise _make_refusal(call, new, f"status unknown for quota: {name}, resources: {listed}")
        known = before if old is not None and is_concerned(quota, shelf, old) else {}
        asked = _compute_usage_growth(usage, known, limited)
        exceeded = sorted(text for text in asked if used[text] + asked[text] > hard[text])
        if exceeded:
            raise _make_refusal(call, new, _describe_exceeded(name, exceeded, asked, used, hard))
        if asked:
            charges.append((name, {value: used[value] + amount for value, amount in asked.items()}))
    if charges and not call.dry_run and not core.limits.keeps_books:
        _charge(core, call.namespace, charges)


def _describe_exceeded(name: str, which: Sequence[str], asked: Amounts, used: Amounts, hard: Amounts) -> str:
    def part(of: Amounts) -> str:
        return format_amounts({text: of[text] for text in which})

    return f"exceeded quota: {name}, requested: {part(asked)}, used: {part(used)}, limited: {part(hard)}"


def _is_charged(call: Call, new: Document, old: Document | None) -> bool:
    """Whether the write can increase usage. This is the rule of the evaluators of quota admission."""
    shelf = call.entry.shelf
    if shelf in _UNCOUNTED:
        return False
    if shelf == "pods":
        if call.subresource:
            return call.subresource == "resize"
        deadline = "activeDeadlineSeconds"
        return old is None or (deadline in new["spec"]) != (deadline in old["spec"])
    if call.subresource:
        return False
    return old is None or shelf in ("services", "persistentvolumeclaims")


def _compute_usage_growth(new: Amounts, old: Amounts, limited: Sequence[str]) -> Amounts:
    """Increase of usage, for the limited resources."""
    grown = {name: new[name] - old[name] if name in old else new[name] for name in limited if name in new}
    return {name: amount for name, amount in grown.items() if amount > ZERO}


def _charge(core: Core, namespace: str, charges: Sequence[tuple[str, Amounts]]) -> None:
    entry = core.catalog.find_shelf_entry(QUOTAS)
    assert entry is not None
    for name, used in charges:
        stored = core.get(entry, namespace, name)
        if stored is None:
            continue
        doc = decode(stored.raw)
        doc["status"]["used"] |= {value: str(amount) for value, amount in used.items()}
        core.put(entry, stored, doc)
