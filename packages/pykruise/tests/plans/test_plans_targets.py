"""Workloads whose pods other objects manage: their views, and their reads if no cache has them."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

import msgspec
import orjson
import pytest

from pykruise.kube.documents import Document
from pykruise.kube.errors import ErrorStatus, NotFoundError
from pykruise.kube.resources import CONFIG_MAPS, Resource
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.kube.values.owners import OwnerReference
from pykruise.kube.values.selectors import EVERYTHING, parse_selector
from pykruise.plans import targets
from pykruise.plans.targets import (
    CLONE_SETS,
    DEPLOYMENT,
    REPLICA_SET,
    TARGET_VIEWS,
    OwnerMissingError,
    OwnerReader,
    TargetView,
    WhiteListReader,
    WorkloadReader,
    deployment_of,
    project_target,
)
from pykruise.pods.workload.allowed_workloads import WhiteListError
from pykruise.runtime.read import Mirrors
from pykruise.runtime.views import BY_CONTROLLER
from support.snapshots import listed

T = TypeVar("T")


def run(asked: Awaitable[T]) -> T:
    async def answer() -> T:
        return await asked

    return asyncio.run(answer())


def view(metadata: Document | None = None, **fields: Any) -> TargetView:
    return project_target(orjson.dumps({"metadata": {"name": "web", **(metadata or {})}, **fields}))


# ── views ────────────────────────────────────────────────────────────────────

OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "front", "uid": "above", "controller": True}
NOTHING = TargetView(namespace="", name="web", uid="", resource_version=0)
NULLS = {"labels": None, "annotations": None, "ownerReferences": None, "deletionTimestamp": None}


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [
        ({}, {}),
        (NULLS, {"spec": None, "status": None}),
        ({}, {"spec": {}, "status": {}}),
        (
            {},
            {
                "spec": dict.fromkeys(("replicas", "parallelism", "paused", "selector", "template")),
                "status": {"observedGeneration": None, "updateRevision": None},
            },
        ),
        (
            {},
            {"spec": {"template": {}, "selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}},
        ),
    ],
    ids=["nothing", "null", "empty", "nulls inside", "a selector that cannot be read"],
)
def test_an_empty_workload_has_one_pod_and_selects_everything(metadata: Document, fields: Document) -> None:
    assert view(metadata, **fields) == NOTHING


def test_all_fields_of_a_workload_are_read() -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
    target = view(
        {
            "namespace": "shop",
            "uid": "u",
            "resourceVersion": "7",
            "generation": 3,
            "labels": {"pod-template-hash": "h1"},
            "annotations": {"deployment.kubernetes.io/revision": "12"},
            "ownerReferences": [{"uid": "other"}, OWNER],
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        spec={
            "replicas": 0,
            "paused": True,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
        },
        status={"observedGeneration": 2, "updateRevision": "web-5d"},
    )
    assert target == TargetView(
        namespace="shop",
        name="web",
        uid="u",
        resource_version=7,
        generation=3,
        observed_generation=2,
        is_deleting=True,
        is_paused=True,
        replicas=0,
        labels={"pod-template-hash": "h1"},
        controller_uid="above",
        controller=(DEPLOYMENT, "front"),
        selector=parse_selector({"matchLabels": {"app": "web"}}),
        template_hash="h1",
        update_revision="web-5d",
        revision="12",
        template_digest=target.template_digest,
        template_labels={"app": "web"},
    )
    assert target.template_digest
    assert target.selector is not EVERYTHING


def test_the_replicas_of_a_job_are_its_parallelism() -> None:
    assert view(spec={"parallelism": 3, "replicas": 9}).replicas == 3


def digest(metadata: Any, **spec: Any) -> str:
    return view(spec={"template": {"metadata": metadata, "spec": spec}}).template_digest


def test_a_deployment_and_its_replica_set_have_the_same_template() -> None:
    labels = {"app": "web"}
    of_deployment = digest({"labels": labels})
    assert (
        digest({"labels": {**labels, "pod-template-hash": "h1"}, "creationTimestamp": None}) == of_deployment
    )
    # and any other change makes a new view
    others = (
        digest({"labels": {"app": "other"}}),
        digest({"labels": labels, "annotations": {"a": "b"}}),
        digest({"labels": labels}, nodeName="n1"),
    )
    assert of_deployment not in others
    assert len(set(others)) == 3


def test_a_template_without_labels_is_read_too() -> None:
    assert digest(None) == digest({}) == digest({"labels": None}) == digest({"labels": {}})
    assert view(spec={"template": {"metadata": None}}).template_labels == {}
    assert view(spec={"template": {"metadata": {"labels": None}}}).template_labels == {}


@pytest.mark.parametrize(
    ("change", "is_spread_as_before"),
    [
        ({"uid": "another"}, False),
        ({"replicas": 2}, False),
        ({"is_deleting": True}, False),
        ({"revision": "2"}, False),
        ({"update_revision": "web-2"}, False),
        ({"template_digest": "d"}, False),
        ({"labels": {"a": "b"}, "resource_version": 8, "is_paused": True, "generation": 4}, True),
    ],
)
def test_the_spread_of_pods_depends_on_a_few_fields(
    change: Mapping[str, Any], is_spread_as_before: bool
) -> None:
    assert NOTHING.is_spread_as(msgspec.structs.replace(NOTHING, **change)) is is_spread_as_before


def test_workloads_are_found_by_their_controller() -> None:
    key = TARGET_VIEWS[REPLICA_SET].indexes[BY_CONTROLLER]
    assert key(msgspec.structs.replace(NOTHING, controller_uid="above")) == ("above",)
    assert key(NOTHING) == ()
    # and workloads with a controller of pykruise have a cache of their own
    assert [views.resource for views in TARGET_VIEWS.values() if views.is_apart] == [
        targets.CLONE_SETS,
        targets.STATEFUL_SETS_OF_KRUISE,
    ]


# ── the Deployment of a ReplicaSet ───────────────────────────────────────────


def known(*, controller: str, deployment: str | None = None, kind: str = "Deployment") -> Mirrors:
    """The ReplicaSet web-app-h1, and optionally a Deployment front."""
    replica_set = view(
        {"name": "web-app-h1", "namespace": "shop", "ownerReferences": [{**OWNER, "kind": kind}]}
    )
    views = (TARGET_VIEWS[REPLICA_SET], TARGET_VIEWS[DEPLOYMENT])
    return Mirrors(
        listed(
            views,
            {
                views[0]: [msgspec.structs.replace(replica_set, controller_uid=controller)],
                views[1]: []
                if deployment is None
                else [view({"name": "front", "namespace": "shop", "uid": deployment})],
            },
        )
    )


def test_a_replica_set_is_of_the_deployment_that_controls_it_also_with_another_name() -> None:
    mirrors = known(controller="d1", deployment="d1")
    assert deployment_of("shop", "web-app-h1", mirrors) == "front"
    assert deployment_of("shop", "web-app-h2", mirrors) == ""
    assert deployment_of("shop", "web-app-h1", known(controller="d1", deployment="d1", kind="Rollout")) == ""


@pytest.mark.parametrize(
    ("controller", "deployment"),
    [("", "d1"), ("", ""), ("d1", None), ("d1", "d2")],
    ids=["no controller", "no uid", "no Deployment", "another one of the name"],
)
def test_a_replicaset_of_another_controller_has_no_deployment(
    controller: str, deployment: str | None
) -> None:
    assert deployment_of("shop", "web-app-h1", known(controller=controller, deployment=deployment)) == ""


# ── reading ──────────────────────────────────────────────────────────────────

WIDGETS = {"resources": [{"name": "widgets", "kind": "Widget"}]}


class Server:
    """Objects by plural and name, as an API server returns them; `asked`: the requests."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Document] = {}
        self.paths: dict[str, Document] = {"/apis/example.com/v1alpha1": WIDGETS}
        self.asked: list[str] = []
        self.now = 100.0

    async def get(self, resource: Resource, namespace: str, name: str, *, subresource: str = "") -> bytes:
        self.asked.append(f"{resource.version} {resource.plural} {namespace}/{name} {subresource}".strip())
        return self._found(self.objects.get((resource.plural, name)))

    async def get_path(self, path: str) -> bytes:
        return self._found(self.paths.get(path))

    @staticmethod
    def _found(document: Document | None) -> bytes:
        if document is None:
            raise NotFoundError(ErrorStatus(code=404, message="not found"))
        return orjson.dumps(document)

    def clock(self) -> float:
        return self.now


