"""Number of watch events that a cache handles per second. Run it with PYTHONPATH=src python tests/bench/bench_cache.py

lines of a watch (built before) ──▶ a Transport with all of them ──▶ Client ──▶ Cache with 2 indexes

It uses a small object, and a pod of about 6 KB of which a few fields are kept.
"""

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import orjson
import uvloop

from pykruise.kube.cache.cache import Cache
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Request, Response
from pykruise.kube.resources import PODS


class PodItem(msgspec.Struct, frozen=True, gc=False):
    namespace: str
    name: str
    uid: str
    resource_version: int
    owner: str
    node: str
    phase: str


class _Owner(msgspec.Struct, gc=False):
    uid: str
    controller: bool = False


class _Meta(msgspec.Struct, rename="camel", gc=False):
    namespace: str
    name: str
    uid: str
    resource_version: str
    owner_references: tuple[_Owner, ...] = ()


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


class _Status(msgspec.Struct, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec
    status: _Status


_decode = msgspec.json.Decoder(_Pod).decode


def project(raw: bytes | msgspec.Raw) -> PodItem:
    pod = _decode(raw)
    meta = pod.metadata
    owner = next((owner.uid for owner in meta.owner_references if owner.controller), "")
    return PodItem(
        meta.namespace,
        meta.name,
        meta.uid,
        int(meta.resource_version),
        owner,
        pod.spec.node_name,
        pod.status.phase,
    )


def pod_document(number: int, version: int, *, padding: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"web-{number:05}",
            "namespace": "default",
            "uid": f"00000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(version),
            "ownerReferences": [{"uid": f"owner-{number % 20}", "controller": True}],
            "labels": {"app": "web"},
            "managedFields": [{"fieldsV1": {f"f:field-{n}": {"f:value": {}} for n in range(padding)}}],
        },
        "spec": {
            "nodeName": f"node-{number % 50}",
            "containers": [
                {"name": f"c{n}", "image": "registry/app:1", "env": [{"name": "A", "value": "b"}]}
                for n in range(3)
            ],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


class Feed:
    """A Transport with an empty list, and a watch with all its lines."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.done = asyncio.Event()

    async def request(self, request: Request, /) -> Response:
        return Response(200, {}, b'{"metadata":{"resourceVersion":"1"},"items":[]}')

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        for line in self.lines:
            yield line
        self.done.set()
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


def make_lines(*, objects: int, events: int, padding: int) -> list[bytes]:
    return [
        orjson.dumps(
            {
                "type": "ADDED" if number < objects else "MODIFIED",
                "object": pod_document(number % objects, number + 2, padding=padding),
            }
        )
        for number in range(events)
    ]


async def events_per_second(lines: list[bytes], *, objects: int) -> float:
    """Events per second of a cache for these lines, alone on the event loop; it includes decoding and views."""
    feed = Feed(lines)
    cache: Cache[PodItem] = Cache(
        Client(feed),
        PODS,
        project=project,
        indexes={"owner": lambda pod: (pod.owner,), "node": lambda pod: (pod.node,)},
        clock=time.time,
        rng=random.Random(1),
    )
    changes = 0

    def count(_: object) -> None:
        nonlocal changes
        changes += 1

    cache.subscribe(count)
    begin = time.perf_counter()
    running = asyncio.create_task(cache.run())
    await feed.done.wait()
    seconds = time.perf_counter() - begin
    running.cancel()
    await asyncio.wait([running])
    assert (changes, len(cache)) == (len(lines), objects)
    return len(lines) / seconds


def projections_per_second(lines: list[bytes]) -> float:
    """Lines per second that are decoded and projected, without a cache."""
    decode_line = msgspec.json.Decoder(_Event).decode
    begin = time.perf_counter()
    for line in lines:
        project(decode_line(line).object)
    return len(lines) / (time.perf_counter() - begin)


class _Event(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


def main(*, objects: int = 10_000, events: int = 100_000) -> None:
    for label, padding in (("small", 0), ("pod of 6 KB", 165)):
        lines = make_lines(objects=objects, events=events, padding=padding)
        size = sum(map(len, lines)) // len(lines)
        decoding = projections_per_second(lines)
        rate = uvloop.run(events_per_second(lines, objects=objects))
        own = (1 / rate - 1 / decoding) * 1e6
        print(
            f"{label} ({size} bytes): {rate:,.0f} events/s, {1e6 / rate:.1f} µs each; "
            f"of these decoding {1e6 / decoding:.1f} µs, cache and client {own:.1f} µs"
        )


if __name__ == "__main__":
    main(events=int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
