"""Label selectors in CEL, the language of match conditions, with which an API server decides whether to call a
webhook.

Selector, namespaces ──▶ LabelSelection ──▶ build_selection() ──▶ text that is true for the selected objects

Pure. A condition that CEL cannot express is true for every object: a webhook may get unnecessary calls, but misses
none.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kube.pod_rules.names import is_dns1123_label, is_valid_label_key, is_valid_label_value
from pykruise.kube.values.selectors import Requirement, Selector, SelectorOperator

__all__ = ["ALWAYS", "NEVER", "Interests", "LabelSelection", "any_of", "build_selection", "join_terms"]

ALWAYS: Final = "true"
"""Expression that is true for every object."""
NEVER: Final = "false"
"""Expression that is true for no object."""

MOST_TERMS: Final = 64
MOST_NAMESPACES: Final = 256
"""Maximum number of namespaces in an expression: an expression with more namespaces costs an API server more than the
calls that it saves.
"""

_LABELS: Final = "object.metadata.labels"


class LabelSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that are selected by their labels and namespaces."""

    selector: Selector
    """Selector of labels."""
    namespaces: tuple[str, ...] = ()
    """Namespaces of the objects; empty: all namespaces."""


Interests = Mapping[str, Sequence[LabelSelection]]
"""Selected objects by the name of the kind that selects them. A kind without an entry may select every object."""


def any_of(terms: Iterable[str]) -> str:
    """Return an expression that is true if one of the terms is true. It depends on the set of terms, not on their order
    or number.
    """
    result = sorted(set(terms) - {NEVER})
    if ALWAYS in result or len(result) > MOST_TERMS:
        return ALWAYS
    if len(result) == 1:
        return result[0]
    return " || ".join(f"({text})" for text in result) or NEVER


def join_terms(text: str, other: str) -> str:
    """Return an expression that is true if both terms are true."""
    if NEVER in (text, other):
        return NEVER
    terms = [term for term in (text, other) if term != ALWAYS]
    return terms[0] if len(terms) == 1 else " && ".join(f"({term})" for term in terms) or ALWAYS


def build_selection(interests: Interests, kind: str) -> str:
    """Return an expression that is true if an object of the kind selects `object` (in the namespace of `request`, if
    namespaced).
    """
    if kind not in interests:
        return ALWAYS
    meants = interests[kind]
    by_selector: dict[str, set[str] | None] = {}
    for meant in meants:
        term = _format_selector(meant.selector)
        places = by_selector.setdefault(term, set())
        if places is not None and meant.namespaces:
            places.update(meant.namespaces)
        else:
            by_selector[term] = None
    return any_of(_in_namespaces(places, term) for term, places in by_selector.items())


def _in_namespaces(namespaces: set[str] | None, term: str) -> str:
    if namespaces is None or len(namespaces) > MOST_NAMESPACES or any(map(is_dns1123_label, namespaces)):
        return term
    return join_terms(f"request.namespace in {_list_of(namespaces)}", term)


def _format_selector(selector: Selector) -> str:
    if selector.selects_nothing:
        return NEVER
    terms = [
        term for requirement in selector.requirements if (term := _format_requirement(requirement)) != ALWAYS
    ]
    return " && ".join(terms) or ALWAYS


def _format_requirement(requirement: Requirement) -> str:
    if is_valid_label_key(requirement.key) or any(map(is_valid_label_value, requirement.values)):
        return ALWAYS
    has = f'has({_LABELS}) && "{requirement.key}" in {_LABELS}'
    match requirement.operator:
        case SelectorOperator.EXISTS:
            return has
        case SelectorOperator.DOES_NOT_EXIST:
            return f"!({has})"
        case SelectorOperator.EQUALS | SelectorOperator.DOUBLE_EQUALS | SelectorOperator.IN:
            return f'{has} && {_LABELS}["{requirement.key}"] in {_list_of(requirement.values)}'
        case SelectorOperator.NOT_EQUALS | SelectorOperator.NOT_IN:
            return f'!({has} && {_LABELS}["{requirement.key}"] in {_list_of(requirement.values)})'
    return ALWAYS


def _list_of(values: Iterable[str]) -> str:
    return json.dumps(sorted(values))
