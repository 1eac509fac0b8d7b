"""Situations in which OpenKruise waits forever, or loses a write: pykruise without its fix, and the broken rule.

Pitfall.changes ──▶ mutated() ──▶ explore(Pitfall.scope) ──▶ a rule that is broken, or a state without a way to rest

The specifications name these situations; each world is the smallest in which the situation can occur.
"""

from copy import deepcopy
from typing import Any

import msgspec

from exploration.scopes import TEMPLATE, Object, scopes, workload
from exploration.world import Scope
from pykruise.kinds.cloneset import refresh as clone_refresh
from pykruise.kinds.cloneset import scale as clone_scale
from pykruise.kinds.statefulset import refresh as set_refresh
from pykruise.kinds.statefulset import scale as set_scale
from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.kinds.workloadspread.kind import KIND as WORKLOAD_SPREAD
from pykruise.kube.cache import cache
from pykruise.plans.phases import DecidedStage, PlanPhase, decide_deletion
from pykruise.plans.purposes import Purpose
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.runtime.reasons import Reason
from simulation.mutating import Change, always
from simulation.script import Operation, Script

__all__ = ["PITFALLS", "Pitfall"]


class Pitfall(msgspec.Struct, frozen=True):
    """A situation. `source`: its place in the specifications."""

    name: str
    source: str
    changes: tuple[Change, ...]
    scope: Scope
    seed: int = 1
    """The seed of `explore()` that finds the situation soon. If no seed does, the scope has a `lead`."""


def _one_after_the_other_waits(_original: Any) -> Any:
    """Plan like the original: a pod that waits for its hook is no progress, so the next one is deleted, too."""

    def surplus_in_order(ws: StatefulSetWorkingSet) -> Any:
        unhealthy = [pod.name for pod in ws.surplus if not ws.is_healthy(pod)]
        for pod in ws.surplus:
            if pod.is_deleting or (not ws.is_available(pod) and pod.name != unhealthy[-1]):
                break
            decision = decide_deletion(pod, hook=ws.spec.hooks.pre_delete, now=ws.now, because="surplus")
            if not isinstance(decision, Reason):
                return DecidedStage(purpose=Purpose.DELETE_SURPLUS_PODS, decisions=[decision]), {}
        return None, {}

    return surplus_in_order


def _stays_prepared(original: Any) -> Any:
    def next_state(pod: Any, *args: Any, **given: Any) -> Any:
        result = original(pod, *args, **given)
        return None if pod.state == LifecycleState.PREPARING_UPDATE else result

    return next_state


def _only_when_nothing_is_missing(original: Any) -> Any:
    return lambda ws, numbers: PlanPhase() if numbers.create > 0 else original(ws, numbers)


def _unheard(_original: Any) -> Any:
    return lambda *_args, **_kwargs: None


def _hooked(
    kind: str, pods: int, hook: str, *, begin: Operation, operations: tuple[Operation, ...] = (), **spec: Any
) -> Scope:
    template: Object = {**TEMPLATE, "metadata": {"labels": {"app": "web", "hook": "on"}}}
    lifecycle = {hook: {"labelsHandler": {"hook": "on"}, "markPodNotReady": True}}
    rolling = {"podUpdatePolicy": "InPlaceIfPossible"}
    if kind == "StatefulSet":
        template["spec"] = {**template["spec"], "readinessGates": [{"conditionType": "InPlaceUpdateReady"}]}
    document = workload(kind, pods, rolling, template=template, lifecycle=lifecycle, **spec)
    script = Script(seed=1, kind=kind.lower(), object=document, nodes=1)
    return Scope(name=f"{kind} with {hook}", script=script, begin=begin, operations=operations, lag=1)


def _image(tag: int) -> Operation:
    return Operation(0.0, "image", {"tag": tag})


def _scaled(replicas: int) -> Operation:
    return Operation(0.0, "scale", {"replicas": replicas})


