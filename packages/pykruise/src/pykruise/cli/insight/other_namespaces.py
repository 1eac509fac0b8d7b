"""Pods of other namespaces that match the selector of an object that selects no pod: perhaps its namespace is wrong.

Explanation of an object without pods ──pods with its labels──▶ add_other_namespaces()

This module only reads. A user who may not list the pods of all namespaces gets the explanation unchanged.
"""

from collections import Counter
from typing import Final

import msgspec

from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.kube.client.answers import metadata_of
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import PODS
from pykruise.kube.values.counts import format_count, format_first
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.plans.insight import Insight
from pykruise.pods.reasons import Code

MOST_NAMED: Final = 3
"""Maximum number of namespaces that a message names."""

_WITHOUT_PODS: Final = frozenset({Code.NOTHING_SELECTED, Code.NO_PODS})


async def add_other_namespaces(
    client: Client, explanation: Explanation, document: Document, insight: Insight
) -> Explanation:
    """Return the explanation with the namespaces that have pods with the labels that the object selects, if the object
    selects no pod of its own namespace.
    """
    path, own = insight.pod_selector, explanation.namespace
    if not path or not any(wait.code in _WITHOUT_PODS for wait in explanation.waits):
        return explanation
    try:
        selector = str(parse_selector(get_path(document, *path, default=None)))
        listed = await client.list(PODS, label_selector=selector, metadata_only=True) if selector else None
    except (KubeError, SelectorError):
        return explanation
    counts = Counter(metadata_of(raw).namespace for raw in listed.items) if listed is not None else Counter()
    if not counts or own in counts:
        return explanation
    waits = tuple(
        _with_namespaces(wait, explanation.kind, counts) if wait.code in _WITHOUT_PODS else wait
        for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


def _with_namespaces(wait: Wait, kind: str, counts: Counter[str]) -> Wait:
    """Return the wait with the namespaces that have matching pods. `counts`: the number of pods by namespace."""
    by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    pods = format_first(
        [f"{format_count(count, 'pod')} of namespace {namespace}" for namespace, count in by_count],
        MOST_NAMED,
    )
    where = (
        f"namespace {by_count[0][0]}"
        if len(by_count) == 1
        else "the namespace of the pods that it must select"
    )
    remedy = f"create the {kind} in {where} instead"
    return msgspec.structs.replace(
        wait, words=f"{wait.words}; {pods} would match", remedy=f"{remedy}; or {wait.remedy}"
    )
