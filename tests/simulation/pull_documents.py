"""ImagePullJobs, NodeImages and nodes for rules: every version that the API server stored.

Commit ──▶ read_pull_job(), read_node_image(), read_node() ──▶ versions ──▶ pull_rules.py: since(versions, revision)

They are decoded according to the specification, without the product's views.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykruise.kube.clock import parse_time
from pykruise.testing.simulation.history import Commit

__all__ = [
    "NO_NODE",
    "Answer",
    "Entry",
    "Image",
    "Node",
    "NodeImage",
    "PullJob",
    "matches",
    "read_image",
    "read_node",
    "read_node_image",
    "read_pull_job",
    "template_of",
]

Image = tuple[str, str]
"""Name as NodeImages have it, and tag."""


def read_image(text: str) -> Image:
    """An image of these scripts: `app`, `app:1`, `docker.io/library/app:1`."""
    name, _, tag = text.removeprefix("docker.io/library/").partition(":")
    return name, tag or "latest"


def matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """A label selector with the operator In alone."""
    return all(
        labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()
    ) and all(
        labels.get(expression["key"]) in expression["values"]
        for expression in selector.get("matchExpressions") or ()
    )


class PullJob(msgspec.Struct, frozen=True):
    """One version of an ImagePullJob. `revision` is the API server's."""

    revision: int
    uid: str
    name: str
    gone: bool
    is_deleting: bool
    is_held: bool
    """Whether a finalizer holds it."""
    image: Image
    selector: Mapping[str, Any]
    pods: Mapping[str, Any] | None
    limit: int
    ends: bool
    deadline_s: int | None
    ttl_s: int | None
    timeout_s: int
    retries: int
    pull_policy: str
    owner: str
    """Uid of the ImageListPullJob that owns it."""
    template: Any
    """The spec without the images."""
    status: Mapping[str, Any]

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return bool(self.status.get("completionTime"))

    @property
    def is_active(self) -> bool:
        """Whether it has still something to do."""
        return not self.gone and not self.is_deleting and not self.is_over

    @property
    def started(self) -> float | None:
        """Time of its first reconcile."""
        text = self.status.get("startTime")
        return parse_time(text) if text else None

    def selects(self, node: str, labels: Mapping[str, str]) -> bool:
        """Whether the job selects a node, as far as this does not depend on pods."""
        names = self.selector.get("names")
        return node in names if names is not None else matches(self.selector, labels)


def read_pull_job(commit: Commit) -> PullJob:
    """The job after a commit."""
    doc: Any = commit.new if commit.new is not None else commit.old
    meta, spec = doc["metadata"], doc["spec"]
    done, pull = spec["completionPolicy"], spec["pullPolicy"]
    limit = spec.get("parallelism")
    return PullJob(
        revision=commit.revision,
        uid=meta["uid"],
        name=meta["name"],
        gone=commit.new is None,
        is_deleting="deletionTimestamp" in meta,
        is_held=bool(meta.get("finalizers")),
        image=read_image(spec["image"]),
        selector=spec.get("selector") or {},
        pods=spec.get("podSelector"),
        limit=1 if limit is None else int(limit),
        ends=done["type"] != "Never",
        deadline_s=done.get("activeDeadlineSeconds"),
        ttl_s=done.get("ttlSecondsAfterFinished"),
        timeout_s=pull["timeoutSeconds"],
        retries=pull["backoffLimit"],
        pull_policy=spec["imagePullPolicy"],
        owner=next(
            (
                reference["uid"]
                for reference in meta.get("ownerReferences") or ()
                if reference.get("controller")
            ),
            "",
        ),
        template=template_of(spec),
        status=doc.get("status") or {},
    )


def template_of(spec: Any) -> Any:
    """The common fields of the ImagePullJobs of one list, as admission stores them: all except images and the
    time to live."""
    done = {
        name: value for name, value in spec["completionPolicy"].items() if name != "ttlSecondsAfterFinished"
    }
    others = {name: value for name, value in spec.items() if name not in ("image", "images")}
    return {"imagePullPolicy": "IfNotPresent", **others, "completionPolicy": done}


