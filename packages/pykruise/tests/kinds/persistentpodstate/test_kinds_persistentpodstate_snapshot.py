"""Snapshots of a PersistentPodState: its workload, workloads of the same name, pods, nodes, and annotations of pods."""

import random
from collections.abc import Iterable
from typing import Any

import pytest

from pykruise.kinds.persistentpodstate.plan import NODE_AGAIN_S, plan_state
from pykruise.kinds.persistentpodstate.snapshot import (
    KnownAnnotations,
    StateGatherError,
    StateSettings,
    StateSnapshot,
    read_snapshot,
)
from pykruise.kinds.persistentpodstate.view import (
    ADVANCED,
    STATE_VIEWS,
    WORKLOAD_VIEWS,
    make_absent_view,
    make_further_views,
    project_state,
)
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, encode
from pykruise.kube.errors import ErrorStatus, NotFoundError, UnreachableError
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.pods.reasons import Code
from pykruise.pods.workload.allowed_workloads import CONFIGURATION, STATEFUL_KINDS
from pykruise.runtime.listed_objects import Listed
from pykruise.runtime.read import Memories, Read
from pykruise.runtime.views import Views

NOW = parse_time("2026-01-31T12:00:00Z")
STARTED = "2026-01-01T00:00:00Z"
KRUISE, APPS, GAMES = "apps.kruise.io/v1beta1", "apps/v1", "game.kruise.io/v1alpha1"
GAME_SETS = Resource("game.kruise.io", "v1alpha1", "gamesets", "GameSet")
GAME_SET = GroupKind(GAME_SETS.group, GAME_SETS.kind)
WHITE_LIST = '{"workloads": [{"Group": "game.kruise.io", "Version": "v1alpha1", "Kind": "GameSet"}]}'
ASKS = {
    "kruise.io/auto-generate-persistent-pod-state": "true",
    "kruise.io/required-persistent-topology": "zone",
}
RECORDS_IP = {"persistentPodAnnotations": [{"key": "ip"}]}
SETTINGS = StateSettings()


def state(*, api_version: str = KRUISE, kind: str = "StatefulSet", **spec: Any) -> Document:
    reference = {"apiVersion": api_version, "kind": kind, "name": "web"}
    metadata = {"name": "web", "namespace": "shop", "uid": "s1", "resourceVersion": "1", "generation": 1}
    whole = {"targetRef": reference, "requiredPersistentTopology": {"keys": ["zone"]}, **spec}
    return {"metadata": metadata, "spec": whole}


def workload(
    *,
    name: str = "web",
    api_version: str = KRUISE,
    kind: str = "StatefulSet",
    deleting: bool = False,
    **more: Any,
) -> Document:
    """`more`: annotations and fields of the spec."""
    metadata: Document = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}-{api_version}",
        "resourceVersion": "1",
        "annotations": more.pop("annotations", {}),
        **({"deletionTimestamp": STARTED} if deleting else {}),
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"replicas": 3, **more}}


