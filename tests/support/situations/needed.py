"""Situations caused by what pods need and do not have: readiness gates, classes, secrets, keys.

NEEDED: rows by the name of their kind ──▶ tables.py
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from support.situations.documents import (
    broadcastjob,
    budget,
    cloneset,
    cronjob,
    daemonset,
    listjob,
    marker,
    pulljob,
    selector,
    sidecarset,
    statefulset,
    template,
    united,
)
from support.situations.world import Situation, World

_GATED: Final = {"readinessGates": [{"conditionType": "example.com/idle"}]}
_NO_FILE: Final = {"fails_probe": "*#idle", "output": "no file /idle"}


# ── readiness gates ──────────────────────────────────────────────────────────


async def a_failing_probe_closes_its_gate(world: World) -> None:
    world.fail(image="nginx:1", **_NO_FILE)
    await world.put(cloneset(pod=_GATED), marker())


async def a_marker_of_its_gate_selects_other_pods(world: World) -> None:
    await world.put(cloneset(pod=_GATED), marker("idle", selector={"matchLabels": {"probed": "yes"}}))


async def no_agent_probes_for_its_gate(world: World) -> None:
    pinned = template("web", **_GATED, nodeName="node-1")
    await world.put(statefulset(template=pinned, selector=selector("web")))
    await world.wait(30)
    world.stage.kubelets.stop_node("node-1")
    await world.put(marker())


async def nobody_opens_its_gate(world: World) -> None:
    await world.put(daemonset(pod=_GATED))


async def the_probe_of_its_gate_names_no_port(world: World) -> None:
    await world.put(united(pod=_GATED), marker(port="http"))


async def a_failing_probe_closes_the_gate_of_its_pods(world: World) -> None:
    world.fail(image="nginx:1", **_NO_FILE)
    await world.put(cloneset(pod=_GATED), marker("idle"), budget())


_PLAN: Final[Any] = "plan"
_EXPLAIN: Final[Any] = "explain"

NEEDED: Final[Mapping[str, tuple[Situation, ...]]] = {
    "cloneset": (
        Situation(
            stage=a_failing_probe_closes_its_gate,
            cause=Code.READINESS_GATE,
            says="probe web#idle fails: no file /idle",
        ),
        Situation(
            stage=a_marker_of_its_gate_selects_other_pods,
            cause=Code.READINESS_GATE,
            says="PodProbeMarker idle sets this condition, but does not select the pod",
            ways=1,
        ),
    ),
    "statefulset": (
        Situation(
            stage=no_agent_probes_for_its_gate,
            cause=Code.READINESS_GATE,
            says="the agent of node node-1 has reported no result of probe web#idle yet",
            ways=1,
        ),
    ),
    "daemonset": (
        Situation(
            stage=nobody_opens_its_gate,
            cause=Code.READINESS_GATE,
            says="no PodProbeMarker sets this condition",
            ways=1,
        ),
    ),
    "uniteddeployment": (
        Situation(
            stage=the_probe_of_its_gate_names_no_port,
            cause=Code.READINESS_GATE,
            says="container main has no port named http (PodProbeMarker web)",
            ways=1,
        ),
    ),
    "podunavailablebudget": (
        Situation(
            stage=a_failing_probe_closes_the_gate_of_its_pods,
            cause=Code.READINESS_GATE,
            says="correct the probe in PodProbeMarker idle",
            known_by=_EXPLAIN,
        ),
    ),
}
