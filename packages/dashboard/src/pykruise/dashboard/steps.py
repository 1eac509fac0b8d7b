"""Steps of an OpenKruise Rollout, on its own page and on the page of its workload.

Rollout ──▶ is_about(), build_steps_part() (pure) ──▶ the part `steps`
"""

from typing import Any, Final

import msgspec

from pykruise.dashboard.objects import ROLLOUTS, list_watched_resources
from pykruise.dashboard.workload import MOST_WORDS, PagePart
from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import Resource

MOST_STEPS: Final = 50
_STRATEGIES: Final = (("canary", "canaryStatus"), ("blueGreen", "blueGreenStatus"))


class RolloutStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of the Rollout's spec."""

    number: int
    traffic: str = ""
    """Share of the requests that are sent to new pods."""
    replicas: str = ""
    """Number or percentage of new pods."""
    has_matches: bool = False
    """Whether only requests that match the step's `matches` reach the new pods."""
    pause_s: int = 0
    """Seconds of the pause after the step."""
    waits_for_approval: bool = False
    """Whether a person must approve the next step."""


def is_about(rollout: Document, resource: Resource, name: str) -> bool:
    """Whether the workload of that name in the Rollout's namespace is the Rollout's target."""
    return _find_target(rollout) == (resource.group, resource.kind, name)


def _find_target(rollout: Document) -> tuple[str, str, str]:
    """Return group, kind and name of the Rollout's target; empty if it names no target."""
    spec = rollout.get("spec") or {}
    ref = spec.get("workloadRef") or get_path(dict(spec), "objectRef", "workloadRef") or {}
    group = str(ref.get("apiVersion") or "").rpartition("/")[0]
    return group, str(ref.get("kind") or ""), str(ref.get("name") or "")


def _build_workload_link(rollout: Document) -> Document:
    """Return the values from which the page builds a link to the target. `resource` is empty if the dashboard does not
    show the target's kind.
    """
    group, kind, name = _find_target(rollout)
    resources = (str(item) for item in list_watched_resources() if (item.group, item.kind) == (group, kind))
    namespace = rollout["metadata"].get("namespace", "")
    return {"resource": next(resources, ""), "kind": kind, "namespace": namespace, "name": name}


def build_steps_part(rollout: Document) -> PagePart:
    """Return the steps. Users who may list Rollouts see them."""
    meta, status = rollout["metadata"], rollout.get("status") or {}
    strategy = get_path(rollout, "spec", "strategy") or {}
    name, field = next((pair for pair in _STRATEGIES if strategy.get(pair[0])), _STRATEGIES[0])
    own: dict[str, Any] = status.get(field) or {}
    steps = (strategy.get(name) or {}).get("steps") or ()
    body = {
        "rollout": {"resource": str(ROLLOUTS), "namespace": meta.get("namespace", ""), "name": meta["name"]},
        "workload": _build_workload_link(rollout),
        "strategy": name,
        "phase": str(status.get("phase") or ""),
        "message": str(own.get("message") or status.get("message") or "")[:MOST_WORDS],
        "current": own.get("currentStepIndex") or 0,
        "state": str(own.get("currentStepState") or ""),
        "steps": msgspec.to_builtins(
            [_build_step(number, step) for number, step in enumerate(steps[:MOST_STEPS], start=1)]
        ),
        "more": max(len(steps) - MOST_STEPS, 0),
    }
    return PagePart(id="steps", resource=str(ROLLOUTS), namespace=meta.get("namespace", ""), body=body)


def _build_step(number: int, step: Document) -> RolloutStep:
    pause, weight = step.get("pause"), step.get("weight")
    duration = (pause or {}).get("duration")
    traffic = step.get("traffic") or (f"{weight}%" if weight is not None else "")
    return RolloutStep(
        number=number,
        traffic=str(traffic)[:100],
        replicas=str(step.get("replicas") or "")[:100],
        has_matches=bool(step.get("matches")),
        pause_s=duration if isinstance(duration, int) else 0,
        waits_for_approval=pause is not None and duration is None,
    )
