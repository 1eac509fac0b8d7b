"""Mutations: the product is broken on purpose, and the simulation must detect each mutation.

    make simulate-mutations               at most 500 seeds for each; exit code 1 if one is not detected
    python -m simulation.mutations --only "tombstones are ignored"

Mutation ──▶ applied ──▶ seeds, until a rule is broken ──▶ reverted
"""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from pykruise.kinds.cloneset import (
    claims,
    limits,
    plan,
    scale,
    status,
    successor_placement,
    update,
    working_set,
)
from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kinds.cloneset.types import CloneSetSpec
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.kinds.daemonset import nodes_left_out as daemon_left_out
from pykruise.kinds.daemonset import snapshot as daemon_snapshot
from pykruise.kinds.daemonset import working_set as daemon_working_set
from pykruise.kinds.daemonset.placement import RUNS, DaemonSetPlacement
from pykruise.kinds.daemonset.types import DaemonSetSpec
from pykruise.kinds.statefulset import never_ready as set_never_ready
from pykruise.kinds.statefulset import plan as set_plan
from pykruise.kinds.statefulset import scale as set_scale
from pykruise.kinds.statefulset import update as set_update
from pykruise.kinds.statefulset import working_set as set_working_set
from pykruise.kinds.statefulset.building import StatefulSetRevisionChoice
from pykruise.kinds.statefulset.types import StatefulSetSpec
from pykruise.kube.cache import cache, reflector
from pykruise.kube.election import takeover as hand_over
from pykruise.kube.errors import KubeError
from pykruise.kube.values.int_or_percent import Rounding
from pykruise.plans import in_place, nodes_out_of_service, phases, pod_writes
from pykruise.pods.in_place import NotInPlace
from pykruise.pods.view import decoding
from pykruise.pods.workload.ordinals import Reserved
from pykruise.runtime import execute, reconcile, shared_keys
from simulation.kinds import generate
from simulation.mutating import Change, always, mutated
from simulation.mutations_beside import PODUNAVAILABLEBUDGET, SIDECARSET, WORKLOADSPREAD
from simulation.mutations_config import ROLLONCONFIG
from simulation.mutations_copies import RESOURCEDISTRIBUTION
from simulation.mutations_groups import PODGROUPJOBS, PODGROUPS, PODGROUPSETS
from simulation.mutations_images import IMAGELISTPULLJOB, IMAGEPULLJOB
from simulation.mutations_jobs import ADVANCEDCRONJOB, BROADCASTJOB, EPHEMERALJOB
from simulation.mutations_probes import PODPROBEMARKER
from simulation.mutations_recreations import CONTAINERRECREATEREQUEST
from simulation.mutations_states import PERSISTENTPODSTATE
from simulation.mutations_united import UNITEDDEPLOYMENT
from simulation.script import FOUND, from_json
from simulation.world import run

__all__ = ["EVERYTHING", "MUTATIONS", "caught_by", "mutated"]

replace = msgspec.structs.replace
MOST_SEEDS = 500


def _numbers(change: Callable[[limits.Numbers], limits.Numbers]) -> Change:
    def changed(original: Any) -> Any:
        return lambda *args, **kwargs: change(original(*args, **kwargs))

    return working_set, "numbers_of", changed


def _limits(**changes: Callable[[limits.CloneSetLimits], int]) -> Change:
    def changed(original: Any) -> Any:
        def limits_of(spec: CloneSetSpec) -> Any:
            limits, problems = original(spec)
            return replace(limits, **{name: make(limits) for name, make in changes.items()}), problems

        return limits_of

    return plan, "limits_of", changed


def _never(_original: Any) -> Any:
    return lambda *_args, **_kwargs: None


def _as_property(value: Any) -> Callable[[Any], Any]:
    return lambda _original: property(lambda _self: value)


def _round(rounding: Rounding) -> Callable[[Any], Any]:
    return lambda original: (
        lambda value, *, of, rounding=rounding, _r=rounding: original(value, of=of, rounding=_r)
    )


def _write_once(_original: Any) -> Any:
    """A lost response counts as a failure, and the next plan begins without knowing the result."""

    async def write(self: Any, action: Any, *, priority: int) -> None:
        try:
            await self._write_once(action, priority, uncertain=False)
        except execute._UnknownFateError as unknown:
            raise unknown.error from None

    return write


