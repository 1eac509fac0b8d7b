"""Two ways to read SidecarSets and related objects: from caches, or from the API server each time.

CachedSidecars   for webhooks: a pod costs no request; runs beside the webhook server
LiveSidecars     for reviews that run in the same process as a sandbox, and for processes without caches
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pykruise.kinds.sidecarset.admission_facts import WHITELIST_KEY
from pykruise.kinds.sidecarset.revisions import SET_LABEL
from pykruise.kinds.sidecarset.snapshot import SIDECAR_SET_VIEWS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.kube.cache.cache import Cache
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, Right, make_right
from pykruise.kube.resources import CONFIG_MAPS, CONTROLLER_REVISIONS, NAMESPACES
from pykruise.plans.targets import read_configuration
from pykruise.plans.views import NamespaceView, project_namespace
from pykruise.pods.workload.revisions import RevisionView, project_revision
from pykruise.runtime.object_reader import CachedObjects, LiveObjects

RIGHTS: tuple[Right, ...] = (
    make_right(SIDECAR_SETS, *READ, why="SidecarSet: to inject sidecars into pods"),
    make_right(NAMESPACES, *READ, why="SidecarSet: to read the labels of namespaces"),
    make_right(CONTROLLER_REVISIONS, *READ, why="SidecarSet: to inject older revisions"),
    make_right(
        CONFIG_MAPS,
        "get",
        in_namespace=True,
        why="SidecarSet: to read the annotations of pods that it may change",
    ),
)
"""RBAC rules for these reads."""

BY_SET = "sidecarset"
EVERYWHERE = ""
"""Namespace of cluster-scoped objects."""


class LiveSidecars:
    """A `SidecarReader` that reads from the API server. Each read gets its client from `client`.

    `namespace` is the manager's namespace, which contains revisions and the whitelist.
    """

    def __init__(self, client: Callable[[], Client], *, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._sets = LiveObjects(client, SIDECAR_SET_VIEWS)

    async def list_sidecar_sets(self) -> Sequence[SidecarSetView]:
        return await self._sets.list_in_namespace(EVERYWHERE)

    async def read_namespace_labels(self, name: str) -> Mapping[str, str] | None:
        try:
            return project_namespace(await self._client().get(NAMESPACES, "", name)).labels
        except NotFoundError:
            return None

    async def list_revisions(self, name: str) -> Sequence[RevisionView]:
        result = await self._client().list(
            CONTROLLER_REVISIONS, self._namespace, label_selector=f"{SET_LABEL}={name}"
        )
        return [project_revision(raw) for raw in result.items]

    async def read_whitelist(self) -> str | None:
        return await read_configuration(self._client(), self._namespace, WHITELIST_KEY)


class CachedSidecars:
    """A `SidecarReader` with its own caches, which are kept up to date while `run()` runs.

    `namespace` is the manager's namespace, which contains the whitelist, and the revisions unless `revision_namespace`
    is given. Every selected pod must be injected, so a read waits until its cache is filled. While the watch is
    interrupted, reads use the API server: after an outage, the API server may send reviews before the watch is
    connected again.
    """

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        revision_namespace: str = "",
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._live = LiveSidecars(lambda: client, namespace=revision_namespace or namespace)
        options: dict[str, Any] = {"clock": clock, "rng": rng}
        self.objects = CachedObjects(client, SIDECAR_SET_VIEWS, clock=clock, rng=rng)
        self._namespaces: Cache[NamespaceView] = Cache(
            client, NAMESPACES, project=project_namespace, **options
        )
        self._revisions: Cache[RevisionView] = Cache(
            client,
            CONTROLLER_REVISIONS,
            project=project_revision,
            namespace=revision_namespace or namespace,
            label_selector=SET_LABEL,
            indexes={BY_SET: lambda revision: (revision.labels.get(SET_LABEL, ""),)},
            **options,
        )

    def list_problems(self) -> Sequence[str]:
        """Reasons why pods cannot be injected yet."""
        if not self.objects.is_installed or (self._namespaces.synced and not self.objects.list_problems()):
            return ()
        return ("SidecarSets and namespaces are not cached yet",)

    async def run(self) -> None:
        """Keep the caches up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for cached_objects in (self.objects, self._namespaces, self._revisions):
                tasks.create_task(cached_objects.run())

    async def list_sidecar_sets(self) -> Sequence[SidecarSetView]:
        return await self.objects.list_in_namespace(EVERYWHERE)

    async def read_namespace_labels(self, name: str) -> Mapping[str, str] | None:
        await self._namespaces.wait_synced()
        namespace = self._namespaces.get(Key("", name))
        if namespace is not None and self._namespaces.is_connected:
            return namespace.labels
        return await self._live.read_namespace_labels(name)  # the cached labels of the namespace may be stale

    async def list_revisions(self, name: str) -> Sequence[RevisionView]:
        await self._revisions.wait_synced()
        if not self._revisions.is_connected:
            return await self._live.list_revisions(name)
        return self._revisions.list_by_index(BY_SET, name)

    async def read_whitelist(self) -> str | None:
        return await read_configuration(self._client, self._namespace, WHITELIST_KEY)