def pod(
    ordinal: int,
    *,
    node: str = "n1",
    ready: bool = True,
    phase: str = "Running",
    deleting: bool = False,
    of: Document | None = None,
    version: int = 5,
    uid: str = "",
    **annotations: str,
) -> Document:
    owner = workload() if of is None else of
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "web", "controller": True}
    metadata: Document = {
        "name": f"web-{ordinal}",
        "namespace": "shop",
        "uid": uid or f"p-{ordinal}",
        "resourceVersion": str(version),
        "annotations": annotations,
        "ownerReferences": [{**reference, "uid": owner["metadata"]["uid"]}],
        **({"deletionTimestamp": STARTED} if deleting else {}),
    }
    return {
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


class Cluster:
    """Caches, and an API server with the same objects, unless the test changes one. A read calls `meanwhile`."""

    def __init__(
        self,
        document: Document | None,
        *pods: Document,
        workloads: Iterable[Document] = (),
        nodes: Iterable[str] = ("n1",),
    ) -> None:
        self.document = document
        self.mirrors: dict[Views[Any], Listed[Any]] = {}
        self.further: dict[GroupKind, Views[Any]] = {}
        self.memories = Memories()
        self.stored: dict[tuple[str, str], Document] = {}
        self.asked: list[str] = []
        self.unreachable = False
        self.meanwhile = lambda: None
        self.show(STATE_VIEWS, *([document] if document is not None else []))
        self.show(NODE_VIEWS, *({"metadata": {"name": name, "uid": name}} for name in nodes))
        self.show_pods(*pods)
        workloads = list(workloads)
        for views in WORKLOAD_VIEWS.values():
            of_kind = [
                workload for workload in workloads if workload["apiVersion"] == views.resource.api_version
            ]
            self.show(views, *of_kind)

    def show(self, views: Views[Any], *documents: Document, synced: bool = True) -> None:
        """Let a cache show these objects from now on."""
        project = views.projector()
        self.mirrors[views] = Listed(
            views, [project(encode(document)) for document in documents], synced=synced
        )

    def show_pods(self, *pods: Document) -> None:
        """Let the caches and the API server have these pods."""
        self.show(POD_VIEWS, *pods)
        self.stored |= {("Pod", pod["metadata"]["name"]): pod for pod in pods}

    async def snapshot(self, *, settings: StateSettings = SETTINGS) -> StateSnapshot | None:
        view = (
            make_absent_view(Key("shop", "web"))
            if self.document is None
            else project_state(encode(self.document))
        )
        read: Read[StateSettings] = Read(
            self.mirrors,
            key=view.key,
            uid=view.uid,
            now=lambda: NOW,
            rng=random.Random(1),
            settings=settings,
            live=self,  # type: ignore[arg-type]  # as much of a client as is used
            memories=self.memories,
            further=self.further,
        )
        return await read_snapshot(view, read)

    async def seen(self, *, settings: StateSettings = SETTINGS) -> StateSnapshot:
        result = await self.snapshot(settings=settings)
        assert result is not None
        return result

    # ── as a client ──────────────────────────────────────────────────────────

    async def get(self, resource: Resource, _: str, name: str, *, subresource: str = "") -> bytes:
        self.asked.append(name)
        self.meanwhile()
        if self.unreachable:
            raise UnreachableError("no API server")
        result = self.stored.get((resource.kind, name))
        if result is None:
            raise NotFoundError(ErrorStatus(code=404, message="not found"))
        return encode(result)

    async def get_path(self, path: str) -> bytes:
        assert path == "/apis/game.kruise.io/v1alpha1"
        return encode({"resources": [{"name": "gamesets", "kind": "GameSet"}]})


def names(value: StateSnapshot) -> list[str]:
    return [pod.name for pod in value.pods]


# ── the workload ─────────────────────────────────────────────────────────────


async def test_the_snapshot_has_the_workloads_pods_and_nodes_without_any_request() -> None:
    # given pods of the workload, of which some end, and one of another
    pods = [
        *(
            pod(0),
            pod(1, ready=False, node=""),
            pod(2, node="n2"),
            pod(3, phase="Failed"),
            pod(4, deleting=True),
        ),
        pod(5, of=workload(name="other"), node="n3"),
    ]
    cluster = Cluster(state(), *pods, workloads=[workload()], nodes=("n1", "n2", "n3"))
    # when
    result = await cluster.seen()
    # then
    assert names(result) == ["web-0", "web-1", "web-2"]
    assert sorted(result.nodes) == ["n1", "n2"]
    assert result.workload is not None
    assert (result.workload.replicas, result.start, result.polls_after, result.now) == (3, 0, None, NOW)
    assert (result.annotations, result.unread, cluster.asked) == ({}, (), [])


@pytest.mark.parametrize(
    "workloads",
    [[], [workload(replicas=0)], [workload(deleting=True)]],
    ids=["gone", "no replicas", "terminating"],
)
async def test_a_deleted_workload_or_one_without_replicas_has_no_pods(workloads: list[Document]) -> None:
    cluster = Cluster(state(**RECORDS_IP), pod(0), workloads=workloads)
    assert names(await cluster.seen()) == []
    assert cluster.asked == []


async def test_a_workload_of_an_unserved_kind_counts_as_missing() -> None:
    cluster = Cluster(state(), pod(0))
    cluster.show(WORKLOAD_VIEWS[ADVANCED], workload(), synced=False)
    result = await cluster.seen()
    assert (result.workload, result.namesakes) == (None, [])


@pytest.mark.parametrize(
    "broken", [{"targetRef": 3}, {"targetRef": {"apiVersion": "a/b/c", "kind": "K", "name": "web"}}]
)
async def test_a_persistentpodstate_without_a_target_has_no_workload(broken: Document) -> None:
    result = await Cluster(state(**broken), pod(0), workloads=[workload()]).seen()
    assert (result.workload, names(result), result.start) == (None, [], 0)


async def test_ordinals_begin_at_the_start_of_the_workload_that_is_named() -> None:
    """LIFT-9: for the advanced StatefulSet, with its gate"""
    workloads = [workload(ordinals={"start": 5}), workload(api_version=APPS, ordinals={"start": 7})]
    for api_version, start_ordinal, start in ((KRUISE, False, 0), (KRUISE, True, 5), (APPS, False, 7)):
        cluster = Cluster(state(api_version=api_version), workloads=workloads)
        assert (await cluster.seen(settings=StateSettings(start_ordinal=start_ordinal))).start == start


async def test_a_state_deleted_during_a_read_has_no_snapshot() -> None:
    cluster = Cluster(state(**RECORDS_IP), pod(0), workloads=[workload()])
    cluster.meanwhile = lambda: cluster.show(STATE_VIEWS)
    assert await cluster.snapshot() is None


async def test_a_state_changed_during_a_read_is_planned_in_its_new_version() -> None:
    cluster = Cluster(state(**RECORDS_IP), pod(0), workloads=[workload()])
    newer = state(**RECORDS_IP, persistentPodStateRetentionPolicy="WhenDeleted")
    cluster.meanwhile = lambda: cluster.show(STATE_VIEWS, newer)
    assert (await cluster.seen()).state == project_state(encode(newer))


# ── a name without a PersistentPodState ──────────────────────────────────────


@pytest.mark.parametrize(
    ("workloads", "is_wanted"),
    [
        ([], False),
        ([workload(annotations=ASKS)], True),
        ([workload()], False),
        ([workload(annotations=ASKS, deleting=True)], False),
        ([workload(), workload(annotations=ASKS, api_version=APPS)], True),
    ],
    ids=["none", "asks", "does not ask", "asks and goes", "one of two asks"],
)
async def test_a_name_that_no_workload_requests_has_no_snapshot(
    workloads: list[Document], is_wanted: bool
) -> None:
    result = await Cluster(None, workloads=workloads).snapshot()
    assert (result is not None) == is_wanted
    if result is not None:
        assert [namesake.api_version for namesake in result.namesakes] == [
            workload["apiVersion"] for workload in workloads
        ]


# ── kinds of the white list ──────────────────────────────────────────────────


def game_set(**more: Any) -> Document:
    return workload(api_version=GAMES, kind="GameSet", **more)


def of_game_set(*pods: Document, **spec: Any) -> Cluster:
    cluster = Cluster(state(api_version=GAMES, kind="GameSet", **spec), *pods)
    cluster.stored["ConfigMap", CONFIGURATION] = {"data": {STATEFUL_KINDS: WHITE_LIST}}
    return cluster


async def test_a_kind_that_is_watched_now_costs_no_request() -> None:
    """LIFT-5; persistentpodstate case 50"""
    # given
    cluster = of_game_set(pod(0, of=game_set()))
    views = cluster.further[GAME_SET] = make_further_views(GAME_SETS)
    cluster.show(views, game_set(replicas=2, annotations=ASKS))
    # when
    result = await cluster.seen()
    # then
    assert result.workload is not None
    assert (result.workload.replicas, result.workload.api_version) == (2, GAMES)
    assert (names(result), result.namesakes) == (["web-0"], [result.workload])
    assert (result.polls_after, cluster.asked) == (None, [])
    # and when it does not exist
    cluster.show(views)
    result = await cluster.seen()
    assert (result.workload, result.namesakes, result.polls_after) == (None, [], None)


@pytest.mark.parametrize("mirror", ["none", "not read yet"])
async def test_a_kind_that_cannot_be_watched_is_read_every_ten_seconds(mirror: str) -> None:
    # given
    cluster = of_game_set(pod(0, of=game_set()))
    views = cluster.further[GAME_SET] = make_further_views(GAME_SETS)
    if mirror == "not read yet":
        cluster.show(views, game_set(replicas=9), synced=False)
    cluster.stored["GameSet", "web"] = game_set(replicas=2)
    # when
    result = await cluster.seen()
    # then
    assert result.workload is not None
    assert (result.workload.replicas, names(result), result.namesakes) == (2, ["web-0"], [])
    assert result.polls_after == plan_state(result).requeue_after_s == 10.0
    # and also when it is deleted
    del cluster.stored["GameSet", "web"]
    result = await cluster.seen()
    assert (result.workload, result.polls_after) == (None, 10.0)
    assert plan_state(result).requeue_after_s == 10.0


async def test_a_missing_node_is_retried_earlier_than_the_workload_is_polled() -> None:
    cluster = of_game_set(pod(0, of=game_set(), node="n9"))
    cluster.stored["GameSet", "web"] = game_set()
    assert plan_state(await cluster.seen()).requeue_after_s == NODE_AGAIN_S


@pytest.mark.parametrize(("text", "problem"), [("{", "cannot be read"), ("", "not on the white list")])
async def test_records_outlive_what_is_written_into_the_white_list(text: str, problem: str) -> None:
    """persistentpodstate case 26: the snapshot fails, and is tried again"""
    cluster = of_game_set()
    cluster.stored["ConfigMap", CONFIGURATION]["data"][STATEFUL_KINDS] = text
    with pytest.raises(StateGatherError, match=problem):
        await cluster.snapshot()


# ── annotations of pods ──────────────────────────────────────────────────────


async def test_annotations_are_read_of_ready_pods_on_a_node_once_for_each_version() -> None:
    # given
    others = [pod(1, ready=False), pod(2, node="")]
    cluster = Cluster(state(**RECORDS_IP), pod(0, ip="1.1.1.1"), *others, workloads=[workload()])
    # then
    for _ in range(2):
        assert (await cluster.seen()).annotations == {"p-0": {"ip": "1.1.1.1"}}
    assert cluster.asked == ["web-0"]
    # when the pod has changed
    cluster.show_pods(pod(0, version=6, ip="2.2.2.2"), *others)
    assert (await cluster.seen()).annotations == {"p-0": {"ip": "2.2.2.2"}}
    assert cluster.asked == ["web-0", "web-0"]


async def test_annotations_of_deleted_pods_are_forgotten() -> None:
    # given
    cluster = Cluster(state(**RECORDS_IP), pod(0), pod(1), workloads=[workload()])
    known = cluster.memories.find_memory(Key("shop", "web"), "s1", KnownAnnotations)
    await cluster.seen()
    assert sorted(known.annotations) == ["p-0", "p-1"]
    # when
    cluster.show_pods(pod(0))
    await cluster.seen()
    # then
    assert sorted(known.annotations) == ["p-0"]


@pytest.mark.parametrize("case", ["the API server does not answer", "it is gone", "another one has its name"])
async def test_unreadable_annotations_keep_the_record_and_are_read_again(case: str) -> None:
    """The record of a pod is for its successor, even if the successor comes early."""
    # given
    record = {"nodeName": "n1", "nodeTopologyLabels": {"zone": "z1"}, "annotations": {"ip": "1.1.1.1"}}
    document = state(**RECORDS_IP)
    document["status"] = {"observedGeneration": 1, "podStates": {"web-0": record}}
    cluster = Cluster(document, pod(0, ip="1.1.1.1"), pod(1), workloads=[workload()])
    match case:
        case "the API server does not answer":
            cluster.unreachable = True
        case "it is gone":
            del cluster.stored["Pod", "web-0"]
        case _:
            cluster.stored["Pod", "web-0"] = pod(0, uid="another")
    # when
    result = await cluster.seen()
    plan = plan_state(result)
    # then
    assert result.unread == (["web-0", "web-1"] if cluster.unreachable else ["web-0"])
    assert plan.status is not None
    assert plan.status["podStates"]["web-0"] == record
    assert plan.skipped["web-0"].code is Code.NOT_READ
    assert plan.requeue_after_s == NODE_AGAIN_S


async def test_an_api_server_that_fails_over_a_workload_is_an_error() -> None:
    """persistentpodstate case 26"""
    cluster = of_game_set()
    cluster.unreachable = True
    with pytest.raises(UnreachableError):
        await cluster.snapshot()
