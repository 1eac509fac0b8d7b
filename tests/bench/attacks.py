"""Attacks on a manager by a pod that can reach the webhook's port, or by a user of one namespace. Loopback only.

Target (ports of a manager under test) ──▶ ATTACKS[name](target), until cancelled

PYTHONPATH=tests:. python -m bench.attacks --webhook PORT [--plain PORT,PORT] --seconds 60 [--only NAME,NAME]
                        [--kubeconfig FILE] [--dashboard PORT --token TOKEN]

It prints the results of the attacks as JSON: counts by name.

Each attack has its own address (127.0.0.2, .3, …), like a pod, and limits its number of connections and of
bytes in memory. It uses TLS without verifying certificates, like an attacker.
"""

import argparse
import asyncio
import base64
import json
import logging
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson
import uvloop
from aiohttp import web

from bench.attack_target import (
    HOST,
    MIB,
    NAMESPACE,
    Attack,
    Target,
    connected,
    head,
    repeated,
    store,
    storing,
    typed,
)
from bench.attacks_on_agents import REPORTED, REQUESTED, http_heads, probe_output
from bench.attacks_on_dashboards import LOGINS, OPENED, one_user
from bench.attacks_on_plans import CHURNED, churn
from bench.orphans import end_with_parent
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.documents import Document
from pykruise.kube.resources import PODS, Resource
from support.certificates import Authority
from support.reviews import posted, request
from support.webhooks import free_port

__all__ = ["ASIDE", "ATTACKS", "AT_AGENT", "AT_DASHBOARD", "MOST_LATE_S", "stored"]

VALIDATING: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)

# ── connections ──────────────────────────────────────────────────────────────


async def halves(target: Target) -> None:
    """256 requests that send the head and a part of the body, and then nothing."""

    async def work() -> None:
        reader, writer = await connected(target.webhook, target)
        try:
            writer.write(head("/mutate-pod", 1000) + b"{")
            await reader.read()
        finally:
            writer.close()

    await repeated(256, work)


async def drips(target: Target) -> None:
    """64 requests with bodies of 7 MiB; they send the second half byte by byte."""

    async def work() -> None:
        reader, writer = await connected(target.webhook, target)
        try:
            writer.write(head("/mutate-pod", 7 * MIB) + b" " * (512 * 1024))
            ending = asyncio.ensure_future(reader.read())
            while not ending.done():
                writer.write(b" ")
                await asyncio.wait([ending], timeout=0.1)
        finally:
            writer.close()

    await repeated(64, work)


async def idle(target: Target) -> None:
    """3,000 open connections that have sent one request each."""

    async def work() -> None:
        reader, writer = await connected(target.webhook, target)
        try:
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            await reader.read()
        finally:
            writer.close()
        await asyncio.sleep(10)  # so that the machine does not run out of ports during the run

    await repeated(3000, work)


async def half_heads(target: Target) -> None:
    """200 halves of heads on each port without TLS."""

    def on(port: int) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            reader, writer = await connected(port, target, tls=False)
            try:
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: x")
                await reader.read()
            finally:
                writer.close()
            await asyncio.sleep(1)

        return work

    async with asyncio.TaskGroup() as tasks:
        for port in target.plain:
            tasks.create_task(repeated(200, on(port)))


def _pipelining(ports: Callable[[Target], Collection[int]], *, tls: bool, count: int) -> Attack:
    """An attack with this number of connections on each port. Each connection repeatedly sends 8,000 of the
    smallest requests at the same time."""
    requests = b"GET / HTTP/1.1\r\nHost:x\r\n\r\n" * 8000

    async def attack(target: Target) -> None:
        def on(port: int) -> Callable[[], Awaitable[None]]:
            async def work() -> None:
                reader, writer = await connected(port, target, tls=tls)
                reading = asyncio.ensure_future(_read_all(reader))
                try:
                    while not reading.done():
                        writer.write(requests)
                        await writer.drain()
                finally:
                    reading.cancel()
                    writer.close()

            return work

        async with asyncio.TaskGroup() as tasks:
            for port in ports(target):
                tasks.create_task(repeated(count, on(port)))

    return attack


