"""Validation of the common parts of workloads with pods: metadata, selector, template.

document ──▶ find_metadata_errors(), find_selector_errors(), find_pod_errors() ──▶ field errors
order of updates ──▶ find_priority_errors(), scatter_errors() ──▶ field errors
new + stored document ──▶ find_immutable_errors()

Pure; serves every kind. A kind adds the errors of its own fields.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from pykruise.kube.documents import is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    drop_stored_errors,
    format_go_string_map,
    make_forbidden_error,
    make_invalid_error,
    make_invalid_shown_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import check_not_negative
from pykruise.kube.pod_rules.names import is_dns1123_subdomain, is_qualified_name
from pykruise.kube.values.int_or_percent import IntOrPercent, is_whole_percent
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.pods.api import PriorityStrategy, ScatterTerm
from pykruise.pods.template.metadata import read_pod_labels
from pykruise.pods.template.validation import find_labels_errors, find_template_errors
from pykruise.pods.workload.claims import read_template_name
from pykruise.pods.workload.revisions import drop_zero_values
from pykruise.pods.workload.selector_guard import encode_selector, is_guarded


def find_metadata_errors(metadata: Mapping[str, Any]) -> Iterator[Cause]:
    """Errors of name, labels and annotations. The name may be missing when it will be generated."""
    name = metadata.get("name")
    if not name and not metadata.get("generateName"):
        yield make_required_error("metadata.name", "name or generateName is required")
    if name:
        yield from (
            make_invalid_error("metadata.name", name, problem) for problem in is_dns1123_subdomain(name)
        )
    yield from find_labels_errors(metadata.get("labels") or {}, "metadata.labels")
    for key in metadata.get("annotations") or {}:
        for problem in is_qualified_name(key.lower()):
            yield make_invalid_error("metadata.annotations", key, problem)


def find_selector_errors(spec: Mapping[str, Any], *, kind: str) -> Iterator[Cause]:
    """`spec.selector` must be valid, select something, and match the template. `kind`: in lower case."""
    if spec.get("selector") is None:
        yield make_required_error("spec.selector")
        return
    try:
        selector = parse_selector(spec["selector"])
    except SelectorError as error:
        yield make_invalid_error("spec.selector", spec["selector"], str(error))
        return
    if selector.is_empty:
        yield make_invalid_error("spec.selector", spec["selector"], f"empty selector is invalid for {kind}")
        return
    labels = read_pod_labels(spec.get("template") or {})
    if spec.get("template") and not selector.matches(labels):
        field = "spec.template.metadata.labels"
        yield make_invalid_shown_error(
            field, format_go_string_map(labels), "`selector` does not match template `labels`"
        )


def find_label_selector_errors(selector: Any, field: str, *, empty: str = "") -> Iterator[Cause]:
    """Errors of a label selector. `empty`: the error of a selector that selects everything; if `empty` is "", such a
    selector is valid.
    """
    try:
        result = parse_selector(selector)
    except SelectorError as error:
        yield make_invalid_error(field, selector, str(error))
        return
    if empty and result.is_empty:
        yield make_invalid_error(field, selector, empty)


def find_amount_errors(value: IntOrPercent | None, field: str) -> Iterator[Cause]:
    """Errors unless the value is a whole number of at least 0, or a whole percentage."""
    if not isinstance(value, str):
        yield from check_not_negative(value, field)
    elif not is_whole_percent(value):
        yield make_invalid_error(field, value, "must be a valid percent value (e.g. '10%') or a whole number")


def find_pod_errors(
    spec: Mapping[str, Any],
    *,
    kind: str,
    further_volumes: Collection[str] = (),
    stored: Mapping[str, Any] | None = None,
) -> Iterator[Cause]:
    """Errors of `spec.template`, which must describe a pod that always runs.

    `stored`: the object that is updated. Errors that its stored template already has do not block changes of other
    fields. The owner's status reports them.
    """
    template = spec.get("template")
    if not template:
        yield make_required_error("spec.template")
        return
    old: Mapping[str, Any] = (stored or {}).get("spec") or {}
    if not _has_template(old, spec):
        yield from drop_stored_errors(
            find_template_errors(template, "spec.template", further_volumes=list(further_volumes)),
            lambda: _find_stored_template_errors(old),
        )
    pod: Mapping[str, Any] = template.get("spec") or {}
    policy = pod.get("restartPolicy")
    if policy and policy != "Always":
        yield make_not_supported_error("spec.template.spec.restartPolicy", policy, ["Always"])
    if pod.get("activeDeadlineSeconds") is not None:
        field = "spec.template.spec.activeDeadlineSeconds"
        yield make_forbidden_error(field, f"activeDeadlineSeconds in {kind} is not supported")


def _has_template(old: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    return all(is_same(old.get(field), spec.get(field)) for field in ("template", "volumeClaimTemplates"))


def _find_stored_template_errors(old: Mapping[str, Any]) -> list[Cause]:
    """Errors of the stored template, with the volumes of its own claims."""
    template = old.get("template")
    if not template:
        return []
    claims = [read_template_name(template) for template in old.get("volumeClaimTemplates") or ()]
    return find_template_errors(template, "spec.template", further_volumes=claims)


def find_immutable_errors(
    new: Mapping[str, Any],
    stored: Mapping[str, Any],
    *,
    kind: str,
    mutable: Collection[str],
    managed: Mapping[str, Any] | None = None,
) -> Iterator[Cause]:
    """Errors of changes outside the `mutable` fields of the spec.

    `new` is the spec, `stored` the whole object. A selector that was changed without admission may be changed back to
    the selector in the record of the revisions: `managed`.
    """
    old: Mapping[str, Any] = stored.get("spec") or {}
    fields = {*new, *old} - {*mutable}
    guarded = is_guarded((stored.get("status") or {}).get("conditions") or ())
    if guarded and managed is not None and _is_selector(new.get("selector"), managed):
        fields.discard("selector")
    if any(not _has_same_meaning(field, new.get(field), old.get(field)) for field in fields):
        allowed = ", ".join(f"'{field}'" for field in mutable)
        yield make_forbidden_error(
            "spec", f"updates to {kind} spec for fields other than {allowed} are forbidden"
        )


def _is_selector(selector: Any, managed: Mapping[str, Any]) -> bool:
    return isinstance(selector, Mapping) and encode_selector(selector) == encode_selector(managed)


def _has_same_meaning(field: str, new: Any, old: Any) -> bool:
    if field == "selector":
        new, old = drop_zero_values(new), drop_zero_values(old)
    return is_same(new, old)


def find_priority_errors(strategy: PriorityStrategy | None, field: str) -> Iterator[Cause]:
    """Errors of a priorityStrategy: it must use one list, weights from 0 to 100 with non-empty selectors, and
    non-empty keys.
    """
    if strategy is None:
        return
    if strategy.weight_priority and strategy.order_priority:
        yield make_required_error(field, "only one of weightPriority and orderPriority may be used")
    for weight in strategy.weight_priority or ():
        if not 0 <= weight.weight <= 100:
            yield make_required_error(field, f"weight {weight.weight} is not between 0 and 100")
        try:
            if parse_selector(msgspec.to_builtins(weight.match_selector)).is_empty:
                yield make_required_error(field, "matchSelector may not be empty")
        except SelectorError as error:
            yield make_required_error(field, f"matchSelector: {error}")
    for order in strategy.order_priority or ():
        if not order.ordered_key:
            yield make_required_error(field, "orderedKey may not be empty")


def scatter_errors(terms: Iterable[ScatterTerm], field: str) -> Iterator[Cause]:
    """Errors of a scatterStrategy: keys must not be empty, and each pair must be unique."""
    seen: set[tuple[str, str]] = set()
    for term in terms:
        if not term.key:
            yield make_required_error(field, "key may not be empty")
        if (term.key, term.value) in seen:
            yield make_required_error(field, f"{term.key}={term.value} is listed more than once")
        seen.add((term.key, term.value))
