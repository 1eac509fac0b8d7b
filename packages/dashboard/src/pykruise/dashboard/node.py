"""The page of one node: its agent, its images, its probes, and its pods of workloads that the dashboard shows.

Node, NodeImage, NodePodProbe, pods with their workloads ──▶ build_node_part(), build_images_part(), …
    ──▶ parts, each a row

Pure. Each part names the permission that a user needs to see it, as on the page of one object.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.kubectl.pods import format_ready_count, restarts_of, state_of
from pykruise.dashboard.objects import DashboardObject
from pykruise.dashboard.workload import MOST_PODS, MOST_WORDS, PagePart, find_cause_if_down, look_of
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.resources import NODES, PODS, Resource
from pykruise.kube.values.image_references import ImageName
from pykruise.pods.images.node_image_api import NODE_IMAGES
from pykruise.pods.images.node_images import project_node_image
from pykruise.pods.images.obstacles import obstacle_of
from pykruise.pods.probes.api import NODE_POD_PROBES
from pykruise.pods.reasons import NEEDS_A_PERSON, Code

AGENT_LABEL: Final = ("control-plane", "daemon")
"""Label of the agents' pods."""
MOST: Final = 500
"""Maximum number of images and probes that are shown."""

Owned = tuple[DashboardObject, tuple[Resource, Document] | None]
"""A pod and its workload."""


class NodeImageLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One image that the node should have."""

    image: str
    phase: str
    progress: int = 0
    message: str = ""
    code: str = ""
    """Code in docs/reasons.md for the reason that the node does not have the image."""
    why: str = ""
    remedy: str = ""
    needs_a_person: bool = False


class NodeProbeLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One probe that the agent runs."""

    namespace: str
    pod: str
    container: str
    probe: str
    """Name of the PodProbeMarker and of its probe, with # between them."""
    state: str = ""
    """Succeeded, Failed or Unknown; empty if the agent has not reported a result."""
    message: str = ""
    since: str = ""


class NodePodLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pod of a workload that the dashboard shows."""

    name: str
    namespace: str
    state: str
    ready: str
    look: str
    """Colour of the pod's square, as in PodLine."""
    restarts: int = 0
    code: str = ""
    why: str = ""
    owner_resource: str
    owner_kind: str
    owner: str