def _plain(
    kind: str,
    name: str = "",
    *,
    pods: int,
    lag: int,
    operations: tuple[Operation, ...] = (),
    lead: tuple[str, ...] = (),
) -> Scope:
    """A small world in which nothing else happens."""
    scope = next(scope for scope in scopes(kind, pods=pods) if name in scope.name)
    return msgspec.structs.replace(
        scope, name=f"{kind} {name}", operations=operations, faults=(), hand_overs=0, lag=lag, lead=lead
    )


def _status_under_way() -> Scope:
    """A world in which a scale-up creates pods while a computed status is not written yet.

    Steps of nodes, and later events for the controller, happen only after these pods are created.
    """
    scope = scopes("workloadspread", pods=2)[0]
    script = deepcopy(scope.script)
    script.object["spec"]["replicas"] = 1
    for subset, most in zip(script.beside["spec"]["subsets"], (2, 4), strict=True):
        subset["maxReplicas"] = most
    last = ("node ", "event ADDED pods", "event MODIFIED pods", "write PATCH pods")
    heard = ("event MODIFIED workloadspreads", "reconcile workloadspread")
    scaling = ("a person: scale", *2 * ("event MODIFIED clonesets",), "reconcile cloneset")
    return msgspec.structs.replace(
        scope,
        name="WorkloadSpread, its status under way",
        script=script,
        begin=Operation(0.0, "subset", {"number": 1, "most": 5}),
        operations=(_scaled(3),),
        faults=(),
        hand_overs=0,
        lag=9,
        lead=("a person: subset", *heard, *scaling),
        last=(*last, *heard),
        deepest=15,
        moment_s=0.1,
    )


PITFALLS = (
    Pitfall(
        "in order, two pods wait for each other on their way out",
        "statefulset.md LIFT-18, lifecycle.md 9.1.7",
        ((set_scale, "_delete_surplus_in_order", _one_after_the_other_waits),),
        _hooked("StatefulSet", 2, "preDelete", begin=_scaled(0)),
        seed=6,
    ),
    Pitfall(
        "in order, a pod that prepares for its update is what its update waits for",
        "statefulset.md LIFT-25",
        ((set_scale, "_TAKEN_OUT", lambda _original: ()),),
        _hooked("StatefulSet", 1, "inPlaceUpdate", begin=_image(2)),
    ),
    Pitfall(
        "a pod that prepares for its deletion and is wanted again stays out of service",
        "statefulset.md LIFT-13",
        ((set_refresh, "_is_wanted_again", always(False)),),
        _hooked("StatefulSet", 1, "preDelete", begin=_scaled(0), operations=(_scaled(1),)),
        seed=11,
    ),
    Pitfall(
        "a pod that prepares for an update that is rolled back stays prepared",
        "lifecycle.md 9.1.2, cloneset.md 9.1.8",
        ((clone_refresh, "find_next_state", _stays_prepared),),
        _hooked("CloneSet", 1, "inPlaceUpdate", begin=_image(2), operations=(_image(1),)),
    ),
    Pitfall(
        "a pod that prepares for its deletion holds back the creation that it waits for",
        "lifecycle.md 9.1.9",
        ((clone_scale, "_delete", _only_when_nothing_is_missing),),
        _hooked(
            "CloneSet",
            1,
            "preDelete",
            begin=Operation(0.0, "mark", {"pod": 0}),
            operations=(_scaled(2),),
            scaleStrategy={"maxUnavailable": 1},
        ),
        seed=13,
    ),
    Pitfall(
        "what a controller has written itself, it does not know until its watch says so",
        "cloneset.md 9.1.17",
        ((cache.Cache, "observe_written", _unheard),),
        _plain(
            "cloneset",
            "scaled",
            pods=1,
            lag=3,
            operations=(Operation(0.0, "annotate", {"value": 1}),),
            lead=(
                *("a person: scale", "a person: annotate", *2 * ("event MODIFIED clonesets",)),
                *("reconcile cloneset", "write POST pods", "reconcile cloneset", "event ADDED pods"),
                "write POST pods",
            ),
        ),
    ),
    Pitfall(
        "the status of a WorkloadSpread is written over what admission wrote",
        "workloadspread.md",
        ((WORKLOAD_SPREAD.control, "is_status_shared", lambda _original: False),),
        _status_under_way(),
        seed=2,
    ),
)
