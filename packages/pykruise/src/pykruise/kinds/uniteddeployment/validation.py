"""Validation of a UnitedDeployment (v1beta1): all errors in one response, each with its field.

document [+ the stored one] ──▶ errors_of() ──▶ field errors        spec ──▶ warnings_of() ──▶ warnings

Pure. Rule numbers refer to the specification's tables. A workload that the API server would reject causes only a
warning. To find such a workload, the pod template of each subset is built with the subset's patch, in the same way as
by the controller, and is checked.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from pykruise.kinds.uniteddeployment.allocation import (
    UNBOUNDED,
    Mode,
    SubsetShare,
    has_bounds,
    resolve_amount,
)
from pykruise.kinds.uniteddeployment.defaults import add_defaults
from pykruise.kinds.uniteddeployment.snapshot import list_given_templates, read_spec
from pykruise.kinds.uniteddeployment.types import ADAPTIVE, MANUAL, Subset, UnitedDeploymentSpec
from pykruise.kinds.uniteddeployment.workload_documents import WantedWorkload, pod_template_of
from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    DEPLOYMENT,
    STATEFUL_SET,
    TEMPLATES,
)
from pykruise.kube.documents import Document, get_path, is_same, labels_of
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
from pykruise.kube.pod_rules.field_rules import (
    check_at_most_100_percent,
    check_int_or_percent,
    check_not_negative,
    read_int_or_percent,
)
from pykruise.kube.pod_rules.names import is_dns1123_label
from pykruise.kube.pod_rules.placement import check_node_term
from pykruise.kube.values.selectors import Selector, SelectorError, parse_selector
from pykruise.plans.stored_values import to_document
from pykruise.pods.template.metadata import find_single_pod_errors, patch_key_errors
from pykruise.pods.template.placement_validation import find_toleration_errors
from pykruise.pods.template.subset_placement import PlacementError
from pykruise.pods.template.validation import find_template_errors, list_unknown_field_warnings
from pykruise.pods.workload.options import (
    EVICTION_SURGE,
    NO_EVICTION_SURGE,
    NO_GANG,
    POD_REPLACEMENT_POLICY,
    REPLACE_NEVER_READY,
    ROLL_ON_CONFIG,
    SUCCESSOR_PLACEMENT,
    Option,
    find_option_errors,
)
from pykruise.pods.workload.revisions import drop_zero_values, reduce_claim_to_essence
from pykruise.pods.workload.selector_guard import encode_selector, is_guarded
from pykruise.pods.workload.validation import find_metadata_errors, find_selector_errors

SUBSETS: Final = "spec.topology.subsets"

MOST_TRIED: Final = 16
"""Maximum number of subsets whose template is checked, and of warnings in one response."""

_MUTABLE: Final[Mapping[str, tuple[str, ...]]] = {
    STATEFUL_SET: (
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "persistentVolumeClaimRetentionPolicy",
    ),
    ADVANCED_STATEFUL_SET: ("replicas", "template", "updateStrategy"),
}
"""Fields of a template's spec that an update may change; templates of other kinds may change without limits."""

_OPTIONS: Final[Mapping[str, tuple[Option[Any], ...]]] = {
    CLONE_SET: (POD_REPLACEMENT_POLICY, EVICTION_SURGE, SUCCESSOR_PLACEMENT, ROLL_ON_CONFIG, NO_GANG),
    ADVANCED_STATEFUL_SET: (REPLACE_NEVER_READY, NO_EVICTION_SURGE, ROLL_ON_CONFIG, NO_GANG),
}
"""Options that the annotations of each template can set for the workloads."""


def errors_of(
    doc: Mapping[str, Any], spec: UnitedDeploymentSpec, *, old: Mapping[str, Any] | None = None
) -> list[Cause]:
    """Find the field errors of a document whose spec was parsed as `spec`. `old`: the stored document on an update."""
    given: Mapping[str, Any] = doc.get("spec") or {}
    errors = list(find_metadata_errors(doc.get("metadata") or {}))  # rule 1
    if old is None:
        return [*errors, *_find_spec_errors(given, spec)]
    before: Mapping[str, Any] = old.get("spec") or {}
    if is_same(given, before):
        return errors
    stored, _ = read_spec({"selector": {}, **before})
    known = [] if stored is None else [stored]
    errors += drop_stored_errors(
        _find_spec_errors(given, spec),
        lambda: [error for item in known for error in _find_spec_errors(before, item)],
    )
    errors += (error for item in known for error in _find_update_errors(spec, item))
    if before.get("selector") and not is_guarded(get_path(old, "status", "conditions", default=())):
        errors += (error for item in known for error in _find_selector_change_errors(spec, item))
    return errors


