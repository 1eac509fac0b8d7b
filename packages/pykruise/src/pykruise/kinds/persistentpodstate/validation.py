"""Validation of a PersistentPodState.

typed spec, other PersistentPodStates of the namespace ──▶ errors_of() ──▶ all field errors

Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from pykruise.kinds.persistentpodstate.types import PersistentPodStateSpec
from pykruise.kinds.persistentpodstate.view import StateView
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    drop_stored_errors,
    make_forbidden_error,
    make_invalid_error,
    make_not_supported_error,
)
from pykruise.kube.pod_rules.field_rules import check_segment
from pykruise.kube.pod_rules.names import is_qualified_name, is_valid_label_key
from pykruise.kube.values.group_kinds import group_kind

POLICIES: Final = ("WhenScaled", "WhenDeleted")

_TARGET: Final = "spec.targetRef"
_MOST_WEIGHT: Final = 100


def errors_of(
    spec: PersistentPodStateSpec,
    *,
    name: str,
    others: Iterable[StateView] = (),
    is_supported: bool = True,
    old: PersistentPodStateSpec | None = None,
) -> list[Cause]:
    """Return all field errors. `others`: other PersistentPodStates of the namespace. `is_supported`: whether pods of
    the workload's kind can be recorded. `old`: the stored spec on an update; errors that it also has are ignored.
    """
    causes = [*_find_target_errors(spec, is_supported=is_supported)]
    if spec.required_persistent_topology is None and not spec.preferred_persistent_topology:
        text = "requiredPersistentTopology or preferredPersistentTopology must name labels of nodes"
        causes.append(make_invalid_error("spec", "", text))
    stored = partial(_find_key_errors, old) if old is not None else tuple
    causes += drop_stored_errors([*_find_key_errors(spec)], stored)
    if old is not None and old.target_ref != spec.target_ref:
        causes.append(make_forbidden_error(_TARGET, "it cannot be changed"))
    return [*causes, *_find_duplicate_errors(spec, name, others)]


def _find_target_errors(spec: PersistentPodStateSpec, *, is_supported: bool) -> Iterator[Cause]:
    ref = spec.target_ref
    if not (ref.api_version and ref.kind and ref.name):
        yield make_invalid_error(_TARGET, "", "apiVersion, kind and name must not be empty")
    yield from check_segment(ref.name, f"{_TARGET}.name")
    if not is_supported:
        detail = "only pods of StatefulSets, and of kinds on the white list, can be recorded"
        yield make_invalid_error(_TARGET, f"{ref.api_version} {ref.kind}", detail)


def _find_key_errors(spec: PersistentPodStateSpec) -> Iterator[Cause]:
    if spec.required_persistent_topology is not None:
        yield from _find_label_errors(
            "spec.requiredPersistentTopology.keys", spec.required_persistent_topology.keys
        )
    for index, term in enumerate(spec.preferred_persistent_topology or ()):
        path = f"spec.preferredPersistentTopology[{index}]"
        if not is_valid_weight(term.weight):
            yield make_invalid_error(f"{path}.weight", term.weight, "must be in the range 1-100")
        yield from _find_label_errors(f"{path}.preference.keys", term.preference.keys)
    for index, annotation in enumerate(spec.persistent_pod_annotations or ()):
        for problem in is_qualified_name(annotation.key.lower()):
            yield make_invalid_error(f"spec.persistentPodAnnotations[{index}].key", annotation.key, problem)
    policy = spec.persistent_pod_state_retention_policy
    if policy and policy not in POLICIES:
        yield make_not_supported_error("spec.persistentPodStateRetentionPolicy", policy, POLICIES)


def is_valid_weight(weight: int) -> bool:
    """Whether the API server accepts pods that have a preferred term of node affinity with this weight."""
    return 1 <= weight <= _MOST_WEIGHT


def _find_label_errors(path: str, keys: Sequence[str]) -> Iterator[Cause]:
    if not keys:
        yield make_invalid_error(path, "", "must name at least one label")
    for index, key in enumerate(keys):
        for problem in is_valid_label_key(key):
            yield make_invalid_error(f"{path}[{index}]", key, problem)


def _find_duplicate_errors(
    spec: PersistentPodStateSpec, name: str, others: Iterable[StateView]
) -> Iterator[Cause]:
    """Yield an error if another PersistentPodState has the same workload. Users could not know which of them
    applies.
    """
    target = (group_kind(spec.target_ref.api_version, spec.target_ref.kind), spec.target_ref.name)
    for other in sorted(others, key=lambda state: state.name):
        if other.name != name and other.target == target:
            text = f"PersistentPodState {other.name} names the same workload"
            yield make_invalid_error(_TARGET, spec.target_ref.name, text)
            return


def find_stored_errors(spec: PersistentPodStateSpec) -> list[Cause]:
    """Return the errors of a stored spec that do not depend on other objects."""
    return errors_of(spec, name="stored")
