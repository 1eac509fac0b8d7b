"""Workload of a subset, and the changes of an existing workload.

template + subset + revision ──▶ WantedWorkload ──▶ document_of() ──▶ a workload to create
                                                ──▶ change_of()   ──▶ a merge patch of an existing one, or None

Pure. If a workload has the desired revision and patch, only replicas, partition and maxUnavailable are compared. Fields
that API servers and webhooks write are therefore not changed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
import orjson

from pykruise.kinds.uniteddeployment.types import Subset
from pykruise.kinds.uniteddeployment.workloads import (
    ADVANCED_STATEFUL_SET,
    CLONE_SET,
    DEFAULT_UNAVAILABLE,
    DEPLOYMENT,
    PATCH_ANNOTATION,
    REVISION_LABEL,
    STATEFUL_SET,
    SUBSET_LABEL,
    TEMPLATES,
    SubsetWorkload,
)
from pykruise.kube.documents import Document, get_path, is_same
from pykruise.kube.patches.merge import diff_merge
from pykruise.kube.pod_rules.names import is_dns1123_subdomain
from pykruise.kube.values.go_text import encode_go_json
from pykruise.kube.values.hashing import hash_fnv32, hash_text
from pykruise.kube.values.int_or_percent import Rounding, resolve
from pykruise.pods.template.metadata import drop_single_pod_keys
from pykruise.pods.template.subset_placement import apply_patch, require_nodes
from pykruise.pods.workload.derived_names import HASH

_SUFFIX: Final = 5
_LONGEST_PREFIX: Final = 253 - _SUFFIX

_ROLLING: Final = ("", "RollingUpdate")
_OF_KRUISE: Final = (CLONE_SET, ADVANCED_STATEFUL_SET)


class WantedWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """Desired state of one workload."""

    template: str
    """Field of `spec.template`."""
    metadata: Mapping[str, Any]
    """`metadata` of the template."""
    spec: Mapping[str, Any]
    """`spec` of the template."""
    selector: Mapping[str, Any]
    """`spec.selector` of the UnitedDeployment."""
    subset: Subset
    revision: str
    replicas: int
    partition: int
    max_unavailable: int | None = None
    """Raised maxUnavailable, so that reserved pods do not block an update; None: it is not raised."""
    restores_max_unavailable: bool = False
    """Whether maxUnavailable must be restored after it was raised for reserved pods."""


# ── names ────────────────────────────────────────────────────────────────


def name_prefix(united: str, subset: str) -> str:
    """Prefix of the name of the subset's workload, shortened in the same way as API servers shorten generateName."""
    prefix = f"{united}-{subset}-"
    return f"{united}-" if is_dns1123_subdomain(f"{prefix[:-1]}a") else prefix


def format_workload_name(united: str, subset: str, *, uid: str, attempt: int = 0) -> str:
    """Name of the subset's workload. It is the same for the same UnitedDeployment, so the workload is not created
    twice.
    """
    # The hashed text begins with the attempt, because the last characters of a text hardly change the first characters
    # of its hash.
    suffix = hash_text(hash_fnv32(f"{attempt}/{uid}/{subset}".encode()))[:_SUFFIX]
    return f"{name_prefix(united, subset)[:_LONGEST_PREFIX]}{suffix}"


def list_subset_revisions(doc: Mapping[str, Any]) -> Iterator[str]:
    """Names of the revisions of the subsets' workloads. Pods have these names as labels, except pods of a Deployment:
    their label is only a hash.
    """
    templates = get_path(doc, "spec", "template", default={})
    if DEPLOYMENT in templates:
        return
    for subset in get_path(doc, "spec", "topology", "subsets", default=()):
        yield f"{name_prefix(doc['metadata']['name'], subset.get('name') or '')}{_SUFFIX * 'x'}{HASH}"


# ── desired state ────────────────────────────────────────────────────────


def document_of(
    wanted: WantedWorkload, *, name: str, namespace: str, united: str, owner: Document
) -> Document:
    """Build the workload to create. Raises PlacementError when its subset's patch cannot be applied."""
    resource = TEMPLATES[wanted.template]
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "generateName": name_prefix(united, wanted.subset.name),
            "name": name,
            "namespace": namespace,
            "labels": _build_labels(wanted),
            "annotations": _build_annotations(wanted),
            "ownerReferences": [owner],
        },
        "spec": _build_spec(wanted),
    }


def pod_template_of(wanted: WantedWorkload) -> Document:
    """Build the pod template of the subset. Raises PlacementError when its patch cannot be applied. Templates of Kruise
    kinds are copied without keys about a single pod, because admission rejects them.
    """
    subset = wanted.subset
    template: Mapping[str, Any] = wanted.spec.get("template") or {}
    if wanted.template in _OF_KRUISE:
        template = drop_single_pod_keys(template)
    metadata: Mapping[str, Any] = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), SUBSET_LABEL: subset.name, REVISION_LABEL: wanted.revision}
    spec: Document = dict(template.get("spec") or {})
    if subset.tolerations:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *_to_json(subset.tolerations)]
    term: Document = _to_json(subset.node_selector_term) if subset.node_selector_term is not None else {}
    if term.get("matchExpressions") or term.get("matchFields"):
        spec["affinity"] = require_nodes(spec.get("affinity") or {}, term, field="nodeSelectorTerm")
    result: Document = {**template, "metadata": {**metadata, "labels": labels}, "spec": spec}
    return apply_patch(result, subset.patch) if subset.patch is not None else result


def _build_labels(wanted: WantedWorkload) -> Document:
    return {
        **(wanted.metadata.get("labels") or {}),
        **(wanted.selector.get("matchLabels") or {}),
        REVISION_LABEL: wanted.revision,
        SUBSET_LABEL: wanted.subset.name,
    }