def _swapped_victims(original: Any) -> Any:
    def victims(ws: CloneSetWorkingSet, numbers: limits.Numbers) -> Any:
        return original(
            ws, replace(numbers, remove_old=numbers.remove - min(numbers.remove, numbers.remove_old))
        )

    return victims


def _unspecified(mark: limits.Mark) -> limits.Mark:
    return limits.MARKS[mark.is_new, mark.is_pre_deleting, False, mark.is_available, mark.is_ready]


def _without_look(_original: Any) -> Any:
    async def look(*_args: Any, **_kwargs: Any) -> None:
        return None

    return look


def _terminating_is_ignored(original: Any) -> Any:
    return lambda snapshot: original(
        replace(snapshot, cloneset=replace(snapshot.cloneset, is_deleting=False))
    )


def _response_ignored(_original: Any) -> Any:
    """The cache ignores the response to a write; only the watch counts."""
    return lambda *_args, **_kwargs: None


def _of_any_version(original: Any) -> Any:
    return lambda *given, **named: original(*given, **{**named, "unchanged": False})


def _refreshed_too_early(original: Any) -> Any:
    def go_on(pod: Any, **given: Any) -> Any:
        result = original(pod, **given)
        return replace(result, is_complete=True) if result.waits and not result.steps else result

    return go_on


def _gone_is_ignored(original: Any) -> Any:
    return lambda error: False if isinstance(error, KubeError) else original(error)


MUTATIONS: dict[str, tuple[Change, ...]] = {
    "the cache does not record own writes": ((cache.Cache, "observe_written", _response_ignored),),
    "maxUnavailable is always rounded up": ((limits, "resolve", _round(Rounding.UP)),),
    "percentages are always rounded down": ((limits, "resolve", _round(Rounding.DOWN)),),
    "the partition is one less": (_limits(partition=lambda limits: max(limits.partition - 1, 0)),),
    "the partition is ignored when pods are created": (
        _numbers(lambda numbers: replace(numbers, create_old=0)),
    ),
    "an update may take one additional pod": (
        _numbers(lambda numbers: replace(numbers, update_budget=numbers.update_budget + 1)),
    ),
    "a deletion may take one additional available pod": (
        _numbers(lambda numbers: replace(numbers, ready_budget=numbers.ready_budget + 1)),
    ),
    "one pod too many is created": (
        _numbers(
            lambda numbers: (
                replace(numbers, create=numbers.create + 1, create_now=numbers.create_now + 1)
                if numbers.create_now
                else numbers
            )
        ),
    ),
    "terminating pods take up no place": ((working_set, "find_occupying", always(None)),),
    "a pod that has a successor gets another one near its node": (
        (successor_placement, "list_replaced", always(frozenset())),
    ),
    "surge continues while the update is paused": (_limits(max_surge=lambda limits: limits.max_surge or 1),),
    "writes have no preconditions": (
        (execute, "_with_preconditions", lambda _original: lambda action: action.body),
        (pod_writes, "patch_object", _of_any_version),
        (pod_writes, "delete_object", _of_any_version),
    ),
    "a pod that is not ready is deleted without a precondition": (
        (pod_writes, "delete_object", _of_any_version),
    ),
    "paused is ignored": ((CloneSetSpec, "is_paused", _as_property(False)),),
    "OnDelete is ignored": ((CloneSetSpec, "is_on_delete", _as_property(False)),),
    "the preDelete hook is ignored": ((phases, "is_hooked", always(False)),),
    "the inPlaceUpdate hook is ignored": ((in_place, "is_hooked", always(False)),),
    "a terminating CloneSet is still reconciled": ((CLONE_SET.control, "plan", _terminating_is_ignored),),
    "scaleStrategy.maxUnavailable is ignored": (_limits(scale_max_unavailable=lambda _limits: 10**6),),
    "minReadySeconds is ignored": (
        (
            working_set,
            "marks_of",
            lambda original: lambda pods, **given: original(pods, **{**given, "min_ready_seconds": 0}),
        ),
    ),
    "surplus pods of the wrong revision are deleted": ((scale, "_select_victims", _swapped_victims),),
    "a lost answer counts as a failure": ((execute.Executor, "_write", _write_once),),
    "a conflict is not followed by a read": ((execute.Executor, "_look", _without_look),),
    "pods that can be updated in place are recreated": (
        (in_place.Differences, "compare_revision", always(NotInPlace("on purpose"))),
    ),
    "an update in place counts as complete immediately": ((in_place, "find_progress", _refreshed_too_early),),
    "tombstones are ignored": ((cache.Cache, "observe_deleted", _response_ignored),),
    "the existence of the owner is not checked": ((reconcile, "MADE_LATELY_S", lambda _original: 0.0),),
    # An announced claim is deleted later, even if it is forgotten here: both have to be missing.
    "claims stay when their pod is deleted": (
        (claims.ClaimPlan, "with_claims", lambda _original: lambda _claims, deletion: deletion),
    ),
    "claims are not created with their pods": ((claims, "build_claim_documents", always([])),),
    "claims without a pod are kept": (
        (claims, "_clean_up_unused", always(())),
        (claims, "_finish_deletions", always(())),
    ),
    "pods specified for deletion are kept": (
        (
            working_set,
            "marks_of",
            lambda original: lambda pods, **given: [_unspecified(mark) for mark in original(pods, **given)],
        ),
    ),
    "the watch continues after a 410": ((reflector, "_needs_list", _gone_is_ignored),),
    "the history deletes revisions that pods still have": (
        (
            plan,
            "truncate_history",
            lambda original: lambda own, *, live, limit: original(own, live=set(list(live)[:1]), limit=0),
        ),
    ),
    "the status counts old pods as updated": (
        (
            status,
            "build_counters",
            lambda original: lambda marks: {**(c := original(marks)), "updated_replicas": c["replicas"]},
        ),
    ),
    "a rollout ends while pods have the old revision": (
        (status, "_choose_current_revision", lambda _original: lambda ws, _counted: ws.update.name),
    ),
    "updates include pods that already wait for deletion": (
        (update, "_select_within_budget", lambda _original: lambda ws, wanted, numbers, target: wanted),
    ),
}