async def _read_all(reader: asyncio.StreamReader) -> None:
    while await reader.read(MIB):
        pass


# ── an admission webhook of one's own ────────────────────────────────────────


async def refusals(target: Target) -> None:
    """A webhook that refuses the pods of twenty CloneSets with 429, a wait of a day, and a megabyte of text."""
    if not target.kubeconfig:
        return
    authority = Authority()
    with tempfile.TemporaryDirectory() as name:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        chain, key = Path(name) / "tls.crt", Path(name) / "tls.key"
        for path, content in zip((chain, key), authority.issue("hostile", hosts=(HOST,)), strict=True):
            path.write_bytes(content)
        context.load_cert_chain(chain, key)
        app = web.Application(client_max_size=8 * MIB)
        app.router.add_post("/", _refuse)
        runner = web.AppRunner(app)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, HOST, port, ssl_context=context).start()
        async with storing(target) as client:
            try:
                await client.create(VALIDATING, "", _hostile_webhook(port, authority.pem))
                for number in range(20):
                    spec = {"replicas": 5, "selector": SELECTOR, "template": TEMPLATE}
                    doc = {"metadata": {"name": f"refused-{number}"}, "spec": spec}
                    await store(client, CLONE_SETS, NAMESPACE, doc)
                await asyncio.Event().wait()
            finally:
                await client.delete(VALIDATING, "", "hostile")
                await runner.cleanup()


async def _refuse(asked: web.Request) -> web.Response:
    uid = orjson.loads(await asked.read())["request"]["uid"]
    status = {
        "code": 429,
        "reason": "TooManyRequests",
        "message": "spec.containers[0]: not allowed, " * 30_000,
        "details": {"retryAfterSeconds": 86_400},
    }
    response = {"uid": uid, "allowed": False, "status": status}
    answer = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return web.json_response(answer)


def _hostile_webhook(port: int, authority: bytes) -> Document:
    webhook = {
        "name": "hostile.example.com",
        "clientConfig": {"url": f"https://{HOST}:{port}/", "caBundle": base64.b64encode(authority).decode()},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {**typed(VALIDATING), "metadata": {"name": "hostile"}, "webhooks": [webhook]}


# ── bodies ───────────────────────────────────────────────────────────────────


def _posting(path: str, body: Callable[[], bytes], *, at_once: int = 1) -> Attack:
    async def attack(target: Target) -> None:
        said = body()

        async def work() -> None:
            reader, writer = await connected(target.webhook, target)
            try:
                while True:
                    writer.write(head(path, len(said)) + said)
                    answer = await reader.readuntil(b"\r\n\r\n")
                    length = next(
                        int(line.partition(b":")[2])
                        for line in answer.split(b"\r\n")
                        if line.lower().startswith(b"content-length:")
                    )
                    await reader.readexactly(length)
            finally:
                writer.close()

        await repeated(at_once, work)

    return attack


def _conversion(size: int) -> bytes:
    """A conversion review of about this number of bytes: CloneSets of 30 kB."""
    env = [{"name": f"E{number}", "value": "v" * 20} for number in range(600)]
    spec = {"selector": {}, "template": {"spec": {"containers": [{"name": "a", "image": "a", "env": env}]}}}
    item = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "CloneSet",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    objects = [item] * max(1, size // len(orjson.dumps(item)))
    asked = {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": objects}
    return orjson.dumps(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": asked}
    )


def _brackets() -> bytes:
    """A pod of nothing but brackets."""
    pod = {"metadata": {"name": "a"}, "spec": {"x": [[]] * 1_100_000}}
    return posted(request(PODS, pod))


def _review(resource: Resource, doc: Document) -> bytes:
    doc = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "a", "namespace": NAMESPACE},
        **doc,
    }
    return posted(request(resource, doc))


TEMPLATE: Final = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}
SELECTOR: Final = {"matchLabels": {"app": "a"}}
_TARGET: Final = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet"}


def _pods_to_delete() -> bytes:
    names = [f"a-{number}" for number in range(50_000)]
    spec = {
        "selector": SELECTOR,
        "template": TEMPLATE,
        "replicas": 1,
        "scaleStrategy": {"podsToDelete": names},
    }
    return _review(CLONE_SETS, {"spec": spec})


