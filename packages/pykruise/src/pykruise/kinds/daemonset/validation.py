"""Validation of a DaemonSet (either version): all errors in one response, each with its field.

document [+ the stored one] ──▶ errors_of() ──▶ field errors

Pure. Rule numbers refer to the table in the specification. A spec that OpenKruise accepts is rejected only if it can
never work. If the stored burstReplicas or rollingUpdate.selector is invalid, other fields can be changed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.daemonset.defaults import add_defaults, has_surging
from pykruise.kinds.daemonset.types import (
    DAEMON_SETS,
    SURGING,
    DaemonSetSpec,
    RollingUpdate,
    RollingUpdateType,
)
from pykruise.kube.documents import is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_forbidden_error,
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import check_not_negative
from pykruise.kube.values.int_or_percent import IntOrPercent, is_whole_percent
from pykruise.plans.stored_values import to_document
from pykruise.pods.api import UpdateType
from pykruise.pods.template.config_content import find_follow_errors
from pykruise.pods.workload.options import (
    IGNORE_UNAVAILABLE_NODES,
    ROLL_ON_CONFIG,
    STRICT_MAX_UNAVAILABLE,
    UNAVAILABLE_NODES_SELECTOR,
    Option,
    find_option_errors,
)
from pykruise.pods.workload.validation import (
    find_amount_errors,
    find_immutable_errors,
    find_label_selector_errors,
    find_metadata_errors,
    find_pod_errors,
    find_selector_errors,
)

MUTABLE: Final = (
    "template",
    "updateStrategy",
    "lifecycle",
    "burstReplicas",
    "minReadySeconds",
    "revisionHistoryLimit",
    "scaleStrategy",
)
"""Fields of the spec that can be changed after creation."""

OPTIONS: Final[tuple[Option[Any], ...]] = (
    IGNORE_UNAVAILABLE_NODES,
    UNAVAILABLE_NODES_SELECTOR,
    STRICT_MAX_UNAVAILABLE,
    ROLL_ON_CONFIG,
)
"""Annotations of a DaemonSet that are options."""

KIND: Final = "daemonset"
STRATEGY: Final = "spec.updateStrategy"
BLOCK: Final = f"{STRATEGY}.rollingUpdate"


def errors_of(
    doc: Mapping[str, Any],
    spec: DaemonSetSpec,
    *,
    old: Mapping[str, Any] | None = None,
    managed: Mapping[str, Any] | None = None,
) -> list[Cause]:
    """Return all field errors of a document whose typed spec is `spec`.

    `old` is the stored document on an update. `managed` is the selector that the newest revision records, if it was
    looked up.

    If the document has no selector or template, `spec` contains a placeholder for it. An unchanged spec is not checked
    again: otherwise, clients could not remove the finalizers of an object whose stored spec is invalid.
    """
    given: Mapping[str, Any] = doc.get("spec") or {}
    stored: Mapping[str, Any] = (old.get("spec") or {}) if old is not None else {}
    metadata: Mapping[str, Any] = doc.get("metadata") or {}
    errors = [*find_metadata_errors(metadata), *find_option_errors(metadata.get("annotations"), OPTIONS)]
    errors += find_follow_errors(metadata, given.get("template"))
    if old is not None and is_same(given, stored):
        return errors
    errors += find_selector_errors(given, kind=KIND)
    errors += find_pod_errors(given, kind=KIND, stored=old)
    errors += check_not_negative(spec.min_ready_seconds, "spec.minReadySeconds")  # rule 7
    errors += check_not_negative(spec.revision_history_limit, "spec.revisionHistoryLimit")  # rule 8
    errors += _find_strategy_errors(spec, stored, has_surging=has_surging(doc))
    if spec.lifecycle is not None and spec.lifecycle.in_place_update is not None:  # rule 20
        errors.append(
            make_forbidden_error(
                "spec.lifecycle.inPlaceUpdate", "inPlaceUpdate hook is not supported in daemonset"
            )
        )
    if not is_same(given.get("burstReplicas"), stored.get("burstReplicas")):  # rule 21
        errors += _find_limit_errors(spec.burst_replicas, "spec.burstReplicas")
    if old is not None:
        errors += find_immutable_errors(given, old, kind=KIND, mutable=MUTABLE, managed=managed)
    return errors


def _find_strategy_errors(
    spec: DaemonSetSpec, stored: Mapping[str, Any], *, has_surging: bool
) -> Iterator[Cause]:
    """Yield the errors of rules 9 to 19 and 22. Under OnDelete, rollingUpdate is not checked."""
    strategy = spec.update_strategy
    kind = strategy.type if strategy else ""
    if kind not in (*UpdateType,):
        yield make_not_supported_error(STRATEGY, kind, [*UpdateType])
        return
    if kind == UpdateType.ON_DELETE:
        return
    block = spec.rolling_update
    if block is None:
        yield make_required_error(BLOCK)
        return
    old: Mapping[str, Any] = (stored.get("updateStrategy") or {}).get("rollingUpdate") or {}
    yield from _find_budget_errors(block, old)
    yield from _find_type_errors(block, has_surging=has_surging)
    yield from _find_limit_errors(block.partition, f"{BLOCK}.partition")  # rule 19
    selector = msgspec.to_builtins(block.selector)
    if not is_same(selector, old.get("selector")):  # rule 22
        yield from find_label_selector_errors(selector, f"{BLOCK}.selector")


def _find_budget_errors(block: RollingUpdate, old: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield the errors of rules 11 to 15."""
    is_down, is_surging = _is_nonzero(block.max_unavailable), _is_nonzero(block.max_surge)
    for name, value, is_some in (
        ("maxUnavailable", block.max_unavailable, is_down),
        ("maxSurge", block.max_surge, is_surging),
    ):
        if is_some or value != old.get(name):
            yield from _find_limit_errors(value, f"{BLOCK}.{name}")
    if is_down and is_surging:
        yield make_invalid_error(
            f"{BLOCK}.maxSurge", block.max_surge, "may not be set when maxUnavailable is non-zero"
        )
    if not is_down and not is_surging:
        yield make_required_error(f"{BLOCK}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _find_type_errors(block: RollingUpdate, *, has_surging: bool) -> Iterator[Cause]:
    """Yield the errors of rules 16 to 18."""
    kind = block.rolling_update_type
    if kind not in ("", *((SURGING,) if has_surging else ()), *RollingUpdateType):
        yield make_not_supported_error(f"{BLOCK}.rollingUpdateType", kind, [*RollingUpdateType])
    if kind == RollingUpdateType.IN_PLACE_IF_POSSIBLE and _is_nonzero(block.max_surge):
        yield make_required_error(f"{BLOCK}.maxSurge", "must be 0 for InPlaceIfPossible")
    if has_surging and kind == SURGING and _is_nonzero(block.max_unavailable):
        yield make_required_error(f"{BLOCK}.maxUnavailable", "must be 0 for Surging")


def _is_nonzero(value: IntOrPercent | None) -> bool:
    """Whether the value is a number or a percentage other than 0. Any other string counts as 0."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        return digits.isascii() and digits.isdecimal() and digits.strip("0") != ""
    return bool(value)


def _find_limit_errors(value: IntOrPercent | None, field: str) -> Iterator[Cause]:
    """Yield errors unless the value is an integer of at least 0, or a whole percentage of at most 100%."""
    yield from find_amount_errors(value, field)
    if isinstance(value, str) and is_whole_percent(value) and int(value[:-1]) > 100:
        yield make_invalid_error(field, value, "must not be greater than 100%")


def find_stored_errors(spec: DaemonSetSpec) -> list[Cause]:
    """Return the errors of a stored spec, after adding defaults."""
    doc = add_defaults({"apiVersion": DAEMON_SETS.api_version, **to_document(spec)})
    return errors_of(doc, msgspec.convert(doc["spec"], DaemonSetSpec))
