"""Carries out a case: its steps become sequential requests to a Transport.

Case ──▶ talk() ──▶ [Answer, …], as received ──▶ normalising.py
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from conformance.dsl import BasedOn, Case, Define, Forget, Pause, Request, Step, Watch
from pykruise.kube.client.transport import Request as HttpRequest
from pykruise.kube.client.transport import Transport
from pykruise.kube.errors import ApiError
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.resources import NAMESPACES
from pykruise.sandbox.apiserver.requests.statuses import build_status_document

__all__ = ["Answer", "Compact", "talk"]

Compact = Callable[[], Awaitable[None]]
"""A function that compacts the history of a server."""

_REFERENCE: Final = re.compile(r"\$\{(\d+)((?:\.[^}]+)?)\}")
_HEADERS: Final = ("warning", "retry-after")
_DEFINED_WITHIN_S: Final = 20.0
_WATCH_S: Final = 1
_JSON: Final = {"content-type": "application/json"}


@dataclass(frozen=True)
class Answer:
    """A response: the compared headers, and the body; for a watch, the list of its events."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


async def talk(
    case: Case,
    transport: Transport,
    hooks: Mapping[str, str] | None = None,
    *,
    compact: Compact | None = None,
) -> list[Answer]:
    """The responses to a case's steps. `hooks`: values of `$hook` and `$bundle`; `compact`: the action of Forget."""
    conversation = _Conversation(case, transport, hooks or {}, compact)
    await conversation.make_namespace()
    for step in case.steps:
        conversation.answers.append(await conversation.ask(step))
    return conversation.answers


class _Conversation:
    def __init__(
        self, case: Case, transport: Transport, hooks: Mapping[str, str], compact: Compact | None
    ) -> None:
        self._case = case
        self._compact = compact
        self._hooks = hooks
        self._transport = transport
        self.answers: list[Answer] = []

    async def make_namespace(self) -> None:
        doc = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._case.namespace}}
        answer = await self._transport.request(
            HttpRequest("POST", NAMESPACES.format_path(), headers=_JSON, body=orjson.dumps(doc))
        )
        assert answer.status == 201, answer.body

    async def ask(self, step: Step) -> Answer:
        match step:
            case Request():
                return await self._request(step)
            case Watch():
                return await self._watch(step)
            case Define():
                return await self._define(step)
            case Pause():
                await asyncio.sleep(step.seconds)
                return Answer(0, None)
            case Forget():
                assert self._compact is not None, "no way is given to make this server forget"
                await self._compact()
                return Answer(0, None)

    async def _request(self, step: Request) -> Answer:
        body = self._body(step.body)
        response = await self._transport.request(
            HttpRequest(
                step.method,
                self._path(step.path),
                query=self._filled(step.query),
                headers=self._headers(step),
                body=body,
            )
        )
        content_type = response.headers.get("content-type", "")
        headers = {name: value for name, value in response.headers.items() if name in _HEADERS}
        if content_type != "application/json":
            headers["content-type"] = content_type
        result = _read(response.body)
        return Answer(response.status, _parts(result, step.only) if step.only else result, headers)

    async def _watch(self, step: Watch) -> Answer:
        query = {"watch": "true", "timeoutSeconds": str(_WATCH_S), **self._filled(step.query)}
        events: list[Any] = []
        try:
            async with self._transport.stream(
                HttpRequest(
                    "GET", self._path(step.path), query=query, headers=dict(step.headers), timeout_s=10
                )
            ) as lines:
                changes = asyncio.create_task(self._change(step.during))
                async for line in lines:
                    events.append(orjson.loads(line))
                await changes
        except ApiError as err:
            return Answer(err.code, build_status_document(err.status))
        return Answer(200, events)

    async def _change(self, during: Sequence[Request]) -> None:
        for request in during:
            await self._request(request)

    async def _define(self, step: Define) -> Answer:
        """Create a CRD, and wait: a real server learns of its own CRDs from a watch."""
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        crd = self._filled(step.crd)
        posted = await self._transport.request(
            HttpRequest("POST", crds, headers=_JSON, body=orjson.dumps(crd))
        )
        assert posted.status == 201, posted.body
        spec = crd["spec"]
        version = next(each["name"] for each in spec["versions"] if each["served"])
        path = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
        async with asyncio.timeout(_DEFINED_WITHIN_S):
            while True:
                served = await self._transport.request(HttpRequest("GET", path))
                response = await self._transport.request(
                    HttpRequest("GET", f"{crds}/{crd['metadata']['name']}")
                )
                stored = _read(response.body)
                if served.status == 200 and _is_established(stored):
                    return Answer(response.status, stored)
                await asyncio.sleep(0.05)

    # --- defaults of steps --------------------------------------------

    def _headers(self, step: Request) -> dict[str, str]:
        # The server names field managers after the user agent.
        headers = {"user-agent": "pykruise", **self._filled(step.headers)}
        if step.body is not None:
            headers.setdefault("content-type", "application/json")
        return headers

    def _body(self, body: Any) -> bytes | None:
        if body is None:
            return None
        if isinstance(body, BasedOn):
            result = self.answers[body.step - 1].body
            return orjson.dumps(apply_merge_patch(result, self._filled(body.changes)))
        if isinstance(body, str):
            return str(self._text(body)).encode()
        return orjson.dumps(self._filled(body))

    def _path(self, short: str) -> str:
        short = str(self._text(short))
        if short.startswith("/"):
            return short
        first, _, rest = short.partition("/")
        plural, _, version = first.partition("@")
        if version:
            root = f"/apis/{self._case.namespace}.example.com/{version}"
            namespaced = not plural.endswith("!")  # `widgets!@v1/w` is cluster-scoped
            plural = plural.rstrip("!")
        else:
            root, namespaced = _RESOURCES[plural]
        middle = f"/namespaces/{self._case.namespace}" if namespaced else ""
        return f"{root}{middle}/{plural}{'/' + rest if rest else ''}"

    def _filled(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value)
            case Mapping():
                return {str(self._text(name)): self._filled(each) for name, each in value.items()}
            case list() | tuple():
                return [self._filled(each) for each in value]
            case _:
                return value

    def _text(self, text: str) -> Any:
        whole = _REFERENCE.fullmatch(text)
        if whole:
            return self._referred(whole)
        text = _REFERENCE.sub(lambda match: str(self._referred(match)), text)
        for name, value in self._hooks.items():
            text = text.replace(name, value)
        return text.replace("$ns", self._case.namespace)

    def _referred(self, match: re.Match[str]) -> Any:
        return _at(self.answers[int(match[1]) - 1].body, match[2].lstrip("."))


