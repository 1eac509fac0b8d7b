"""Validation of a StatefulSet (v1beta1): all errors in one response, each with its field.

document [+ the stored one] ──▶ errors_of() ──▶ field errors
document ──▶ warnings_of() ──▶ warnings
document ──▶ list_last_pod_names()

Pure. Rule numbers refer to the specification's table. Int-or-percent fields are parsed as the controller parses them,
but only `5` and `50%` are accepted: `"5"` is rejected.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any, Final

import msgspec

from pykruise.kinds.statefulset.defaults import StatefulSetDefaultingSettings, add_defaults
from pykruise.kinds.statefulset.pod_group import find_option_conflicts
from pykruise.kinds.statefulset.snapshot import read_spec
from pykruise.kinds.statefulset.types import (
    ClaimUpdateType,
    ManagementPolicy,
    Retention,
    RollingUpdate,
    StatefulSetSpec,
)
from pykruise.kube.documents import get_path, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    drop_stored_errors,
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import check_not_negative, check_size
from pykruise.kube.pod_rules.names import is_dns1123_label
from pykruise.kube.values.go_text import excerpt, quote_text
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, is_whole_percent, resolve
from pykruise.plans.stored_values import to_document
from pykruise.pods.api import PodUpdatePolicy, UpdateType
from pykruise.pods.in_place import diff_specs
from pykruise.pods.lifecycle.ordering import MOST_WEIGHTS
from pykruise.pods.template.config_content import find_follow_errors
from pykruise.pods.template.validation import MOST_WARNINGS
from pykruise.pods.view import keys
from pykruise.pods.workload.options import (
    GANG_MIN_COUNT,
    IGNORE_UNAVAILABLE_NODES,
    NO_EVICTION_SURGE,
    REPLACE_NEVER_READY,
    ROLL_ON_CONFIG,
    UNAVAILABLE_NODES_SELECTOR,
    Option,
    find_option_errors,
)
from pykruise.pods.workload.ordinals import find_last_wanted_ordinal, format_pod_name, range_of, reserved_of
from pykruise.pods.workload.validation import (
    find_immutable_errors,
    find_metadata_errors,
    find_pod_errors,
    find_priority_errors,
    find_selector_errors,
)

MUTABLE: Final = (
    "replicas",
    "ordinals",
    "template",
    "reserveOrdinals",
    "lifecycle",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "volumeClaimTemplates",
    "volumeClaimUpdateStrategy",
    "scaleStrategy",
    "updateStrategy",
)
"""Fields of the spec that an update may change."""

OPTIONS: Final[tuple[Option[Any], ...]] = (
    REPLACE_NEVER_READY,
    NO_EVICTION_SURGE,
    ROLL_ON_CONFIG,
    IGNORE_UNAVAILABLE_NODES,
    UNAVAILABLE_NODES_SELECTOR,
    GANG_MIN_COUNT,
)
"""Annotations that are options of a StatefulSet, and options of other kinds that a StatefulSet must not have."""

KIND: Final = "statefulset"
STRATEGY: Final = "spec.updateStrategy"
BLOCK: Final = f"{STRATEGY}.rollingUpdate"
WEIGHTS: Final = (
    *("spec", "updateStrategy", "rollingUpdate"),
    *("unorderedUpdate", "priorityStrategy", "weightPriority"),
)
LONGEST_MIN_READY_S: Final = 300

_NOT_FOUND: Final = "FieldValueNotFound"
_VOLUME_NAME: Final = re.compile(r"\.volume(Mounts|Devices)\[\d+\]\.name$")
"""Fields that name a volume of the pod."""


def errors_of(
    doc: Mapping[str, Any],
    spec: StatefulSetSpec,
    *,
    old: Mapping[str, Any] | None = None,
    managed: Mapping[str, Any] | None = None,
) -> list[Cause]:
    """Find all field errors of a document whose spec was parsed as `spec`. `old` is the stored document on an update.
    `managed` is the selector that the newest revision records, if it was looked up.

    When the document's spec lacks a selector or template, `spec` contains a placeholder. An unchanged spec is not
    checked again: otherwise, clients could not remove the finalizers of an object whose stored spec is invalid.
    """
    given: Mapping[str, Any] = doc.get("spec") or {}
    errors = list(find_metadata_errors(doc.get("metadata") or {}))
    errors += find_option_errors((doc.get("metadata") or {}).get("annotations"), OPTIONS)
    errors += find_follow_errors(doc.get("metadata") or {}, given.get("template"))
    errors += find_option_conflicts(doc.get("metadata") or {}, given.get("template"), spec)
    errors += _find_node_option_errors((doc.get("metadata") or {}).get("annotations"), spec)
    if old is None:
        errors += _find_name_errors(doc.get("metadata") or {}, errors)  # rule 1
    if old is not None and is_same(given, old.get("spec") or {}):
        return errors
    errors += _find_spec_errors(doc, spec, old=old, managed=managed)
    errors += drop_stored_errors(list(_find_further_errors(spec)), lambda: _find_further_stored_errors(old))
    return errors


def _find_spec_errors(
    doc: Mapping[str, Any],
    spec: StatefulSetSpec,
    *,
    old: Mapping[str, Any] | None,
    managed: Mapping[str, Any] | None = None,
) -> list[Cause]:
    """Find the errors of the spec, except those of `_find_further_errors`. For the arguments see `errors_of`."""
    given: Mapping[str, Any] = doc.get("spec") or {}
    errors = list(_find_management_errors(spec))  # rules 2, 3 and 7
    errors += _find_reserved_errors(spec)  # rules 4 to 6
    errors += _find_strategy_errors(spec)  # rules 8 to 19
    errors += check_size(doc, old, *WEIGHTS, most=MOST_WEIGHTS)
    errors += _find_retention_errors(spec)  # rule 20
    errors += check_not_negative(spec.replicas, "spec.replicas")  # rule 21
    errors += find_selector_errors(given, kind=KIND)  # rules 22 to 24
    errors += _find_pod_errors(given, spec, stored=old)  # rules 25 to 27
    if old is not None:
        errors += find_immutable_errors(
            _drop_empty(given),
            {**old, "spec": _drop_empty(old.get("spec") or {})},
            kind=KIND,
            mutable=MUTABLE,
            managed=managed,
        )
        errors += _find_in_place_only_errors(doc, spec, old)  # section 5.2, number 5
    return errors


def _find_pod_errors(
    given: Mapping[str, Any], spec: StatefulSetSpec, *, stored: Mapping[str, Any] | None
) -> Iterator[Cause]:
    """Yield the errors of the pod template. A container may mount a volume that the template does not define: a
    webhook, such as that of a SidecarSet, may add the volume to the pods. `warnings_of` reports such mounts.
    """
    errors = find_pod_errors(given, kind=KIND, further_volumes=_list_claim_volumes(spec), stored=stored)
    for error in errors:
        if not (error.reason == _NOT_FOUND and _VOLUME_NAME.search(error.field)):
            yield error


def _find_further_stored_errors(old: Mapping[str, Any] | None) -> list[Cause]:
    """Find the further errors of the stored object; none if there is no stored object, or if it is not readable."""
    spec, _ = read_spec((old or {}).get("spec") or {})
    return [] if spec is None else list(_find_further_errors(spec))


def warnings_of(doc: Mapping[str, Any], spec: StatefulSetSpec) -> Iterator[str]:
    """Warn about the first mounts of volumes that neither the template nor a claim template defines."""
    return islice(_warn_of_mounts(doc, spec), MOST_WARNINGS)


def _warn_of_mounts(doc: Mapping[str, Any], spec: StatefulSetSpec) -> Iterator[str]:
    pod: Mapping[str, Any] = get_path(doc, "spec", "template", "spec") or {}
    known = {volume.get("name") for volume in pod.get("volumes") or ()} | {*spec.claim_names}
    for group, kind in product(("initContainers", "containers"), ("volumeMounts", "volumeDevices")):
        for number, container in enumerate(pod.get(group) or ()):
            for index, mount in enumerate(container.get(kind) or ()):
                if (name := mount.get("name") or "") in known:
                    continue
                field = f"spec.template.spec.{group}[{number}].{kind}[{index}].name"
                yield (
                    f"{field}: neither the template nor a claim template defines volume "
                    f"{quote_text(excerpt(name))}: pods can be created only if a webhook adds the volume"
                )


def _list_claim_volumes(spec: StatefulSetSpec) -> list[str]:
    """Volumes that claims add to pods. They replace volumes of the template with the same name. Other rules report
    invalid names.
    """
    own = {volume.get("name") for volume in get_path(spec.template, "spec", "volumes") or ()}
    return [name for name in dict.fromkeys(spec.claim_names) if name and name not in own]


def _drop_empty(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec without empty fields, which count as absent."""
    return {field: value for field, value in spec.items() if value not in (None, "", [], {})}


