"""Every request to the webhooks gets a response that an API server understands, and never an internal error."""

import asyncio
import copy
import random
import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pykruise.admission.conversion_path import build_conversion_path
from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.gates import Gates
from pykruise.kube.documents import is_same
from pykruise.kube.resources import PODS, Resource
from pykruise.kube.webhooks.reviews import ReviewDispatcher
from pykruise.kube.webhooks.server import WebhookLimits, WebhookServer, review_paths
from support.certificates import Authority
from support.cloneset_builder import cloneset
from support.examples import examples
from support.reviews import Reply, posted, read, request

ALL_ON = AdmissionSettings(
    gates=Gates.of(EnhancedLivenessProbe=True), deletion_protection=True, crd_cascading=True
)
REVIEWS = ReviewDispatcher(build_reviewers(ALL_ON, ReviewContext(rng=random.Random(1))))
PATHS = sorted(REVIEWS.paths)
INNER = "see the manager's log"

keys = st.sampled_from(
    [
        *("metadata", "spec", "status", "name", "labels", "annotations", "containers", "env", "template"),
        *("ownerReferences", "controller", "apiVersion", "kind", "replicas", "selector", "matchLabels"),
        *("updateStrategy", "rollingUpdate", "deletionTimestamp", "versions", "names", "plural", "storage"),
        *("policy.kruise.io/delete-protection", "apps.kruise.io/container-launch-priority", "value", "a/b~"),
    ]
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["", "Always", "Cascading", "Ordered", "true", "KRUISE_CONTAINER_PRIORITY", "50%", "v1"]
    )
    | st.text(st.characters(codec="utf-8"), max_size=6)
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(keys | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
documents = st.none() | st.dictionaries(keys, anything, max_size=5)


def answered(path: str, body: bytes) -> Reply:
    reply = read(asyncio.run(REVIEWS.answer(path, body, timeout_s=600.0)))
    assert INNER not in reply.message, reply.message
    return reply


@given(path=st.sampled_from(PATHS), body=st.binary(max_size=300))
@example(path=PATHS[0], body=b'{"a":' * 3000)
@example(path=PATHS[0], body=b"\x00")
def test_any_bytes_are_refused_with_400(path: str, body: bytes) -> None:
    reply = answered(path, body)
    assert (reply.allowed, reply.code) == (False, 400)


@given(
    path=st.sampled_from(PATHS),
    doc=documents,
    old=documents,
    operation=st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT", ""]),
    resource=st.sampled_from(
        [
            PODS,
            CLONE_SETS,
            Resource("apps.kruise.io", "v1alpha1", "clonesets", "CloneSet"),
            Resource("apps", "v1", "deployments", "Deployment"),
            Resource("", "v1", "namespaces", "Namespace", namespaced=False),
            Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"),
        ]
    ),
    subresource=st.sampled_from(["", "status", "eviction", "scale"]),
)
def test_any_objects_are_reviewed_without_an_inner_failure(
    path: str, doc: Any, old: Any, operation: str, resource: Resource, subresource: str
) -> None:
    asked = request(resource, {}, operation=operation, subresource=subresource, name="x", namespace="shop")
    reply = answered(path, posted(asked, object=doc, oldObject=old))
    if reply.patch is not None:
        assert reply.allowed


def pod() -> dict[str, Any]:
    owner = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "u"}
    env = [{"name": "KRUISE_CONTAINER_PRIORITY", "value": "1"}, {"name": "B", "value": "2"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "web-",
            "labels": {"app": "web"},
            "annotations": {"apps.kruise.io/using-enhanced-liveness": "true"},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "containers": [
                {"name": "a", "image": "nginx", "env": env, "livenessProbe": {"httpGet": {"port": 80}}},
                {"name": "b", "image": "nginx"},
            ],
            "readinessGates": [{"conditionType": "mine"}],
        },
    }


