"""Explains that the ended children which an object keeps use up the ResourceQuota that rejects its next child. A quota
that is only a little higher would soon be used up too.

Explanation with a rejected creation ──ResourceQuotas of the namespace──▶ add_kept_children()

This module only reads. A user who may not list ResourceQuotas gets the explanation unchanged.
"""

import msgspec

from pykruise.cli.insight.cluster_reading import Sight
from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.cli.insight.optional_reads import list_optional
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import RESOURCE_QUOTAS
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.quantities import parse_quantity
from pykruise.plans.insight import KeptChildren
from pykruise.pods.corrections import join_remedies
from pykruise.pods.reasons import Code


async def add_kept_children(client: Client, explanation: Explanation, sight: Sight) -> Explanation:
    """Return the explanation with the history limits that fit into the quota, if a quota for the number of the
    children rejects the next child. `explanation`: without the waits of the children.
    """
    insight = sight.kind.insight
    find = insight.kept_children if insight is not None else None
    if find is None or not any(wait.code == Code.QUOTA for wait in explanation.waits):
        return explanation
    kept = find(sight.snapshot)
    if kept is None or not kept.succeeded + kept.failed:
        return explanation
    quotas = await list_optional(client, RESOURCE_QUOTAS, explanation.namespace)
    known = (_explain_quota(quota, kept) for quota in quotas)
    explained = next((said for said in known if said is not None), None)
    if explained is None:
        return explanation
    waits = tuple(
        _with_quota(wait, explained) if wait.code == Code.QUOTA else wait for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


def _with_quota(wait: Wait, explained: tuple[str, str]) -> Wait:
    words, remedy = explained
    return msgspec.structs.replace(wait, words=f"{wait.words}; {words}", remedy=remedy)


def _explain_quota(quota: Document, kept: KeptChildren) -> tuple[str, str] | None:
    """Return the words and the remedy for a quota that is used up by kept children; None if it is not used up, or if
    other objects use it up.
    """
    counted = f"count/{kept.resource}"
    hard, used = (_read_count(quota, field, counted) for field in ("hard", "used"))
    if hard is None or used is None or used < hard:
        return None
    ended = kept.succeeded + kept.failed
    others = max(used - ended - kept.active, 0)
    running = kept.active + 1  # the next one needs room too
    most = hard - others - running
    if most < 0:
        return None
    name, namespace = quota["metadata"]["name"], quota["metadata"]["namespace"]
    kinds = format_count(used, kept.resource.kind)
    kept_ones = format_count(ended, "of them has ended and is kept", "of them have ended and are kept")
    words = f"ResourceQuota {name} counts {kinds}; {kept_ones} by the history limits of the spec"
    ways = [_lower_limits(kept, most)]
    if kept.succeeded_limit is not None and kept.failed_limit is not None:
        enough = others + kept.succeeded_limit + kept.failed_limit + running
        if enough > hard:
            command = f"kubectl edit resourcequota -n {namespace} {name}"
            ways.append(f"raise {counted} of ResourceQuota {name} to at least {enough} ({command})")
    remedy = join_remedies(*ways)
    return (words, remedy) if remedy else None


def _read_count(quota: Document, field: str, counted: str) -> int | None:
    """Return a number of the status of the quota; None if the quota does not count these objects."""
    value = get_path(quota, "status", field, counted)
    try:
        return None if value is None else int(parse_quantity(value))
    except ValueError:
        return None


def _lower_limits(kept: KeptChildren, most: int) -> str:
    """Return the instruction to set the history limits so that at most `most` ended children are kept; empty if they
    are low enough.
    """
    succeeded, failed = kept.succeeded_limit, kept.failed_limit
    some_failed = most if failed is None else failed
    wanted = max(most - some_failed, min(most, 1))
    new_succeeded = wanted if succeeded is None else min(succeeded, wanted)
    new_failed = most - new_succeeded if failed is None else min(failed, most - new_succeeded)
    fields = [
        f"{field} to {new}"
        for field, new, old in (
            (kept.succeeded_field, new_succeeded, succeeded),
            (kept.failed_field, new_failed, failed),
        )
        if new != old
    ]
    return f"set {' and '.join(fields)}" if fields else ""