@pytest.fixture
def server() -> Server:
    return Server()


def test_a_workload_is_read_of_any_kind_that_is_served(server: Server) -> None:
    reader = WorkloadReader(lambda: server)  # type: ignore[arg-type]  # as much of a client as is used
    server.objects = {("clonesets", "web"): {"kind": "CloneSet"}, ("widgets", "w"): {"kind": "Widget"}}
    # a known kind
    assert run(reader.read(GroupKind("apps.kruise.io", "CloneSet"), "shop", "web", version="v1")) is not None
    assert server.asked == [f"{CLONE_SETS.version} clonesets shop/web"]
    assert run(reader.read(DEPLOYMENT, "shop", "web")) is None
    # another kind, in the version that is requested, and its scale
    widget = GroupKind("example.com", "Widget")
    assert run(reader.read(widget, "shop", "w", version="v1alpha1")) == {"kind": "Widget"}
    assert run(reader.read_scale(widget, "shop", "w", version="v1alpha1")) is not None
    assert server.asked[-2:] == ["v1alpha1 widgets shop/w", "v1alpha1 widgets shop/w scale"]
    # and a kind that is not served
    assert run(reader.read(GroupKind("example.com", "Gadget"), "shop", "g")) is None


def owner(kind: str = "ReplicaSet", name: str = "web-h1", *, api_version: str = "apps/v1") -> OwnerReference:
    return OwnerReference(api_version=api_version, kind=kind, name=name, uid=f"uid-{name}")


