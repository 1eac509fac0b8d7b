"""Mutations of ContainerRecreateRequests; see mutations.py."""

from collections.abc import Callable
from typing import Any

import msgspec

from pykruise.agent.rules import recreations
from pykruise.agent.simulated import recreate_agents
from pykruise.kinds.containerrecreaterequest import admission, plan, view
from pykruise.kinds.containerrecreaterequest.kind import KIND
from pykruise.kinds.containerrecreaterequest.view import RequestTurn, RequestView
from pykruise.runtime.named_objects import Named
from pykruise.runtime.plan import Plan
from simulation.mutating import Change, always, trusts_the_cache

__all__ = ["CONTAINERRECREATEREQUEST"]

replace = msgspec.structs.replace


def _as_absent(_original: Any) -> property:
    """A property that is always None."""
    return property(lambda _self: None)


def _without_times(message: str) -> Change:
    """Nothing is due for this reason."""

    def changed(original: Any) -> Any:
        return lambda snapshot: ((said, left) for said, left in original(snapshot) if said != message)

    return plan, "_list_times_left", changed


def _never_ends(message: str) -> Change:
    def changed(original: Any) -> Any:
        return lambda snapshot, said: Plan() if said == message else original(snapshot, said)

    return plan, "_plan_end", changed


def _with_spec(**fields: Any) -> Change:
    """The manager's plans as if requests had this spec."""

    def changed(original: Any) -> Any:
        def planned(snapshot: Any) -> Any:
            request = snapshot.request
            spec = request.spec and replace(request.spec, **fields)
            return original(replace(snapshot, request=replace(request, spec=spec)))

        return planned

    return KIND.control, "plan", changed


def _any_pod_of_the_name(_original: Any) -> Any:
    async def look_up(read: Any, views: Any, names: Any) -> Named[Any]:
        result = {uid: replace(pod, uid=uid) for key, uid in names if (pod := read.get(views, key))}
        return Named(views=result, is_behind=False)

    return look_up


def _turns_with(change: Callable[[dict[str, Any]], None]) -> Change:
    """The agent's steps as if requests had these values."""

    def changed(original: Any) -> Any:
        def advance(request: Any, containers: Any, now: float) -> Any:
            strategy = dict(request["spec"].get("strategy") or {})
            change(strategy)
            return original({**request, "spec": {**request["spec"], "strategy": strategy}}, containers, now)

        return advance

    return recreate_agents, "advance", changed


def _of_phase(places: dict[str, int]) -> Change:
    def changed(_original: Any) -> Any:
        def order(request: Any) -> tuple[int, str]:
            phase = (request.get("status") or {}).get("phase", "")
            return places.get(phase, 1), request["metadata"]["creationTimestamp"]

        return order

    return recreate_agents, "order_of", changed


def _let_go_by_all(original: Any) -> Any:
    def without(pod: Any, message: Any, *, now: float) -> Any:
        result = original(pod, message, now=now)
        return [{**item, "status": "True", "message": "[]"} for item in result]

    return without


def _forgetful(_original: Any) -> Any:
    def look(_self: Any, request: Any, others: Any, _now: float) -> float:
        return float("inf") if any(item.is_carried_out for item in others) else request.created_at

    return look


def _deaf_to(kind_: str) -> Change:
    def changed(original: Any) -> Any:
        return lambda settings: [wake for wake in original(settings) if wake.on.resource.kind != kind_]

    return KIND.control, "wakes", changed


def _without_context(original: Any) -> Any:
    return lambda target, container, status: {
        **original(target, container, status),
        "statusContext": {"containerID": status["containerID"], "restartCount": 0},
    }


CONTAINERRECREATEREQUEST: dict[str, tuple[Change, ...]] = {
    "ContainerRecreateRequest: the agent has one second to start": (
        (plan, "RESPONSE_S", lambda _original: 1.0),
    ),
    "ContainerRecreateRequest: an agent that does not answer never times out": (
        _without_times(plan.RequestEnding.NO_RESPONSE),
    ),
    "ContainerRecreateRequest: the deadline is ignored": (_without_times(plan.RequestEnding.TOO_LATE),),
    "ContainerRecreateRequest: the time to live is ignored": (_with_spec(ttl_seconds_after_finished=None),),
    "ContainerRecreateRequest: a request that waits for another one times out": (
        (RequestTurn, "look", lambda _original: lambda _self, request, _others, _now: request.created_at),
    ),
    "ContainerRecreateRequest: the end of a deleted earlier request is not remembered": (
        (RequestTurn, "look", _forgetful),
    ),
    "ContainerRecreateRequest: a request for a deleted pod never ends": (
        _never_ends(plan.RequestEnding.POD_GONE),
    ),
    "ContainerRecreateRequest: another pod with the same name is accepted": (
        (view, "look_up", _any_pod_of_the_name),
    ),
    "ContainerRecreateRequest: a pod that is not in the cache yet counts as deleted": (trusts_the_cache,),
    "ContainerRecreateRequest: pods are not taken out of service": ((plan, "add_message", always([])),),
    "ContainerRecreateRequest: each reconcile restarts the grace period": (
        (RequestView, "grace_condition", _as_absent),
    ),
    "ContainerRecreateRequest: the agent ignores the grace period": (
        (recreate_agents, "compute_grace_left_s", always(0.0)),
    ),
    "ContainerRecreateRequest: pods are not returned to service": ((plan, "remove_message", always([])),),
    "ContainerRecreateRequest: a late write may keep a pod out of service": (
        (plan, "update_probe_time", always([])),
    ),
    "ContainerRecreateRequest: one request ends the holds of all others": (
        (plan, "remove_message", _let_go_by_all),
    ),
    "ContainerRecreateRequest: an ended request keeps its label for the agent": (
        (plan, "ACTIVE_LABEL", lambda _original: "none"),
    ),
    "ContainerRecreateRequest: container runs from before the request are reported": (
        (plan, "_is_new", always(True)),
    ),
    "ContainerRecreateRequest: a pod enqueues no request": (_deaf_to("Pod"),),
    "ContainerRecreateRequest: the order of containers is ignored": (
        _turns_with(lambda strategy: strategy.update(orderedRecreate=False)),
    ),
    "ContainerRecreateRequest: forceRecreate is ignored": (
        _turns_with(lambda strategy: strategy.update(forceRecreate=False)),
    ),
    "ContainerRecreateRequest: forceRecreate is always on": (
        _turns_with(lambda strategy: strategy.update(forceRecreate=True)),
    ),
    "ContainerRecreateRequest: minStartedSeconds is ignored": (
        _turns_with(lambda strategy: strategy.update(minStartedSeconds=0)),
    ),
    "ContainerRecreateRequest: a container need not be ready": ((recreations, "_is_ready", always(True)),),
    "ContainerRecreateRequest: a request starts before the running one ends": (
        _of_phase({"": 0, "Pending": 0, "Recreating": 1}),
    ),
    "ContainerRecreateRequest: changes of the spec are accepted": (
        (admission, "_check_immutable_fields", always(None)),
    ),
    "ContainerRecreateRequest: admission does not record earlier restarts": (
        (admission, "_with_context", _without_context),
    ),
}
