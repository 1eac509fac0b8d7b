"""An API server under test, with requests and responses as documents.

api = Api.fresh()
reply = await api.post("/api/v1/namespaces/default/pods", pod("web-0"))
reply.status, reply.doc["metadata"]["uid"]
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from pykruise.kube.client.transport import Response
from pykruise.kube.clock import make_loop_clock
from pykruise.sandbox.apiserver import ApiServer, ReviewRule, WatchStream
from pykruise.sandbox.apiserver.objects.storage import Storage

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"

START = 1_700_000_000.0
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"

Document = dict[str, Any]


class Reply:
    """A decoded response."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = response.headers
        self.raw = response.body
        is_json = response.headers["content-type"].startswith(JSON)
        self.doc: Document = orjson.loads(response.body) if is_json else {}

    @property
    def meta(self) -> Document:
        meta: Document = self.doc["metadata"]
        return meta

    @property
    def revision(self) -> str:
        return str(self.meta["resourceVersion"])

    @property
    def reason(self) -> str:
        return str(self.doc.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.doc.get("message", ""))

    @property
    def causes(self) -> list[Document]:
        causes: list[Document] = self.doc["details"].get("causes", [])
        return causes

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.doc["items"]]


class Api:
    """Requests to a server as documents; an exception inside the server results in status 500."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    @classmethod
    def fresh(
        cls,
        *,
        seed: int = 1,
        reviewers: Sequence[ReviewRule] = (),
        storage: Storage | None = None,
        watch_buffer: int = 10_000,
    ) -> "Api":
        server = ApiServer(
            clock=make_loop_clock(start=START),
            rng=random.Random(seed),
            reviewers=reviewers,
            storage=storage,
            watch_buffer=watch_buffer,
        )
        return cls(server)

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        data = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        sent = {**({"content-type": content_type} if data is not None else {}), **(headers or {})}
        return Reply(await self.server.handle(method, path, query=query, headers=sent, body=data))

    async def get(self, path: str, *, accept: str = "", **query: str) -> Reply:
        return await self.call("GET", path, query=query, headers={"accept": accept} if accept else {})

    async def post(self, path: str, body: object, **query: str) -> Reply:
        return await self.call("POST", path, body, query=query)

    async def put(self, path: str, body: object, **query: str) -> Reply:
        return await self.call("PUT", path, body, query=query)

    async def patch(self, path: str, body: object, kind: str = MERGE, **query: str) -> Reply:
        return await self.call("PATCH", path, body, content_type=kind, query=query)

    async def delete(self, path: str, body: object = None, **query: str) -> Reply:
        return await self.call("DELETE", path, body, query=query)

    async def watch(self, path: str, *, accept: str = "", **query: str) -> WatchStream:
        opened = await self.server.stream(
            path, query={"watch": "true", **query}, headers={"accept": accept} if accept else {}
        )
        assert isinstance(opened, WatchStream), opened
        return opened

    async def refused_watch(self, path: str, **query: str) -> Reply:
        opened = await self.server.stream(path, query={"watch": "true", **query})
        assert isinstance(opened, Response)
        return Reply(opened)

    async def changes_since(self, path: str, revision: str, **query: str) -> list[tuple[str, Document]]:
        """Events of a watch from that revision until now."""
        stream = await self.watch(path, resourceVersion=revision, **query)
        since = await ready(stream)
        await stream.aclose()
        return since

    def now(self) -> str:
        """The newest resourceVersion."""
        return str(self.server.storage.revision)


async def ready(stream: WatchStream) -> list[tuple[str, Document]]:
    """The events that are there without waiting: type and object of each."""
    ready: list[tuple[str, Document]] = []
    try:
        while True:
            async with asyncio.timeout(0.001):
                lines = await stream.read_batch()
            if not lines:
                return ready
            for line in lines:
                event = orjson.loads(line)
                ready.append((event["type"], event["object"]))
    except TimeoutError:
        return ready


def config_map(name: str = "x", *, data: Mapping[str, str] | None = None, **metadata: Any) -> Document:
    doc: Document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return {**doc, "data": dict(data)} if data else doc


def pod(name: str = "a", *, node: str = "", image: str = "nginx:1", **metadata: Any) -> Document:
    spec: Document = {"containers": [{"name": "main", "image": image}]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def widget(name: str = "w", *, version: str = "v1", status: Document | None = None, **spec: Any) -> Document:
    doc: Document = {
        "apiVersion": f"example.com/{version}",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": "small", **spec},
    }
    return {**doc, "status": status} if status else doc


def widget_crd(
    *,
    plural: str = "widgets",
    kind: str = "Widget",
    versions: Sequence[str] = ("v1", "v1beta1"),
    storage: str = "v1",
    scope: str = "Namespaced",
    subresources: bool = True,
) -> Document:
    """A CRD of `example.com` with a schema: spec.size is required, spec.replicas defaults to 1."""
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "string", "enum": ["small", "large"]},
                    "replicas": {"type": "integer", "default": 1},
                },
            },
            "status": {
                "type": "object",
                "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
            },
        },
    }
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    served = [
        {
            "name": version,
            "served": True,
            "storage": version == storage,
            "schema": {"openAPIV3Schema": schema},
            "additionalPrinterColumns": [{"name": "Size", "type": "string", "jsonPath": ".spec.size"}],
            **({"subresources": {"status": {}, "scale": scale}} if subresources else {}),
        }
        for version in versions
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": served,
        },
    }
