"""Everything that a decision about one NodeImage needs, as one value.

NodeImageView + Read ──▶ read_snapshot() ──▶ NodeImageSnapshot ──▶ plan.py
                         ├── jobs; a job that the cache has never contained is read from the API server
                         ├── secrets that were listed by hand (without a mode), from the API server
                         └── pull secrets of failed entries, from the cache

If the NodeImage does not exist, the view has no UID: the plan creates a NodeImage if its node needs one.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.errors import ForbiddenError, KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import SECRETS
from pykruise.kube.values.image_references import ImageName
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import NODE_VIEWS, PULL_JOB_VIEWS, SECRET_VIEWS
from pykruise.pods.images.node_image_api import TagSpec
from pykruise.pods.images.node_images import FAILED, NodeImageView
from pykruise.pods.images.pull_jobs import PullJobView, is_pull_job
from pykruise.pods.settings import FromFlag, FromManager, OnGate
from pykruise.pods.view.nodes import NodeView
from pykruise.runtime.named_objects import look_up
from pykruise.runtime.read import Read


class NodeImageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for decisions about NodeImages."""

    creation_delay_s: Annotated[
        float,
        FromFlag(
            "nodeimage-creation-delay",
            "Time between the moment when a node becomes ready and the creation of its NodeImage.",
        ),
    ] = 30.0
    looks_at_secrets: Annotated[bool, OnGate("ImagePullJobGate")] = False
    """Whether the manager checks that secrets that were listed by hand exist. Without the gate ImagePullJobGate, it
    has no permission to read secrets, and assumes that all of them exist.
    """
    namespace: Annotated[str, FromManager("watch_namespace")] = ""
    """The only namespace whose ImagePullJobs this manager caches; empty if it caches all namespaces."""


class NodeImageSnapshot(Judged, frozen=True, kw_only=True):
    """All that is known about one NodeImage at one instant."""

    node_image: NodeImageView
    node: NodeView | None = None
    jobs: Mapping[Key, PullJobView | None] = {}
    """ImagePullJobs that the entries reference; None if a job does not exist. Jobs about which nothing is known are
    left out.
    """
    is_behind: bool = False
    """Whether some of these jobs are not in the cache yet."""
    missing_secrets: frozenset[Key] = frozenset()
    """Secrets that were listed by hand (without a mode) and do not exist."""
    absent_secrets: frozenset[Key] = frozenset()
    """Missing pull secrets of the jobs whose entries failed."""
    now: Instant
    creation_delay_s: float = 30.0


def make_absent_view(key: Key) -> NodeImageView:
    """Return a view for a NodeImage that does not exist."""
    return NodeImageView(name=key.name, uid="", resource_version=0)


async def read_snapshot(view: NodeImageView, read: Read[NodeImageSettings]) -> NodeImageSnapshot | None:
    """Read a NodeImage, its node, and the jobs that its entries reference. None if the cache of nodes is not filled
    yet.
    """
    if not read.is_read(NODE_VIEWS):
        return None
    owners = [(key, uid) for key, uid in _list_owners(view) if _is_known(key, read)]
    named = await look_up(read, PULL_JOB_VIEWS, owners)
    jobs = {job.key: job for job in named.views.values()}
    return NodeImageSnapshot(
        node_image=view,
        node=read.get(NODE_VIEWS, Key("", view.name)),
        jobs={**dict.fromkeys(key for key, _ in owners), **jobs},
        is_behind=named.is_behind,
        missing_secrets=await _find_missing_secrets(view, read),
        absent_secrets=_find_absent_secrets(view, jobs, read),
        now=read.now(),
        creation_delay_s=read.settings.creation_delay_s,
    )


def _list_owners(view: NodeImageView) -> Iterator[tuple[Key, str]]:
    for _, entry in view.entries:
        for ref in entry.owner_references or ():
            if is_pull_job(ref):
                yield Key(ref.namespace, ref.name), ref.uid


def _is_known(key: Key, read: Read[NodeImageSettings]) -> bool:
    return read.is_read(PULL_JOB_VIEWS) and read.settings.namespace in ("", key.namespace)


async def _find_missing_secrets(view: NodeImageView, read: Read[NodeImageSettings]) -> frozenset[Key]:
    """Find the secrets without a mode that do not exist. Each is read from the API server: there are only few such
    secrets, and a cache would have to contain all secrets.
    """
    if not read.settings.looks_at_secrets:
        return frozenset()
    named = {
        Key(secret.namespace, secret.name)
        for image in view.images.values()
        for secret in image.pull_secrets or ()
        if not secret.mode
    }
    return frozenset([key for key in sorted(named) if await _is_gone(key, read)])


def _find_absent_secrets(
    view: NodeImageView, jobs: Mapping[Key, PullJobView], read: Read[NodeImageSettings]
) -> frozenset[Key]:
    """Find the missing pull secrets of entries that failed. ImagePullJobs use the same cache of secrets."""
    if not read.is_read(SECRET_VIEWS):
        return frozenset()
    failed = [entry for image, entry in view.entries if _has_failed(view, image)]
    named = {key for entry in failed for key in list_pull_secrets(entry, jobs)}
    try:
        return frozenset(key for key in named if read.get(SECRET_VIEWS, key) is None)
    except ForbiddenError:  # a user of the command explain perhaps has no permission to read secrets
        return frozenset()


def _has_failed(view: NodeImageView, image: ImageName) -> bool:
    status = view.statuses.get(image)
    return status is not None and status.phase == FAILED


def list_pull_secrets(entry: TagSpec, jobs: Mapping[Key, PullJobView | None]) -> tuple[Key, ...]:
    """Return the pull secrets of the jobs that reference the entry, each in the namespace of its job."""
    keys = (Key(ref.namespace, ref.name) for ref in entry.owner_references or () if is_pull_job(ref))
    known = (job for key in keys if (job := jobs.get(key)) is not None)
    return tuple(dict.fromkeys(Key(job.namespace, name) for job in known for name in job.secrets))


async def _is_gone(key: Key, read: Read[NodeImageSettings]) -> bool:
    try:
        await read.live.get(SECRETS, key.namespace, key.name)
    except NotFoundError:
        return True
    except KubeError:
        return False
    return False
