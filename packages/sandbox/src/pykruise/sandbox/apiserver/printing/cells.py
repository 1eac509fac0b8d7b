"""The cells of tables: durations, names, lists, as `kubectl get` shows them.

a document, now ──▶ format_since(), age_of(), format_labels(), … ──▶ text

Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.values.selectors import SelectorError, format_label_selector

Doc = Mapping[str, Any]
NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"


def format_human_duration(seconds: float) -> str:
    """Format a duration in at most two units, as kubectl shows ages: `45s`, `5m3s`, `3h`, `2d5h`, `1y30d`."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _format_two_units(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _format_two_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _format_two_units(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _format_two_units(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _format_two_units(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def format_since(timestamp: str | None, now: Instant) -> str:
    """Time since a timestamp; UNKNOWN without one."""
    if not timestamp:
        return UNKNOWN
    try:
        return format_human_duration(now - parse_time(timestamp))
    except ValueError:
        return "<invalid>"


def name_of(doc: Doc) -> str:
    """`metadata.name`."""
    return str((doc.get("metadata") or {}).get("name") or "")


def age_of(doc: Doc, now: Instant) -> str:
    """Age of the object."""
    return format_since((doc.get("metadata") or {}).get("creationTimestamp"), now)


def spec_of(doc: Doc) -> Doc:
    """`spec`; empty without one."""
    return doc.get("spec") or {}


def status_of(doc: Doc) -> Doc:
    """`status`; empty without one."""
    return doc.get("status") or {}


def is_ending(doc: Doc) -> bool:
    """Whether the object is terminating."""
    return bool((doc.get("metadata") or {}).get("deletionTimestamp"))


def format_labels(labels: Mapping[str, str] | None) -> str:
    """Labels sorted by key, such as `a=1,b=2`; NONE without labels."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def format_selector(selector: Mapping[str, Any] | None) -> str:
    """A label selector in kubectl's notation."""
    try:
        return format_label_selector(selector)
    except SelectorError:
        return "<error>"


def read_template_spec(doc: Doc) -> Doc:
    """The spec of the object's pod template."""
    return (spec_of(doc).get("template") or {}).get("spec") or {}


def containers_of(spec: Doc) -> list[str]:
    """Names and images of the containers, each joined by commas."""
    containers = spec.get("containers") or ()
    return [",".join(each.get(field) or "" for each in containers) for field in ("name", "image")]


def join_with_more(items: Sequence[str], *, most: int = 3) -> str:
    """The first items and the number of others: `a,b,c + 2 more...`."""
    if not items:
        return UNSET
    shown = ",".join(items[:most])
    return f"{shown} + {len(items) - most} more..." if len(items) > most else shown


def is_true(conditions: Iterable[Doc], kind: str) -> bool:
    """Whether the condition of that type is true."""
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)
