"""Mutations of ResourceDistributions; see mutations.py."""

from collections.abc import Callable
from typing import Any

import msgspec

from pykruise.kinds.resourcedistribution import plan, snapshot, status, targets, view, wakes
from pykruise.kinds.resourcedistribution.kind import KIND
from pykruise.kinds.resourcedistribution.view import DistributionView
from simulation.mutating import Change, always

__all__ = ["RESOURCEDISTRIBUTION"]

replace = msgspec.structs.replace


def _with_fields(**fields: Any) -> Callable[[Any], Any]:
    """The targets are computed as if the distribution had these fields."""
    return lambda original: lambda distribution, others: original(replace(distribution, **fields), others)


async def _as_wanted(distribution: Any, read: Any, known: Any) -> dict[str, str]:
    """Nothing is read: each copy is assumed to be correct."""
    known.read = {
        copy.namespace: replace(copy, content=distribution.content)
        for copy in snapshot._list_copies_by_name(distribution, read)
        if distribution.owns(copy.controller)
    }
    return {}


def _without_preconditions(original: Any) -> Any:
    def write(namespace: Any, distribution: Any, copy: Any) -> Any:
        step = original(namespace, distribution, copy)
        return step if copy is None else replace(step, action=replace(step.action, resource_version=""))

    return write


def _labels_replaced(original: Any) -> Any:
    def update(distribution: Any, copy: Any) -> Any:
        patch = original(distribution, copy)
        labels = {"$patch": "replace", **(patch["metadata"].get("labels") or {})}
        return {**patch, "metadata": {**patch["metadata"], "labels": labels}}

    return update


def _as_written(original: Any) -> Any:
    """stringData is compared with the data that is stored."""
    return lambda kind, document: original(
        kind, {key: value for key, value in document.items() if key != "stringData"}
    )


def _held_by_any(original: Any) -> Any:
    """An earlier behaviour: the last failure counts, for any type of write."""

    def is_held(name: Any, condition: Any, world: Any, verdicts: Any) -> Any:
        failed = world.failed.get(name)
        return original(name, condition if failed is None else failed.condition, world, verdicts)

    return is_held


def _deaf_to_namespaces(original: Any) -> Any:
    return lambda settings: [wake for wake in original(settings) if wake.on.resource.kind != "Namespace"]


RESOURCEDISTRIBUTION: dict[str, tuple[Change, ...]] = {
    "ResourceDistribution: excludedNamespaces is ignored": (
        (plan, "list_target_names", _with_fields(excluded=frozenset())),
    ),
    "ResourceDistribution: includedNamespaces is ignored": (
        (plan, "list_target_names", _with_fields(included=frozenset())),
    ),
    "ResourceDistribution: system namespaces get copies": (
        (targets, "NEVER", lambda _original: frozenset()),
    ),
    "ResourceDistribution: objects of other owners are overwritten": (
        (DistributionView, "owns", always(True)),
    ),
    "ResourceDistribution: unwanted copies are not deleted": ((plan, "_clean_up", always(None)),),
    "ResourceDistribution: the content of copies is not read": (
        (snapshot, "_read_unknown", lambda _original: _as_wanted),
    ),
    "ResourceDistribution: copies are written without a precondition": (
        (plan, "_write", _without_preconditions),
    ),
    "ResourceDistribution: labels of users are removed": ((plan, "_build_copy_patch", _labels_replaced),),
    "ResourceDistribution: stringData is ignored in the comparison": ((view, "content_of", _as_written),),
    "ResourceDistribution: a copy enqueues no distribution": ((wakes, "_find_keys_of_copy", always(())),),
    "ResourceDistribution: a namespace enqueues no distribution": (
        (KIND.control, "wakes", _deaf_to_namespaces),
    ),
    "ResourceDistribution: changed labels of a namespace enqueue no distribution": (
        (wakes, "_is_target_as", always(True)),
    ),
    "ResourceDistribution: a failed write is not retried": (
        (snapshot, "FIRST_RETRY_S", lambda _original: 1e9),
        (snapshot, "LAST_RETRY_S", lambda _original: 1e9),
    ),
    "ResourceDistribution: any failure delays every write": ((plan, "_is_held", _held_by_any),),
    "ResourceDistribution: a new manager drops recorded failures": ((plan, "_keep_failure", always(None)),),
    "ResourceDistribution: a status is merged into a later one": (
        (KIND.control, "is_status_shared", lambda _original: False),
    ),
    "ResourceDistribution: failures are not counted": (
        (
            plan,
            "status_of",
            lambda original: lambda *args, **given: original(*args, **{**given, "failed": ()}),
        ),
    ),
    "ResourceDistribution: each status has new times": (
        (
            status,
            "_build_condition",
            lambda original: lambda type_, failed, _stored, now: original(type_, failed, None, now),
        ),
    ),
}
