"""The API server: a function from requests to responses over a storage, without sockets.

method, path, query, headers, body ──▶ ApiServer.handle() ──▶ Response
path, query, headers (a watch)     ──▶ ApiServer.stream() ──▶ LineStream, or the Response that rejects it

    routes.py ──▶ Call ──▶ reads, writes, deletion, scale, subresources ──▶ CallAnswer ──▶ Response

The server starts no tasks. Every response is an object or a Status: an unexpected exception is logged and becomes a
500.
"""

import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import orjson

from pykruise.kube.client.transport import Response
from pykruise.kube.clock import Clock, format_time
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, Resource
from pykruise.kube.schemas.releases import NEWEST_MINOR, Release
from pykruise.sandbox.apiserver import builtin
from pykruise.sandbox.apiserver.access.attributes import attributes_of
from pykruise.sandbox.apiserver.access.bootstrap import make_first_roles
from pykruise.sandbox.apiserver.access.impersonation import impersonate_user
from pykruise.sandbox.apiserver.access.users import ADMIN, User
from pykruise.sandbox.apiserver.catalog import Catalog, CatalogEntry, Conversions, list_builtin_entries
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.custom.crds import CRD_SHELF, CrdStrategy
from pykruise.sandbox.apiserver.custom.definitions import Definitions
from pykruise.sandbox.apiserver.objects.expiry import EventExpiry
from pykruise.sandbox.apiserver.objects.lifecycle import FIRST_NAMESPACES
from pykruise.sandbox.apiserver.objects.metadata import make_uid
from pykruise.sandbox.apiserver.objects.storage import MemoryStorage, Storage
from pykruise.sandbox.apiserver.objects.strategies import Strategy
from pykruise.sandbox.apiserver.plugins.quota_books import QuotaBooks
from pykruise.sandbox.apiserver.plugins.reviewers import Admission, AdmissionChain, ReviewRule
from pykruise.sandbox.apiserver.policies import Policies
from pykruise.sandbox.apiserver.printing.forms import render_object
from pykruise.sandbox.apiserver.requests import (
    applying,
    deletion,
    logs,
    reads,
    scale,
    subresources,
    token_requests,
    writes,
)
from pykruise.sandbox.apiserver.requests.call import Call, CallAnswer, parse_flag
from pykruise.sandbox.apiserver.requests.negotiation import JSON, PLAIN, YAML, form_of, to_yaml
from pykruise.sandbox.apiserver.requests.patching import is_apply
from pykruise.sandbox.apiserver.requests.reviews import REVIEWS
from pykruise.sandbox.apiserver.requests.routes import Route, route
from pykruise.sandbox.apiserver.requests.statuses import (
    Refusal,
    build_status_document,
    make_bad_request,
    make_internal_error,
    make_method_not_allowed,
    make_not_found,
    page_not_found,
)
from pykruise.sandbox.apiserver.requests.watches import Hub, HubStats, LineStream
from pykruise.sandbox.apiserver.webhooks.admission import WebhookAdmission
from pykruise.sandbox.apiserver.webhooks.calling import Caller, NoCaller
from pykruise.sandbox.apiserver.webhooks.conversion import WebhookConversions
from pykruise.sandbox.version import find_served_release

_LOG: Final = logging.getLogger(__name__)

_HEADERS: Final = {"content-type": JSON, "cache-control": "no-cache, private"}
_TEXT: Final = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
_HEALTH: Final = ("healthz", "livez", "readyz")
_GET: Final = ("GET", "HEAD")

Action = Callable[[Core, Call], Awaitable[CallAnswer]]

