"""Every response of the API server to a changed request is a Status or an object, without an internal error."""

import asyncio
import logging
import random
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykruise.sandbox.apiserver import ApiServer

NAMESPACE = "/api/v1/namespaces/default"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "count": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= 0"}]},
                "map": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                },
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "free": {"x-kubernetes-preserve-unknown-fields": True},
            },
        }
    },
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
OBJECTS = {
    f"{NAMESPACE}/configmaps": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}},
    f"{NAMESPACE}/pods": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"l": "1"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1", "ports": [{"containerPort": 80}]}]},
    },
    f"{NAMESPACE}/services": {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}},
    },
    "/apis/apps/v1/namespaces/default/deployments": {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "m", "image": "i"}]}},
        },
    },
    WIDGETS: {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {"count": 1, "map": [{"name": "x"}], "set": ["a"], "free": {"x": 1}},
    },
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": CRD,
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "a"},
        "webhooks": [
            {
                "name": "a.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/x"},
                "rules": [
                    {"apiGroups": ["x"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}
                ],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "matchConditions": [{"name": "x", "expression": "object.x == 1"}],
            }
        ],
    },
}  # fmt: skip
PATCHES = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["", "a", "x/y", "$patch", "é\u0000", "9" * 40, "1Gi", "-", "a" * 300, "2020-01-01T00:00:00Z"]
    ),
    st.text(max_size=8),
)
names = st.one_of(
    st.sampled_from(
        """metadata spec status name labels annotations managedFields finalizers ownerReferences containers
        ports data x template selector count map set free $patch $retainKeys $setElementOrder/containers
        $deleteFromPrimitiveList/finalizers webhooks rules versions schema fieldsV1 manager operation f:data
        resourceVersion uid deletionTimestamp op path value from""".split()  # noqa: SIM905
    ),
    st.text(max_size=6),
)
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)


@st.composite
def changed(draw: st.DrawFn, doc: Any) -> Any:
    """The document with a few places replaced, removed or added."""
    doc = orjson.loads(orjson.dumps(doc))
    for _ in range(draw(st.integers(0, 3))):
        place: Any = doc
        while isinstance(place, dict | list) and place:
            steps = list(place) if isinstance(place, dict) else list(range(len(place)))
            step = draw(st.sampled_from(steps))
            if not isinstance(place[step], dict | list) or not place[step] or draw(st.booleans()):
                if draw(st.booleans()):
                    place[step] = draw(documents)
                elif isinstance(place, dict):
                    place[draw(names)] = draw(documents)
                else:
                    del place[step]
                break
            place = place[step]
    return doc


@st.composite
def operations(draw: st.DrawFn) -> Any:
    """A JSON patch, not always valid."""
    steps = st.lists(names, max_size=4).map(lambda parts: "".join(f"/{part}" for part in parts))
    return draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "op": st.sampled_from(["add", "remove", "replace", "test", "move", "copy", "odd"]),
                    "path": steps,
                },
                optional={"value": documents, "from": steps},
            ),
            max_size=3,
        )
    )


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, dict[str, str], dict[str, str], bytes | None]:
    collection = draw(st.sampled_from(list(OBJECTS)))
    method = draw(st.sampled_from(["GET", "POST", "PUT", "PATCH", "PATCH", "PATCH", "DELETE"]))
    suffix = draw(
        st.sampled_from(
            """* /a /a /a /a/status /a/scale /a/resize /a/eviction /a/binding /a/log /%zz /a/b/c
            /a%2Fb""".split()  # noqa: SIM905
        )
    ).replace("*", "")
    if method == "POST" and draw(st.booleans()):
        suffix = ""
    content = draw(st.sampled_from(PATCHES)) if method == "PATCH" else "application/json"
    if draw(st.integers(0, 9)) == 0:
        content = draw(st.sampled_from(["text/plain", "application/yaml", "", "application/json;x=y"]))
    query = draw(
        st.dictionaries(
            st.sampled_from(
                """dryRun fieldManager force labelSelector fieldSelector limit continue resourceVersion
                resourceVersionMatch propagationPolicy gracePeriodSeconds fieldValidation""".split()  # noqa: SIM905
            ),
            st.one_of(
                st.sampled_from(["All", "true", "1", "a=b", "a in (b", "!a", "-1", "Strict", "0", "me"]),
                st.text(max_size=6),
            ),
            max_size=2,
        )
    )  # fmt: skip
    if content == PATCHES[3]:
        query.setdefault("fieldManager", "me")
    what = draw(st.integers(0, 9))
    value = draw(operations() if content == PATCHES[0] else changed(OBJECTS[collection]))
    if what == 0:
        body: bytes | None = draw(st.binary(max_size=40))
    elif what == 1:
        body = orjson.dumps(draw(documents))
    elif what == 2:
        body = orjson.dumps(value)[: draw(st.integers(0, 60))]
    else:
        body = orjson.dumps(value)
    accept = draw(st.sampled_from(["", "", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"]))
    headers = {"content-type": content, "user-agent": "fuzz/1", **({"accept": accept} if accept else {})}
    return method, f"{collection}{suffix}", query, headers, None if method == "GET" else body


async def served() -> ApiServer:
    server = ApiServer(clock=lambda: 1_700_000_000.0, rng=random.Random(1))
    await server.handle(
        "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=orjson.dumps(CRD)
    )
    for path, doc in OBJECTS.items():
        await server.handle("POST", path, body=orjson.dumps(doc))
    return server


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(asked=st.lists(requests(), min_size=1, max_size=4))
def test_every_request_gets_an_answer_and_nothing_breaks_inside(
    asked: list[tuple[str, str, dict[str, str], dict[str, str], bytes | None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.clear()
    caplog.set_level(logging.ERROR)

    async def talk() -> None:
        # given a server with a few objects
        server = await served()
        for method, path, query, headers, body in asked:
            # when
            answer = await server.handle(method, path, query=query, headers=headers, body=body)
            # then
            assert 200 <= answer.status < 600
            if answer.status >= 400 and answer.headers["content-type"].startswith("application/json"):
                status = orjson.loads(answer.body)
                assert (status["kind"], status["code"]) == ("Status", answer.status)
        # and the stored objects can still be read, with their field managers
        for path in OBJECTS:
            answer = await server.handle("GET", path)
            assert answer.status == 200 or path == WIDGETS
            if answer.status == 200:
                orjson.loads(answer.body)

    asyncio.run(talk())
    assert [record.getMessage() + str(record.exc_info) for record in caplog.records] == []