def _many_selector_terms() -> bytes:
    terms = [{"key": f"k{number}", "operator": "Exists"} for number in range(20_000)]
    spec = {
        "selector": {"matchLabels": {"app": "a"}, "matchExpressions": terms},
        "template": TEMPLATE,
        "replicas": 1,
    }
    return _review(CLONE_SETS, {"spec": spec})


def _long_name() -> bytes:
    spec = {"selector": SELECTOR, "template": TEMPLATE, "replicas": 1}
    return _review(CLONE_SETS, {"metadata": {"name": "A" * 2_000_000, "namespace": NAMESPACE}, "spec": spec})


def _patch() -> Document:
    env = [{"name": f"E{number}", "value": "v"} for number in range(8_000)]
    return {"spec": {"containers": [{"name": "main", "env": env}]}}


def _spread(name: str, **subset: Any) -> Document:
    subsets = [{"name": "a", "maxReplicas": 5, **subset}, {"name": "b"}]
    spec = {"targetRef": {**_TARGET, "name": name}, "subsets": subsets}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _long_patch() -> bytes:
    return _review(WORKLOAD_SPREADS, _spread("a", patch=_patch()))


def _pod(owner: str, **fields: Any) -> bytes:
    metadata = {
        "name": f"{owner}-7",
        "namespace": NAMESPACE,
        "labels": {"app": "a"},
        "ownerReferences": [{**_TARGET, "name": owner, "uid": "u", "controller": True}],
    }
    containers = [{"name": "main", "image": "a", **fields}]
    return _review(PODS, {"metadata": metadata, "spec": {"containers": containers}})


def _pod_with_a_long_list() -> bytes:
    return _pod("lists", env=[{"name": f"P{number}", "value": "v"} for number in range(8_000)])


def _pod_with_a_hard_name() -> bytes:
    metadata = {"name": "b", "namespace": NAMESPACE, "labels": {"app": "regex"}}
    containers = [{"name": "a" * 26 + ".", "image": "a"}]
    return _review(PODS, {"metadata": metadata, "spec": {"containers": containers}})


def _stateful_set(name: str, **fields: Any) -> Document:
    spec = {"replicas": 0, "selector": SELECTOR, "serviceName": "a", "template": TEMPLATE, **fields}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _sidecar_set() -> Document:
    resources = {
        "targetContainersMode": "sum",
        "targetContainersNameRegex": r"^(\w+-?)+$",
        "resourcesExpr": {"limits": {"cpu": "cpu*50%"}},
    }
    container = {
        "name": "side",
        "image": "a",
        "podInjectPolicy": "BeforeAppContainer",
        "shareVolumePolicy": {"type": "disabled"},
        "resourcesPolicy": resources,
    }
    selector = {"matchLabels": {"app": "regex"}}
    names = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
    spec = {"namespaceSelector": names, "selector": selector, "containers": [container]}
    return {"metadata": {"name": "regex"}, "spec": spec}


def stored(names: Collection[str]) -> list[tuple[Resource, Document]]:
    """Objects that a user of the namespace has stored before, so that reviews of pods use them."""
    by_attack: dict[str, list[tuple[Resource, Document]]] = {
        "ordinals": [
            (ADVANCED_STATEFUL_SETS, _stateful_set("ordinals", reserveOrdinals=["1000-10000000"])),
            (WORKLOAD_SPREADS, _spread("ordinals")),
        ],
        "long-pod": [
            (ADVANCED_STATEFUL_SETS, _stateful_set("lists")),
            (WORKLOAD_SPREADS, _spread("lists", patch=_patch())),
        ],
        "regex": [(SIDECAR_SETS, _sidecar_set())],
    }
    result = [item for name, objects in by_attack.items() if name in names for item in objects]
    return [
        (resource, {"apiVersion": resource.api_version, "kind": resource.kind, **doc})
        for resource, doc in result
    ]


