"""Simulated NodeImages, jobs and nodes, as the kinds of images see them.

node_image("n1", entry("nginx", "1", jobs=[job("a")])) ──▶ NodeImageView      job("a") ──▶ PullJobView
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import encode
from pykruise.pods.images.node_images import NodeImageView, project_node_image
from pykruise.pods.images.pull_jobs import PullJobView, project_pull_job
from pykruise.pods.view.nodes import NodeView

NOW: Instant = parse_time("2026-03-01T12:00:00Z")


def at(seconds: float) -> str:
    """The time this many seconds after NOW, as it is stored."""
    return format_time(NOW + seconds)


def node(
    name: str = "n1", *, ready_s: float | None = 3600.0, labels: Mapping[str, str] | None = None, **more: Any
) -> NodeView:
    """A node that has been ready for this time; None: it is not ready."""
    since = None if ready_s is None else NOW - ready_s
    return NodeView(
        name=name, uid=f"uid-{name}", resource_version=1, labels=labels or {}, ready_since=since, **more
    )


def job_document(
    name: str = "job", *, namespace: str = "shop", uid: str = "", **fields: Any
) -> dict[str, Any]:
    """A stored ImagePullJob. `metadata`, `status`: further fields of these two; all others are fields of the spec."""
    metadata, status = fields.pop("metadata", {}), fields.pop("status", {})
    spec = {"image": "nginx:1.9", "completionPolicy": {"type": "Always"}, **fields}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "resourceVersion": "7",
            "generation": 1,
            **metadata,
        },
        "spec": {key: value for key, value in spec.items() if value is not None},
        "status": status,
    }


def job(name: str = "job", **fields: Any) -> PullJobView:
    """The view of a job."""
    return project_pull_job(encode(job_document(name, **fields)))


def reference(pull_job: PullJobView) -> dict[str, Any]:
    """The owner reference of a job in an entry of a NodeImage."""
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "namespace": pull_job.namespace,
        "name": pull_job.name,
        "uid": pull_job.uid,
    }


def entry(
    tag: str = "1.9", *, jobs: Sequence[PullJobView] = (), ttl: int = 300, **fields: Any
) -> dict[str, Any]:
    """One requested tag, created at NOW."""
    policy = {"ttlSecondsAfterFinished": ttl, **fields.pop("policy", {})}
    entry = {"tag": tag, "createdAt": at(0), "pullPolicy": policy, **fields}
    if jobs:
        entry["ownerReferences"] = [reference(job) for job in jobs]
    return entry


def said(
    phase: str = "Succeeded", *, tag: str = "1.9", ended_s: float | None = 0.0, **fields: Any
) -> dict[str, Any]:
    """A report of an agent about a tag; `ended_s`: seconds from NOW to its end."""
    said = {"tag": tag, "phase": phase, **fields}
    if ended_s is not None and phase in ("Succeeded", "Failed"):
        said["completionTime"] = at(ended_s)
    return said


def node_image(
    name: str = "n1",
    *tags: Mapping[str, Any],
    image: str = "nginx",
    statuses: Sequence[Mapping[str, Any]] = (),
    secrets: Sequence[Mapping[str, Any]] = (),
    labels: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> NodeImageView:
    """A NodeImage that requests these tags of one image."""
    asked = {"tags": list(tags), **({"pullSecrets": list(secrets)} if secrets else {})}
    shown: dict[str, Any] = {"desired": len(tags), **(status or {})}
    if statuses:
        shown["imageStatuses"] = {image: {"tags": list(statuses)}}
    document = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "NodeImage",
        "metadata": {
            "name": name,
            "uid": f"image-{name}",
            "resourceVersion": "9",
            "labels": dict(labels or {}),
            **(metadata or {}),
        },
        "spec": spec if spec is not None else {"images": {image: asked}} if tags or secrets else {},
        "status": shown,
    }
    return project_node_image(encode(document))
