"""Validation of `patchPodMetadata`: a whitelist names the annotations that SidecarSets may give to pods.

document + whitelist text ──▶ find_annotation_errors() ──▶ field errors

Pure. The whitelist is JSON: {"rules": [{"selector": …, "allowedAnnotationKeyExprs": ["^oom-score$"]}]}. Member names
match without regard to case.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson

from pykruise.kinds.sidecarset.admission_facts import WHITELIST_KEY, SidecarSetFacts
from pykruise.kinds.sidecarset.pod_annotations import POLICIES
from pykruise.kinds.sidecarset.types import SidecarSetSpec
from pykruise.kube.documents import labels_of, rename_members
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.names import is_qualified_name
from pykruise.kube.values.go_text import excerpt
from pykruise.kube.values.patterns import Pattern, PatternError, compile_pattern
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.pods.workload.allowed_workloads import CONFIGURATION

FIELD: Final = "spec.patchPodMetadata"
LARGEST: Final = 256 * 1024
"""Maximum total size of an object's annotations in bytes."""

_WHERE: Final = f"ConfigMap {CONFIGURATION}, key {WHITELIST_KEY}"


class _Rule(msgspec.Struct, rename="camel"):
    selector: dict[str, Any] | None = None
    allowed_annotation_key_exprs: list[str] | None = None


class _Whitelist(msgspec.Struct):
    rules: list[_Rule] | None = None


class _NoWhitelistError(ValueError):
    pass


def find_annotation_errors(
    doc: Mapping[str, Any], spec: SidecarSetSpec, facts: SidecarSetFacts
) -> Iterator[Cause]:
    """All errors of the annotations."""
    entries = spec.patch_pod_metadata
    if not entries:
        return
    yield from _find_whitelist_errors(
        doc, [key for entry in entries for key in entry.annotations or {}], facts
    )
    yield from find_entry_errors(spec)


def find_entry_errors(spec: SidecarSetSpec) -> Iterator[Cause]:
    """Errors of the annotations, except annotations that the whitelist does not allow."""
    seen: set[str] = set()
    for index, entry in enumerate(spec.patch_pod_metadata or ()):
        field = f"{FIELD}[{index}]"
        annotations = entry.annotations or {}
        if not annotations:
            yield make_required_error(f"{field}.annotations", "no annotations defined for SidecarSet")
        for key in annotations:
            yield from (
                make_invalid_error(f"{field}.annotations", key, text)
                for text in is_qualified_name(key.lower())
            )
        if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > LARGEST:
            yield make_invalid_error(f"{field}.annotations", "", f"must not have more than {LARGEST} bytes")
        if not entry.patch_policy:
            yield make_required_error(f"{field}.patchPolicy")
        elif entry.patch_policy not in POLICIES:
            yield make_not_supported_error(f"{field}.patchPolicy", entry.patch_policy, POLICIES)
        for key in seen & annotations.keys():
            yield make_required_error(
                f"{field}.annotations", f"patch annotation {excerpt(key)} already exist"
            )
        seen |= annotations.keys()


def _find_whitelist_errors(
    doc: Mapping[str, Any], keys: list[str], facts: SidecarSetFacts
) -> Iterator[Cause]:
    try:
        patterns = _compile_patterns(facts, labels_of(doc))
    except _NoWhitelistError as error:
        yield make_required_error(FIELD, str(error))
        return
    if not patterns:
        if not facts.allows_any_annotation:
            yield make_required_error(FIELD, f"whitelist not found ({_WHERE})")
        return
    for key in dict.fromkeys(keys):
        if not any(pattern.search(key) for pattern in patterns):
            yield make_required_error(
                FIELD, f"annotation {excerpt(key)} is not allowed by the whitelist ({_WHERE})"
            )


def _compile_patterns(facts: SidecarSetFacts, labels: Mapping[str, str]) -> list[Pattern]:
    """Compile the patterns of all rules that match a SidecarSet with these labels."""
    if facts.whitelist_problem:
        raise _NoWhitelistError(facts.whitelist_problem)
    if facts.whitelist is None:
        return []
    try:
        rules = _read_rules(facts.whitelist)
        patterns: list[Pattern] = []
        for rule in rules:
            if rule.selector is None or parse_selector(rule.selector).matches(labels):
                patterns += [compile_pattern(expr) for expr in rule.allowed_annotation_key_exprs or ()]
    except (orjson.JSONDecodeError, msgspec.ValidationError, SelectorError, PatternError) as error:
        raise _NoWhitelistError(f"the whitelist ({_WHERE}) cannot be read: {error}") from error
    return patterns


def _read_rules(text: str) -> list[_Rule]:
    """Read the rules of the whitelist. Raises ValueError."""
    whitelist = rename_members(orjson.loads(text), ("rules",))
    if isinstance(whitelist, dict):
        whitelist["rules"] = _map_items(whitelist.get("rules"), _rename_rule_members)
    return msgspec.convert(whitelist, _Whitelist).rules or []


def _rename_rule_members(rule: Any) -> Any:
    result = rename_members(rule, ("selector", "allowedAnnotationKeyExprs"))
    if isinstance(result, dict):
        selector = rename_members(result.get("selector"), ("matchLabels", "matchExpressions"))
        if isinstance(selector, dict):
            selector["matchExpressions"] = _map_items(
                selector.get("matchExpressions"),
                lambda expression: rename_members(expression, ("key", "operator", "values")),
            )
        result["selector"] = selector
    return result


def _map_items(value: Any, change: Callable[[Any], Any]) -> Any:
    return [change(item) for item in value] if isinstance(value, list) else value