def clone_set() -> dict[str, Any]:
    result = copy.deepcopy(cloneset(3).document)
    result["spec"]["scaleStrategy"] = {"podsToDelete": ["a"], "maxUnavailable": "50%"}
    result["spec"]["lifecycle"] = {"preDelete": {"labelsHandler": {"a": "b"}}}
    result["spec"]["updateStrategy"] = {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "partition": "10%",
            "maxSurge": 1,
            "priorityStrategy": {
                "weightPriority": [{"weight": 1, "matchSelector": {"matchLabels": {"a": "b"}}}]
            },
            "scatterStrategy": [{"key": "a", "value": "b"}],
            "inPlaceUpdateStrategy": {"gracePeriodSeconds": 1},
        },
    }
    result["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "d"}, "spec": {"accessModes": ["x"]}}]
    return result


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document."""
    result = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        result += places(item, (*path, step))
    return result


def with_value(doc: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    result: Any = copy.deepcopy(doc)
    at = result
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    return result  # type: ignore[no-any-return]


@given(data=st.data(), kind=st.sampled_from(["pod", "cloneset", "update"]), value=anything)
def test_one_wrong_value_anywhere_is_answered_and_patches_can_be_applied(
    data: st.DataObject, kind: str, value: Any
) -> None:
    whole = pod() if kind == "pod" else clone_set()
    resource = PODS if kind == "pod" else CLONE_SETS
    wrong = with_value(whole, data.draw(st.sampled_from(places(whole))), value)
    old = clone_set() if kind == "update" else None
    mutate, validate = (
        ("/mutate-pod", None)
        if kind == "pod"
        else ("/mutate-apps-kruise-io-cloneset", "/validate-apps-kruise-io-cloneset")
    )
    asked = request(resource, wrong, old=old, name="web", namespace="shop")
    reply = answered(mutate, posted(asked))
    if reply.allowed:
        # a second review of the patched object changes nothing
        changed = reply.applied_to(wrong)
        again = answered(mutate, posted(request(resource, changed, old=old, name="web", namespace="shop")))
        assert again.allowed
        if kind != "pod":  # a pod is changed only once, when it is created
            assert is_same(again.applied_to(changed), changed)
        if validate:
            answered(validate, posted(request(resource, changed, old=old, name="web", namespace="shop")))
    if validate:
        answered(validate, posted(asked))


AUTHORITY = Authority()

http_pieces = st.sampled_from(
    [
        b"POST /mutate-pod HTTP/1.1\r\n",
        b"POST /convert HTTP/1.1\r\n",
        b"GET /healthz HTTP/1.1\r\n",
        b"Host: x\r\n",
        b"Content-Length: 10\r\n",
        b"Content-Length: -1\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Content-Encoding: gzip\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: upgrade\r\nUpgrade: websocket\r\n",
        b"\r\n",
        b"ffffffffffffffff\r\n",
        b"5\r\nhello\r\n0\r\n\r\n",
        b"\x1f\x8b\x08",
        b"{}",
        b"\x00\xff",
    ]
)


@pytest.mark.real_time
def test_any_traffic_leaves_the_server_serving(tmp_path: Path) -> None:
    @examples(0.6)
    @given(st.lists(st.lists(http_pieces | st.binary(max_size=20), max_size=8), min_size=1, max_size=4))
    @example([[b"POST /convert HTTP/1.1\r\n", b"Host: x\r\n", b"Content-Length: 2\r\n", b"\r\n", b"{}"]])
    def send(connections: list[list[bytes]]) -> None:
        runner.run(_send(server, connections))

    with asyncio.Runner() as runner:
        server = runner.run(_started(tmp_path))
        try:
            send()
        finally:
            runner.run(server.stop())


async def _started(folder: Path) -> WebhookServer:
    paths = {**review_paths(REVIEWS), **build_conversion_path("/convert")}
    server = WebhookServer(paths, host="127.0.0.1", port=0, limits=WebhookLimits(request_s=0.5, body_s=0.2))
    certificate, key = AUTHORITY.issue("server", hosts=("127.0.0.1",))
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    server.load_certificate(folder / "tls.crt", folder / "tls.key")
    await server.start()
    return server


async def _send(server: WebhookServer, connections: list[list[bytes]]) -> None:
    context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    answers = await asyncio.gather(*(_talk(server.port, context, pieces) for pieces in connections))
    assert not any(b"Traceback" in answer or b" 500 " in answer[:20] for answer in answers)
    body = posted(request(PODS, pod()))
    head = f"POST /mutate-pod HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    answer = await _talk(server.port, context, [head.encode(), body], wait_s=5.0)
    assert read(answer.partition(b"\r\n\r\n")[2]).allowed


async def _talk(port: int, context: ssl.SSLContext, pieces: list[bytes], *, wait_s: float = 0.05) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    answers = b""
    try:
        for piece in pieces:
            writer.write(piece)
        async with asyncio.timeout(wait_s):
            while chunk := await reader.read(65536):
                answers += chunk
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.transport.abort()
    return answers