def list_last_pod_names(doc: Mapping[str, Any]) -> list[str]:
    """Name of the pod with the highest ordinal, once all pods exist."""
    spec: Mapping[str, Any] = doc.get("spec") or {}
    replicas = spec.get("replicas")
    last = find_last_wanted_ordinal(
        start=get_path(spec, "ordinals", "start", default=0) or 0,
        replicas=1 if replicas is None else replicas,
        reserved=reserved_of(spec.get("reserveOrdinals") or ()),
    )
    return [] if last is None else [format_pod_name(doc["metadata"]["name"], last)]


def _find_name_errors(metadata: Mapping[str, Any], causes: list[Cause]) -> Iterator[Cause]:
    """Names of pods are host names in DNS, so the name of the set must not contain dots. `causes` already contains
    other errors of the name.
    """
    name = metadata.get("name")
    if name and not any(cause.field == "metadata.name" for cause in causes):
        yield from (make_invalid_error("metadata.name", name, problem) for problem in is_dns1123_label(name))


def _find_management_errors(spec: StatefulSetSpec) -> Iterator[Cause]:
    field = "spec.podManagementPolicy"
    if not spec.pod_management_policy:
        yield make_required_error(field)
    elif spec.pod_management_policy not in (*ManagementPolicy,):
        yield make_invalid_error(
            field,
            spec.pod_management_policy,
            f"must be '{ManagementPolicy.ORDERED_READY}' or '{ManagementPolicy.PARALLEL}'",
        )
    if spec.scale_strategy is not None and spec.scale_strategy.max_unavailable is not None:
        field = "spec.scaleStrategy.maxUnavailable"
        yield from _find_max_unavailable_errors(spec.scale_strategy.max_unavailable, field, spec)


