"""Feeds from caches to boards: each change becomes rows, once for all browsers.

Cache ──Change──▶ Feeds ──build_…_row(), build_waiting_pod() (pure)──▶ Board: one per list
                  ├──▶ Verdicts ──▶ the same rows with the phase of explain, and `why/…` rows with the cause
                  └──▶ listeners: pages of one workload (pages.py) that watch that namespace
run() ──▶ the rows of waiting pods again, because their reasons also depend on the time
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec
import orjson

from pykruise.cli.insight.cluster_reading import is_lost
from pykruise.dashboard.board import Board, Row
from pykruise.dashboard.jobs import list_job_resources
from pykruise.dashboard.objects import BY_UID, DashboardObject
from pykruise.dashboard.others import list_other_resources
from pykruise.dashboard.rollouts import find_older_set, format_row_id, list_rollout_resources
from pykruise.dashboard.rows import row_of
from pykruise.dashboard.verdicts import Known, Target, Verdicts
from pykruise.dashboard.waiting import build_waiting_pod
from pykruise.kinds import find_shown
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONTROLLER_REVISIONS, DEPLOYMENTS, NODES, PODS, REPLICA_SETS, Resource
from pykruise.plans.progress import Phase
from pykruise.pods.view.nodes import project_node
from pykruise.runtime.views import BY_CONTROLLER

_log = logging.getLogger(__name__)

Listener = Callable[[Resource, str], None]
"""Callback with the resource and namespace of a change."""

_FORBIDDEN: Final = 403
AGAIN_S: Final = 15.0
"""Seconds between two turns of run()."""
_PODS_AT_ONCE: Final = 20
"""Number of pods after which other tasks of the event loop have their turn."""


class Feeds:
    """Boards of all pages with lists. `caches` are by resource; another component runs them."""

    def __init__(self, caches: Mapping[Resource, Cache[DashboardObject]], *, clock: Clock) -> None:
        self._caches = caches
        self._clock = clock
        self.rollouts = Board()
        self.pods = Board()
        self.jobs = Board()
        self.others = Board()
        self._listeners: dict[Listener, None] = {}
        self._verdicts: Verdicts | None = None
        self._known: dict[str, Known] = {}
        """Entries by the id of their row."""
        with_rollouts, with_jobs = set(list_rollout_resources()), set(list_job_resources())
        others = set(list_other_resources())
        for resource, cache in caches.items():
            if resource in with_rollouts | with_jobs | others:
                cache.subscribe(partial(self._put_object, resource))
            if resource == PODS:
                cache.subscribe(self._put_pod)
            if resource == REPLICA_SETS:
                cache.subscribe(self._put_deployment_of)
            if resource in with_rollouts or resource in with_jobs or resource == REPLICA_SETS:
                cache.subscribe(self._update_pods_of)
            cache.subscribe(partial(self._notify_listeners, resource))

    def judge_with(self, verdicts: Verdicts) -> None:
        """Use these verdicts in the rows. Call it before the caches run."""
        self._verdicts = verdicts

    def take(self, target: Target, known: Known) -> None:
        """Store a new verdict of an object and write the object's rows again."""
        view = self._caches[target.resource].get(target.key)
        if view is None or view.uid != known.uid:
            return
        key = format_row_id(target.resource, target.key.namespace, target.key.name)
        if self._known.get(key) == known:
            return
        self._known[key] = known
        body = {"id": f"why/{key}", "of": key, **msgspec.to_builtins(known.verdict)}
        board = self._find_board(target.resource)
        board.put(Row(f"why/{key}", str(PODS), target.key.namespace, orjson.dumps(body)))
        self._write(target.resource, view)

    def _find_board(self, resource: Resource) -> Board:
        shown = find_shown(resource.group, resource.kind)
        assert shown is not None, f"{resource} has no page"
        return {"rollouts": self.rollouts, "jobs": self.jobs, "others": self.others}[shown.board]

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every change. The returned function removes the listener."""
        self._listeners[listener] = None
        return lambda: self._listeners.pop(listener, None)

    def read_status(self) -> Mapping[str, Any]:
        """Return whether all resources have been read, and which resources cannot be read."""
        problems: list[str] = []
        for resource, cache in self._caches.items():
            if cache.synced and cache.is_connected:
                continue
            stats = cache.read_stats()
            if stats.last_code == _FORBIDDEN:
                problems.append(f"the user has no permission to read {resource}")
            elif stats.last_error and stats.last_code != 404:
                problems.append(f"{resource}: {stats.last_error}"[:300])
        return {"is_read": self.is_read(), "problems": problems[:5]}

    def is_read(self) -> bool:
        """Whether each resource has been read at least once, or cannot be read."""
        return all(self.has_answer(resource) for resource in self._caches)

    def has_answer(self, resource: Resource) -> bool:
        """Whether the API server has listed the objects of the resource, or has answered with an error code."""
        cache = self._caches[resource]
        return cache.synced or cache.read_stats().last_code != 0

    def find_revision_before(self, resource: Resource, document: Document) -> Document | None:
        """Return the older ControllerRevision or ReplicaSet of an object's pods; None if all have the newest one."""
        status = document.get("status") or {}
        if resource == DEPLOYMENTS:
            if status.get("updatedReplicas", 0) == status.get("replicas", 0):
                return None
            uid = document["metadata"].get("uid", "")
            return find_older_set(
                [item.to_document for item in self._caches[REPLICA_SETS].list_by_index(BY_CONTROLLER, uid)]
            )
        current, newest = status.get("currentRevision"), status.get("updateRevision")
        if not current or not newest or current == newest:
            return None
        view = self._caches[CONTROLLER_REVISIONS].get(Key(document["metadata"].get("namespace", ""), current))
        return view.to_document if view is not None else None

    # ── rows ─────────────────────────────────────────────────────────────────

    def _put_object(self, resource: Resource, change: Change[DashboardObject]) -> None:
        target = Target(resource, change.key)
        if change.new is None:
            key = format_row_id(resource, change.key.namespace, change.key.name)
            self._known.pop(key, None)
            for row_key in (key, f"why/{key}"):
                self._find_board(resource).remove(row_key)
            if self._verdicts is not None:
                self._verdicts.remove(target)
            return
        status_phase = self._write(resource, change.new)
        if self._verdicts is not None:
            self._verdicts.put(target, uid=change.new.uid, status_phase=status_phase)

    def _write(self, resource: Resource, view: DashboardObject) -> str:
        """Write the row of an object with the verdict of explain. Return the phase that its status alone shows."""
        document = view.to_document
        board = self._find_board(resource)
        current = self.find_revision_before(resource, document) if board is self.rollouts else None
        row = row_of(resource, document, current=current)
        status_phase = row.phase
        known = self._known.get(row.id)
        if known is not None and (known.uid, known.status_phase) == (view.uid, status_phase):
            phase = Phase(known.verdict.phase)
            row = msgspec.structs.replace(row, phase=phase, needs_action=phase.needs_a_person)
        self._put(board, row.id, resource, row.namespace, row)
        return status_phase

    def _put_deployment_of(self, change: Change[DashboardObject]) -> None:
        """Write the Deployment's row again: its older images come from ReplicaSets, which may arrive later."""
        seen = change.new or change.old
        for owner in (
            self._caches[DEPLOYMENTS].list_by_index(BY_UID, seen.controller) if seen is not None else ()
        ):
            self._write(DEPLOYMENTS, owner)

    def _put_pod(self, change: Change[DashboardObject]) -> None:
        key = format_row_id(PODS, change.key.namespace, change.key.name)
        row = None
        if change.new is not None and change.new.waits:
            row = build_waiting_pod(
                change.new,
                owner=self.owner_of(change.new),
                now=self._clock(),
                lost_nodes=self._find_lost_nodes(change.new),
            )
        if row is None:
            self.pods.remove(key)
        else:
            self._put(self.pods, key, PODS, row.namespace, row)

    def _find_lost_nodes(self, pod: DashboardObject) -> tuple[str, ...]:
        """Return the node of the pod if it does not respond. Without all nodes, nothing is known about a node."""
        nodes = self._caches[NODES]
        if not pod.node or not nodes.synced:
            return ()
        view = nodes.get(Key("", pod.node))
        return (pod.node,) if is_lost(project_node(view.raw) if view is not None else None) else ()

    async def run(self) -> None:
        """Write the rows of waiting pods repeatedly until cancelled: a reason may change without any change of the pod,
        for example when its node stops responding, or when a deadline passes.
        """
        while True:
            await asyncio.sleep(AGAIN_S)
            for number, pod in enumerate([pod for pod in self._caches[PODS].values() if pod.waits]):
                key = Key(pod.namespace, pod.name)
                if self._caches[PODS].get(key) is pod:
                    self._put_pod(Change(key, pod, pod))
                if number % _PODS_AT_ONCE == 0:
                    await asyncio.sleep(0)

    def _update_pods_of(self, change: Change[DashboardObject]) -> None:
        """Update the rows of pods that arrived before their owner."""
        if change.old is None and change.new is not None:
            for pod in self._list_owned_pods(change.new.uid):
                if pod.waits:
                    self._put_pod(Change(Key(pod.namespace, pod.name), pod, pod))

    def _list_owned_pods(self, uid: str) -> Iterator[DashboardObject]:
        yield from self._caches[PODS].list_by_index(BY_CONTROLLER, uid)
        for view in self._caches[REPLICA_SETS].list_by_index(BY_CONTROLLER, uid):
            yield from self._caches[PODS].list_by_index(BY_CONTROLLER, view.uid)

    def owner_of(self, pod: DashboardObject) -> tuple[Resource, Document] | None:
        """Return the workload of a pod. For a pod of a Deployment, that is the Deployment."""
        if not pod.controller:
            return None
        for resource in (*list_rollout_resources(), *list_job_resources(), REPLICA_SETS):
            views = self._caches[resource].list_by_index(BY_UID, pod.controller)
            if views and resource == REPLICA_SETS and views[0].controller:
                return self.owner_of(views[0]) or (resource, views[0].to_document)
            if views:
                return resource, views[0].to_document
        return None

    def _put(self, board: Board, key: str, resource: Resource, namespace: str, row: msgspec.Struct) -> None:
        board.put(Row(key, str(resource), namespace, orjson.dumps(msgspec.to_builtins(row))))

    def _notify_listeners(self, resource: Resource, change: Change[DashboardObject]) -> None:
        if self._verdicts is not None and self._is_news(resource, change):
            self._verdicts.touch(change.key.namespace)
        for listener in tuple(self._listeners):
            listener(resource, change.key.namespace)

    @staticmethod
    def _is_news(resource: Resource, change: Change[DashboardObject]) -> bool:
        """Whether the change may change the verdict of related objects. Heartbeats of nodes cannot change it."""
        if resource != NODES or change.new is None or change.old is None:
            return True
        return bool(_without_heartbeat(change.new.to_document) != _without_heartbeat(change.old.to_document))


def _without_heartbeat(node: Document) -> Any:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return node.get("spec"), [(item.get("type"), item.get("status")) for item in conditions]