def _daemon_limits(**changes: Callable[[Any], int]) -> Change:
    def changed(original: Any) -> Any:
        def limits_of(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            return replace(result, **{name: make(result) for name, make in changes.items()})

        return limits_of

    return daemon_working_set, "limits_of", changed


DAEMONSET: dict[str, tuple[Change, ...]] = {
    "DaemonSet: paused is ignored": ((DaemonSetSpec, "is_paused", _as_property(False)),),
    "DaemonSet: OnDelete is ignored": ((DaemonSetSpec, "is_on_delete", _as_property(False)),),
    "DaemonSet: one additional node may be without its pod": (
        _daemon_limits(max_unavailable=lambda value: value.max_unavailable + 1),
    ),
    "DaemonSet: the partition is one less": (
        _daemon_limits(partition=lambda value: max(value.partition - 1, 0)),
    ),
    "DaemonSet: taints are ignored": ((DaemonSetPlacement, "_fit_by_taints", always(RUNS)),),
    "DaemonSet: the node selector is ignored": (
        (
            daemon_snapshot,
            "placement_of",
            lambda original: lambda template: replace(original(template), node_selector={}),
        ),
    ),
    "DaemonSet: the preDelete hook is ignored": ((phases, "is_hooked", always(False)),),
    "DaemonSet: pods count as available immediately": (
        (daemon_working_set.DaemonSetWorkingSet, "is_available", always(True)),
    ),
    "DaemonSet: one node more than the option allows is left out": (
        (
            nodes_out_of_service,
            "resolve",
            lambda original: lambda *args, **kwargs: original(*args, **kwargs) + 1,
        ),
    ),
    "DaemonSet: nodes in service are left out": (
        (daemon_left_out, "explain_unavailable_node", always("is not ready")),
    ),
    "DaemonSet: strict-max-unavailable is ignored": (
        (daemon_working_set.DaemonSetWorkingSet, "is_strict", _as_property(False)),
    ),
    "DaemonSet: the cache does not record own writes": ((cache.Cache, "observe_written", _response_ignored),),
}


def _set_limits(**changes: Callable[[Any], Any]) -> Change:
    def changed(original: Any) -> Any:
        def limits_of(spec: StatefulSetSpec) -> Any:
            limits, problems = original(spec)
            return replace(limits, **{name: make(limits) for name, make in changes.items()}), problems

        return limits_of

    return set_plan, "limits_of", changed


STATEFULSET: dict[str, tuple[Change, ...]] = {
    "StatefulSet: paused is ignored": ((StatefulSetSpec, "is_paused", _as_property(False)),),
    "StatefulSet: OnDelete is ignored": ((StatefulSetSpec, "is_on_delete", _as_property(False)),),
    "StatefulSet: the partition is one less": (
        _set_limits(partition=lambda limits: max(limits.partition - 1, 0)),
    ),
    "StatefulSet: one additional pod may be unavailable": (
        _set_limits(max_unavailable=lambda limits: limits.max_unavailable + 1),
    ),
    "StatefulSet: nodes in service are left out": (
        (nodes_out_of_service, "_explain_node", always("is not ready")),
    ),
    "StatefulSet: one node more than the option allows is left out": (
        (
            nodes_out_of_service,
            "resolve",
            lambda original: lambda *args, **kwargs: original(*args, **kwargs) + 1,
        ),
    ),
    "StatefulSet: scaleStrategy.maxUnavailable is ignored": (
        _set_limits(scale_max_unavailable=lambda _limits: None),
    ),
    "StatefulSet: minReadySeconds is ignored": (_set_limits(min_ready_seconds=lambda _limits: 0),),
    "StatefulSet: ordered pods are created all at the same time": (
        (
            set_scale,
            "_plan_ordered_scale",
            lambda _original: lambda ws, _never_ready: set_scale._plan_parallel_scale(ws),
        ),
    ),
    "StatefulSet: reserved ordinals are used": ((set_working_set, "reserved_of", always(Reserved())),),
    "StatefulSet: lost pods are recreated with the new revision": (
        (StatefulSetRevisionChoice, "choose_revision", lambda _original: lambda self, _slot: self._ws.update),
    ),
    "StatefulSet: the lowest ordinal is updated first": (
        (set_update, "list_candidates", lambda original: lambda ws: list(reversed(original(ws)))),
    ),
    "StatefulSet: claims are not created with their pods": ((set_scale, "plan_claims", always(((), ""))),),
    "StatefulSet: claims are not deleted when scaling down deletes their pods": (
        (set_scale, "plan_owners", always(())),
    ),
    "StatefulSet: the preDelete hook is ignored": ((phases, "is_hooked", always(False)),),
    "StatefulSet: pods that were ready once are replaced as never ready": (
        (decoding, "_is_never_ready", always(True)),
    ),
    "StatefulSet: pods that have never been ready are replaced at once": (
        (set_never_ready, "REPLACE_NEVER_READY", lambda original: replace(original, parse=lambda _text: 0)),
    ),
    "StatefulSet: a refused write is never retried": (
        (reconcile, "OPTIONAL_AGAIN_S", lambda _original: None),
    ),
}


async def _at_once(_self: Any, cache: Any, seen: Any) -> None:
    await cache.wait_synced()
    seen.set()


async def _not_at_all(_self: Any, _is_mine: Any) -> None:
    """Nothing is enqueued."""


HANDOVER: dict[str, tuple[Change, ...]] = {
    "Hand-over: a new leader does not wait for the writes of the previous one": (
        (hand_over.HandOver, "_catch_up", lambda _original: _at_once),
    ),
}


SLOTS: dict[str, tuple[Change, ...]] = {
    "Slots: a member does not wait for the writes of the slot's former member": (
        (hand_over.HandOver, "_catch_up", lambda _original: _at_once),
    ),
    "Slots: two managers compute different slots for a key": (
        (shared_keys.SharedKeys, "slot_of", lambda _original: lambda keys, name, key: (id(keys) >> 4) % 16),
    ),
    "Slots: keys are not enqueued when a manager takes their slot": (
        (shared_keys.KindKeys, "enqueue_all", lambda _original: _not_at_all),
    ),
}


EVERYTHING: Mapping[str, tuple[Change, ...]] = {
    **MUTATIONS,
    **HANDOVER,
    **SLOTS,
    **DAEMONSET,
    **STATEFULSET,
    **WORKLOADSPREAD,
    **PODUNAVAILABLEBUDGET,
    **SIDECARSET,
    **BROADCASTJOB,
    **ADVANCEDCRONJOB,
    **UNITEDDEPLOYMENT,
    **RESOURCEDISTRIBUTION,
    **EPHEMERALJOB,
    **IMAGEPULLJOB,
    **IMAGELISTPULLJOB,
    **PERSISTENTPODSTATE,
    **CONTAINERRECREATEREQUEST,
    **PODPROBEMARKER,
    **ROLLONCONFIG,
    **PODGROUPS,
    **PODGROUPSETS,
    **PODGROUPJOBS,
}


UNSEEN = frozenset(
    {
        "writes have no preconditions",
        "a pod that is not ready is deleted without a precondition",
        "tombstones are ignored",
        "the existence of the owner is not checked",
        "a lost answer counts as a failure",
        "the watch continues after a 410",
        "claims stay when their pod is deleted",
        "an update in place counts as complete immediately",
    }
)
"""Mutations that matter only while the manager does not know the current state: scripts of generate_blind.py detect
them."""


def generator_of(name: str) -> str:
    """Name of the generator whose scripts must detect the mutation."""
    by_kind: Mapping[str, Collection[str]] = {
        "handover": HANDOVER,
        "slots": SLOTS,
        "daemonset": DAEMONSET,
        "statefulset": STATEFULSET,
        "workloadspread": WORKLOADSPREAD,
        "podunavailablebudget": PODUNAVAILABLEBUDGET,
        "sidecarset": SIDECARSET,
        "broadcastjob": BROADCASTJOB,
        "advancedcronjob": ADVANCEDCRONJOB,
        "uniteddeployment": UNITEDDEPLOYMENT,
        "resourcedistribution": RESOURCEDISTRIBUTION,
        "ephemeraljob": EPHEMERALJOB,
        "imagepulljob": IMAGEPULLJOB,
        "imagelistpulljob": IMAGELISTPULLJOB,
        "persistentpodstate": PERSISTENTPODSTATE,
        "containerrecreaterequest": CONTAINERRECREATEREQUEST,
        "podprobemarker": PODPROBEMARKER,
        "rollonconfig": ROLLONCONFIG,
        "podgroups": PODGROUPS,
        "podgroupjobs": PODGROUPJOBS,
        "podgroupsets": PODGROUPSETS,
        "blind": UNSEEN,
    }
    return next((generator for generator, names in by_kind.items() if name in names), "cloneset")


def caught_by(
    changes: tuple[Change, ...], *, generator: str = "cloneset", most_seeds: int = MOST_SEEDS
) -> tuple[str, str] | None:
    """The first failing script (a seed, or a script of `found/`), and the broken rule; None: no rule detects it.

    Raises an error if the code of the mutation does not run, because then no rule has detected it.
    """
    scripts = chain(
        ((str(seed), generate(seed, generator)) for seed in range(most_seeds)),
        ((path.stem, from_json(path.read_bytes())) for path in FOUND),
    )
    with mutated(changes):
        for name, script in scripts:
            outcome = run(script)
            if outcome.violations:
                return name, outcome.rule
    return None


def main() -> int:
    """0: every mutation is caught."""
    parser = argparse.ArgumentParser(prog="simulation.mutations", description=__doc__)
    parser.add_argument("--only", default="", help="mutations with this text in their names")
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    names = [name for name in EVERYTHING if arguments.only in name]
    survivors = 0
    with ProcessPoolExecutor(arguments.processes) as pool:
        for name, result in zip(
            names, pool.map(partial(_hunt, most_seeds=arguments.seeds), names), strict=True
        ):
            survivors += result is None
            generator = generator_of(name)
            said = f"`{result[1]}` | {generator} {result[0]} |" if result else f"SURVIVES | {generator} |"
            print(f"| {name} | {said}", flush=True)
    return 1 if survivors else 0


def _hunt(name: str, *, most_seeds: int) -> tuple[str, str] | None:
    logging.disable(logging.CRITICAL)
    return caught_by(EVERYTHING[name], generator=generator_of(name), most_seeds=most_seeds)


if __name__ == "__main__":
    sys.exit(main())
