"""Node selector terms in words, and whether any node matches them.

a term + nodes ──▶ describe_unmatched_term() ──▶ `disk=ssd`; empty: a node matches

Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from pykruise.kube.pod_rules.nodes import matches_term
from pykruise.pods.view.nodes import NodeView

LABEL_NODES: Final = "label nodes so that they match, or add matching nodes"
"""Remedy for a term that no node matches."""


def describe_unmatched_term(term: Mapping[str, Any] | None, nodes: Iterable[NodeView]) -> str:
    """Return the requirements of a term that no node matches; empty if a node matches, there is no term, or no node is
    known.
    """
    known = list(nodes)
    if not term or not known or any(matches_term(term, labels=node.labels, name=node.name) for node in known):
        return ""
    return describe_term(term)


def list_matching(term: Mapping[str, Any] | None, nodes: Iterable[NodeView]) -> list[NodeView]:
    """Return the nodes that match a term; all nodes if there is no term."""
    return [node for node in nodes if not term or matches_term(term, labels=node.labels, name=node.name)]


def find_pinned_node(terms: Sequence[Mapping[str, Any]]) -> str:
    """Return the only node, by its name, that the terms of a required node affinity allow; empty if they allow more
    nodes. Kinds with one pod per node bind their pods in this way.
    """
    pinned = {_find_name(term) for term in terms}
    return pinned.pop() if len(pinned) == 1 else ""


def _find_name(term: Mapping[str, Any]) -> str:
    """Return the only node name that the term allows; empty if it allows several names."""
    for item in term.get("matchFields") or ():
        values: Sequence[str] = item.get("values") or ()
        if item.get("key") == _NAME and item.get("operator") == "In" and len(values) == 1:
            return str(values[0])
    return ""


_NAME: Final = "metadata.name"
"""The only field of a node that a term can require."""


def describe_term(term: Mapping[str, Any]) -> str:
    """Return the requirements of a term: `disk=ssd, zone In a b`."""
    return ", ".join(_describe_requirements(term))


def _describe_requirements(term: Mapping[str, Any]) -> Iterator[str]:
    for item in chain(term.get("matchExpressions") or (), term.get("matchFields") or ()):
        values: Sequence[str] = item.get("values") or ()
        if item.get("operator") == "In" and len(values) == 1:
            yield f"{item['key']}={values[0]}"
        else:
            yield " ".join(
                (str(item.get("key")), str(item.get("operator")), *(str(value) for value in values))
            )