def build_node_part(node: Document) -> PagePart:
    """Return the part about the Node object. Users who may list nodes see it."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready: Document = next((item for item in conditions if item.get("type") == "Ready"), {})
    body = {
        "is_ready": ready.get("status") == "True",
        "ready_since": str(ready.get("lastTransitionTime") or ""),
        "message": str(ready.get("message") or "")[:MOST_WORDS],
        "is_cordoned": bool((node.get("spec") or {}).get("unschedulable")),
        "pressures": sorted(
            str(item.get("type"))
            for item in conditions
            if item.get("type") != "Ready" and item.get("status") == "True"
        ),
    }
    return PagePart(id="node", resource=str(NODES), namespace="", body=body)


def build_images_part(stored: DashboardObject, *, now: Instant) -> PagePart:
    """Return the images, and whether the agent reports about them. Users who may list NodeImages see this part."""
    view = project_node_image(stored.raw)
    lines: list[NodeImageLine] = []
    is_silent, has_answered = False, False
    for name, image in view.images.items():
        for tag in image.tags:
            asked = ImageName(name, tag.tag)
            status = view.statuses.get(asked)
            reason = obstacle_of(view, asked, now=now)
            # If an agent does not report, the manager writes a failure without a start time.
            is_late = status is not None and status.phase == "Failed" and not status.start_time
            is_silent |= is_late or (reason is not None and reason.code == Code.NO_AGENT)
            has_answered |= status is not None and status.version == tag.version and not is_late
            lines.append(
                NodeImageLine(
                    image=asked.reference[:MOST_WORDS],
                    phase=status.phase if status is not None and status.phase else "Waiting",
                    progress=status.progress if status is not None else 0,
                    message=(status.message if status is not None else "")[:MOST_WORDS],
                    code=str(reason.code) if reason is not None else "",
                    why=reason.message[:MOST_WORDS] if reason is not None else "",
                    remedy=reason.remedy[:MOST_WORDS] if reason is not None else "",
                    needs_a_person=reason is not None and reason.code in NEEDS_A_PERSON,
                )
            )
    agent = "silent" if is_silent else "answers" if has_answered else "asked" if lines else "idle"
    lines.sort(key=lambda line: (not line.needs_a_person, line.image))
    body = {
        "agent": agent,
        "problem": view.problem,
        "images": msgspec.to_builtins(lines[:MOST]),
        "more": max(len(lines) - MOST, 0),
    }
    return PagePart(id="images", resource=str(NODE_IMAGES), namespace="", body=body)


def build_agent_part(pods: Sequence[Document], namespace: str) -> PagePart:
    """Return the part about the agent's own pod. `pods` are the node's pods in the namespace. Users who may list pods
    in the namespace see it.
    """
    label, value = AGENT_LABEL
    agents = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get(label) == value]
    body = {
        "pods": [
            {
                "name": pod["metadata"]["name"],
                "namespace": namespace,
                "state": state_of(pod),
                "ready": format_ready_count(pod),
                "restarts": restarts_of(pod),
                "look": look_of(pod, needs_a_person=False),
            }
            for pod in agents
        ]
    }
    return PagePart(id="agent", resource=str(PODS), namespace=namespace, body=body)


def build_probes_part(stored: Document) -> PagePart:
    """Return the probes, failing ones first. Users who may list NodePodProbes see this part."""
    order = {"Failed": 0, "Unknown": 1, "": 1}
    lines = sorted(
        _list_probes(stored),
        key=lambda line: (order.get(line.state, 2), line.namespace, line.pod, line.probe),
    )
    body = {"probes": msgspec.to_builtins(lines[:MOST]), "more": max(len(lines) - MOST, 0)}
    return PagePart(id="probes", resource=str(NODE_POD_PROBES), namespace="", body=body)


def _list_probes(stored: Document) -> Iterator[NodeProbeLine]:
    states = {
        (pod.get("uid"), state.get("name")): state
        for pod in (stored.get("status") or {}).get("podProbeStatuses") or ()
        for state in pod.get("probeStates") or ()
    }
    for pod in (stored.get("spec") or {}).get("podProbes") or ():
        for probe in pod.get("probes") or ():
            state: Mapping[str, Any] = states.get((pod.get("uid"), probe.get("name"))) or {}
            yield NodeProbeLine(
                namespace=str(pod.get("namespace") or ""),
                pod=str(pod.get("name") or ""),
                container=str(probe.get("containerName") or ""),
                probe=str(probe.get("name") or ""),
                state=str(state.get("state") or ""),
                message=str(state.get("message") or "")[:MOST_WORDS],
                since=str(state.get("lastTransitionTime") or ""),
            )


def build_pods_parts(pods: Sequence[Owned], *, now: Instant) -> list[PagePart]:
    """Return a part per namespace. Users who may list pods in the namespace see its part."""
    by_namespace: dict[str, list[NodePodLine]] = {}
    for view, owner in pods[:MOST_PODS]:
        if owner is not None:
            by_namespace.setdefault(view.namespace, []).append(_build_pod_line(view, *owner, now=now))
    return [
        PagePart(
            id=f"pods/{namespace}",
            resource=str(PODS),
            namespace=namespace,
            body={"pods": msgspec.to_builtins(lines)},
        )
        for namespace, lines in by_namespace.items()
    ]


def _build_pod_line(
    view: DashboardObject, resource: Resource, owner: Document, *, now: Instant
) -> NodePodLine:
    pod = view.to_document
    cause = find_cause_if_down(pod, view.raw, now)
    return NodePodLine(
        name=view.name,
        namespace=view.namespace,
        state=state_of(pod),
        ready=format_ready_count(pod),
        look=look_of(pod, needs_a_person=cause is not None and cause.code in NEEDS_A_PERSON),
        restarts=restarts_of(pod),
        code=str(cause.code) if cause is not None else "",
        why=cause.words[:MOST_WORDS] if cause is not None else "",
        owner_resource=str(resource),
        owner_kind=resource.kind,
        owner=owner["metadata"]["name"],
    )
