"""Simulated PodProbeMarkers, NodePodProbes, pods and nodes.

marker("game", probe("idle")) ──▶ MarkerView      node_probes("n1", entry(pod("a"), "game#idle")) ──▶ NodeProbesView
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import encode
from pykruise.pods.probes.views import MarkerView, NodeProbesView, make_marker_projector, project_node_probes
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.nodes import NodeView
from pykruise.pods.view.pod_view import PodView

NOW: Instant = parse_time("2026-03-01T12:00:00Z")
EXEC: Mapping[str, Any] = {"exec": {"command": ["/idle.sh"]}}


def probe(name: str = "idle", *, on: Mapping[str, Any] = EXEC, **fields: Any) -> dict[str, Any]:
    """A probe of a marker; `podConditionType` unless it has policies."""
    shown = {} if "markerPolicy" in fields else {"podConditionType": "game.io/idle"}
    return {"name": name, "containerName": "main", "probe": dict(on), **shown, **fields}


def marker(
    name: str = "game", *probes: Mapping[str, Any], metadata: Mapping[str, Any] | None = None, **spec: Any
) -> MarkerView:
    """A marker of pods with app=web."""
    return make_marker_projector()(
        encode(
            {
                "metadata": {
                    "name": name,
                    "namespace": "shop",
                    "uid": f"uid-{name}",
                    "resourceVersion": "7",
                    "generation": 3,
                    "finalizers": ["kruise.io/node-pod-probe-cleanup"],
                    **(metadata or {}),
                },
                "spec": {
                    "selector": {"matchLabels": {"app": "web"}},
                    "probes": list(probes or (probe(),)),
                    **spec,
                },
            }
        )
    )


def pod(
    name: str = "web-0",
    *,
    node: str = "n1",
    ip: str = "10.0.0.1",
    labels: Mapping[str, str] | None = None,
    conditions: Sequence[Mapping[str, Any]] = (),
    ports: Sequence[Mapping[str, Any]] = (),
    phase: str = "Running",
    is_initialized: bool | None = True,
    uid: str = "",
    others: Sequence[Mapping[str, Any]] = (),
    init_containers: Sequence[Mapping[str, Any]] = (),
) -> PodView:
    """A pod of the namespace shop with app=web. `others`: containers before its main one. `is_initialized`:
    None: not reported yet."""
    initialized = {"type": "Initialized", "status": "True" if is_initialized else "False"}
    return project_pod(
        encode(
            {
                "metadata": {
                    "name": name,
                    "namespace": "shop",
                    "uid": uid or f"uid-{name}",
                    "resourceVersion": "5",
                    "labels": {"app": "web", **(labels or {})},
                },
                "spec": {
                    "nodeName": node,
                    "containers": [*others, {"name": "main", "image": "a", "ports": list(ports)}],
                    "initContainers": list(init_containers),
                },
                "status": {
                    "phase": phase,
                    "podIP": ip,
                    "conditions": [*([] if is_initialized is None else [initialized]), *conditions],
                },
            }
        )
    )


def entry(of: PodView, *names: str, ip: str | None = None, namespace: str = "shop") -> dict[str, Any]:
    """Probes of a pod in a NodePodProbe."""
    return {
        "name": of.name,
        "namespace": namespace,
        "uid": of.uid,
        "IP": of.ip if ip is None else ip,
        "probes": [{"name": name, "containerName": "main", "probe": dict(EXEC)} for name in names],
    }


def result(of: PodView, **states: str) -> dict[str, Any]:
    """Results of the agent for a pod; keywords: `game__idle="Succeeded"`."""
    result = [
        {"name": name.replace("__", "#"), "state": state, "message": f"said {state}"}
        for name, state in states.items()
    ]
    return {"name": of.name, "namespace": of.namespace, "uid": of.uid, "probeStates": result}


def node_probes(
    name: str, *entries: Mapping[str, Any], results: Sequence[Mapping[str, Any]] = ()
) -> NodeProbesView:
    """The NodePodProbe of a node."""
    return project_node_probes(
        encode(
            {
                "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "9"},
                "spec": {"podProbes": list(entries)} if entries else {},
                "status": {"podProbeStatuses": list(results)} if results else {},
            }
        )
    )


def node(name: str = "n1", *, is_ready: bool = True, **fields: Any) -> NodeView:
    """A node."""
    since = NOW if is_ready else None
    return NodeView(name=name, uid=f"uid-{name}", resource_version=1, ready_since=since, **fields)
