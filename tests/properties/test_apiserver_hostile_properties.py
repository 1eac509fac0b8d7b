"""Every response to a client is an object or a Status, and never an internal error of the server.

Each example is a few requests to a server that has a pod, a config map and a custom resource.
"""

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.client.transport import Response
from support.api import CONFIG_MAPS, CRDS, PODS, WIDGETS, Api, config_map, pod, widget, widget_crd

_KNOWN = [
    "/api/v1/namespaces",
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/default/finalize",
    "/api/v1/pods",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/deployments/a/scale",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/api/v1/namespaces/default/bindings",
    CONFIG_MAPS,
    f"{CONFIG_MAPS}/a",
    CRDS,
    f"{CRDS}/widgets.example.com",
    PODS,
    f"{PODS}/a",
    f"{PODS}/a/binding",
    f"{PODS}/a/eviction",
    f"{PODS}/a/status",
    f"{PODS}/a/resize",
    f"{PODS}/a/ephemeralcontainers",
    WIDGETS,
    f"{WIDGETS}/a",
    f"{WIDGETS}/a/scale",
    f"{WIDGETS}/a/status",
]
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"]
_MEDIA = [
    "application/json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/yaml",
    "text/plain",
    "",
]
_QUERY = [
    "allowWatchBookmarks",
    "continue",
    "dryRun",
    "fieldManager",
    "fieldSelector",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "includeObject",
    "labelSelector",
    "limit",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
]
_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.text(max_size=8)
)
_MEMBERS = (
    ["apiVersion", "kind", "metadata", "name", "labels", "finalizers", "ownerReferences", "uid"],
    ["resourceVersion", "generation", "deletionTimestamp", "spec", "status", "data", "replicas"],
    ["containers", "conditions", "target", "versions", "preconditions", "op", "path", "value"],
    ["$patch", "$setElementOrder/containers"],
)
_members = st.sampled_from([name for names in _MEMBERS for name in names])
_json: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_members | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
_valid = st.sampled_from([pod("a"), config_map("a"), widget("a"), widget_crd()])


def _damaged(doc: Any, path: list[int], value: Any) -> Any:
    """The document with one value, found by walking along `path`, replaced."""
    if not path or not isinstance(doc, (dict, list)) or not doc:
        return value
    if isinstance(doc, list):
        position = path[0] % len(doc)
        return [
            _damaged(item, path[1:], value) if index == position else item for index, item in enumerate(doc)
        ]
    key = list(doc)[path[0] % len(doc)]
    return {name: _damaged(item, path[1:], value) if name == key else item for name, item in doc.items()}


_damage = st.builds(_damaged, _valid, st.lists(st.integers(0, 9), min_size=1, max_size=6), _json)
_bodies = st.one_of(st.none(), st.binary(max_size=40), _json.map(orjson.dumps), _damage.map(orjson.dumps))
_paths = st.one_of(
    st.sampled_from(_KNOWN),
    st.sampled_from(_KNOWN),
    st.text(alphabet="/%.:?#\\ab1\x00é ", max_size=20).map(lambda text: f"/api/v1/{text}"),
    st.text(max_size=20),
)
_requests = st.tuples(
    st.sampled_from(_METHODS),
    _paths,
    st.dictionaries(
        st.sampled_from(_QUERY),
        st.text(max_size=8) | st.sampled_from(["All", "1", "true", "a=b"]),
        max_size=3,
    ),
    st.fixed_dictionaries(
        {"content-type": st.sampled_from(_MEDIA)},
        optional={
            "accept": st.text(max_size=30) | st.sampled_from(["application/yaml", "*/*", "a;as=Table;v=v1"])
        },
    ),
    _bodies,
)


async def _api() -> Api:
    api = Api.fresh()
    await api.post(CRDS, widget_crd())
    await api.post(PODS, pod("a"))
    await api.post(CONFIG_MAPS, config_map("a"))
    await api.post(WIDGETS, widget("a"))
    return api