def _find_spec_errors(given: Mapping[str, Any], spec: UnitedDeploymentSpec) -> list[Cause]:
    return [*_find_stopping_errors(given, spec), *_find_fixed_number_errors(spec)]


def _find_stopping_errors(given: Mapping[str, Any], spec: UnitedDeploymentSpec) -> list[Cause]:
    """Find errors of the spec. While a stored spec has one of them, the controller changes nothing."""
    errors = list(check_not_negative(spec.replicas, "spec.replicas"))  # rule 2
    errors += find_selector_errors({"selector": given.get("selector")}, kind="uniteddeployment")  # rule 3
    errors += _find_workload_template_errors(spec)  # rules 4 to 11
    errors += _find_allocation_errors(spec)  # rules 12 to 17
    errors += _find_subsets_errors(spec)  # rules 18 to 22
    errors += _find_strategy_errors(spec)  # rules 24 and 25
    errors += _find_key_errors(given)
    return errors


def _find_key_errors(spec: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield errors of labels and annotations that must not be in the template or in patches of subsets, because they
    describe a single pod.
    """
    for name in TEMPLATES:
        metadata = get_path(spec, "template", name, "spec", "template", "metadata")
        yield from find_single_pod_errors(metadata, f"spec.template.{name}.spec.template.metadata")
    for index, subset in enumerate(get_path(spec, "topology", "subsets") or ()):
        yield from patch_key_errors(get_path(subset, "patch"), f"{SUBSETS}[{index}].patch")


# ── the template ─────────────────────────────────────────────────────────


def _find_workload_template_errors(spec: UnitedDeploymentSpec) -> Iterator[Cause]:
    templates = list_given_templates(spec)
    if spec.mode is Mode.RESERVE and {STATEFUL_SET, ADVANCED_STATEFUL_SET} & set(templates):
        detail = "pods can only be kept in reserve with a CloneSet or a Deployment template"
        yield make_invalid_error("spec.topology.scheduleStrategy", _to_json(spec.schedule_strategy), detail)
    if not templates:
        yield make_required_error("spec.template", f"one of {', '.join(TEMPLATES)} must be set")
    elif len(templates) > 1:
        yield make_invalid_error("spec.template", [*templates], "only one of the templates can be set")
    selector = _parse_selector(spec)
    for name, template in templates.items():
        path = f"spec.template.{name}"
        metadata: Mapping[str, Any] = template.get("metadata") or {}
        yield from find_option_errors(
            metadata.get("annotations"), _OPTIONS.get(name, ()), metadata=f"{path}.metadata"
        )
        inner: Mapping[str, Any] = template["spec"]
        if name == CLONE_SET:
            continue
        yield from _find_match_errors(selector, template, f"{path}.metadata.labels")
        if inner.get("replicas") is not None:
            yield make_invalid_error(
                f"{path}.spec.replicas",
                inner["replicas"],
                "must not be set: spec.replicas of the UnitedDeployment is divided among the subsets",
            )
        yield from _find_template_strategy_errors(name, inner, f"{path}.spec")
        pod = inner.get("template") or {}
        yield from _find_match_errors(selector, pod, f"{path}.spec.template.metadata.labels")
        if name != ADVANCED_STATEFUL_SET:
            yield from _find_pod_errors(pod, f"{path}.spec.template.spec")


def _parse_selector(spec: UnitedDeploymentSpec) -> Selector | None:
    """Parse the selector; None: the selector is invalid, and another rule reports this."""
    try:
        return parse_selector(msgspec.to_builtins(spec.selector))
    except SelectorError:
        return None


def _find_match_errors(selector: Selector | None, holder: Mapping[str, Any], path: str) -> Iterator[Cause]:
    labels = labels_of(holder)
    if selector is not None and not selector.matches(labels):
        yield make_invalid_shown_error(
            path, format_go_string_map(labels), "`selector` does not match template `labels`"
        )


def _find_template_strategy_errors(name: str, spec: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Yield the errors of rules 8 and 9. A partition is an error only under an explicit type RollingUpdate, as in
    OpenKruise; for other fields, an absent field has the default of its kind.
    """
    if name == DEPLOYMENT:
        return
    strategy = spec.get("updateStrategy") or {}
    kind = strategy.get("type") or "RollingUpdate"
    block = strategy.get("rollingUpdate") or {}
    if strategy.get("type") == "RollingUpdate" and block.get("partition") is not None:
        detail = "must not be set: spec.updateStrategy.manualUpdate.partitions sets this partition"
        yield make_invalid_error(f"{path}.updateStrategy.rollingUpdate.partition", block["partition"], detail)
    if name != STATEFUL_SET:
        return
    if kind not in ("RollingUpdate", "OnDelete"):
        yield make_invalid_error(f"{path}.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif kind == "RollingUpdate":
        yield from _find_unavailable_errors(
            block.get("maxUnavailable"), f"{path}.updateStrategy.rollingUpdate.maxUnavailable"
        )
    elif strategy.get("rollingUpdate") is not None:
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        yield make_invalid_error(f"{path}.updateStrategy.rollingUpdate", block, detail)
    policy = spec.get("podManagementPolicy") or "OrderedReady"
    if policy not in ("OrderedReady", "Parallel"):
        yield make_invalid_error(
            f"{path}.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"
        )
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        if retention.get(field) not in (None, "", "Retain", "Delete"):
            where = f"{path}.persistentVolumeClaimRetentionPolicy.{field}"
            yield make_not_supported_error(where, retention[field], ["Retain", "Delete"])
    for field in ("minReadySeconds", "revisionHistoryLimit", "ordinals.start"):
        value = get_path(spec, *field.split("."))
        if isinstance(value, int):
            yield from check_not_negative(value, f"{path}.{field}")


def _find_unavailable_errors(value: Any, path: str) -> Iterator[Cause]:
    if not isinstance(value, (int, str)):
        return
    yield from check_int_or_percent(value, path)
    if read_int_or_percent(value) == 0:
        yield make_invalid_error(path, value, "cannot be 0")
    yield from check_at_most_100_percent(value, path)


def _find_pod_errors(template: Mapping[str, Any], path: str) -> Iterator[Cause]:
    pod = template.get("spec") or {}
    policy = pod.get("restartPolicy")
    if policy and policy != "Always":
        yield make_not_supported_error(f"{path}.restartPolicy", policy, ["Always"])
    if pod.get("activeDeadlineSeconds") is not None:
        yield make_forbidden_error(
            f"{path}.activeDeadlineSeconds", "pods of the workload must not have a deadline"
        )


# ── replicas of the subsets ──────────────────────────────────────────────


def _find_allocation_errors(spec: UnitedDeploymentSpec) -> Iterator[Cause]:
    subsets = spec.subsets
    problems = [
        cause for index, subset in enumerate(subsets) for cause in _find_size_errors(subset, index, spec)
    ]
    yield from problems
    bounded = has_bounds(
        SubsetShare(name="", min_replicas=subset.min_replicas, max_replicas=subset.max_replicas)
        for subset in subsets
    )
    if bounded and any(subset.replicas is not None for subset in subsets):
        yield _make_subsets_error(spec, "replicas cannot be used together with minReplicas or maxReplicas")
    elif not problems and bounded:
        yield from _find_bounds_errors(spec, subsets)
    elif not problems and subsets:
        yield from _find_replicas_errors(spec, subsets)


def _make_subsets_error(spec: UnitedDeploymentSpec, detail: str) -> Cause:
    return make_invalid_error(SUBSETS, [subset.name for subset in spec.subsets], detail)


def _find_size_errors(subset: Subset, index: int, spec: UnitedDeploymentSpec) -> Iterator[Cause]:
    errors: dict[str, int] = {}
    sizes = {
        "replicas": subset.replicas,
        "minReplicas": subset.min_replicas,
        "maxReplicas": subset.max_replicas,
    }
    for field, value in sizes.items():
        if value is None:
            continue
        try:
            errors[field] = resolve_amount(value, of=spec.replicas)
        except ValueError as error:
            yield make_invalid_error(f"{SUBSETS}[{index}].{field}", value, str(error))
    if errors.get("minReplicas", 0) > errors.get("maxReplicas", UNBOUNDED):
        detail = "must not be above maxReplicas"
        yield make_invalid_error(f"{SUBSETS}[{index}].minReplicas", subset.min_replicas, detail)


def _find_bounds_errors(spec: UnitedDeploymentSpec, subsets: Sequence[Subset]) -> Iterator[Cause]:
    """Yield errors of minimums and maximums. No rule is needed for minimums with a sum above the sum of all maximums:
    in this case one of the minimums is above its own maximum.
    """
    if spec.replicas is None:
        yield _make_subsets_error(spec, "minReplicas and maxReplicas need spec.replicas")
    elif all(subset.max_replicas is not None for subset in subsets):
        yield _make_subsets_error(spec, "at least one subset must not set maxReplicas")


def _find_replicas_errors(spec: UnitedDeploymentSpec, subsets: Sequence[Subset]) -> Iterator[Cause]:
    given = [subset.replicas for subset in subsets if subset.replicas is not None]
    if spec.replicas is None:
        if len(given) < len(subsets):
            yield _make_subsets_error(spec, "spec.replicas is not set, so each subset must have replicas")
        return
    total = sum(resolve_amount(item, of=spec.replicas) for item in given)
    if total > spec.replicas:
        yield _make_subsets_error(
            spec, f"the replicas of the subsets are {total} together, but spec.replicas is {spec.replicas}"
        )
    if len(given) == len(subsets) and total != spec.replicas:
        detail = f"the replicas of all subsets are {total} together, but spec.replicas is {spec.replicas}"
        yield _make_subsets_error(spec, detail)


# ── subsets ──────────────────────────────────────────────────────────────


def _find_subsets_errors(spec: UnitedDeploymentSpec) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, subset in enumerate(spec.subsets):
        path = f"{SUBSETS}[{index}]"
        if not subset.name:
            yield make_required_error(f"{path}.name")
        elif subset.name in seen:
            yield make_invalid_error(
                f"{path}.name", subset.name, "two subsets have this name; each subset needs its own name"
            )
        seen.add(subset.name)
        yield from (
            make_invalid_error(f"{path}.name", subset.name, problem)
            for problem in is_dns1123_label(subset.name)
        )
        if subset.node_selector_term is not None:
            term, place = _to_json(subset.node_selector_term), f"{path}.nodeSelectorTerm"
            yield from check_node_term(term, place, checks_values=False)  # as in OpenKruise
        if subset.tolerations:
            yield from find_toleration_errors(_to_json(subset.tolerations), f"{path}.tolerations")


def _find_fixed_number_errors(spec: UnitedDeploymentSpec) -> Iterator[Cause]:
    """Yield an error for the replicas of each subset with the Adaptive strategy (rule 23)."""
    if spec.schedule_strategy.type != ADAPTIVE:
        return
    for index, subset in enumerate(spec.subsets):
        if subset.replicas is not None:
            detail = "must not be set with the Adaptive strategy; set minReplicas and maxReplicas instead"
            yield make_forbidden_error(f"{SUBSETS}[{index}].replicas", detail)


def _find_strategy_errors(spec: UnitedDeploymentSpec) -> Iterator[Cause]:
    strategy = spec.update_strategy
    if strategy is None:
        return
    if strategy.type not in ("", MANUAL):
        yield make_not_supported_error("spec.updateStrategy.type", strategy.type, [MANUAL])
    names = {subset.name for subset in spec.subsets}
    partitions = (strategy.manual_update.partitions or {}) if strategy.manual_update is not None else {}
    for name in sorted(set(partitions) - names):
        field = "spec.updateStrategy.manualUpdate.partitions"
        yield make_invalid_error(field, name, "is not the name of a subset")


# ── updates ──────────────────────────────────────────────────────────────


def _find_selector_change_errors(spec: UnitedDeploymentSpec, stored: UnitedDeploymentSpec) -> Iterator[Cause]:
    """Yield an error if the selector changed: the controller would orphan all workloads and create them again. The
    selector can be corrected while the controller reports that it differs from that of the workloads.
    """
    new, old = (encode_selector(msgspec.to_builtins(item.selector)) for item in (spec, stored))
    if new != old:
        yield make_forbidden_error("spec.selector", "cannot be changed")


def _find_update_errors(spec: UnitedDeploymentSpec, stored: UnitedDeploymentSpec) -> Iterator[Cause]:
    templates, before = list_given_templates(spec), list_given_templates(stored)
    for name, mutable in _MUTABLE.items():
        if name in templates and name in before:
            yield from _find_immutable_errors(name, templates[name], before[name], mutable)
    known = {item.name: item for item in stored.subsets}
    for index, subset in enumerate(spec.subsets):
        was = known.get(subset.name)
        if was is None:
            continue
        for field, new, stayed in (
            ("nodeSelectorTerm", subset.node_selector_term, was.node_selector_term),
            ("tolerations", subset.tolerations, was.tolerations),
        ):
            if not is_same(
                drop_zero_values(_to_json(new)) or None, drop_zero_values(_to_json(stayed)) or None
            ):
                detail = "cannot be changed; remove the subset, and add a subset with another name"
                yield make_forbidden_error(f"{SUBSETS}[{index}].{field}", detail)


def _find_immutable_errors(
    name: str, new: Mapping[str, Any], old: Mapping[str, Any], mutable: Sequence[str]
) -> Iterator[Cause]:
    after, before = (_convert_to_meaning(entry["spec"]) for entry in (new, old))
    fields = {*after, *before} - {*mutable, "selector"}
    if any(not is_same(after.get(field), before.get(field)) for field in fields):
        allowed = ", ".join(f"'{field}'" for field in mutable)
        detail = f"updates to statefulset spec for fields other than {allowed} are forbidden"
        yield make_forbidden_error(f"spec.template.{name}.spec", detail)


def _convert_to_meaning(spec: Mapping[str, Any]) -> Document:
    """Return the spec without empty fields, with defaults, and with claims in one form, whichever client wrote it."""
    claims = [reduce_claim_to_essence(claim) for claim in spec.get("volumeClaimTemplates") or ()]
    said: Document = drop_zero_values({**spec, "volumeClaimTemplates": claims})
    return {"podManagementPolicy": "OrderedReady", **said}


# ── warnings ─────────────────────────────────────────────────────────────


def warnings_of(spec: UnitedDeploymentSpec) -> list[str]:
    """Warnings about specs that are admitted although no workload or no pod can be created from them. `spec` can have
    errors: an unchanged stored spec is not validated again.
    """
    templates = list_given_templates(spec)
    if len(templates) != 1:
        return []  # an unchanged stored spec, which is not validated again
    ((name, template),) = templates.items()
    path = f"spec.template.{name}.spec.template"
    inner: Mapping[str, Any] = template["spec"]
    pod = inner.get("template") or {}
    warnings = [*_find_doubts(pod, path, inner), *list_unknown_field_warnings(pod, path)]
    if warnings:
        return warnings[:MOST_TRIED]
    for index, subset in enumerate(spec.subsets[:MOST_TRIED]):
        where = f"{SUBSETS}[{index}].patch"
        wanted = _describe_workload(name, template, spec, subset)
        try:
            warnings += _find_doubts(pod_template_of(wanted), where, inner)
        except PlacementError as error:
            warnings.append(f"{where}: {error}")
    return warnings[:MOST_TRIED]


def _find_doubts(template: Mapping[str, Any], path: str, spec: Mapping[str, Any]) -> Iterator[str]:
    claims = [
        (template.get("metadata") or {}).get("name") for template in spec.get("volumeClaimTemplates") or ()
    ]
    own = {volume.get("name") for volume in (template.get("spec") or {}).get("volumes") or ()}
    further = [name for name in dict.fromkeys(claims) if name and name not in own]
    for error in find_template_errors(template, path, further_volumes=further):
        yield f"{error.field}: {error.message}"
    for error in _find_pod_errors(template, f"{path}.spec"):
        yield f"{error.field}: {error.message}"


def _describe_workload(
    name: str, template: Document, spec: UnitedDeploymentSpec, subset: Subset
) -> WantedWorkload:
    return WantedWorkload(
        template=name,
        metadata={},
        spec=template["spec"],
        selector=msgspec.to_builtins(spec.selector),
        subset=subset,
        revision="revision",
        replicas=0,
        partition=0,
    )


def _to_json(value: Any) -> Any:
    return orjson.loads(msgspec.json.encode(value))


def find_stored_errors(spec: UnitedDeploymentSpec) -> list[Cause]:
    """Find the errors of a stored spec, after adding defaults. A wrong sum of the subsets' replicas, which `kubectl
    scale` can cause, is not an error here: the allocation corrects or reports it. Replicas of subsets with the Adaptive
    strategy are not an error if the controller divides the pods by them.
    """
    doc = to_document(spec)
    doc = add_defaults(doc, old=doc)
    united_deployment_spec, _ = read_spec(doc["spec"])
    if united_deployment_spec is None:
        return []
    errors = list(check_not_negative(spec.revision_history_limit, "spec.revisionHistoryLimit"))
    errors += _find_stopping_errors(doc["spec"], united_deployment_spec)
    if spec.mode is not Mode.FIXED:
        errors += _find_fixed_number_errors(spec)
    return [error for error in errors if error.field != SUBSETS]
