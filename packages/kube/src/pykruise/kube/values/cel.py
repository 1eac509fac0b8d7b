"""Label selectors in CEL, the language of match conditions: an API server decides with them whom to ask.

Selector, namespaces ──▶ Meant ──▶ meant_by() ──▶ text that holds for the selected objects

Pure. What cannot be said in CEL holds for every object: asked about too much, never about too little.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kube.pod_rules.names import is_dns1123_label, is_valid_label_key, is_valid_label_value
from pykruise.kube.values.selectors import Requirement, Selector, SelectorOperator

__all__ = ["ALWAYS", "NEVER", "Interests", "Meant", "any_of", "both", "meant_by"]

ALWAYS: Final = "true"
NEVER: Final = "false"

MOST_TERMS: Final = 64
MOST_NAMESPACES: Final = 256
"""More than these make an expression that costs an API server more than the calls it spares."""

_LABELS: Final = "object.metadata.labels"


class Meant(msgspec.Struct, frozen=True, kw_only=True):
    """The selected objects."""

    selector: Selector
    """Selector of labels."""
    namespaces: tuple[str, ...] = ()
    """Only in these; empty: in all."""


Interests = Mapping[str, Sequence[Meant]]
"""Interests of the objects of a kind, by the kind's name. Without an entry it is not known: perhaps everything."""


def any_of(terms: Iterable[str]) -> str:
    """One of these holds. The text depends on which terms there are, not on their order or number."""
    result = sorted(set(terms) - {NEVER})
    if ALWAYS in result or len(result) > MOST_TERMS:
        return ALWAYS
    if len(result) == 1:
        return result[0]
    return " || ".join(f"({text})" for text in result) or NEVER


def both(text: str, other: str) -> str:
    """Both hold."""
    if NEVER in (text, other):
        return NEVER
    terms = [term for term in (text, other) if term != ALWAYS]
    return terms[0] if len(terms) == 1 else " && ".join(f"({term})" for term in terms) or ALWAYS


def meant_by(interests: Interests, kind: str) -> str:
    """That some object of the kind means `object`, a namespaced one of `request`."""
    if kind not in interests:
        return ALWAYS
    meants = interests[kind]
    by_selector: dict[str, set[str] | None] = {}
    for meant in meants:
        term = _selected(meant.selector)
        places = by_selector.setdefault(term, set())
        if places is not None and meant.namespaces:
            places.update(meant.namespaces)
        else:
            by_selector[term] = None
    return any_of(_within(places, term) for term, places in by_selector.items())


def _within(namespaces: set[str] | None, term: str) -> str:
    if namespaces is None or len(namespaces) > MOST_NAMESPACES or any(map(is_dns1123_label, namespaces)):
        return term
    return both(f"request.namespace in {_texts(namespaces)}", term)


def _selected(selector: Selector) -> str:
    if selector.selects_nothing:
        return NEVER
    terms = [term for requirement in selector.requirements if (term := _required(requirement)) != ALWAYS]
    return " && ".join(terms) or ALWAYS


def _required(requirement: Requirement) -> str:
    if is_valid_label_key(requirement.key) or any(map(is_valid_label_value, requirement.values)):
        return ALWAYS
    has = f'has({_LABELS}) && "{requirement.key}" in {_LABELS}'
    match requirement.operator:
        case SelectorOperator.EXISTS:
            return has
        case SelectorOperator.DOES_NOT_EXIST:
            return f"!({has})"
        case SelectorOperator.EQUALS | SelectorOperator.DOUBLE_EQUALS | SelectorOperator.IN:
            return f'{has} && {_LABELS}["{requirement.key}"] in {_texts(requirement.values)}'
        case SelectorOperator.NOT_EQUALS | SelectorOperator.NOT_IN:
            return f'!({has} && {_LABELS}["{requirement.key}"] in {_texts(requirement.values)})'
    return ALWAYS


def _texts(values: Iterable[str]) -> str:
    return json.dumps(sorted(values))
