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
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.plans.insight import Insight
from pykruise.pods.reasons import Code

_WITHOUT_PODS: Final = frozenset({Code.NOTHING_SELECTED, Code.NO_PODS})


async def add_other_namespaces(
    client: Client, explanation: Explanation, document: Document, insight: Insight
) -> Explanation:
    """Return the explanation with the namespace that has pods with the labels that the object selects, if the object
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
    [(namespace, count)] = counts.most_common(1)
    waits = tuple(
        _with_namespace(wait, explanation.kind, namespace, count) if wait.code in _WITHOUT_PODS else wait
        for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


def _with_namespace(wait: Wait, kind: str, namespace: str, count: int) -> Wait:
    words = f"{wait.words}; {format_count(count, 'pod', 'pods')} of namespace {namespace} would match"
    remedy = f"create the {kind} in namespace {namespace} instead"
    return msgspec.structs.replace(wait, words=words, remedy=f"{remedy}; or {wait.remedy}")
