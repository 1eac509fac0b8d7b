"""Validation of a SidecarSet (v1beta1): all errors together, each with its field.

document [+ the stored one] + SidecarSetFacts ──▶ errors_of() ──▶ field errors
    name and canary ▶ spec ▶ update strategy ▶ sidecars ▶ annotations of pods; without errors: ▶ conflicts

Pure. Section numbers are those of the specification. Unchanged errors of the stored object do not block other
changes.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.sidecarset.admission_facts import SidecarSetFacts
from pykruise.kinds.sidecarset.annotation_rules import find_annotation_errors, find_entry_errors
from pykruise.kinds.sidecarset.conflicts import find_conflict_errors
from pykruise.kinds.sidecarset.defaults import add_spec_defaults
from pykruise.kinds.sidecarset.hashes import is_native
from pykruise.kinds.sidecarset.revisions import find_revision
from pykruise.kinds.sidecarset.sidecar_rules import find_settings_errors, find_sidecar_errors
from pykruise.kinds.sidecarset.types import RevisionChoice, SidecarSetSpec, UpdateStrategy
from pykruise.kinds.sidecarset.view import CANARY_BASE, NOT_UPDATE, read_canary_base, read_spec
from pykruise.kube.documents import annotations_of, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import check_size
from pykruise.plans.stored_values import to_document
from pykruise.pods.lifecycle.ordering import MOST_WEIGHTS
from pykruise.pods.workload.options import ROLL_ON_POD_METADATA, UPDATED_PODS, Option, find_option_errors
from pykruise.pods.workload.validation import (
    find_amount_errors,
    find_label_selector_errors,
    find_metadata_errors,
    find_priority_errors,
    scatter_errors,
)

OPTIONS: Final[tuple[Option[Any], ...]] = (UPDATED_PODS, ROLL_ON_POD_METADATA)
"""Annotations of a SidecarSet that are options."""

STRATEGY: Final = "spec.updateStrategy"
WEIGHTS: Final = ("spec", "updateStrategy", "priorityStrategy", "weightPriority")
REVISION: Final = "spec.injectionStrategy.revision"
LONGEST_NAME: Final = 63
EMPTY: Final = "empty selector is not valid for sidecarset."
ROLLING_UPDATE: Final = "RollingUpdate"

_NAME: Final = re.compile(r"[a-zA-Z0-9\-]+", re.ASCII)


def errors_of(
    doc: Mapping[str, Any],
    spec: SidecarSetSpec,
    *,
    facts: SidecarSetFacts,
    old: Mapping[str, Any] | None = None,
) -> list[Cause]:
    """All field errors of a document whose spec was parsed as `spec`; `old` is the stored object of an update."""
    given: Mapping[str, Any] = doc.get("spec") or {}
    stored: Mapping[str, Any] | None = (old.get("spec") or {}) if old is not None else None
    metadata = doc.get("metadata") or {}
    name = metadata.get("name") or ""
    base = read_canary_base(annotations_of(doc))
    was = read_canary_base(annotations_of(old)) if old is not None else base
    named = annotations_of(old).get(CANARY_BASE, "") if old is not None else base
    errors = list(_find_name_errors(metadata))
    if is_same(given, stored) and base == was and _has_same_options(doc, old):
        return errors
    errors += _find_canary_errors(base, spec, facts, name=name, named=named)
    errors += _find_updated_pods_errors(doc, spec)
    errors += _find_spec_errors(given, spec, facts, name=name)
    errors += _find_strategy_errors(given, spec.update_strategy)
    errors += check_size(doc, old, *WEIGHTS, most=MOST_WEIGHTS)
    errors += find_sidecar_errors(given, stored=stored)
    errors += find_annotation_errors(doc, spec, facts)
    return errors or list(find_conflict_errors(given, spec, facts.others, name=name, base=base))


# 5.1 Metadata and canaries


def _find_name_errors(metadata: Mapping[str, Any]) -> Iterator[Cause]:
    yield from find_metadata_errors(metadata)
    name = metadata.get("name") or ""
    if name and not _NAME.fullmatch(name):
        yield make_invalid_error("metadata.name", name, "must consist of letters, digits and '-'")
    if len(name) > LONGEST_NAME:
        yield make_invalid_error("metadata.name", name, f"must be no more than {LONGEST_NAME} characters")


def _find_canary_errors(
    base: str, spec: SidecarSetSpec, facts: SidecarSetFacts, *, name: str, named: str
) -> Iterator[Cause]:
    """Errors of a canary. `named`: the base in the annotation of the stored object, also while that object is not a
    canary, so that a canary can be switched off and on again.
    """
    if not base:
        return
    if base == name:
        yield make_invalid_error("metadata", base, "base sidecarSet cannot be itself")
        return
    if named != base:
        yield make_invalid_error("metadata", base, "annotations[apps.kruise.io/sidecarset-base] is immutable")
    sidecar_set = next((item for item in facts.others if item.name == base), None)
    if sidecar_set is None:
        yield make_invalid_error("metadata", base, "base sidecarSet is not found")
    elif sidecar_set.base:
        yield make_invalid_error("metadata", base, "base sidecarSet cannot be canary")
    if spec.update_type != NOT_UPDATE:
        yield make_invalid_error("metadata", base, "RollingUpdate is not supported for canary sidecarSet")


# Options


def _has_same_options(doc: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
    names = [option.annotation for option in OPTIONS]
    was = annotations_of(old) if old is not None else {}
    return all(annotations_of(doc).get(name) == was.get(name) for name in names)


def _find_updated_pods_errors(doc: Mapping[str, Any], spec: SidecarSetSpec) -> Iterator[Cause]:
    """Yield the errors of options. The option updated-pods requires that new pods get an older revision: otherwise each
    new pod would increase the number of updated pods.
    """
    annotations = annotations_of(doc)
    yield from find_option_errors(annotations, OPTIONS)
    choice = spec.revision_choice
    if UPDATED_PODS.annotation in annotations and (choice is None or choice.policy not in ("", "Always")):
        detail = f"{UPDATED_PODS.annotation} requires this field with policy Always"
        yield make_required_error(REVISION, detail)


# 5.2 Spec


def _find_spec_errors(
    given: Mapping[str, Any], spec: SidecarSetSpec, facts: SidecarSetFacts, *, name: str
) -> Iterator[Cause]:
    yield from _find_shape_errors(given, spec)
    if spec.revision_choice is not None:
        yield from _find_revision_errors(spec.revision_choice, facts, sidecarset=name)


def _find_shape_errors(given: Mapping[str, Any], spec: SidecarSetSpec) -> Iterator[Cause]:
    """Errors of selectors, and errors that concern all sidecars together."""
    if spec.update_type == ROLLING_UPDATE:
        for container in spec.init_containers or ():
            if is_native(container):
                name = container.get("name")
                detail = f"init container {name} (restartPolicy Always) cannot be upgraded; use {NOT_UPDATE}"
                yield make_required_error(STRATEGY, detail)
    if given.get("selector") is None:
        yield make_required_error("spec.selector", "no selector defined for SidecarSet")
    else:
        yield from find_label_selector_errors(given["selector"], "spec.selector", empty=EMPTY)
    if given.get("namespaceSelector") is not None:
        yield from find_label_selector_errors(
            given["namespaceSelector"], "spec.namespaceSelector", empty=EMPTY
        )
    if not spec.containers and not spec.init_containers:
        yield make_required_error("spec", "at least one container or init container is required")


def _find_revision_errors(
    choice: RevisionChoice, facts: SidecarSetFacts, *, sidecarset: str
) -> Iterator[Cause]:
    yield from _find_choice_errors(choice)
    if not choice.names_revision:
        return
    if find_revision(choice, facts.revisions, sidecarset=sidecarset) is None:
        wanted = choice.revision_name or choice.custom_version
        yield make_invalid_error(REVISION, wanted, "Cannot find specific ControllerRevision")


def _find_choice_errors(choice: RevisionChoice | None) -> Iterator[Cause]:
    """Errors of injectionStrategy.revision that do not depend on the existing revisions."""
    if choice is None:
        return
    if choice.policy not in ("", "Always", "Partial"):
        yield make_not_supported_error(f"{REVISION}.policy", choice.policy, ("Always", "Partial"))
    if not choice.names_revision:
        yield make_invalid_error(
            REVISION, "", "revisionName and customVersion cannot be empty simultaneously"
        )


# 5.3 Update strategy


def _find_strategy_errors(given: Mapping[str, Any], strategy: UpdateStrategy | None) -> Iterator[Cause]:
    if strategy is None or strategy.type != ROLLING_UPDATE:
        return
    if strategy.selector is not None:
        if strategy.partition not in (None, 0):
            yield make_invalid_error(
                STRATEGY, strategy.partition, "selector and partition cannot be used together"
            )
        selector = given["updateStrategy"]["selector"]
        yield from find_label_selector_errors(selector, f"{STRATEGY}.selector", empty=EMPTY)
    yield from find_amount_errors(strategy.partition, f"{STRATEGY}.partition")
    yield from find_amount_errors(strategy.max_unavailable, f"{STRATEGY}.maxUnavailable")
    yield from find_priority_errors(strategy.priority_strategy, f"{STRATEGY}.priorityStrategy")
    yield from scatter_errors(strategy.scatter_strategy or (), f"{STRATEGY}.scatterStrategy")


def find_stored_errors(spec: SidecarSetSpec) -> list[Cause]:
    """Errors of a stored spec, without comparing it to other objects. Containers are not checked: the API server
    validates them in each pod.
    """
    given = add_spec_defaults(to_document(spec)["spec"])
    read, _ = read_spec(given)
    if read is None:
        return []
    return [
        *_find_shape_errors(given, read),
        *_find_choice_errors(read.revision_choice),
        *_find_strategy_errors(given, read.update_strategy),
        *find_settings_errors(given),
        *find_entry_errors(read),
    ]