def _build_annotations(wanted: WantedWorkload) -> Document:
    patch = wanted.subset.patch
    text = "" if patch is None else encode_go_json(patch, sort_keys=True)
    return {**(wanted.metadata.get("annotations") or {}), PATCH_ANNOTATION: text}


def _build_spec(wanted: WantedWorkload) -> Document:
    matched = {**(wanted.selector.get("matchLabels") or {}), SUBSET_LABEL: wanted.subset.name}
    spec: Document = {
        **wanted.spec,
        "selector": {**wanted.selector, "matchLabels": matched},
        "replicas": wanted.replicas,
        "template": pod_template_of(wanted),
    }
    strategy = _build_strategy(wanted)
    if strategy is not None:
        spec[_choose_strategy_field(wanted.template)] = strategy
    return spec


def _build_strategy(wanted: WantedWorkload) -> Document | None:
    """Return the update strategy with the partition; None: neither the template nor the partition
    requires a strategy.
    """
    field = _choose_strategy_field(wanted.template)
    strategy: Document = dict(wanted.spec.get(field) or {})
    block: Document = dict(strategy.get("rollingUpdate") or {})
    is_rolling = strategy.get("type", "") in _ROLLING
    if wanted.template == CLONE_SET or (wanted.template != DEPLOYMENT and is_rolling):
        block["partition"] = wanted.partition
    if wanted.template == STATEFUL_SET and is_rolling:
        strategy["type"] = "RollingUpdate"
    if wanted.max_unavailable is not None and is_rolling:
        block["maxUnavailable"] = wanted.max_unavailable
        if wanted.template == DEPLOYMENT:
            strategy["type"] = "RollingUpdate"
    if block:
        strategy["rollingUpdate"] = block
    return strategy or None


# ── changes ──────────────────────────────────────────────────────────────


def change_of(workload: SubsetWorkload, wanted: WantedWorkload) -> Document | None:
    """Return a merge patch that brings the workload to its desired state; None: nothing differs. Raises PlacementError.

    When the revision or the subset's patch differs, the merge patch is computed from the whole spec. Otherwise it
    contains only replicas, partition and maxUnavailable.
    """
    is_applied = workload.revision == wanted.revision and _has_patch(workload, wanted.subset.patch)
    if is_applied:
        return _build_changed_numbers(workload, wanted)
    labels, annotations = _build_labels(wanted), _build_annotations(wanted)
    old = {
        "metadata": {"labels": dict(workload.labels), "annotations": dict(workload.annotations)},
        "spec": workload.spec,
    }
    new = {
        "metadata": {
            "labels": {**workload.labels, **labels},
            "annotations": {**workload.annotations, **annotations},
        },
        "spec": _build_spec(wanted),
    }
    return diff_merge(old, new)


def replicas_change_of(workload: SubsetWorkload, replicas: int) -> Document | None:
    """Return a patch that changes only the replicas, for a workload whose template cannot be applied; None: the
    workload already has these replicas.
    """
    return None if workload.replicas == replicas else {"spec": {"replicas": replicas}}


def _has_patch(workload: SubsetWorkload, patch: Any) -> bool:
    stored = workload.annotations.get(PATCH_ANNOTATION, "")
    if not stored or patch is None:
        return not stored and patch is None
    try:
        return is_same(orjson.loads(stored), patch)
    except orjson.JSONDecodeError:
        return False


def _build_changed_numbers(workload: SubsetWorkload, wanted: WantedWorkload) -> Document | None:
    spec: Document = {}
    if workload.replicas != wanted.replicas:
        spec["replicas"] = wanted.replicas
    block: Document = {}
    partition = _compute_partition(workload)
    if partition is not None and partition != wanted.partition:
        block["partition"] = wanted.partition
    stored, kept = _read_max_unavailable(workload.template, workload.spec)
    default = DEFAULT_UNAVAILABLE[workload.template]
    if kept and wanted.max_unavailable is not None and stored != wanted.max_unavailable:
        block["maxUnavailable"] = wanted.max_unavailable
    elif kept and wanted.max_unavailable is None and wanted.restores_max_unavailable:
        given, _ = _read_max_unavailable(workload.template, wanted.spec)
        if stored not in (given, default if given is None else given):
            block["maxUnavailable"] = given
    if block:
        spec[_choose_strategy_field(workload.template)] = {"rollingUpdate": block}
    return {"spec": spec} if spec else None


def _choose_strategy_field(template: str) -> str:
    return "strategy" if template == DEPLOYMENT else "updateStrategy"


def is_on_delete(workload: SubsetWorkload) -> bool:
    """Whether the workload updates its pods only when they are deleted."""
    return bool((workload.spec.get("updateStrategy") or {}).get("type") == "OnDelete")


def _compute_partition(workload: SubsetWorkload) -> int | None:
    """Return the partition; None: the workload's kind or strategy has no partition."""
    if workload.template == DEPLOYMENT or (workload.template != CLONE_SET and is_on_delete(workload)):
        return None
    block = (workload.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    try:
        return resolve(block.get("partition") or 0, of=workload.replicas, rounding=Rounding.UP)
    except ValueError:
        return -1


def _read_max_unavailable(template: str, spec: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return maxUnavailable, and whether the strategy is a rolling update, which uses it."""
    strategy = spec.get(_choose_strategy_field(template)) or {}
    block = strategy.get("rollingUpdate") or {}
    return block.get("maxUnavailable"), strategy.get("type", "") in _ROLLING


def _to_json(value: Any) -> Any:
    return orjson.loads(msgspec.json.encode(value))
