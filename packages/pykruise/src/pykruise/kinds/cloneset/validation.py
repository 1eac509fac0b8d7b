"""Validation of a CloneSet (v1beta1): all errors in one response, each with its field.

document [+ the stored one] ──▶ errors_of() ──▶ field errors
                            ──▶ warnings_of() ──▶ warnings that do not block the write

Pure. Rule numbers refer to the table in the specification. A value that OpenKruise accepts is rejected only if it can
never work. The controller and this module use the same parser for int-or-percent fields.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykruise.kinds.cloneset.defaults import add_defaults
from pykruise.kinds.cloneset.pod_group import find_option_conflicts
from pykruise.kinds.cloneset.types import NO_DEADLINE, CloneSetSpec, RollingUpdate
from pykruise.kube.documents import is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.pod_rules.field_rules import NOT_NEGATIVE, check_not_negative, check_size
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, is_percent, resolve
from pykruise.plans.stored_values import to_document
from pykruise.pods.api import InPlaceUpdateStrategy, PodUpdatePolicy, UpdateType
from pykruise.pods.lifecycle.ordering import MOST_WEIGHTS
from pykruise.pods.template.config_content import find_follow_errors
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.workload.claims import read_template_name
from pykruise.pods.workload.options import (
    EVICTION_SURGE,
    GANG_MIN_COUNT,
    IGNORE_UNAVAILABLE_NODES,
    POD_REPLACEMENT_POLICY,
    ROLL_ON_CONFIG,
    SUCCESSOR_PLACEMENT,
    UNAVAILABLE_NODES_SELECTOR,
    Option,
    PodReplacementPolicy,
    find_option_errors,
)
from pykruise.pods.workload.spec import LARGEST_SET, describe_excess
from pykruise.pods.workload.validation import (
    find_immutable_errors,
    find_metadata_errors,
    find_pod_errors,
    find_priority_errors,
    find_selector_errors,
    scatter_errors,
)

MUTABLE = (
    "replicas",
    "template",
    "lifecycle",
    "scaleStrategy",
    "updateStrategy",
    "minReadySeconds",
    "progressDeadlineSeconds",
    "volumeClaimTemplates",
    "revisionHistoryLimit",
)
"""Fields of the spec that can be changed after creation."""

OPTIONS: tuple[Option[Any], ...] = (
    POD_REPLACEMENT_POLICY,
    EVICTION_SURGE,
    SUCCESSOR_PLACEMENT,
    ROLL_ON_CONFIG,
    IGNORE_UNAVAILABLE_NODES,
    UNAVAILABLE_NODES_SELECTOR,
    GANG_MIN_COUNT,
)
"""Annotations of a CloneSet that are options."""

KIND = "cloneset"
STRATEGY = "spec.updateStrategy"
BLOCK = f"{STRATEGY}.rollingUpdate"
WEIGHTS = ("spec", "updateStrategy", "rollingUpdate", "priorityStrategy", "weightPriority")

_WHOLE_NUMBER = re.compile("[0-9]{1,10}")


def errors_of(
    doc: Mapping[str, Any],
    spec: CloneSetSpec,
    *,
    old: Mapping[str, Any] | None = None,
    managed: Mapping[str, Any] | None = None,
) -> list[Cause]:
    """Find all field errors of a document whose typed spec is `spec`. `old` is the stored document on an update.
    `managed` is the selector that the newest revision records, if it was looked up.

    If the document has no selector or template, `spec` contains a placeholder for it. An unchanged spec is not checked
    again: otherwise, clients could not remove the finalizers of an object whose stored spec is invalid.
    """
    given: Mapping[str, Any] = doc.get("spec") or {}
    metadata: Mapping[str, Any] = doc.get("metadata") or {}
    errors = list(find_metadata_errors(metadata))
    errors += find_option_errors(metadata.get("annotations"), OPTIONS)
    errors += find_follow_errors(metadata, given.get("template"))
    errors += find_option_conflicts(metadata, given.get("template"), spec)
    if old is not None and is_same(given, old.get("spec") or {}):
        return errors
    return [*errors, *_find_spec_errors(doc, spec, old=old, managed=managed)]


def _find_spec_errors(
    doc: Mapping[str, Any],
    spec: CloneSetSpec,
    *,
    old: Mapping[str, Any] | None,
    managed: Mapping[str, Any] | None = None,
) -> list[Cause]:
    """Find the errors of the spec. For the arguments see `errors_of`."""
    given: Mapping[str, Any] = doc.get("spec") or {}
    errors = list(check_not_negative(spec.replicas, "spec.replicas"))  # rule 2
    if spec.replicas > LARGEST_SET and spec.replicas != ((old or {}).get("spec") or {}).get("replicas"):
        errors.append(make_invalid_error("spec.replicas", spec.replicas, describe_excess(spec.replicas)))
    errors += find_selector_errors(given, kind=KIND)  # rules 3 to 5
    claims = [read_template_name(template) for template in spec.volume_claim_templates or ()]
    errors += find_pod_errors(given, kind=KIND, further_volumes=claims, stored=old)  # rules 6 to 8
    errors += _find_scale_errors(spec)
    errors += _find_strategy_errors(spec)
    errors += check_size(doc, old, *WEIGHTS, most=MOST_WEIGHTS)
    if old is not None:
        errors += find_immutable_errors(
            given, old, kind=KIND, mutable=MUTABLE, managed=managed
        )  # section 5.2
    return errors


def warnings_of(doc: Mapping[str, Any], spec: CloneSetSpec) -> list[str]:
    """Return warnings about values that work, but not as expected. `doc` has no errors, and its typed spec is
    `spec`.
    """
    return [*_find_deadline_warnings(spec), *_find_replacement_warnings(doc, spec)]


def _find_replacement_warnings(doc: Mapping[str, Any], spec: CloneSetSpec) -> Iterator[str]:
    policy = POD_REPLACEMENT_POLICY.read((doc.get("metadata") or {}).get("annotations") or {})
    strategy = spec.scale_strategy
    if policy == PodReplacementPolicy.FAILED and strategy is not None and strategy.exclude_preparing_delete:
        yield (
            f"spec.scaleStrategy.excludePreparingDelete: with {POD_REPLACEMENT_POLICY.field} {policy}, the successor "
            "of a pod in PreparingDelete is created only when the pod has ended"
        )


def _find_deadline_warnings(spec: CloneSetSpec) -> list[str]:
    """Warn about deadlines that are too short. OpenKruise rejects them, but only in v1alpha1 (rule 20)."""
    deadline_s = spec.progress_deadline_seconds
    if deadline_s is None or deadline_s == NO_DEADLINE or deadline_s > spec.min_ready_seconds:
        return []
    return [
        f"spec.progressDeadlineSeconds: {deadline_s} is not greater than minReadySeconds "
        f"({spec.min_ready_seconds}): every rollout will be reported as overdue"
    ]


def _find_scale_errors(spec: CloneSetSpec) -> Iterator[Cause]:
    """Yield the errors of rule 9, and errors of scaleStrategy.maxUnavailable. OpenKruise does not check this field,
    although an invalid value prevents the creation of pods.
    """
    strategy = spec.scale_strategy
    if strategy is None:
        return
    for name, count in Counter(strategy.pods_to_delete).items():
        if count > 1:
            yield make_invalid_error("spec.scaleStrategy.podsToDelete", name, "is listed more than once")
    yield from _resolve_amount(
        strategy.max_unavailable, "spec.scaleStrategy.maxUnavailable", spec.replicas
    ).errors


def _find_strategy_errors(spec: CloneSetSpec) -> Iterator[Cause]:
    """Yield the errors of rules 11b to 22. Under OnDelete, amounts are not used, and so they are not checked."""
    strategy = spec.update_strategy
    if strategy is None:
        return
    if strategy.type not in ("", *UpdateType):
        yield make_invalid_error(f"{STRATEGY}.type", strategy.type, f"must be {' or '.join(UpdateType)}")
    block = strategy.rolling_update
    if block is None:
        return
    policy = block.pod_update_policy
    if policy not in ("", *PodUpdatePolicy):
        yield make_invalid_error(
            f"{BLOCK}.podUpdatePolicy", policy, f"must be one of {', '.join(PodUpdatePolicy)}"
        )
    if not spec.is_on_delete:
        yield from _find_rolling_errors(block, spec.replicas)
    if block.in_place_update_strategy is not None:
        yield from _find_in_place_errors(block.in_place_update_strategy)


def _find_rolling_errors(block: RollingUpdate, replicas: int) -> Iterator[Cause]:
    partition = _resolve_amount(block.partition, f"{BLOCK}.partition", replicas)
    yield from partition.errors
    if partition.number < 0:
        yield make_invalid_error(f"{BLOCK}.partition", block.partition, NOT_NEGATIVE)
    yield from find_priority_errors(block.priority_strategy, f"{BLOCK}.priorityStrategy")  # rule 14
    yield from scatter_errors(block.scatter_strategy or (), f"{BLOCK}.scatterStrategy")  # rule 15
    down = _resolve_amount(block.max_unavailable, f"{BLOCK}.maxUnavailable", replicas)
    surge = _resolve_amount(block.max_surge, f"{BLOCK}.maxSurge", replicas)
    yield from down.errors
    yield from surge.errors
    yield from _find_surge_errors(block, replicas)
    yield from _find_room_errors(block, replicas)


def _find_surge_errors(block: RollingUpdate, replicas: int) -> Iterator[Cause]:
    """Yield an error if maxSurge is above 0 under InPlaceOnly."""
    if block.pod_update_policy != PodUpdatePolicy.IN_PLACE_ONLY:
        return
    if _resolve_amount(block.max_surge, f"{BLOCK}.maxSurge", replicas).number > 0:
        yield make_invalid_error(
            f"{BLOCK}.maxSurge", block.max_surge, "can not use maxSurge with InPlaceOnly policy"
        )


def _find_room_errors(block: RollingUpdate | None, replicas: int) -> Iterator[Cause]:
    """Yield an error if maxUnavailable and maxSurge are both 0, because no pod could ever be updated."""
    if block is None:
        return
    down = _resolve_amount(block.max_unavailable, f"{BLOCK}.maxUnavailable", replicas)
    surge = _resolve_amount(block.max_surge, f"{BLOCK}.maxSurge", replicas)
    if replicas > 0 and not down.errors and not surge.errors and down.number < 1 and surge.number < 1:
        yield make_invalid_error(
            f"{BLOCK}.maxUnavailable", block.max_unavailable, "must be at least 1 when maxSurge is 0"
        )


class _Scaled(msgspec.Struct):
    """An int-or-percent value as a number (0 if absent or invalid), and its errors."""

    number: int = 0
    errors: list[Cause] = []


def _resolve_amount(value: IntOrPercent | None, field: str, replicas: int) -> _Scaled:
    if value is None:
        return _Scaled()
    try:
        return _Scaled(resolve(value, of=max(replicas, 0), rounding=Rounding.UP))
    except ValueError as error:
        return _Scaled(0, [make_invalid_error(field, value, str(error))])


def _find_in_place_errors(strategy: InPlaceUpdateStrategy) -> Iterator[Cause]:
    """Yield the errors of rules 21 and 22."""
    path = f"{BLOCK}.inPlaceUpdateStrategy"
    parallelism = strategy.image_pre_download_parallelism
    if parallelism is not None and not _is_whole_number(parallelism):
        field = f"{path}.imagePreDownloadParallelism"
        yield make_invalid_error(field, parallelism, "must be a whole number of at least 0, not a percentage")
    for name, value in (
        ("imagePreDownloadTimeoutSeconds", strategy.image_pre_download_timeout_seconds),
        ("imagePreDownloadMinUpdatedReadyPods", strategy.image_pre_download_min_updated_ready_pods),
    ):
        yield from check_not_negative(value, f"{path}.{name}")


def _is_whole_number(value: int | str) -> bool:
    text = str(value)
    return _WHOLE_NUMBER.fullmatch(text) is not None and int(text) < 2**31


def find_stored_errors(spec: CloneSetSpec) -> list[Cause]:
    """Find the errors of a stored spec, after adding defaults. Rules that only apply to new objects are not checked."""
    doc = to_document(spec)
    doc = add_defaults(doc, old=doc, settings=DefaultingSettings())
    read = msgspec.convert(doc["spec"], CloneSetSpec)
    # maxUnavailable 0 with maxSurge 0 is valid with 0 replicas, and so is a percentage in maxSurge under InPlaceOnly.
    # `kubectl scale` does not call this webhook, so both can be stored with more replicas. The status reports that
    # updates wait for maxUnavailable, and maxSurge has its usual effect.
    block = read.rolling_update
    kept = [*_find_room_errors(block, read.replicas)]
    if block is not None and is_percent(block.max_surge):
        kept += _find_surge_errors(block, read.replicas)
    return [error for error in _find_spec_errors(doc, read, old=doc) if error not in kept]