class Entry(msgspec.Struct, frozen=True):
    """A request to a node: one tag of one image."""

    version: int
    owners: tuple[str, ...]
    """Uids of jobs."""
    created: float
    timeout_s: int
    retries: int
    ttl_s: int
    deadline_s: int | None
    pull_policy: str


class Answer(msgspec.Struct, frozen=True):
    """The result of a node for one tag."""

    version: int
    phase: str
    ended: float | None


class NodeImage(msgspec.Struct, frozen=True):
    """A NodeImage as it was from `revision` on."""

    revision: int
    is_there: bool
    """Whether it exists and does not terminate."""
    labels: Mapping[str, str]
    entries: Mapping[Image, Entry]
    sandboxes: Mapping[str, Any]
    """Image without tag → sandbox configuration of its pulls."""
    answers: Mapping[Image, Answer]
    status: Mapping[str, Any]

    def ended(self, image: Image) -> float | None:
        """Time at which the node has reported a final result for this entry; None: it has not."""
        answer = self.answers.get(image)
        is_same = answer is not None and answer.version == self.entries[image].version
        return answer.ended if answer is not None and is_same else None

    def state(self, job: PullJob) -> str:
        """State of a job on this node: pending, active, Succeeded or Failed."""
        entry = self.entries.get(job.image)
        if entry is None or job.uid not in entry.owners:
            return "pending"
        answer = self.answers.get(job.image)
        if answer is None or answer.version != entry.version or answer.phase in ("Waiting", "Pulling"):
            return "active"
        return answer.phase


def read_node_image(commit: Commit) -> NodeImage:
    """The NodeImage after a commit."""
    doc: Any = commit.new if commit.new is not None else commit.old
    meta, status = doc["metadata"], doc.get("status") or {}
    images = (doc.get("spec") or {}).get("images") or {}
    return NodeImage(
        revision=commit.revision,
        is_there=commit.new is not None and "deletionTimestamp" not in meta,
        labels=meta.get("labels") or {},
        entries={(name, tag["tag"]): _entry(tag) for name, image in images.items() for tag in image["tags"]},
        sandboxes={name: image.get("sandboxConfig") for name, image in images.items()},
        answers={
            (name, tag["tag"]): Answer(
                version=tag.get("version", 0),
                phase=tag["phase"],
                ended=parse_time(tag["completionTime"]) if tag.get("completionTime") else None,
            )
            for name, value in (status.get("imageStatuses") or {}).items()
            for tag in value["tags"]
        },
        status=status,
    )


def _entry(tag: Any) -> Entry:
    policy = tag["pullPolicy"]
    return Entry(
        version=tag.get("version", 0),
        owners=tuple(reference["uid"] for reference in tag.get("ownerReferences") or ()),
        created=parse_time(tag["createdAt"]),
        timeout_s=policy["timeoutSeconds"],
        retries=policy["backoffLimit"],
        ttl_s=policy["ttlSecondsAfterFinished"],
        deadline_s=policy.get("activeDeadlineSeconds"),
        pull_policy=tag.get("imagePullPolicy", ""),
    )


class Node(msgspec.Struct, frozen=True):
    """One node as it was from `revision` on."""

    revision: int
    is_there: bool
    labels: Mapping[str, str]
    ready_since: float | None


NO_NODE = Node(0, False, {}, None)


def read_node(commit: Commit) -> Node:
    """The node after a commit."""
    doc: Any = commit.new if commit.new is not None else commit.old
    conditions = {
        condition["type"]: condition for condition in (doc.get("status") or {}).get("conditions") or ()
    }
    ready = conditions.get("Ready") or {}
    return Node(
        revision=commit.revision,
        is_there=commit.new is not None and "deletionTimestamp" not in doc["metadata"],
        labels=doc["metadata"].get("labels") or {},
        ready_since=parse_time(ready["lastTransitionTime"]) if ready.get("status") == "True" else None,
    )
