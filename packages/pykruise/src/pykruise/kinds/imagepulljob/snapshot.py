"""Everything that a decision about one ImagePullJob needs, as one value.

PullJobView + Read ──▶ read_snapshot() ──▶ ImagePullJobSnapshot ──▶ plan.py
                       ├── other jobs for the same image; a job that the cache has never contained is read from
                       │   the API server
                       ├── nodes: by name, by labels, or of pods, in the order in which their workload updates them
                       └── the content of a secret, if it must be copied

The snapshot contains the time and the settings, so the same snapshot always gives the same plan.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, TypeGuard

import msgspec

from pykruise.kinds.imagepulljob.order import resource_of_controller, sort_in_update_order
from pykruise.kinds.imagepulljob.secrets import Source, list_copies, read_sources
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import KubeError
from pykruise.kube.ids import Key
from pykruise.kube.values.selectors import Selector
from pykruise.plans.selected_pods import select_pods
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import NAMESPACE_VIEWS, NODE_IMAGE_VIEWS, PULL_JOB_VIEWS, SECRET_VIEWS
from pykruise.pods.images.api import ImageNodeSelector, ImagePullJobSpec
from pykruise.pods.images.node_images import NodeImageView
from pykruise.pods.images.pull_jobs import PullJobView, is_pull_job
from pykruise.pods.settings import FromFlag, FromManager
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.view.secrets import CopyView
from pykruise.runtime.named_objects import look_up
from pykruise.runtime.read import Read

LONGEST_TTL_S: Final = 31 * 24 * 3600

ORDER_AGAIN_S: Final = 60.0
"""Seconds for which the object of a workload is remembered. The update order of its pods is computed from it."""


class ImagePullJobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for decisions about ImagePullJobs."""

    default_ttl_s: Annotated[
        int,
        FromFlag(
            "default-ttlseconds-for-always-nodeimage",
            "Seconds that an image of a job of type Always stays in the NodeImage after TTL, deadline or retry time.",
            most=LONGEST_TTL_S,
        ),
    ] = 300
    secrets_namespace: Annotated[str, FromManager("secrets_namespace")] = "kruise-daemon-config"
    """Namespace in which the nodes' agents may read secrets."""
    namespace: Annotated[str, FromManager("watch_namespace")] = ""
    """The only namespace whose objects this manager caches; empty if it caches all namespaces."""


class ImagePullJobSnapshot(Judged, frozen=True, kw_only=True):
    """All that is known about one ImagePullJob at one instant."""

    job: PullJobView
    nodes: Sequence[NodeImageView] = ()
    """Nodes of the job, in the order in which they pull. If the job has ended, only its failed nodes."""
    unknown_nodes: Sequence[str] = ()
    """Names of nodes in spec.selector.names that have no NodeImage."""
    others: Mapping[str, PullJobView | None] = {}
    """UID of other jobs that share entries with this job → the job; None if it was deleted or is being deleted. Jobs
    about which nothing is known are left out.
    """
    homeless: Sequence[PodView] = ()
    """Pods without a node that the podSelector selects, sorted by name."""
    absent_secrets: Sequence[Key] = ()
    """Pull secrets of the job that do not exist."""
    sources: Mapping[str, Source | None] = {}
    """Name of each pull secret → the secret; None if it does not exist."""
    copies: Sequence[CopyView] = ()
    """Copied secrets of all jobs in the shared namespace."""
    has_shared_namespace: bool = True
    """Whether the shared namespace exists, is not being deleted, and is cached by this manager."""
    home_problem: str = "does not exist"
    """Reason why there is no shared namespace, if `has_shared_namespace` is False."""
    now: Instant
    settings: ImagePullJobSettings = ImagePullJobSettings()


class ReadablePullJobView(PullJobView, frozen=True, kw_only=True):
    """A PullJobView with a readable spec. Only a type: no object is created from this class."""

    spec: ImagePullJobSpec


class ReadableImagePullJob(ImagePullJobSnapshot, frozen=True, kw_only=True):
    """A snapshot for which `is_readable()` is True. Only a type: no object is created from this class."""

    job: ReadablePullJobView


def is_readable(snapshot: ImagePullJobSnapshot) -> TypeGuard[ReadableImagePullJob]:
    """Whether the spec can be read and admission accepts the stored object. Only this function decides it."""
    return snapshot.job.spec is not None and not snapshot.refused


class _Order(msgspec.Struct):
    """The job's workload when it was last read, for the update order of its pods."""

    asked_at: Instant | None = None
    workload: Document | None = None


