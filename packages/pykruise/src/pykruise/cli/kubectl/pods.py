"""Pods of a workload for users: selected by label, with a state in one word.

Info ──▶ pods_of() ──▶ documents      a pod ──▶ state_of() ──▶ `Running`, `ImagePullBackOff`, `Init:0/2`, …
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.resources import Info
from pykruise.cli.kubectl.session import Session
from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import PODS
from pykruise.kube.values.selectors import SelectorError, parse_selector


def read_label_query(info: Info) -> str | None:
    """Query for the pods that the object's selector matches; None if it has no selector. The selector of a Service or
    ReplicationController is a map of labels. Raises KubectlError.
    """
    selector = get_path(info.document, "spec", "selector")
    if selector is None or (not selector and info.document.get("kind") in _HAVE_LABELS):
        return None
    try:
        is_map = selector and not {"matchLabels", "matchExpressions"} & selector.keys()
        return str(parse_selector({"matchLabels": selector} if is_map else selector))
    except SelectorError as error:
        raise KubectlError(f"{info.label}: {error}") from error


_HAVE_LABELS: Final = ("Service", "ReplicationController")
"""Kinds whose selector is a map of labels. An empty one selects nothing."""


async def pods_of(session: Session, info: Info) -> list[Document]:
    """Pods that the workload's selector matches, sorted by namespace and name."""
    client = await session.make_client()
    query = read_label_query(info)
    if query is None:
        return []
    listed = await client.list(PODS, info.namespace, label_selector=query)
    pods = [{"kind": "Pod", "apiVersion": "v1", **orjson.loads(bytes(raw))} for raw in listed.items]
    return sorted(pods, key=lambda pod: (pod["metadata"].get("namespace", ""), pod["metadata"]["name"]))


def owners_of(document: Mapping[str, Any]) -> set[str]:
    """uids of an object's owners."""
    return {reference.get("uid", "") for reference in document["metadata"].get("ownerReferences") or ()}


def state_of(pod: Mapping[str, Any]) -> str:
    """State of a pod in one word, as in `kubectl get pods`."""
    status = pod.get("status") or {}
    state = str(status.get("reason") or status.get("phase") or "Pending")
    inits = status.get("initContainerStatuses") or ()
    for number, item in enumerate(inits):
        now = item.get("state") or {}
        if (ended := now.get("terminated")) and not ended.get("exitCode"):
            continue
        if item.get("started") and "running" in now and _is_sidecar(pod, item):
            continue
        reason = (now.get("terminated") or now.get("waiting") or {}).get("reason")
        if reason and reason != "PodInitializing":
            return _with_deletion(pod, f"Init:{reason}")
        return _with_deletion(pod, f"Init:{number}/{len(inits)}")
    for item in reversed(status.get("containerStatuses") or ()):
        now = item.get("state") or {}
        if reason := (now.get("waiting") or {}).get("reason"):
            state = reason
        elif ended := now.get("terminated"):
            state = ended.get("reason") or f"ExitCode:{ended.get('exitCode')}"
    return _with_deletion(pod, state)


def _is_sidecar(pod: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    containers = (pod.get("spec") or {}).get("initContainers") or ()
    return any(
        container["name"] == status["name"] and container.get("restartPolicy") == "Always"
        for container in containers
    )


def _with_deletion(pod: Mapping[str, Any], state: str) -> str:
    return "Terminating" if pod["metadata"].get("deletionTimestamp") else state


def format_ready_count(pod: Mapping[str, Any]) -> str:
    """Number of ready containers and of all containers: `1/2`."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    total = len((pod.get("spec") or {}).get("containers") or ())
    return f"{sum(bool(status.get('ready')) for status in statuses)}/{total}"


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's condition Ready is True."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def revision_of(pod: Mapping[str, Any]) -> str:
    """Hash of the pod's revision; empty if the pod has no revision."""
    labels = pod["metadata"].get("labels") or {}
    name: str = labels.get("controller-revision-hash") or labels.get("pod-template-hash") or ""
    return name.rpartition("-")[2]


def restarts_of(pod: Mapping[str, Any]) -> int:
    """Sum of the restarts of the pod's containers."""
    return sum(
        status.get("restartCount", 0) for status in (pod.get("status") or {}).get("containerStatuses") or ()
    )


def format_age(created: str | None, now: float) -> str:
    """Age as in kubectl's tables: `45s`, `5m`, `3h20m`, `3d`."""
    from pykruise.kube.clock import parse_time
    from pykruise.kube.values.durations import format_short_duration

    return format_short_duration(max(now - parse_time(created), 0)) if created else "<unknown>"