def controlled(uid: str) -> Document:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": uid, "controller": True}
    return {"metadata": {"name": "x", "ownerReferences": [reference]}}


def test_the_controller_of_an_owner_is_remembered_for_a_minute(server: Server) -> None:
    reader = OwnerReader(lambda: server, clock=server.clock)  # type: ignore[arg-type]

    def above() -> str:
        owner_reference = run(reader.read_controller(owner(), "shop"))
        return "" if owner_reference is None else owner_reference.uid

    server.objects["replicasets", "web-h1"] = controlled("d1")
    assert above() == "d1"
    server.objects["replicasets", "web-h1"] = controlled("d2")
    server.now += 59.9
    assert above() == "d1"
    server.now += 0.1
    assert above() == "d2"
    assert server.asked == ["v1 replicasets shop/web-h1"] * 2


def test_an_owner_without_a_controller_is_cached_and_a_missing_owner_is_not(server: Server) -> None:
    reader = OwnerReader(lambda: server, clock=server.clock)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(OwnerMissingError):
            run(reader.read_controller(owner(), "shop"))
    server.objects["replicasets", "web-h1"] = {"metadata": {"name": "web-h1"}}
    assert run(reader.read_controller(owner(), "shop")) is None
    del server.objects["replicasets", "web-h1"]
    assert run(reader.read_controller(owner(), "shop")) is None


def test_an_owner_of_a_kind_that_is_not_known_is_read_in_its_version(server: Server) -> None:
    reader = OwnerReader(lambda: server, clock=server.clock)  # type: ignore[arg-type]
    server.objects["widgets", "w"] = controlled("d1")
    owner_reference = run(
        reader.read_controller(owner("Widget", "w", api_version="example.com/v1alpha1"), "shop")
    )
    assert owner_reference is not None
    assert owner_reference.uid == "d1"


def test_too_many_cached_owners_are_all_dropped(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "_MOST_OWNERS", 2)
    reader = OwnerReader(lambda: server, clock=server.clock)  # type: ignore[arg-type]
    server.objects |= {("replicasets", name): controlled("d1") for name in "abc"}

    def ask(*names: str) -> int:
        """Number of requests for these owners."""
        before = len(server.asked)
        for name in names:
            run(reader.read_controller(owner(name=name), "shop"))
        return len(server.asked) - before

    assert ask("a", "b", "a", "b") == 2
    assert ask("c", "c") == 1
    assert ask("a", "b") == 2


# ── white lists ──────────────────────────────────────────────────────────────


def configuration(data: Any) -> Document:
    return {"metadata": {"name": "kruise-configuration"}, "data": data}


def white_list(server: Server) -> WhiteListReader:
    return WhiteListReader(lambda: server, namespace="kruise-system", key="list", clock=server.clock)  # type: ignore[arg-type]


KEY = (CONFIG_MAPS.plural, "kruise-configuration")
A_WIDGET = '{"workloads": [{"Group": "example.com", "Kind": "Widget"}]}'


def test_a_white_list_is_remembered_for_five_seconds(server: Server) -> None:
    reader = white_list(server)
    assert run(reader.read()).workloads == ()
    # when it is written
    server.objects[KEY] = configuration({"list": A_WIDGET})
    server.now += 4.9
    assert run(reader.read()).workloads == ()
    server.now += 0.1
    assert [workload.target for workload in run(reader.read()).workloads] == [
        GroupKind("example.com", "Widget")
    ]
    assert server.asked == ["v1 configmaps kruise-system/kruise-configuration"] * 2


def test_an_unreadable_white_list_is_cached_for_the_same_time(server: Server) -> None:
    reader = white_list(server)
    server.objects[KEY] = configuration({"list": "{"})
    for waited_s in (0.0, 4.9, 0.2):
        server.now += waited_s
        with pytest.raises(WhiteListError):
            run(reader.read())
    assert len(server.asked) == 2


@pytest.mark.parametrize("data", [None, {}, {"other": A_WIDGET}, {"list": None}, {"list": 5}, {"list": ""}])
def test_the_list_is_empty_without_a_text(server: Server, data: Any) -> None:
    server.objects[KEY] = configuration(data)
    assert run(white_list(server).read()).workloads == ()


@pytest.mark.parametrize(
    ("data", "text"), [(None, None), ({"list": 5}, None), ({"list": ""}, ""), ({"list": "x"}, "x")]
)
def test_the_text_under_a_key_is_read(server: Server, data: Any, text: str | None) -> None:
    if data is not None:
        server.objects[KEY] = configuration(data)
    assert run(targets.read_configuration(server, "kruise-system", "list")) == text  # type: ignore[arg-type]
