"""Shortening of a failing script: operations, faults and settings are removed while the same rule is still broken.

Script, rule ──▶ shrink() ──▶ a shorter Script that breaks the same rule
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from pykruise.kube.errors import ApiError
from pykruise.testing.simulation.shrinking import iterate_without_parts, replace_item, shrink_greedily
from simulation.script import Script
from simulation.world import Outcome, run

__all__ = ["shrink"]

replace = msgspec.structs.replace


def shrink(
    script: Script,
    rule: str,
    *,
    play: Callable[[Script], Outcome] = run,
    most_runs: int = 300,
    most_s: float = 120.0,
) -> Script:
    """The shortest script found that still breaks `rule`; greedy, in at most `most_runs` runs or `most_s` of CPU."""
    return shrink_greedily(
        script,
        rule,
        smaller=_smaller,
        rule_of=lambda smaller: _rule(play, smaller),
        most_runs=most_runs,
        most_s=most_s,
    )


def _rule(play: Callable[[Script], Outcome], script: Script) -> str:
    """The rule that the script breaks; empty: none, or admission rejects the shortened object."""
    try:
        return play(script).rule
    except ApiError:
        return ""


def _smaller(script: Script) -> Iterator[Script]:
    """Every way to take something away, the largest pieces first."""
    for field in ("faults", "operations"):
        for items in iterate_without_parts(getattr(script, field)):
            yield replace(script, **{field: items})
    for number, fault in enumerate(script.faults):
        if fault.count > 1:
            yield replace(
                script, faults=replace_item(script.faults, number, replace(fault, count=fault.count // 2))
            )
    spec = script.object["spec"]
    for name in (
        "minReadySeconds",
        "scaleStrategy",
        "lifecycle",
        "progressDeadlineSeconds",
        "volumeClaimTemplates",
    ):
        if name in spec:
            yield _with_spec(script, {key: value for key, value in spec.items() if key != name})
    if len(spec.get("template", {}).get("spec", {}).get("containers", ())) > 1:
        template = {**spec["template"], "spec": {"containers": spec["template"]["spec"]["containers"][:1]}}
        yield _with_spec(script, {**spec, "template": template})
    rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    for name in ("partition", "maxSurge", "inPlaceUpdateStrategy"):
        if name in rolling:
            kept = {key: value for key, value in rolling.items() if key != name}
            yield _with_spec(
                script, {**spec, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": kept}}
            )
    if spec.get("replicas", 1) > 1:
        yield _with_spec(script, {**spec, "replicas": spec["replicas"] // 2})
        yield _with_spec(script, {**spec, "replicas": spec["replicas"] - 1})


def _with_spec(script: Script, spec: dict[str, Any]) -> Script:
    return replace(script, object={**script.object, "spec": spec})