def _is_established(crd: Any) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] == "Established" and condition["status"] == "True" for condition in conditions
    )


def _read(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode()


def _at(value: Any, path: str) -> Any:
    """The value at a dotted path; None if there is none."""
    for part in path.split(".") if path else ():
        if isinstance(value, list):
            value = value[int(part)] if int(part) < len(value) else None
        elif isinstance(value, Mapping):
            value = value.get(part)
        else:
            return None
    return value


def _parts(value: Any, paths: Sequence[str]) -> dict[str, Any]:
    """The parts at dotted paths; `list[name=x]` takes the first item with that member."""
    return {path: _found(value, path) for path in paths}


_STEP: Final = re.compile(r"\[([\w.]+)=([^\]]*)\]|([^.\[\]]+)")


def _found(value: Any, path: str) -> Any:
    for member, wanted, name in _STEP.findall(path):
        if member:
            items = value if isinstance(value, list) else []
            value = next((each for each in items if str(_at(each, member)) == wanted), None)
        else:
            value = _at(value, name)
    return value


# Resources with which short paths may begin. Events are those of the core group.
_NAMESPACED: Final = {
    "/api/v1": (
        "configmaps endpoints events limitranges persistentvolumeclaims pods podtemplates "
        "replicationcontrollers resourcequotas secrets serviceaccounts services bindings"
    ),
    "/apis/apps/v1": "controllerrevisions daemonsets deployments replicasets statefulsets",
    "/apis/autoscaling/v2": "horizontalpodautoscalers",
    "/apis/batch/v1": "cronjobs jobs",
    "/apis/policy/v1": "poddisruptionbudgets",
    "/apis/coordination.k8s.io/v1": "leases",
    "/apis/rbac.authorization.k8s.io/v1": "roles rolebindings",
    "/apis/discovery.k8s.io/v1": "endpointslices",
}
_CLUSTERED: Final = {
    "/api/v1": "namespaces nodes persistentvolumes",
    "/apis/rbac.authorization.k8s.io/v1": "clusterroles clusterrolebindings",
    "/apis/storage.k8s.io/v1": "storageclasses csidrivers",
    "/apis/scheduling.k8s.io/v1": "priorityclasses",
    "/apis/apiextensions.k8s.io/v1": "customresourcedefinitions",
    "/apis/admissionregistration.k8s.io/v1": (
        "mutatingwebhookconfigurations validatingwebhookconfigurations"
    ),
    "/apis/authorization.k8s.io/v1": "selfsubjectaccessreviews selfsubjectrulesreviews subjectaccessreviews",
    "/apis/authentication.k8s.io/v1": "selfsubjectreviews tokenreviews",
}
_RESOURCES: Final[Mapping[str, tuple[str, bool]]] = {
    plural: (root, namespaced)
    for roots, namespaced in ((_NAMESPACED, True), (_CLUSTERED, False))
    for root, plurals in roots.items()
    for plural in plurals.split()
}
