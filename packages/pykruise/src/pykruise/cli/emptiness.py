"""Documents without the empty fields that defaults create, so that a comparison shows only changes that users made.

document ──▶ drop_empty() ──▶ document without `resources: {}` and such fields

Pure.
"""

from typing import Any, Final

_MEANINGFUL_WHEN_EMPTY: Final = frozenset(
    {"emptyDir", "downwardAPI", "projected", "unorderedUpdate", "pause"}
)
"""Fields that have a meaning although they are empty. Each empty label selector has a meaning too."""


def _has_meaning_when_empty(name: str) -> bool:
    return name in _MEANINGFUL_WHEN_EMPTY or (name.lower().endswith("selector") and name != "nodeSelector")


def drop_empty(value: Any) -> Any:
    """The value without empty maps, empty lists and null, which Kubernetes' defaults create for an absent field. None
    if nothing remains.
    """
    if isinstance(value, list):
        return [{} if item == {} else drop_empty(item) for item in value] or None
    if not isinstance(value, dict):
        return value
    kept = {name: drop_empty(part) for name, part in value.items()}
    kept = {
        name: {} if part is None else part
        for name, part in kept.items()
        if part is not None or (_has_meaning_when_empty(name) and value[name] is not None)
    }
    return kept or None