ATTACKS: Final[Mapping[str, Attack]] = {
    "halves": halves,
    "drips": drips,
    "idle": idle,
    "half-heads": half_heads,
    "pipelined": _pipelining(lambda target: (target.webhook,), tls=True, count=40),
    "pipelined-plain": _pipelining(lambda target: target.plain, tls=False, count=30),
    "refusals": refusals,
    "conversion-15MB": _posting("/convert", lambda: _conversion(15_000_000), at_once=4),
    "conversion-4MB": _posting("/convert", lambda: _conversion(4_000_000), at_once=8),
    "brackets": _posting("/mutate-pod", _brackets),
    "pods-to-delete": _posting("/validate-apps-kruise-io-cloneset", _pods_to_delete),
    "selector-terms": _posting("/validate-apps-kruise-io-cloneset", _many_selector_terms),
    "long-name": _posting("/validate-apps-kruise-io-cloneset", _long_name),
    "long-patch": _posting("/validate-apps-kruise-io-workloadspread", _long_patch),
    "long-pod": _posting("/mutate-pod", _pod_with_a_long_list),
    "ordinals": _posting("/mutate-pod", lambda: _pod("ordinals")),
    "regex": _posting("/mutate-pod", _pod_with_a_hard_name),
    "http-heads": http_heads,
    "churn": churn,
    "probe-output": probe_output,
    "one-user": one_user,
}
"""Attacks by the names for --only: on the server, with objects that users may store, and on other programs."""

ASIDE: Final = frozenset({"refusals", "http-heads", "churn", "probe-output", "one-user"})
"""Attacks that need little CPU time. They have their own process, so that others do not use all of it."""
AT_AGENT: Final = frozenset({"http-heads", "probe-output"})
"""Attacks on the agent of a node."""
AT_DASHBOARD: Final = frozenset({"one-user"})
"""Attacks on a shared dashboard."""


AIMS: Final[Mapping[str, frozenset[str]]] = {
    "http-heads": frozenset({REQUESTED}),
    "churn": frozenset({CHURNED}),
    "probe-output": frozenset({REPORTED}),
    "one-user": frozenset({LOGINS, OPENED}),
}
"""The names of the results of these attacks."""
MOST_LATE_S: Final = 60.0
"""Maximum seconds for which an attack without a result continues while other programs use the processors."""


async def attack(names: list[str], target: Target, seconds: float) -> None:
    """Run all attacks in parallel for this time, and until each has reached its goals, each from its own
    address."""
    aims = {words for name in names for words in AIMS.get(name, ())}
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds + MOST_LATE_S) as ending, asyncio.TaskGroup() as tasks:
            tasks.create_task(_end_at_aims(aims, target, ending, seconds))
            for name in names:
                number = 2 + list(ATTACKS).index(name)
                own = msgspec.structs.replace(target, address=f"127.0.0.{number}")
                tasks.create_task(_run(name, own), name=name)


async def _end_at_aims(aims: set[str], target: Target, ending: asyncio.Timeout, seconds: float) -> None:
    await asyncio.sleep(seconds)
    while not aims <= target.counts.keys():
        await asyncio.sleep(0.25)
    ending.reschedule(asyncio.get_running_loop().time())


async def _run(name: str, target: Target) -> None:
    await ATTACKS[name](target)


def main() -> None:
    """Attack the programs that listen on this machine's loopback."""
    parser = argparse.ArgumentParser(prog="bench.attacks", description=__doc__.partition("\n")[0])
    parser.add_argument("--webhook", type=int, required=True)
    parser.add_argument("--plain", default="", help="ports of probes, metrics and thread dumps")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kubeconfig", default="", help="of the API server, for attacks that store objects")
    parser.add_argument("--dashboard", type=int, default=0, help="port of a shared dashboard")
    parser.add_argument("--token", default="", help="of a user of the dashboard")
    parser.add_argument("--only", default="", help=f"of: {', '.join(ATTACKS)}")
    asked = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # connections that a server closes are expected
    plain = tuple(int(port) for port in asked.plain.split(",") if port)
    target = Target(
        asked.webhook, plain, kubeconfig=asked.kubeconfig, dashboard=asked.dashboard, token=asked.token
    )
    names = asked.only.split(",") if asked.only else list(ATTACKS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(attack(names, target, asked.seconds))
    print(json.dumps(target.counts))


if __name__ == "__main__":
    end_with_parent()
    main()