def _find_node_option_errors(annotations: Any, spec: StatefulSetSpec) -> Iterator[Cause]:
    """Yield the error of ignore-unavailable-nodes without Parallel: only Parallel updates pods while another pod is
    unavailable.
    """
    annotation = IGNORE_UNAVAILABLE_NODES.annotation
    text = annotations.get(annotation) if isinstance(annotations, Mapping) else None
    if isinstance(text, str) and not spec.is_parallel:
        field = IGNORE_UNAVAILABLE_NODES.field_in("metadata")
        yield make_invalid_error(field, text, f"needs spec.podManagementPolicy {ManagementPolicy.PARALLEL}")


def _find_max_unavailable_errors(value: IntOrPercent, field: str, spec: StatefulSetSpec) -> Iterator[Cause]:
    """Yield the errors of maxUnavailable: it must be at least one pod, and exactly one pod unless pods are managed in
    parallel.
    """
    if isinstance(value, str) and not is_whole_percent(value):
        yield make_invalid_error(field, value, "must be a whole number or a percentage such as 50%")
        return
    if isinstance(value, int) and value < 0:
        yield from check_not_negative(value, field)
        return
    if resolve(value, of=1, rounding=Rounding.UP) < 1:
        yield make_invalid_error(field, value, "must be at least 1")
    if not spec.is_parallel and value != 1:
        yield make_invalid_error(
            field, value, f"must be 1 unless podManagementPolicy is {ManagementPolicy.PARALLEL}"
        )


def _find_reserved_errors(spec: StatefulSetSpec) -> Iterator[Cause]:
    for index, entry in enumerate(spec.reserve_ordinals or ()):
        field = f"spec.reserveOrdinals[{index}]"
        if isinstance(entry, int):
            yield from check_not_negative(entry, field)
            continue
        pair = range_of(entry)
        if pair is None:
            yield make_invalid_error(field, entry, "must be a number, or a range of numbers such as 5-8")
        elif pair[0] > pair[1]:
            yield make_invalid_error(field, entry, "must not begin after its end")


def _find_strategy_errors(spec: StatefulSetSpec) -> Iterator[Cause]:
    strategy = spec.update_strategy
    if strategy is None or not strategy.type:
        yield make_required_error(STRATEGY, "type is required")
        return
    if strategy.type not in (*UpdateType,):
        yield make_invalid_error(
            STRATEGY, strategy.type, f"must be '{UpdateType.ROLLING_UPDATE}' or '{UpdateType.ON_DELETE}'"
        )
        return
    block = strategy.rolling_update
    if strategy.type == UpdateType.ON_DELETE:
        if block is not None:
            yield make_invalid_error(
                BLOCK, "", f"only allowed for updateStrategy '{UpdateType.ROLLING_UPDATE}'"
            )
    elif block is not None:
        yield from _find_rolling_errors(block, spec)