async def read_snapshot(view: PullJobView, read: Read[ImagePullJobSettings]) -> ImagePullJobSnapshot:
    """Read the job with its nodes and secrets. Raises KubeError for an object that cannot be read."""
    namespace = read.settings.secrets_namespace
    uses_secrets = bool(view.secrets) and view.namespace != namespace
    # Without pull secrets nothing is read: a user who explains such a job needs no permission to read secrets.
    copies = list_copies(namespace, read) if uses_secrets else []
    home = read.get(NAMESPACE_VIEWS, Key("", namespace)) if uses_secrets else None
    names = view.secrets if uses_secrets else ()
    keys = [Key(view.namespace, name) for name in names]
    absent = [key for key in keys if read.get(SECRET_VIEWS, key) is None]
    is_seen = read.settings.namespace in ("", namespace)
    has_home = is_seen and home is not None and not home.is_deleting
    home_problem = "is being deleted" if home is not None else "does not exist"
    if not is_seen:
        home_problem = f"is not watched by this manager, which watches only {read.settings.namespace}"
    if not view.is_active or view.spec is None:
        missed, unknown = _find_failed_nodes(view, read)
        return ImagePullJobSnapshot(
            job=view,
            nodes=missed,
            unknown_nodes=unknown,
            homeless=() if view.status.desired else _find_homeless_pods(view, read),
            absent_secrets=absent,
            copies=copies,
            has_shared_namespace=has_home,
            home_problem=home_problem,
            now=read.now(),
            settings=read.settings,
        )
    sources: Mapping[str, Source | None] = {}
    if has_home:
        sources = await read_sources(view, read, copies=copies)
        copies = list_copies(namespace, read)
    elif view.namespace == namespace:
        sources = {name: Source(key=Key(namespace, name), content="") for name in view.secrets}
    nodes, unknown = await _select_nodes(view, view.spec.selector, read)
    return ImagePullJobSnapshot(
        job=view,
        nodes=nodes,
        unknown_nodes=unknown,
        homeless=_find_homeless_pods(view, read),
        others=await _find_others(view, nodes, read),
        sources=sources,
        absent_secrets=absent,
        copies=copies,
        has_shared_namespace=has_home or not uses_secrets,
        home_problem=home_problem,
        now=read.now(),
        settings=read.settings,
    )


# ── nodes ────────────────────────────────────────────────────────────────────


async def _select_nodes(
    view: PullJobView, chosen: ImageNodeSelector | None, read: Read[ImagePullJobSettings]
) -> tuple[Sequence[NodeImageView], Sequence[str]]:
    """Return the nodes of the job, and the names in spec.selector.names of nodes without a NodeImage. `chosen` is
    spec.selector.
    """
    if view.pod_selector is not None:
        names = await _list_nodes_of_pods(view, view.pod_selector, read)
        return _find_node_images(names, read)[0], ()
    if chosen is not None and chosen.names is not None:
        return _find_node_images(dict.fromkeys(chosen.names), read)
    node_images = [
        node_image
        for node_image in read.list_all(NODE_IMAGE_VIEWS)
        if not node_image.is_deleting and view.selects(node_image.name, node_image.labels)
    ]
    return sorted(node_images, key=lambda node_image: node_image.name), ()


def _find_failed_nodes(
    view: PullJobView, read: Read[ImagePullJobSettings]
) -> tuple[Sequence[NodeImageView], Sequence[str]]:
    """Return the failed nodes of a job that has ended, and the names in spec.selector.names of nodes without a
    NodeImage.
    """
    selector = view.spec.selector if view.spec is not None else None
    named = selector.names if selector is not None else None
    return _find_node_images(view.status.failed_nodes or (), read)[0], _find_node_images(named or (), read)[1]


def _find_node_images(
    names: Iterable[str], read: Read[ImagePullJobSettings]
) -> tuple[list[NodeImageView], list[str]]:
    """Return the NodeImages of these nodes, and the names of nodes without a NodeImage."""
    node_images: list[NodeImageView] = []
    missing: list[str] = []
    for name in names:
        node_image = read.get(NODE_IMAGE_VIEWS, Key("", name))
        if node_image is None or node_image.is_deleting:
            missing.append(name)
        else:
            node_images.append(node_image)
    return node_images, missing


def _find_homeless_pods(view: PullJobView, read: Read[ImagePullJobSettings]) -> Sequence[PodView]:
    if view.pod_selector is None:
        return ()
    selected = select_pods(view.pod_selector, view.namespace, read)
    return sorted((pod for pod in selected if pod.is_active and not pod.node_name), key=lambda pod: pod.name)


async def _list_nodes_of_pods(
    view: PullJobView, selector: Selector, read: Read[ImagePullJobSettings]
) -> Sequence[str]:
    pods = [pod for pod in select_pods(selector, view.namespace, read) if pod.is_active and pod.node_name]
    pods.sort(key=lambda pod: pod.name)
    return tuple(dict.fromkeys(pod.node_name for pod in await _sort_pods(view, pods, read)))


async def _sort_pods(
    view: PullJobView, pods: Sequence[PodView], read: Read[ImagePullJobSettings]
) -> Sequence[PodView]:
    """Return the pods in the update order of the job's workload. If there is no workload or its order is unknown,
    return the pods in the given order.
    """
    resource = resource_of_controller(view.controller)
    if resource is None or view.controller is None or len(pods) < 2:
        return pods
    order = read.find_memory(_Order)
    now = read.now()
    if order.asked_at is None or now - order.asked_at >= ORDER_AGAIN_S:
        namespace = view.namespace if resource.namespaced else ""
        try:
            order.workload = decode(await read.live.get(resource, namespace, view.controller.name))
        except (KubeError, RuntimeError):
            order.workload = None
        order.asked_at = now
    return (
        sort_in_update_order(pods, order.workload, kind=resource.kind) if order.workload is not None else pods
    )


async def _find_others(
    view: PullJobView, nodes: Iterable[NodeImageView], read: Read[ImagePullJobSettings]
) -> Mapping[str, PullJobView | None]:
    """Return the other jobs that share entries with this job. Each job is looked up only once."""
    names: dict[str, Key] = {}
    for node in nodes:
        entry = node.find_entry(view.image) if view.image is not None else None
        for ref in (entry.owner_references if entry is not None else None) or ():
            is_known = read.settings.namespace in ("", ref.namespace)
            if ref.uid != view.uid and is_pull_job(ref) and is_known:
                names[ref.uid] = Key(ref.namespace, ref.name)
    named = await look_up(read, PULL_JOB_VIEWS, ((key, uid) for uid, key in names.items()))
    result = {uid: named.views.get(uid) for uid in names}
    return {uid: job if job is not None and not job.is_deleting else None for uid, job in result.items()}
