"""From caches to boards: what changed is made into rows, once for all browsers.

Cache ──Change──▶ Feeds ──rollout_row(), waiting_pod(), job_row(), other_row() (pure)──▶ Board: one a list
                       └──▶ listeners: pages of one workload (pages.py) that look at that namespace
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec
import orjson

from pykruise.dashboard.board import Board, Row
from pykruise.dashboard.jobs import job_resources, job_row
from pykruise.dashboard.objects import BY_UID, DashboardObject
from pykruise.dashboard.others import other_resources, other_row
from pykruise.dashboard.rollouts import older_set, rollout_resources, rollout_row, row_id
from pykruise.dashboard.waiting import waiting_pod
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONTROLLER_REVISIONS, DEPLOYMENTS, PODS, REPLICA_SETS, Resource
from pykruise.runtime.views import BY_CONTROLLER

_log = logging.getLogger(__name__)

Listener = Callable[[Resource, str], None]
"""Called with the resource and namespace of what changed."""

_FORBIDDEN: Final = 403


class Feeds:
    """Boards of all pages with lists. `caches`: by resource; they run elsewhere."""

    def __init__(self, caches: Mapping[Resource, Cache[DashboardObject]], *, clock: Clock) -> None:
        self._caches = caches
        self._clock = clock
        self.rollouts = Board()
        self.pods = Board()
        self.jobs = Board()
        self.others = Board()
        self._listeners: dict[Listener, None] = {}
        with_rollouts, with_jobs = set(rollout_resources()), set(job_resources())
        others = set(other_resources())
        for resource, cache in caches.items():
            if resource in with_rollouts:
                cache.subscribe(partial(self._put_rollout, resource))
            if resource in with_jobs:
                cache.subscribe(partial(self._put_job, resource))
            if resource in others:
                cache.subscribe(partial(self._put_other, resource))
            if resource == PODS:
                cache.subscribe(self._put_pod)
            if resource == REPLICA_SETS:
                cache.subscribe(self._put_deployment_of)
            if resource in with_rollouts or resource in with_jobs or resource == REPLICA_SETS:
                cache.subscribe(self._name_owner)
            cache.subscribe(partial(self._tell, resource))

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call it with every change; returns what ends that."""
        self._listeners[listener] = None
        return lambda: self._listeners.pop(listener, None)

    def status(self) -> Mapping[str, Any]:
        """Whether everything has been read, and what cannot be."""
        unread: list[str] = []
        problems: list[str] = []
        for resource, cache in self._caches.items():
            if cache.synced and cache.is_connected:
                continue
            stats = cache.stats()
            if stats.last_code == _FORBIDDEN:
                problems.append(f"{resource} may not be read")
            elif stats.last_error and stats.last_code != 404:
                problems.append(f"{resource}: {stats.last_error}"[:300])
            elif not cache.synced and stats.last_code == 0:
                unread.append(str(resource))
        return {"is_read": not unread, "problems": problems[:5]}

    def revision_before(self, resource: Resource, document: Document) -> Document | None:
        """The ControllerRevision or ReplicaSet that pods of an object come from, where that is not the newest."""
        status = document.get("status") or {}
        if resource == DEPLOYMENTS:
            if status.get("updatedReplicas", 0) == status.get("replicas", 0):
                return None
            uid = document["metadata"].get("uid", "")
            return older_set(
                [item.document for item in self._caches[REPLICA_SETS].by_index(BY_CONTROLLER, uid)]
            )
        current, newest = status.get("currentRevision"), status.get("updateRevision")
        if not current or not newest or current == newest:
            return None
        view = self._caches[CONTROLLER_REVISIONS].get(Key(document["metadata"].get("namespace", ""), current))
        return view.document if view is not None else None

    # ── rows ─────────────────────────────────────────────────────────────────

    def _put_rollout(self, resource: Resource, change: Change[DashboardObject]) -> None:
        if change.new is None:
            self.rollouts.remove(row_id(resource, change.key.namespace, change.key.name))
            return
        document = change.new.document
        row = rollout_row(resource, document, current=self.revision_before(resource, document))
        self._put(self.rollouts, row.id, resource, row.namespace, row)

    def _put_deployment_of(self, change: Change[DashboardObject]) -> None:
        """Its older images are those of its ReplicaSets, which may be heard of later."""
        seen = change.new or change.old
        for owner in self._caches[DEPLOYMENTS].by_index(BY_UID, seen.controller) if seen is not None else ():
            self._put_rollout(DEPLOYMENTS, Change(Key(owner.namespace, owner.name), owner, owner))

    def _put_pod(self, change: Change[DashboardObject]) -> None:
        key = row_id(PODS, change.key.namespace, change.key.name)
        row = None
        if change.new is not None and change.new.waits:
            row = waiting_pod(change.new, owner=self._owner_of(change.new), now=self._clock())
        if row is None:
            self.pods.remove(key)
        else:
            self._put(self.pods, key, PODS, row.namespace, row)

    def _name_owner(self, change: Change[DashboardObject]) -> None:
        """Pods may be heard of before what owns them."""
        if change.old is None and change.new is not None:
            for pod in self._owned(change.new.uid):
                if pod.waits:
                    self._put_pod(Change(Key(pod.namespace, pod.name), pod, pod))

    def _owned(self, uid: str) -> Iterator[DashboardObject]:
        yield from self._caches[PODS].by_index(BY_CONTROLLER, uid)
        for view in self._caches[REPLICA_SETS].by_index(BY_CONTROLLER, uid):
            yield from self._caches[PODS].by_index(BY_CONTROLLER, view.uid)

    def _owner_of(self, pod: DashboardObject) -> tuple[Resource, Document] | None:
        """The workload of a pod; of a Deployment's pod the Deployment."""
        if not pod.controller:
            return None
        for resource in (*rollout_resources(), *job_resources(), REPLICA_SETS):
            views = self._caches[resource].by_index(BY_UID, pod.controller)
            if views and resource == REPLICA_SETS and views[0].controller:
                return self._owner_of(views[0]) or (resource, views[0].document)
            if views:
                return resource, views[0].document
        return None

    def _put_job(self, resource: Resource, change: Change[DashboardObject]) -> None:
        if change.new is None:
            self.jobs.remove(row_id(resource, change.key.namespace, change.key.name))
            return
        row = job_row(resource, change.new.document)
        self._put(self.jobs, row.id, resource, row.namespace, row)

    def _put_other(self, resource: Resource, change: Change[DashboardObject]) -> None:
        if change.new is None:
            self.others.remove(row_id(resource, change.key.namespace, change.key.name))
            return
        row = other_row(resource, change.new.document)
        self._put(self.others, row.id, resource, row.namespace, row)

    def _put(self, board: Board, key: str, resource: Resource, namespace: str, row: msgspec.Struct) -> None:
        board.put(Row(key, str(resource), namespace, orjson.dumps(msgspec.to_builtins(row))))

    def _tell(self, resource: Resource, change: Change[DashboardObject]) -> None:
        for listener in tuple(self._listeners):
            listener(resource, change.key.namespace)