def _find_rolling_errors(block: RollingUpdate, spec: StatefulSetSpec) -> Iterator[Cause]:
    yield from check_not_negative(block.partition, f"{BLOCK}.partition")
    if block.min_ready_seconds is not None and not 0 <= block.min_ready_seconds <= LONGEST_MIN_READY_S:
        problem = f"must be between 0 and {LONGEST_MIN_READY_S}, inclusive"
        yield make_invalid_error(f"{BLOCK}.minReadySeconds", block.min_ready_seconds, problem)
    if block.max_unavailable is None:
        yield make_required_error(f"{BLOCK}.maxUnavailable")
    else:
        yield from _find_max_unavailable_errors(block.max_unavailable, f"{BLOCK}.maxUnavailable", spec)
    yield from _find_policy_errors(block, spec)
    if block.unordered_update is not None:
        field = f"{BLOCK}.unorderedUpdate"
        if not spec.is_parallel:
            yield make_required_error(
                field, f"can only work with podManagementPolicy {ManagementPolicy.PARALLEL}"
            )
        yield from find_priority_errors(block.unordered_update.priority_strategy, f"{field}.priorityStrategy")


def _find_policy_errors(block: RollingUpdate, spec: StatefulSetSpec) -> Iterator[Cause]:
    field = f"{BLOCK}.podUpdatePolicy"
    if not block.pod_update_policy:
        yield make_required_error(field)
    elif block.pod_update_policy not in (*PodUpdatePolicy,):
        yield make_invalid_error(
            field, block.pod_update_policy, f"must be one of {', '.join(PodUpdatePolicy)}"
        )
    elif block.pod_update_policy != PodUpdatePolicy.RECREATE:
        gates = get_path(spec.template, "spec", "readinessGates") or ()
        if not any(gate.get("conditionType") == keys.IN_PLACE_READY for gate in gates):
            problem = f"podUpdatePolicy {block.pod_update_policy} needs a gate {keys.IN_PLACE_READY}"
            yield make_invalid_error("spec.template.spec.readinessGates", list(gates), problem)


def _find_retention_errors(spec: StatefulSetSpec) -> Iterator[Cause]:
    policy = spec.persistent_volume_claim_retention_policy
    if policy is None:
        return
    for field, value in (("whenDeleted", policy.when_deleted), ("whenScaled", policy.when_scaled)):
        if value not in (*Retention,):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{field}"
            yield make_not_supported_error(path, value, [str(retention) for retention in reversed(Retention)])


def _find_further_errors(spec: StatefulSetSpec) -> Iterator[Cause]:
    """Errors that OpenKruise does not report. It accepts these values, and they cause failures later."""
    yield from check_not_negative(spec.ordinals.start if spec.ordinals else None, "spec.ordinals.start")
    yield from check_not_negative(spec.revision_history_limit, "spec.revisionHistoryLimit")
    strategy = spec.volume_claim_update_strategy
    if strategy is not None and strategy.type not in ("", *ClaimUpdateType):
        yield make_not_supported_error(
            "spec.volumeClaimUpdateStrategy.type",
            strategy.type,
            [str(claim_update_type) for claim_update_type in ClaimUpdateType],
        )
    seen: set[str] = set()
    for index, name in enumerate(spec.claim_names):
        field = f"spec.volumeClaimTemplates[{index}].metadata.name"
        if not name:
            yield make_invalid_error(field, name, "a claim template must have a name")
        elif name in seen:
            yield make_duplicate_error(field, name)
        seen.add(name)


def _find_in_place_only_errors(
    doc: Mapping[str, Any], spec: StatefulSetSpec, old: Mapping[str, Any]
) -> Iterator[Cause]:
    """Yield an error if something other than images changes under InPlaceOnly, which never recreates pods."""
    if spec.policy != PodUpdatePolicy.IN_PLACE_ONLY:
        return
    operations = diff_specs(*(get_path(entry, "spec", "template") for entry in (old, doc)))
    others = [
        f"{operation['op']} {operation['path']}" for operation in operations if not _is_image(operation)
    ]
    if others:
        problem = f"only images may change in spec.template.spec under InPlaceOnly, not {', '.join(others)}"
        yield make_forbidden_error("spec.template.spec", problem)


def _is_image(operation: Mapping[str, Any]) -> bool:
    match operation["op"], operation["path"].split("/"):
        case "replace", ["", "spec", "containers", _, "image"]:
            return True
    return False


def find_stored_errors(spec: StatefulSetSpec) -> list[Cause]:
    """Find the errors of a stored spec, after adding defaults. Rules that only apply to new objects are not checked."""
    doc = to_document(spec)
    doc = add_defaults(doc, old=doc, settings=StatefulSetDefaultingSettings())
    read = msgspec.convert(doc["spec"], StatefulSetSpec)
    return [*_find_spec_errors(doc, read, old=doc), *_find_further_errors(read)]