def _check(response: Response) -> None:
    assert 200 <= response.status < 600
    if response.headers["content-type"].startswith("application/json"):
        doc = orjson.loads(response.body)
        if response.status >= 400:
            assert doc["kind"] == "Status"
            assert doc["code"] == response.status
            assert doc["status"] == "Failure"


@pytest.mark.real_time
@given(st.lists(_requests, min_size=1, max_size=4))
def test_every_request_gets_an_answer_and_none_breaks_the_server(requests: list[Any]) -> None:
    async def play() -> None:
        api = await _api()
        for method, path, query, headers, body in requests:
            # when
            response = await api.server.handle(method, path, query=query, headers=headers, body=body)
            # then: a 500 with this reason is an exception, not a rejection
            _check(response)
            assert b'"InternalError"' not in response.body, response.body
        # and the stored objects can still be read
        for path in (PODS, CONFIG_MAPS, CRDS):
            assert (await api.get(path)).status == 200

    asyncio.run(play())


@pytest.mark.real_time
@given(
    _paths,
    st.dictionaries(
        st.sampled_from(_QUERY), st.text(max_size=8) | st.sampled_from(["true", "0", "a=b"]), max_size=4
    ),
)
def test_every_watch_is_opened_or_refused(path: str, query: dict[str, str]) -> None:
    async def play() -> None:
        api = await _api()
        # when
        opened = await api.server.stream(path, query={**query, "watch": "true"})
        # then
        if isinstance(opened, Response):
            _check(opened)
            assert opened.status >= 400
            assert b'"InternalError"' not in opened.body, opened.body
        else:
            await opened.aclose()
        assert api.server.read_stats().watchers == 0

    asyncio.run(play())


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
        b"[" * 100_000,
        b'{"metadata":{"name":"x"},"data":' + b'{"a":' * 195 + b"1" + b"}" * 196,
        b'{"metadata":' + b"[" * 900 + b"]" * 900 + b"}",
        b"\xff\xfe\x00",
        b'{"metadata":{"name":"\xff"}}',
        b"a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
        b'{"metadata":{"name":"x","labels":{"a":null}},"data":{"a":null}}',
        b'{"metadata":{"name":"x","generation":99999999999999999999}}',
        b'{"metadata":{"name":"x","generation":1e400}}',
    ],
)
@pytest.mark.parametrize(
    ("method", "media"),
    [
        ("POST", "application/json"),
        ("POST", "application/yaml"),
        ("PATCH", "application/merge-patch+json"),
        ("PATCH", "application/strategic-merge-patch+json"),
        ("DELETE", "application/json"),
    ],
)
async def test_nasty_bodies_get_a_status(method: str, media: str, body: bytes) -> None:
    # given
    api = await _api()
    path = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/a"
    # when
    reply = await api.call(method, path, body, content_type=media)
    # then
    assert reply.reason != "InternalError", reply.doc
    assert reply.doc["kind"] in ("Status", "ConfigMap")


async def test_an_object_at_the_depth_limit_can_be_written_changed_shown_and_deleted() -> None:
    # given a resource that accepts anything, and an object that is nearly too deep
    api = Api.fresh()
    crd = widget_crd(subresources=False)
    for version in crd["spec"]["versions"]:
        version["schema"] = {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        }
    await api.post(CRDS, crd)
    deep: Any = {}
    for _ in range(195):
        deep = {"a": deep}
    # when
    statuses = [
        (await api.post(WIDGETS, {**widget("w"), "deep": deep})).status,
        (await api.patch(f"{WIDGETS}/w", {"deep": deep | {"b": 1}})).status,
        (
            await api.patch(
                f"{WIDGETS}/w",
                [{"op": "add", "path": "/deep/c", "value": deep}],
                "application/json-patch+json",
            )
        ).status,
        (await api.get(WIDGETS, accept="application/yaml")).status,
        (await api.delete(f"{WIDGETS}/w")).status,
    ]
    # then
    assert statuses == [201, 200, 200, 200, 200]
