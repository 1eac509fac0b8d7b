"""Content of the dashboard: boards that all browsers share, and pages that exist while they are open.

stream?page=rollouts|pods|jobs|others ──▶ Feeds' boards
stream?page=workload&… ──▶ one WorkloadPage for all viewers: a change in its namespace ──▶ refresh, at most twice a
second
stream?page=node&… ──▶ one NodePage for all viewers, in the same way
stream?page=health ──▶ one HealthPage for each session, with the session's own permissions
"""

import asyncio
import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Protocol

import msgspec
import orjson

from pykruise.cli.errors import CommandError
from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanation_text import format_explanation as text_of
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.insight.gates import read_manager_settings
from pykruise.cli.kubectl.resources import Info
from pykruise.cli.kubectl.revisions import Revision, list_revisions
from pykruise.dashboard.actions import actions_of, argv_of, may_do, run_command
from pykruise.dashboard.aside import run_aside
from pykruise.dashboard.asking import (
    NAMED_ABOVE,
    Question,
    build_question,
    count_pods_at_stake,
    is_asked,
    ticket_of,
)
from pykruise.dashboard.board import Board, Row
from pykruise.dashboard.feeds import Feeds
from pykruise.dashboard.health import build_health_rows
from pykruise.dashboard.node import (
    build_agent_part,
    build_images_part,
    build_node_part,
    build_pods_parts,
    build_probes_part,
)
from pykruise.dashboard.objects import BY_NODE, ROLLOUTS, DashboardObject, list_watched_resources
from pykruise.dashboard.plan_queue import PlanQueue
from pykruise.dashboard.server import Opened
from pykruise.dashboard.sessions import DashboardSession
from pykruise.dashboard.steps import build_steps_part, is_about
from pykruise.dashboard.verdicts import find_explained_kind
from pykruise.dashboard.what_if import WhatIfAnswer, answer_what_if, sets_of
from pykruise.dashboard.workload import (
    PagePart,
    build_events_part,
    build_explained_part,
    build_history_part,
    build_nodes_part,
    build_pods_part,
    has_history,
    head,
    is_named_in_mark,
)
from pykruise.kinds import find, find_shown, list_kinds, shown_of
from pykruise.kube.cache.cache import Cache
from pykruise.kube.client.client import Client
from pykruise.kube.client.object_events import list_events_about
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ForbiddenError, KubeError
from pykruise.kube.ids import Key
from pykruise.kube.resources import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    NODES,
    PODS,
    REPLICA_SETS,
    Resource,
)
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.images.node_image_api import NODE_IMAGES
from pykruise.pods.probes.api import NODE_POD_PROBES
from pykruise.runtime.views import BY_CONTROLLER, BY_NAMESPACE

_log = logging.getLogger(__name__)

AT_LEAST_S: Final = 0.5
"""Minimum seconds between two refreshes of an object."""
AT_MOST_S: Final = 5.0
"""Seconds for which a page waits for a change, and is then refreshed anyway: events are not watched, and some states
change as time passes.
"""
HEALTH_S: Final = 15.0
ANSWERS_S: Final = 8.0
"""Seconds that a page waits for responses of the API server in each refresh."""
PLANS_AT_ONCE: Final = 2
"""Maximum number of plans at the same time. Each simulates a rollout, which uses one processor. A user has one plan at
a time.
"""

_LATE: Final = "the API server did not respond in time"

_OF_A_NODE: Final = (NODES, NODE_IMAGES, NODE_POD_PROBES)
"""Resources whose objects have the name of their node."""

Caches = Mapping[Resource, Cache[DashboardObject]]


class Start(Protocol):
    """Starts a task that runs concurrently with the others."""

    def __call__(self, work: Coroutine[None, None, None], /, *, name: str) -> asyncio.Task[None]: ...