_COLLECTION: Final[Mapping[str, tuple[str, Action]]] = {
    "GET": ("list", reads.list_page),
    "POST": ("create", writes.create),
    "DELETE": ("deletecollection", deletion.delete_collection),
}
_OBJECT: Final[Mapping[str, tuple[str, Action]]] = {
    "GET": ("get", reads.get),
    "PUT": ("update", writes.replace_object),
    "PATCH": ("patch", writes.patch),
    "DELETE": ("delete", deletion.delete),
}
_CONNECT: Final[Mapping[str, Action]] = {"GET": subresources.connect, "POST": subresources.connect}
_SPECIAL: Final[Mapping[str, Mapping[str, Action]]] = {
    "scale": {"GET": scale.get_scale, "PUT": scale.put_scale, "PATCH": scale.patch_scale},
    "binding": {"POST": subresources.bind},
    "eviction": {"POST": subresources.evict},
    "finalize": {"PUT": subresources.finalize},
    "log": {"GET": logs.read_log},
    "token": {"POST": token_requests.create_token},
    "exec": _CONNECT,
    "attach": _CONNECT,
    "portforward": _CONNECT,
}
_LIKE_OBJECT: Final = ("status", "resize", "ephemeralcontainers")


class ApiServer:
    """One API server with its storage, which has the namespaces that every cluster starts with.

    `reviewers` review writes in the given order, mutating reviewers before validating reviewers. `admission`
    replaces all of them. `conversions` convert the objects of CRDs. `watch_buffer` is the number of events that a
    watcher may lag behind before it is cut off. Without `tracks_fields` there are no managedFields. With `rbac`,
    users may do what their roles allow; without it, all users may do everything. With `service_accounts`, new pods
    get an account and a volume with its token. With `checks_accounts`, a pod is rejected while the service account
    that it names (other than `default`) does not exist. `kubernetes` is the minor version that decides fields,
    defaults and rules; `gates` are feature gates that are on although they are off by default.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        rng: random.Random,
        storage: Storage | None = None,
        reviewers: Sequence[ReviewRule] = (),
        admission: Admission | None = None,
        conversions: Conversions | None = None,
        webhooks: Caller | None = None,
        watch_buffer: int = 10_000,
        tracks_fields: bool = True,
        rbac: bool = False,
        service_accounts: bool = False,
        checks_accounts: bool = True,
        kubernetes: str = NEWEST_MINOR,
        gates: frozenset[str] = frozenset(),
    ) -> None:
        release = find_served_release(kubernetes, gates)
        own = admission if admission is not None else AdmissionChain(reviewers)
        caller = webhooks if webhooks is not None else NoCaller()
        configured = WebhookAdmission(own, caller)
        policies = Policies(configured)
        self._core = Core(
            storage=storage if storage is not None else MemoryStorage(),
            catalog=Catalog(
                list_builtin_entries(partial(_choose_strategy, release=release), release=release),
                minor=kubernetes,
            ),
            hub=Hub(buffer_events=watch_buffer),
            admission=policies,
            clock=clock,
            rng=rng,
            tracks_fields=tracks_fields,
            rbac=rbac,
            service_accounts=service_accounts,
            checks_accounts=checks_accounts,
        )
        self._definitions = Definitions(self._core, WebhookConversions(conversions, caller, rng))
        self._expiry = EventExpiry(self._core)
        configured.bind(self._core)
        policies.bind(self._core)
        self._make_first_namespaces()
        if rbac:
            make_first_roles(self._core)

    @property
    def catalog(self) -> Catalog:
        """Catalog of served resources."""
        return self._core.catalog

    @property
    def storage(self) -> Storage:
        """Storage of the objects."""
        return self._core.storage

    def read_stats(self) -> HubStats:
        """Counts of the watches."""
        return self._core.hub.read_stats()

    def restore(self, resource: Resource, documents: Iterable[Document]) -> None:
        """Store objects as another server stored them: uids, times and status are kept.

        There are no defaults, no validation and no admission. Use it for copies of a cluster, before the components
        of the cluster run. Raises KeyError for a resource that is not served.
        """
        entry = self._core.catalog.find_entry(resource.group, resource.version, resource.plural)
        if entry is None:
            raise KeyError(str(resource))
        for document in documents:
            doc = deep_copy(document)
            doc["metadata"].pop("managedFields", None)
            doc |= {"apiVersion": entry.storage_api_version, "kind": resource.kind}
            self._core.put(entry, None, doc)

    def count_quotas(self) -> None:
        """Start to maintain the status of ResourceQuotas, as the controller manager of a cluster does."""
        if not self._core.limits.keeps_books:
            QuotaBooks(self._core)

    def close(self) -> None:
        """End all watches. Their buffered events are still delivered."""
        self._core.hub.end()

    # --- requests
    # -----------------------------------------------------------------------------------------------

    async def handle(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        user: User = ADMIN,
        managed_fields: bool = True,
    ) -> Response:
        """Respond to one request. Never raises, except for cancellation.

        `path` is percent-encoded, `query` is not; header names are in lower case. Use `stream` for watches. Responses
        without managedFields are faster.
        """
        query, headers = query or {}, headers or {}
        try:
            who = _Who(self._authorize(user, method, path, query, headers), managed_fields)
            return await self._answer_call(method, path, query, headers, body, who)
        except Refusal as refusal:
            return _build_refusal_response(refusal)
        except RecursionError:
            return _build_refusal_response(make_bad_request("the object is nested too deeply"))
        except Exception as err:
            _LOG.exception("%s %s failed", method, path)
            return _build_refusal_response(make_internal_error(f"{type(err).__name__}: {err}"))

    def is_stream(self, method: str, path: str, query: Mapping[str, str]) -> bool:
        """Whether a request is a watch or follows a log, so that it needs `stream`."""
        return method == "GET" and (
            self._is_watch(path, query) or (_is_log(path) and parse_flag(query, "follow"))
        )

    def _is_watch(self, path: str, query: Mapping[str, str]) -> bool:
        if parse_flag(query, "watch"):
            return True
        parts = path.split("/", 5)
        return (parts[1:2] == ["api"] and parts[3:4] == ["watch"]) or (
            parts[1:2] == ["apis"] and parts[4:5] == ["watch"]
        )

    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        user: User = ADMIN,
        managed_fields: bool = True,
    ) -> LineStream | Response:
        """Open a watch, or a log to follow. Read its lines (without line ends) and close it with `aclose`.

        For a rejected request, the result is its Response. Never raises, except for cancellation.
        """
        query, headers = query or {}, headers or {}
        try:
            who = _Who(self._authorize(user, "GET", path, query, headers), managed_fields)
            result = route(self._core.catalog, path)
            if result is None:
                raise page_not_found()
            call = _build_call("GET", result, query, headers, None, who)
            if result.subresource == "log" and not parse_flag(query, "watch"):
                log = await logs.follow_log(self._core, call)
                return self._build_response(call, log) if isinstance(log, CallAnswer) else log
            if result.subresource:
                raise make_method_not_allowed()
            return reads.watch(self._core, call)
        except Refusal as refusal:
            return _build_refusal_response(refusal)
        except Exception as err:
            _LOG.exception("stream of %s failed", path)
            return _build_refusal_response(make_internal_error(f"{type(err).__name__}: {err}"))

    def _authorize(
        self, user: User, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> User:
        """Return the user that the request acts as, if that user is allowed to send it. Raises Refusal (403)."""
        authorizer = self._core.authorizer
        user = impersonate_user(user, headers, authorizer)
        if authorizer is not None and not user.is_master:
            authorizer.check(attributes_of(user, method, path, query))
        return user

    def user_of(self, token: str) -> User | None:
        """Return the service account of the token; None when the token is unknown."""
        return self._core.tokens.user_of(token)

    async def _answer_call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
        who: "_Who",
    ) -> Response:
        result = route(self._core.catalog, path)
        if result is None:
            return self._answer_outside_resources(method, path, headers)
        if method == "GET" and self._is_watch(path, query):
            raise make_bad_request(
                "a watch is a stream: `ApiServer.handle` cannot serve it, use `ApiServer.stream`"
            )
        call = _build_call(method, result, query, headers, body, who)
        if call.entry.deprecated:
            call.warnings.append(call.entry.deprecation_warning)
        action = self._find_action(call)
        answer = await action(self._core, call)
        if call.entry.shelf == CRD_SHELF and method == "DELETE" and not call.dry_run:
            await self._end_definitions()
        return self._build_response(call, answer)

    def _find_action(self, call: Call) -> Action:
        """Return the function that executes the call. Raises Refusal (405) when the resource does not support it."""
        entry = call.entry
        if call.subresource:
            known = entry.subresources.get(call.subresource)
            if known is None:
                raise make_not_found(entry.resource, call.name) if entry.is_custom else page_not_found()
            if call.subresource in _LIKE_OBJECT:
                if is_apply(call) and "patch" in known.verbs:
                    return applying.apply
                verb, action = _OBJECT.get(call.method, ("", None))
                if action is not None and verb in known.verbs:
                    return action
            action = _SPECIAL.get(call.subresource, {}).get(call.method)
            if action is None:
                raise make_method_not_allowed()
            return action
        if not call.name and entry.resource.plural in REVIEWS and call.method == "POST":
            return REVIEWS[entry.resource.plural]
        if entry.shelf == "bindings" and call.method == "POST" and not call.name:
            return self._bind_by_body
        verb, action = (_OBJECT if call.name else _COLLECTION).get(call.method, ("", None))
        if action is None or verb not in entry.verbs or entry.resource.plural in REVIEWS:
            raise make_method_not_allowed()
        if entry.resource.namespaced and not call.namespace and verb != "list":
            raise make_method_not_allowed()
        return applying.apply if verb == "patch" and is_apply(call) else action

    async def _bind_by_body(self, core: Core, call: Call) -> CallAnswer:
        """Bind a pod by a POST to the collection of bindings, as old clients do."""
        from msgspec.structs import replace

        pods = core.catalog.find_entry("", "v1", "pods")
        assert pods is not None
        return await subresources.bind(core, replace(call, entry=pods))

    def _build_response(self, call: Call, answer: CallAnswer) -> Response:
        body = answer.body
        if answer.content_type or answer.status == 204:
            return Response(answer.status, {"content-type": answer.content_type}, body)
        if answer.is_object and not call.form.is_plain and answer.status < 300:
            body = render_object(call.entry, body, form=call.form, now=self._core.clock())
        headers: Mapping[str, str] = _HEADERS
        if call.form.yaml:
            body, headers = to_yaml(body), {**headers, "content-type": YAML}
        if call.warnings:
            headers = {**headers, "warning": _format_warning_header(call.warnings)}
        return Response(answer.status, headers, body)

    def _answer_outside_resources(self, method: str, path: str, headers: Mapping[str, str]) -> Response:
        """Respond to a path that names no resource: health, discovery or OpenAPI."""
        first = path.split("/", 2)[1] if path.startswith("/") else ""
        if method not in _GET:
            raise page_not_found() if first not in _HEALTH else make_method_not_allowed()
        if first in _HEALTH:
            return Response(200, _TEXT, b"ok")
        if first in ("api", "apis", "version"):
            doc = self._answer_discovery(path, headers.get("accept") or "")
            if doc is not None:
                return Response(
                    200, {**_HEADERS, "content-type": _choose_discovery_type(doc)}, orjson.dumps(doc)
                )
        if first == "openapi":
            data = self._answer_openapi(path)
            if data is not None:
                return Response(200, _HEADERS, data)
        if not self._serves_below(path):
            return Response(404, _TEXT, b"404 page not found\n")
        raise page_not_found()

    def _serves_below(self, path: str) -> bool:
        """Whether the path belongs to a served group: a built-in group in any version, or a version that a CRD
        serves. If a resource below such a path is missing, a Status reports this; for other paths, plain
        text does.
        """
        parts = path.strip("/").split("/")
        if parts[0] == "api":
            return len(parts) > 1
        if parts[0] != "apis" or len(parts) < 3:
            return False
        group, version = parts[1:3]
        entries = [entry for entry in self._core.catalog.list_entries() if entry.resource.group == group]
        return any(not entry.is_custom or entry.resource.version == version for entry in entries)

    def _answer_discovery(self, path: str, accept: str) -> Document | None:
        from pykruise.sandbox.apiserver.requests.discovery import answer_discovery

        return answer_discovery(path.rstrip("/") or "/", accept, self._core.catalog)

    def _answer_openapi(self, path: str) -> bytes | None:
        from pykruise.sandbox.apiserver.requests.openapi import answer_openapi

        return answer_openapi(path, self._core.catalog)

    # --- start and end
    # --------------------------------------------------------------------------------------

    def _make_first_namespaces(self) -> None:
        entry = self._core.catalog.find_entry("", "v1", NAMESPACES.plural)
        assert entry is not None
        for name in FIRST_NAMESPACES:
            if self._core.get(entry, "", name) is None:
                self._core.put(entry, None, self._build_first_namespace(entry, name))

    def _build_first_namespace(self, entry: CatalogEntry, name: str) -> Document:
        return {
            "apiVersion": "v1",
            "kind": entry.resource.kind,
            "metadata": {
                "name": name,
                "uid": make_uid(self._core.rng),
                "creationTimestamp": format_time(self._core.clock()),
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }

    async def _end_definitions(self) -> None:
        """Delete the objects of terminating CRDs. A CRD is removed after its last object."""
        ending = {entry.crd: entry for entry in self._core.catalog.list_entries() if entry.terminating}
        for name, entry in ending.items():
            for stored in self._core.storage.scan(entry.shelf).items:
                call = Call(
                    method="DELETE", entry=entry, namespace=stored.key.namespace, name=stored.key.name
                )
                try:
                    await deletion.delete_stored(
                        self._core, call, deletion.DeletionOptions(), ask_reviewers=False
                    )
                except Refusal as refusal:
                    if refusal.code != 404:
                        raise
            self._definitions.end_if_empty(name)


class _Who(NamedTuple):
    """User of a request, and whether the response has managedFields."""

    user: User
    managed_fields: bool


def _is_log(path: str) -> bool:
    """Whether the path is the log of a pod: /api/v1/namespaces/NS/pods/NAME/log."""
    parts = path.split("/")
    return len(parts) == 8 and parts[5] == "pods" and parts[7] == "log"


def _choose_strategy(resource: Resource, *, release: Release) -> Strategy:
    if resource == CUSTOM_RESOURCE_DEFINITIONS:
        return CrdStrategy()
    return builtin.find_strategy(resource, release)


def _build_call(
    method: str,
    value: Route,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    body: bytes | None,
    who: _Who,
) -> Call:
    return Call(
        method=method,
        entry=value.entry,
        namespace=value.namespace,
        name=value.name,
        subresource=value.subresource,
        query=query,
        headers=headers,
        body=body,
        user=who.user,
        shows_managed=who.managed_fields,
        form=form_of(headers, query, custom=value.entry.is_custom) if "accept" in headers else PLAIN,
    )


def _build_refusal_response(refusal: Refusal) -> Response:
    doc = build_status_document(refusal.status, continue_token=refusal.continue_token)
    headers = _HEADERS
    details = refusal.status.details
    if details is not None and details.retry_after_seconds:
        headers = {**headers, "retry-after": str(details.retry_after_seconds)}
    return Response(refusal.code, headers, orjson.dumps(doc))


def _format_warning_header(warnings: Sequence[str]) -> str:
    """RFC 7234 Warning values: all in one header, without duplicates."""
    texts = dict.fromkeys(warning.replace("\\", "\\\\").replace('"', '\\"') for warning in warnings)
    return ", ".join(f'299 - "{text}"' for text in texts)


def _choose_discovery_type(doc: Document) -> str:
    """Media type of a discovery document. Aggregated discovery has its own media type."""
    if str(doc.get("kind", "")).startswith("APIGroupDiscovery"):
        version = str(doc.get("apiVersion", "")).rpartition("/")[2] or "v2"
        return f"{JSON};g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    return JSON
