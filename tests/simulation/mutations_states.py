"""Mutations of PersistentPodStates; see mutations.py."""

from collections.abc import Callable
from typing import Any

import msgspec

from pykruise.kinds.persistentpodstate import injection, plan
from pykruise.kinds.persistentpodstate.kind import KIND
from pykruise.kinds.persistentpodstate.view import StateView
from pykruise.pods.workload.ordinals import Reserved
from pykruise.runtime.plan import Plan
from simulation.mutating import Change, always

__all__ = ["PERSISTENTPODSTATE"]

replace = msgspec.structs.replace


def _only_active(_original: Any) -> Any:
    def kept(records: Any, _workload: Any, *, active: Any, **_given: Any) -> Any:
        return {name: record for name, record in records.items() if name in active}, []

    return kept


def _none_reserved(original: Any) -> Any:
    return lambda records, workload, **given: original(
        records, replace(workload, reserved=Reserved()), **given
    )


def _without_workload(original: Any) -> Any:
    def plan_state(snapshot: Any) -> Any:
        workload, is_there = snapshot.workload, bool(snapshot.state.uid)
        is_gone = is_there and (workload is None or workload.is_deleting)
        return Plan() if is_gone else original(snapshot)

    return plan_state


def _stays_if(is_kept: Callable[[Any, Any], bool]) -> Change:
    """The old record of a pod is kept if `is_kept` returns true for the old and the new record."""

    def changed(original: Any) -> Any:
        def recorded(state: Any, *args: Any) -> Any:
            result, unknown = original(state, *args)
            stay = {name: record for name, record in state.records.items() if is_kept(record, result[name])}
            return {**result, **stay}, unknown

        return recorded

    return plan, "record_pods", changed


def _never_goes(original: Any) -> Any:
    def generation(snapshot: Any) -> Any:
        steps, notes, goes = original(snapshot)
        return ([] if goes else steps), notes, False

    return generation


def _deaf_to(kind: str) -> Change:
    def changed(original: Any) -> Any:
        return lambda settings: [wake for wake in original(settings) if wake.on.resource.kind != kind]

    return KIND.control, "wakes", changed


PERSISTENTPODSTATE: dict[str, tuple[Change, ...]] = {
    "PersistentPodState: records are deleted with their pods": ((plan, "keep_records", _only_active),),
    "PersistentPodState: records of unwanted pods are kept": (
        (plan, "keep_records", lambda _original: lambda records, *_args, **_given: (records, [])),
    ),
    "PersistentPodState: reserved ordinals are ignored": ((plan, "keep_records", _none_reserved),),
    "PersistentPodState: WhenDeleted is ignored": ((plan, "WHEN_DELETED", lambda _original: "never"),),
    "PersistentPodState: records outlive their workload": ((KIND.control, "plan", _without_workload),),
    "PersistentPodState: records are never updated": (_stays_if(lambda _old, _new: True),),
    "PersistentPodState: changed keys and annotations are not recorded": (
        _stays_if(lambda old, new: bool(old.node_name == new.node_name)),
    ),
    "PersistentPodState: changed labels of the node are not recorded": (
        _stays_if(
            lambda old, new: (
                old.node_name == new.node_name
                and set(old.node_topology_labels or ()) == set(new.node_topology_labels or ())
                and (old.annotations or {}) == (new.annotations or {})
            )
        ),
    ),
    "PersistentPodState: pods are recorded on nodes without labels": (
        (StateView, "node_keys", lambda _original: property(lambda _self: frozenset())),
    ),
    "PersistentPodState: required labels are not injected": (
        (StateView, "required_keys", lambda _original: property(lambda _self: ())),
    ),
    "PersistentPodState: preferred labels are not injected": (
        (injection, "_build_preferred_terms", always([])),
    ),
    "PersistentPodState: a generated object does not follow its annotations": (
        (plan, "_plan_changes", always([])),
    ),
    "PersistentPodState: a generated object is not deleted without its annotation": (
        (plan, "_plan_generation", _never_goes),
    ),
    "PersistentPodState: a pod enqueues no object": (_deaf_to("Pod"),),
    "PersistentPodState: a node enqueues no object": (_deaf_to("Node"),),
    "PersistentPodState: a StatefulSet enqueues no object": (_deaf_to("StatefulSet"),),
}