class PageSources(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs of pages. `client` reads from the caches."""

    caches: Caches
    feeds: Feeds
    client: Client
    clock: Clock
    manager_namespace: str = "kruise-system"


class LivePages:
    """All pages. `start` runs a task until it is cancelled. `key` signs the tickets of questions."""

    def __init__(
        self, around: PageSources, start: Start, *, has_actions: bool = False, key: bytes = b""
    ) -> None:
        self._key = key or secrets.token_bytes(32)
        self._around = around
        self._start = start
        self._has_actions = has_actions
        self._plans = PlanQueue(PLANS_AT_ONCE)
        self._by_name = {str(cache): cache for cache in around.caches}
        self._open: dict[tuple[Resource, Key], _LookedAtPage] = {}

    def open(self, query: Mapping[str, str], session: DashboardSession) -> Opened | None:
        """See server.Pages."""
        feeds = self._around.feeds
        lists = {
            "rollouts": feeds.rollouts,
            "pods": feeds.pods,
            "jobs": feeds.jobs,
            "others": feeds.others,
        }
        page = query.get("page", "")
        if page in lists:
            return Opened(lists[page], lambda: None, feeds.is_read)
        if page == "workload":
            resource, key = self._find_target(query)
            return self._share(resource, key, _WorkloadPage)
        if page == "node":
            name = query.get("name", "")
            if not name or "/" in name:
                raise CommandError("the request must name a node: name=…")
            return self._share(NODES, Key("", name), _NodePage)
        if page == "health":
            health_page = _HealthPage(session.client, self._around.manager_namespace)
            task = self._start(health_page.run(), name="health page")
            return Opened(health_page.board, task.cancel, lambda: health_page.is_read)
        return None

    def read_status(self) -> Mapping[str, Any]:
        """See server.Pages."""
        return self._around.feeds.read_status()

    async def plan(self, asked: Mapping[str, Any], session: DashboardSession) -> Mapping[str, Any]:
        """See server.Pages."""
        resource, key = self._find_target(asked)
        kind = find_explained_kind(resource)
        if kind is None:
            raise CommandError(f"plan does not support the kind {resource.kind} of group {resource.group}")
        sets = asked.get("sets")
        changes = sets_of(sets) if isinstance(sets, Mapping) else []
        if not changes:
            raise CommandError("no change is given; set at least one field")

        async def answer() -> WhatIfAnswer:
            return await answer_what_if(
                session.client,
                kind,
                key.namespace,
                key.name,
                changes,
                now=self._around.clock(),
                settings=await self._read_settings(),
            )

        return dict(msgspec.to_builtins(await self._plans.run(session.user.name, answer)))

    async def list_rights(self, asked: Mapping[str, Any], session: DashboardSession) -> Mapping[str, Any]:
        """See server.Pages."""
        resource, key = self._find_target(asked)
        document = decode(await session.client.get(resource, key.namespace, key.name))
        return {"may": await may_do(session.client, resource, document)}

    async def ask_question(self, asked: Mapping[str, Any], session: DashboardSession) -> Mapping[str, Any]:
        """See server.Pages."""
        resource, document, argv = await self._read_action(asked, session)

        async def build() -> Question:
            return await build_question(
                session.client,
                resource,
                document,
                argv,
                now=self._around.clock(),
                settings=await self._read_settings(),
                ticket=self._make_ticket(session, document, argv),
            )

        return dict(msgspec.to_builtins(await self._plans.run(session.user.name, build)))

    async def act(self, asked: Mapping[str, Any], session: DashboardSession) -> Mapping[str, Any]:
        """See server.Pages."""
        _, document, argv = await self._read_action(asked, session)
        if not is_asked(asked.get("ticket"), self._make_ticket(session, document, argv)):
            raise CommandError(
                "the object has changed since you confirmed the action, or you did not "
                "confirm it: review the object again"
            )
        name = document["metadata"]["name"]
        if count_pods_at_stake(document, argv) > NAMED_ABOVE and asked.get("typed") != name:
            raise CommandError(
                f"the object has more than {NAMED_ABOVE} pods: to confirm, type its name, {name}"
            )
        code, said = await run_command(session.client, argv)
        _log.info("user %s ran %s: exit code %d", session.user.name, " ".join(argv), code)
        return {"code": code, "said": said[:4_000]}

    def _make_ticket(self, session: DashboardSession, document: Document, argv: Sequence[str]) -> str:
        return ticket_of(self._key, user=session.user.name, document=document, argv=argv)

    async def _read_action(
        self, asked: Mapping[str, Any], session: DashboardSession
    ) -> tuple[Resource, Document, list[str]]:
        """Return the object and the command that a browser requests. Raises CommandError, KubeError."""
        if not self._has_actions:
            raise CommandError("this dashboard is read-only; start it with --actions to enable actions")
        resource, key = self._find_target(asked)
        document = decode(await session.client.get(resource, key.namespace, key.name))
        action = next(
            (item for item in actions_of(resource, document) if item.id == asked.get("action")), None
        )
        values = asked.get("values")
        if action is None or not isinstance(values, Mapping):
            raise CommandError("this object does not offer this action now; load the page again")
        return resource, document, argv_of(action, values)

    def _find_target(self, asked: Mapping[str, Any]) -> tuple[Resource, Key]:
        """Return the object that a browser names. Raises CommandError."""
        resource = self._by_name.get(str(asked.get("kind", "")))
        name, namespace = asked.get("name"), asked.get("namespace", "")
        if resource is None or not isinstance(name, str) or not name or not isinstance(namespace, str):
            raise CommandError("the request must name an object: kind=PLURAL.GROUP&namespace=…&name=…")
        if "/" in name or "/" in namespace:
            raise CommandError("a name must not contain a slash")
        return resource, Key(namespace if resource.namespaced else "", name)

    async def _read_settings(self) -> ManagerSettings:
        return await read_manager_settings(self._around.client, self._around.clock)

    def _share(self, resource: Resource, key: Key, make: type["_LookedAtPage"]) -> Opened:
        """Return the page of an object, which all viewers share."""
        page = self._open.get((resource, key))
        if page is None:
            page = self._open[resource, key] = make(self._around, resource, key)
            page.task = self._start(page.run(), name=f"page of {resource} {key}")
        page.viewers += 1
        left = [page]

        def close() -> None:
            for item in left:
                item.viewers -= 1
                if not item.viewers and self._open.get((resource, key)) is item:
                    del self._open[resource, key]
                    assert item.task is not None
                    item.task.cancel()
            left.clear()

        return Opened(page.board, close, page.is_read)


class _LookedAtPage(ABC):
    """The parts of one object's page, refreshed when a related object changes."""

    def __init__(self, around: PageSources, resource: Resource, key: Key) -> None:
        self._around = around
        self._resource = resource
        self._key = key
        self._touched = asyncio.Event()
        self.board = Board()
        self.viewers = 0
        self.task: asyncio.Task[None] | None = None
        self._is_read = False

    def is_read(self) -> bool:
        """Whether the page was refreshed once after each resource had been read."""
        return self._is_read

    async def run(self) -> None:
        """Run until cancelled."""
        loop = asyncio.get_running_loop()
        end = self._around.feeds.listen(self._handle_change)
        try:
            while True:
                self._touched.clear()
                begun = loop.time()
                can_be_whole = self._around.feeds.is_read()
                try:
                    self._show(await self._build_parts())
                except Exception:  # a failing page must not end the server
                    _log.exception("the page for %s %s could not be computed", self._resource, self._key)
                    self._show(
                        [
                            self._build_remark(
                                "this object could not be examined; the dashboard's log has the error"
                            )
                        ]
                    )
                self._is_read = self._is_read or can_be_whole
                # One page uses the processor for at most half of the time.
                await asyncio.sleep(max(AT_LEAST_S, loop.time() - begun))
                try:
                    async with asyncio.timeout(AT_MOST_S):
                        await self._touched.wait()
                except TimeoutError:
                    pass
        finally:
            end()

    def _handle_change(self, resource: Resource, namespace: str) -> None:
        if self._is_near(resource, namespace):
            self._touched.set()

    @abstractmethod
    def _is_near(self, resource: Resource, namespace: str) -> bool:
        """Whether a change of such an object may change the page."""

    @abstractmethod
    async def _build_parts(self) -> list[PagePart]:
        """Return all current parts."""

    def _show(self, parts: Sequence[PagePart]) -> None:
        shown = {item.id for item in parts}
        for row in self.board.list_rows():
            if row.id not in shown:
                self.board.remove(row.id)
        self._put(parts)

    def _put(self, parts: Sequence[PagePart]) -> None:
        """Replace some parts. The other parts stay unchanged."""
        for part in parts:
            body = orjson.dumps({"id": part.id, **part.body})
            self.board.put(Row(part.id, part.resource, part.namespace, body))

    def _build_remark(self, text: str) -> PagePart:
        return PagePart(
            id="remark",
            resource=str(self._resource),
            namespace=self._key.namespace,
            body={"text": text[:2_000]},
        )


class _NodePage(_LookedAtPage):
    """One node: see node.py."""

    def _is_near(self, resource: Resource, namespace: str) -> bool:
        return resource in (NODES, PODS, NODE_IMAGES, NODE_POD_PROBES)

    async def _build_parts(self) -> list[PagePart]:
        caches, feeds, home = self._around.caches, self._around.feeds, self._around.manager_namespace
        views = {resource: caches[resource].get(self._key) for resource in _OF_A_NODE}
        pods = sorted(
            caches[PODS].list_by_index(BY_NODE, self._key.name), key=lambda pod: (pod.namespace, pod.name)
        )
        owned = [(pod, feeds.owner_of(pod)) for pod in pods]
        if not owned and not any(views.values()):
            is_read = feeds.has_answer(NODES)
            return [
                self._build_remark(
                    f"there is no node {self._key.name}"
                    if is_read
                    else "the dashboard has not read all objects from the API server yet"
                )
            ]

        async def look(client: Client) -> list[PagePart]:
            now = self._around.clock()
            parts = build_pods_parts(owned, now=now)
            parts.append(build_agent_part([pod.to_document for pod in pods if pod.namespace == home], home))
            if (node := views[NODES]) is not None:
                parts.append(build_node_part(node.to_document))
            if (images := views[NODE_IMAGES]) is not None:
                parts.append(build_images_part(images, now=now))
            if (probes := views[NODE_POD_PROBES]) is not None:
                parts.append(build_probes_part(probes.to_document))
            return parts

        return await run_aside(self._around.client, look)


class _WorkloadPage(_LookedAtPage):
    """One object of a list."""

    def __init__(self, around: PageSources, resource: Resource, key: Key) -> None:
        super().__init__(around, resource, key)
        self._shown = find_shown(resource.group, resource.kind)

    def _is_near(self, resource: Resource, namespace: str) -> bool:
        return not self._key.namespace or not namespace or namespace == self._key.namespace

    async def _build_parts(self) -> list[PagePart]:
        view = self._around.caches[self._resource].get(self._key)
        if view is None:
            is_read = self._around.feeds.has_answer(self._resource)
            text = (
                f"there is no {self._resource.kind} {self._key}"
                if is_read
                else "the dashboard has not read all objects from the API server yet"
            )
            return [self._build_remark(text)]
        document = view.to_document
        revisions = self._list_revisions(document) if has_history(document) else []
        current = self._around.feeds.find_revision_before(self._resource, document)
        pods = self._list_pods(view, document)
        rollout = self._find_rollout(document)
        images = self._list_node_images() if self._shown is not None and self._shown.pulls_image else ()

        async def look_at_known(_: Client) -> list[PagePart]:
            parts = [head(self._resource, document, current=current)]
            own = [pod.to_document for pod in pods]
            now = self._around.clock()
            parts.append(build_pods_part(own, revisions, document, namespace=self._key.namespace, now=now))
            if revisions:
                keeper = REPLICA_SETS if self._resource == DEPLOYMENTS else CONTROLLER_REVISIONS
                namespace = revisions[-1].info.namespace
                parts.append(build_history_part(revisions, namespace=namespace, resource=str(keeper)))
            if rollout is not None:
                parts.append(build_steps_part(rollout))
            if images:
                parts.append(
                    build_nodes_part(
                        document, _find_keeper_of_images(), [image.to_document for image in images]
                    )
                )
            return parts

        async def look_at_asked(client: Client) -> list[PagePart]:
            asked = [self._build_event_parts(client, view.uid)]
            if find_explained_kind(self._resource) is not None:
                asked.append(self._explain_object(client))
            return [part for parts in await asyncio.gather(*asked) for part in parts]

        known = await run_aside(self._around.client, look_at_known)
        self._put(known)
        return [*known, *(await run_aside(self._around.client, look_at_asked))]

    async def _explain_object(self, client: Client) -> list[PagePart]:
        kind = find(self._resource.kind.lower())
        assert kind is not None
        clock = self._around.clock
        remark, words = "", ""
        try:
            async with asyncio.timeout(ANSWERS_S):
                settings = await read_manager_settings(client, clock)
                said = await read_and_explain(client, self._key, now=clock(), kind=kind, settings=settings)
            words = text_of(said, now=clock())
        except (CommandError, KubeError, TimeoutError) as error:
            remark = str(error)[:2_000] or _LATE
            said = Explanation(
                kind=self._resource.kind,
                namespace=self._key.namespace,
                name=self._key.name,
                verdict="",
                headline="",
            )
        return [build_explained_part(said, namespace=self._key.namespace, remark=remark, words=words)]

    def _find_rollout(self, document: Document) -> Document | None:
        """Return the document if it is an OpenKruise Rollout, or else the Rollout of the workload."""
        if self._resource == ROLLOUTS:
            return document
        rollouts = self._around.caches[ROLLOUTS].list_by_index(BY_NAMESPACE, self._key.namespace)
        documents = (view.to_document for view in rollouts)
        return next((item for item in documents if is_about(item, self._resource, self._key.name)), None)

    def _list_node_images(self) -> Sequence[DashboardObject]:
        return self._around.caches[_find_keeper_of_images()].values()

    def _list_revisions(self, document: Document) -> list[Revision]:
        shown = shown_of(document)
        assert shown is not None
        resource = REPLICA_SETS if shown.verbs.history == "replicasets" else CONTROLLER_REVISIONS
        cache = self._around.caches[resource]
        views = (
            cache.list_by_index(BY_NAMESPACE, self._key.namespace) if self._key.namespace else cache.values()
        )
        uid = document["metadata"].get("uid")
        infos = [
            _make_view_info(resource, view)
            for view in views
            if view.controller == uid or shown.verbs.revision_label in view.labels
        ]
        return list_revisions(infos, _make_info(self._resource, document), shown)

    def _list_pods(self, view: DashboardObject, document: Document) -> list[DashboardObject]:
        """Return the pods that the object or one of its dependents controls; for a kind that owns no pods, the
        selected pods.
        """
        shown, pods = self._shown, self._around.caches[PODS]
        if shown is None or shown.pods == "owned":
            views = self._list_owned_pods(view.uid)
        elif shown.pods == "selected":
            views = self._select_by_selector(document, pods.values(), shown.pod_mark)
        else:
            views = self._select_marked(pods.list_by_index(BY_NAMESPACE, self._key.namespace), shown.pod_mark)
        return sorted(views, key=lambda view: (view.namespace, view.name))

    def _list_owned_pods(self, uid: str) -> list[DashboardObject]:
        caches = self._around.caches
        views = list(caches[PODS].list_by_index(BY_CONTROLLER, uid))
        for resource in _with_templates():
            for view in caches[resource].list_by_index(BY_CONTROLLER, uid):
                views += self._list_owned_pods(view.uid)
        return views

    def _select_marked(self, pods: Iterable[DashboardObject], mark: str) -> list[DashboardObject]:
        """Return the pods with an annotation that names the object. A text search excludes most other pods quickly."""
        name = self._key.name
        return [
            pod
            for pod in pods
            if mark.encode() in pod.raw and name.encode() in pod.raw
            if is_named_in_mark(pod.to_document, mark, name)
        ]

    def _select_by_selector(
        self, document: Document, pods: Iterable[DashboardObject], mark: str
    ) -> list[DashboardObject]:
        try:
            selector = parse_selector(get_path(document, "spec", "selector"))
        except (SelectorError, TypeError):
            return []
        return [pod for pod in self._select_marked(pods, mark) if selector.matches(pod.labels)]

    async def _build_event_parts(self, client: Client, uid: str) -> list[PagePart]:
        """Return the part with the object's own events; empty if the dashboard has no permission to read them."""
        namespace = self._key.namespace or "default"
        try:
            async with asyncio.timeout(ANSWERS_S):
                events = await list_events_about(client, uid, namespace=namespace)
        except ForbiddenError:
            return []
        except (KubeError, TimeoutError) as error:
            return [build_events_part([], namespace=namespace, problem=str(error) or _LATE)]
        return [build_events_part(events, namespace=namespace)]


@cache
def _with_templates() -> tuple[Resource, ...]:
    """Return the resources whose objects create pods. These objects may have an owner themselves."""
    return tuple(
        resource
        for resource in list_watched_resources()
        if (shown := find_shown(resource.group, resource.kind)) is not None and shown.templates
    )


@cache
def _find_keeper_of_images() -> Resource:
    """The resource that stores the images of a node."""
    return next(kind.resource for kind in list_kinds() if kind.shown is not None and kind.shown.keeps_images)


def _make_view_info(resource: Resource, view: DashboardObject) -> Info:
    return Info(resource=resource, namespace=view.namespace, name=view.name, document=view.to_document)


def _make_info(resource: Resource, document: Document) -> Info:
    meta = document["metadata"]
    return Info(resource=resource, namespace=meta.get("namespace", ""), name=meta["name"], document=document)


class _HealthPage:
    """The health page of one user, which examines the installation repeatedly."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.board = Board()
        self.is_read = False

    async def run(self) -> None:
        """Refresh the page until cancelled."""
        while True:
            try:
                rows = await build_health_rows(self._client, namespace=self._namespace)
            except Exception:  # a page that fails must not end the server
                _log.exception("the health page could not be computed")
                rows = [
                    {
                        "id": "note",
                        "note": "the installation could not be examined; the dashboard's log has the error",
                    }
                ]
            kept = {str(row["id"]) for row in rows}
            for row in self.board.list_rows():
                if row.id not in kept:
                    self.board.remove(row.id)
            for entry in rows:
                self.board.put(Row(str(entry["id"]), "", "", orjson.dumps(entry)))
            self.is_read = True
            await asyncio.sleep(HEALTH_S)
