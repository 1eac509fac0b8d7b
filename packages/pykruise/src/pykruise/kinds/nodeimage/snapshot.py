"""Everything a decision about one NodeImage needs, as one value.

NodeImageView + Read ──▶ snapshot() ──▶ Snapshot ──▶ plan.py
                            ├── jobs that the cache has never shown, asked of the API server
                            └── secrets that are named without a mode: whether they are there, asked each time

A NodeImage that is not there is a view without uid: its node may get one.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.errors import KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import SECRETS
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import NODE_VIEWS, PULL_JOB_VIEWS
from pykruise.pods.images.node_images import NodeImageView
from pykruise.pods.images.pull_jobs import PullJobView, is_pull_job
from pykruise.pods.settings import FromFlag, FromManager, OnGate
from pykruise.pods.view.nodes import NodeView
from pykruise.runtime.named_objects import look_up
from pykruise.runtime.read import Read


class NodeImageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for decisions about NodeImages."""

    creation_delay_s: Annotated[
        float, FromFlag("nodeimage-creation-delay", "After a node is ready, until its NodeImage.")
    ] = 30.0
    looks_at_secrets: Annotated[bool, OnGate("ImagePullJobGate")] = False
    """Whether secrets that are named by hand may be looked for; else none is taken to be gone. It takes the right to
    read them, which comes with ImagePullJobs."""
    namespace: Annotated[str, FromManager("watch_namespace")] = ""
    """The only namespace whose ImagePullJobs this manager knows; empty: all."""


class NodeImageSnapshot(Judged, frozen=True, kw_only=True):
    """The world of one NodeImage at one instant."""

    node_image: NodeImageView
    node: NodeView | None = None
    jobs: Mapping[Key, PullJobView | None] = {}
    """The ImagePullJobs that its entries name. None: it is not there. Those of which nothing is known are missing."""
    is_behind: bool = False
    """Whether some of them are not in the cache yet."""
    missing_secrets: frozenset[Key] = frozenset()
    """Missing secrets among those that are named without a mode."""
    now: Instant
    creation_delay_s: float = 30.0


def absent(key: Key) -> NodeImageView:
    """A NodeImage that is not there."""
    return NodeImageView(name=key.name, uid="", resource_version=0)


async def snapshot(view: NodeImageView, read: Read[NodeImageSettings]) -> NodeImageSnapshot | None:
    """A NodeImage with its node and the jobs that want something of it. None: whether there is a node is not known."""
    if not read.is_read(NODE_VIEWS):
        return None
    owners = [(key, uid) for key, uid in _owners(view) if _is_known(key, read)]
    named = await look_up(read, PULL_JOB_VIEWS, owners)
    return NodeImageSnapshot(
        node_image=view,
        node=read.get(NODE_VIEWS, Key("", view.name)),
        jobs={**dict.fromkeys(key for key, _ in owners), **{job.key: job for job in named.views.values()}},
        is_behind=named.is_behind,
        missing_secrets=await _missing_secrets(view, read),
        now=read.now(),
        creation_delay_s=read.settings.creation_delay_s,
    )


def _owners(view: NodeImageView) -> Iterator[tuple[Key, str]]:
    for _, entry in view.entries:
        for ref in entry.owner_references or ():
            if is_pull_job(ref):
                yield Key(ref.namespace, ref.name), ref.uid


def _is_known(key: Key, read: Read[NodeImageSettings]) -> bool:
    return read.is_read(PULL_JOB_VIEWS) and read.settings.namespace in ("", key.namespace)


async def _missing_secrets(view: NodeImageView, read: Read[NodeImageSettings]) -> frozenset[Key]:
    """Whether a secret is there could only be known by watching all of them; there are few such entries."""
    if not read.settings.looks_at_secrets:
        return frozenset()
    named = {
        Key(secret.namespace, secret.name)
        for image in view.images.values()
        for secret in image.pull_secrets or ()
        if not secret.mode
    }
    return frozenset([key for key in sorted(named) if await _is_gone(key, read)])


async def _is_gone(key: Key, read: Read[NodeImageSettings]) -> bool:
    try:
        await read.live.get(SECRETS, key.namespace, key.name)
    except NotFoundError:
        return True
    except KubeError:
        return False
    return False
