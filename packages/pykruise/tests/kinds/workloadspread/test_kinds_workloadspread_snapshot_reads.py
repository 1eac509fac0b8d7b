"""Snapshots of WorkloadSpreads: their workload, pods and nodes. Numbers are cases of the specification."""

import random
from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from pykruise.kinds.workloadspread.plan import plan_spread
from pykruise.kinds.workloadspread.readers import WHITE_LIST_KEY
from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot
from pykruise.kinds.workloadspread.snapshot_reads import (
    MOST_READ,
    SpreadGatherError,
    SpreadSettings,
    read_snapshot,
)
from pykruise.kinds.workloadspread.view import SPREAD_VIEWS
from pykruise.kube.documents import Document
from pykruise.kube.errors import ErrorStatus, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.targets import TARGET_VIEWS
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.pods.reasons import Code
from pykruise.pods.workload.allowed_workloads import CONFIGURATION
from pykruise.runtime.listed_objects import Listed
from pykruise.runtime.read import Memories, Read
from pykruise.runtime.views import Views
from support.spread_worlds import entry, known, stored
from support.spreads import CLONE_SET, DEPLOYMENT, NAMESPACE, NOW, Owner, spread, subset, view, workload

SETS = [("apps/v1", "ReplicaSet", f"web-h{number}") for number in (1, 2)]
ROLLOUT = ("argoproj.io/v1alpha1", "Rollout", "web")
NOT_FOUND = NotFoundError(ErrorStatus(status="Failure", code=404, reason="NotFound", message="not found"))


class Cluster:
    """Caches, and the API server behind them. `meanwhile` is called at each request to that server."""

    def __init__(
        self,
        document: Document,
        *pods: Document,
        targets: Iterable[Document] = (),
        nodes: Iterable[str] = (),
        white_list: str = "",
    ) -> None:
        self.document = document
        self.mirrors: dict[Views[Any], Listed[Any]] = {}
        self.show(SPREAD_VIEWS, document)
        self.show(POD_VIEWS, *pods)
        self.show(NODE_VIEWS, *({"metadata": {"name": name, "uid": name}} for name in nodes))
        targets = list(targets)
        for kind, views in TARGET_VIEWS.items():
            self.show(views, *(target for target in targets if _kind_of(target) == kind))
        self.stored = {("Pod", pod["metadata"]["name"], ""): pod for pod in pods}
        self.stored |= {(target["kind"], target["metadata"]["name"], ""): target for target in targets}
        if white_list:
            self.stored["ConfigMap", CONFIGURATION, ""] = {"data": {WHITE_LIST_KEY: white_list}}
        self.asked: list[str] = []
        self.meanwhile = lambda: None
        self.memories = Memories()

    def show(self, views: Views[Any], *documents: Document) -> None:
        """Let a cache contain only these objects."""
        project = views.projector()
        self.mirrors[views] = Listed(views, [project(orjson.dumps(document)) for document in documents])

    async def snapshot(self) -> SpreadSnapshot | None:
        shown = view(self.document)
        read: Read[SpreadSettings] = Read(
            self.mirrors,
            key=shown.key,
            uid=shown.uid,
            now=lambda: NOW,
            rng=random.Random(1),
            settings=SpreadSettings(),
            live=self,  # type: ignore[arg-type]
            memories=self.memories,
        )
        return await read_snapshot(shown, read)

    async def seen(self) -> SpreadSnapshot:
        result = await self.snapshot()
        assert result is not None
        return result

    # ── a client ─────────────────────────────────────────────────────────────

    async def get(self, resource: Resource, _: str, name: str, *, subresource: str = "") -> bytes:
        self.asked.append(name if not subresource else f"{name}/{subresource}")
        self.meanwhile()
        result = self.stored.get((resource.kind, name, subresource))
        if result is None:
            raise NOT_FOUND
        return orjson.dumps(result)

    async def get_path(self, path: str) -> bytes:
        if path != "/apis/argoproj.io/v1alpha1":
            raise NOT_FOUND
        return orjson.dumps({"resources": [{"name": "rollouts", "kind": "Rollout"}]})


def _kind_of(document: Document) -> GroupKind:
    return GroupKind(document["apiVersion"].rpartition("/")[0], document["kind"])


def names(value: SpreadSnapshot) -> list[str]:
    return sorted(pod.name for pod in value.pods)


def going(document: Document) -> Document:
    document["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    return document


def on(owner: Owner, name: str, of: str = "a", **given: Any) -> Document:
    """A pod of this owner, in a subset."""
    return stored(name, of, owner=owner, **given)


# ── workloads of built-in kinds ──────────────────────────────────────────────


async def test_pods_and_replicas_are_those_of_the_workload() -> None:
    # given pods of the workload, one of which is finished, and a pod of another workload
    other = ("apps.kruise.io/v1beta1", "CloneSet", "other")
    pods = [on(CLONE_SET, "p1"), on(CLONE_SET, "p2", phase="Failed"), on(other, "p3")]
    cluster = Cluster(spread(subset("a", 3)), *pods, targets=[workload(CLONE_SET, replicas=5)])
    # when
    result = await cluster.seen()
    # then
    assert (names(result), result.replicas, result.is_there) == (["p1", "p2"], 5, True)
    assert (result.latest, result.latest_is_coming, result.polls_after) == ("versionIgnored", True, None)
    assert (result.documents, result.nodes, result.has_more, cluster.asked) == ({}, {}, False, [])
    assert (result.now, result.versioned) == (NOW, {"deployment", "replicaset"})


async def test_a_workload_that_wants_no_pods_still_has_some_lift_8() -> None:
    result = await Cluster(
        spread(subset("a", 3)), on(CLONE_SET, "p1"), targets=[workload(CLONE_SET, replicas=0)]
    ).seen()
    assert (names(result), result.replicas) == (["p1"], 0)


@pytest.mark.parametrize("targets", [[], [going(workload(CLONE_SET, replicas=5))]])
async def test_a_missing_or_terminating_workload_has_no_pods_and_zero_replicas(targets: Any) -> None:
    result = await Cluster(spread(subset("a", 3)), on(CLONE_SET, "p1"), targets=targets).seen()
    assert (result.is_there, names(result), result.replicas) == (False, [], 0)


async def test_a_workload_of_an_unserved_kind_counts_as_missing() -> None:
    cluster = Cluster(spread(subset("a", 3)), on(CLONE_SET, "p1"), targets=[workload(CLONE_SET, replicas=5)])
    views = TARGET_VIEWS[GroupKind("apps.kruise.io", "CloneSet")]
    cluster.mirrors[views] = Listed(views, cluster.mirrors[views].values(), synced=False)
    assert (await cluster.seen()).is_there is False


@pytest.mark.parametrize(
    "document", [going(spread(subset("a", 3))), spread(subset("a", 3), target=("apps/v1", "CloneSet", ""))]
)
async def test_a_terminating_or_targetless_workload_spread_has_no_pods_case_70(document: Document) -> None:
    cluster = Cluster(document, on(CLONE_SET, "p1"), targets=[workload(CLONE_SET, replicas=5)])
    result = await cluster.seen()
    assert (names(result), result.replicas, result.now) == ([], 0, NOW)


async def test_only_pods_that_a_readable_filter_selects_are_counted() -> None:
    pods = [on(CLONE_SET, "p1", labels={"role": "worker"}), on(CLONE_SET, "p2")]
    targets = [workload(CLONE_SET, replicas=5)]
    for selector, wanted in (
        ({"matchLabels": {"role": "worker"}}, ["p1"]),
        (None, ["p1", "p2"]),
        ({"matchExpressions": [{"key": "a", "operator": "Is"}]}, []),
    ):
        document = spread(subset("a", 3), targetFilter={"selector": selector})
        assert names(await Cluster(document, *pods, targets=targets).seen()) == wanted


async def test_paths_of_replicas_are_read_in_the_workload_itself_case_66() -> None:
    paths = {"replicasPathList": ["spec.first", "spec.second"]}
    document = spread(subset("a", "50%"), targetFilter=paths)
    target = workload(CLONE_SET, replicas=5, first=3, second=4)
    cluster = Cluster(document, on(CLONE_SET, "p1"), targets=[target])
    assert (await cluster.seen()).replicas == 7
    # and if it has been deleted since, it wants none
    del cluster.stored["CloneSet", "web", ""]
    assert (await cluster.seen()).replicas == 0


async def test_a_path_of_replicas_that_leads_nowhere_is_an_error_case_67() -> None:
    document = spread(subset("a", "50%"), targetFilter={"replicasPathList": ["spec.none"]})
    cluster = Cluster(document, targets=[workload(CLONE_SET, replicas=5)])
    with pytest.raises(SpreadGatherError, match=r"spec\.none"):
        await cluster.seen()


# ── Deployments ──────────────────────────────────────────────────────────────


def _deployment(*, labels: Document, **spec: Any) -> list[Document]:
    """A Deployment and its two ReplicaSets; `labels` are those of the second."""
    selector = {"matchLabels": {"app": "web"}}
    sets = [workload(item, above=DEPLOYMENT) for item in SETS]
    for value, given in zip(sets, ({"app": "web"}, labels), strict=True):
        value["metadata"]["labels"] = given
    return [workload(DEPLOYMENT, replicas=3, selector=selector, **spec), *sets]


async def test_pods_of_a_deployment_are_those_of_its_replicasets() -> None:
    document = spread(subset("a", 3), target=DEPLOYMENT)
    pods = [on(SETS[0], "p1"), on(SETS[1], "p2"), on(DEPLOYMENT, "p3")]
    both = _deployment(labels={"app": "web"})
    assert names(await Cluster(document, *pods, targets=both).seen()) == ["p1", "p2"]
    # but not those of a ReplicaSet that the selector does not match, or that is terminating
    assert names(await Cluster(document, *pods, targets=_deployment(labels={"app": "x"})).seen()) == ["p1"]
    both[2] = going(both[2])
    assert names(await Cluster(document, *pods, targets=both).seen()) == ["p1"]
    # and its own pods, if it has no ReplicaSet
    assert names(await Cluster(document, *pods, targets=both[:1]).seen()) == ["p3"]


async def test_pods_of_a_replicaset_are_its_own() -> None:
    # given a ReplicaSet with the uid of another's owner
    document = spread(subset("a", 3), target=SETS[0])
    pods = [on(SETS[0], "p1"), on(SETS[1], "p2")]
    targets = [workload(SETS[0], replicas=1), workload(SETS[1], above=SETS[0])]
    assert names(await Cluster(document, *pods, targets=targets).seen()) == ["p1"]


@pytest.mark.parametrize("is_paused", [True, False])
async def test_the_latest_version_of_a_deployment_is_expected_unless_it_is_paused_lift_17(
    is_paused: bool,
) -> None:
    document = spread(subset("a", 3), target=DEPLOYMENT)
    template = {"spec": {"containers": [{"name": "main", "image": "new"}]}}
    targets = _deployment(labels={"app": "web"}, template=template, paused=is_paused)
    result = await Cluster(document, targets=targets).seen()
    assert (result.latest, result.latest_is_coming) == (None, not is_paused)


# ── workloads of the white list ──────────────────────────────────────────────


def listed(path: str = "spec.replicas") -> str:
    return orjson.dumps(
        {"workloads": [{"group": "argoproj.io", "kind": "Rollout", "replicasPath": path}]}
    ).decode()


def _rollout(*pods: Document, scale: Document | None = None, white_list: str = "", **spec: Any) -> Cluster:
    """A Rollout, which no cache has, with these pods. `scale`: its scale subresource."""
    cluster = Cluster(spread(subset("a", 3), target=ROLLOUT, **spec), *pods, white_list=white_list)
    cluster.stored["Rollout", "web", ""] = workload(ROLLOUT, replicas=4, others=6)
    if scale is not None:
        cluster.stored["Rollout", "web", "scale"] = scale
    return cluster


async def test_a_workload_of_the_white_list_is_polled() -> None:
    cluster = _rollout(on(ROLLOUT, "p1"), white_list=listed())
    result = await cluster.seen()
    assert (names(result), result.replicas, result.polls_after) == (["p1"], 4, 10)
    assert (result.latest, result.is_there) == ("versionIgnored", True)
    # its scale is not read, since it adds nothing
    assert "web/scale" not in cluster.asked
    # and paths of the filter have precedence over those of the list
    paths = {"replicasPathList": ["spec.others"]}
    assert (await _rollout(on(ROLLOUT, "p1"), white_list=listed(), targetFilter=paths).seen()).replicas == 6


@pytest.mark.parametrize("is_going", [True, False])
async def test_a_missing_or_terminating_workload_of_the_white_list_has_no_pods(is_going: bool) -> None:
    cluster = _rollout(on(ROLLOUT, "p1"), white_list=listed())
    if is_going:
        going(cluster.stored["Rollout", "web", ""])
    else:
        del cluster.stored["Rollout", "web", ""]
    result = await cluster.seen()
    assert (result.is_there, names(result), result.replicas, result.polls_after) == (False, [], 0, 10)


async def test_a_white_list_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(SpreadGatherError, match="ws"):
        await _rollout(white_list="no json").seen()


@pytest.mark.parametrize(("white_list", "replicas"), [("", 7), (listed(""), 7), (listed("spec.replicas"), 4)])
async def test_pods_that_the_workload_does_not_control_are_those_that_its_scale_selects(
    white_list: str, replicas: int
) -> None:
    # given pods of parts of the Rollout
    part = ("argoproj.io/v1alpha1", "Part", "web-1")
    pods = [on(part, "p1", labels={"app": "web"}), on(part, "p2", labels={"app": "other"})]
    scale = {"spec": {"replicas": 7}, "status": {"selector": "app=web"}}
    # when
    result = await _rollout(*pods, scale=scale, white_list=white_list).seen()
    # then
    assert (names(result), result.replicas) == (["p1"], replicas)


@pytest.mark.parametrize("selector", ["", None, 3, "a in"])
async def test_a_scale_that_selects_nothing_has_no_pods(selector: Any) -> None:
    scale = {"spec": {"replicas": 4}, "status": {"selector": selector}}
    result = await _rollout(stored("p1", "a", owner=None), scale=scale).seen()
    assert (names(result), result.replicas) == ([], 4)


async def test_existing_pods_count_as_replicas_without_a_scale_lift_6() -> None:
    pods = [on(ROLLOUT, "p1"), on(ROLLOUT, "p2"), on(ROLLOUT, "p3", phase="Failed")]
    result = await _rollout(*pods).seen()
    assert (len(result.pods), result.replicas) == (3, 2)


async def test_owned_pods_precede_those_that_a_scale_selects() -> None:
    scale = {"spec": {"replicas": 4}, "status": {"selector": "app=web"}}
    pods = [on(ROLLOUT, "p1"), stored("p2", owner=None, labels={"app": "web"})]
    result = await _rollout(*pods, scale=scale).seen()
    assert (names(result), result.replicas) == (["p1"], 4)


# ── pods that existed before ─────────────────────────────────────────────────


async def test_pods_without_a_note_that_are_on_a_node_are_read_once_with_their_nodes() -> None:
    # given pods with the annotation, without it, without a node, on a node that is not cached, and one that is gone
    pods = [
        on(CLONE_SET, "p1", node="n1"),
        stored("p2", node="n2"),
        stored("p3"),
        stored("p4", node="n4"),
        stored("p5", node="n2"),
    ]
    cluster = Cluster(
        spread(subset("a", 9)), *pods, targets=[workload(CLONE_SET, replicas=9)], nodes=["n1", "n2", "n3"]
    )
    del cluster.stored["Pod", "p5", ""]
    # when
    result = await cluster.seen()
    # then
    assert {uid: document["metadata"]["name"] for uid, document in result.documents.items()} == {
        "uid-p2": "p2",
        "uid-p4": "p4",
    }
    assert (set(result.nodes), result.has_more) == ({"n2"}, False)
    assert sorted(cluster.asked) == ["p2", "p4", "p5"]
    # when the snapshot is taken again, then only the pod that was not found is read again
    assert (await cluster.seen()).documents == result.documents
    assert cluster.asked[3:] == ["p5"]
    # and a pod that is no longer among them is forgotten
    cluster.show(POD_VIEWS, pods[1])
    assert set((await cluster.seen()).documents) == {"uid-p2"}
    cluster.show(POD_VIEWS, pods[1], pods[3])
    await cluster.seen()
    assert cluster.asked[4:] == ["p4"]


@pytest.mark.parametrize(("count", "first"), [(MOST_READ, False), (MOST_READ + 1, True)])
async def test_a_limited_number_of_pods_is_read_per_snapshot_and_the_rest_in_the_next(
    count: int, first: bool
) -> None:
    pods = [stored(f"p{number}", node="n1") for number in range(count)]
    cluster = Cluster(spread(subset("a", 9)), *pods, targets=[workload(CLONE_SET, replicas=9)])
    result = await cluster.seen()
    assert (len(result.documents), result.has_more) == (MOST_READ, first)
    result = await cluster.seen()
    assert (len(result.documents), result.has_more) == (count, False)
    assert len(cluster.asked) == count


@pytest.mark.parametrize(
    ("status", "is_read"),
    [
        (known(entry("a", 0, 1), entry("b", 0, 0)), False),
        # some subsets have room
        (known(entry("a", 0, 1), entry("b", 1, 0)), True),
        (known(entry("a", 0, 1), entry("b", -1, 0)), True),
        # pods without the annotation are counted already, and are adopted next
        (known(entry("a", 0, 1), entry("b", 0, 1)), True),
        # another version is full
        (known(entry("a", 0, 1), entry("b", 0, 0), version="h1"), True),
        ({}, True),
    ],
)
async def test_pods_are_not_read_while_no_subset_has_room(status: Document, is_read: bool) -> None:
    # given a pod with the annotation, one that is finished, and one without it
    pods = [on(CLONE_SET, "p1"), on(CLONE_SET, "p2", phase="Failed"), stored("p3", node="n1")]
    document = spread(subset("a", 1), subset("b", 1), status=status)
    cluster = Cluster(document, *pods, targets=[workload(CLONE_SET, replicas=9)])
    await cluster.seen()
    assert cluster.asked == (["p3"] if is_read else [])


# ── changes in the meantime ──────────────────────────────────────────────────


async def test_a_workload_spread_deleted_in_between_has_no_snapshot() -> None:
    cluster = Cluster(
        spread(subset("a", 9)), stored("p1", node="n1"), targets=[workload(CLONE_SET, replicas=9)]
    )
    cluster.meanwhile = lambda: cluster.show(SPREAD_VIEWS)
    assert await cluster.snapshot() is None
    assert cluster.asked == ["p1"]


async def test_pods_are_read_from_the_caches_after_all_other_reads() -> None:
    # given pods that the scale of a Rollout selects; one is deleted while another is read
    pods = [stored(f"p{number}", node="n1", owner=None, labels={"app": "web"}) for number in (1, 2)]
    scale = {"spec": {"replicas": 4}, "status": {"selector": "app=web"}}
    cluster = _rollout(*pods, scale=scale)

    def lose() -> None:
        if "p1" in cluster.asked:
            cluster.show(POD_VIEWS, pods[1])

    cluster.meanwhile = lose
    # then
    assert names(await cluster.seen()) == ["p2"]
    # and without any pods, the list is empty
    cluster.meanwhile = lambda: cluster.show(POD_VIEWS)
    assert names(await cluster.seen()) == []


async def test_the_status_that_is_planned_against_is_the_one_that_caches_show_at_last() -> None:
    document = spread(subset("a", 9))
    cluster = Cluster(document, stored("p1", node="n1"), targets=[workload(CLONE_SET, replicas=9)])
    later = {**document, "metadata": {**document["metadata"], "resourceVersion": "8"}}
    cluster.meanwhile = lambda: cluster.show(SPREAD_VIEWS, later)
    assert (await cluster.seen()).spread.resource_version == 8
    assert view(later).key == Key(NAMESPACE, "ws")


# ── patches ──────────────────────────────────────────────────────────────────


async def test_patches_are_tried_on_the_template_once_until_it_or_they_change() -> None:
    # given a patch that makes invalid pods
    wrong = {"spec": {"tolerations": [{"key": "x", "operator": "Exists", "value": "no"}]}}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }
    target = workload(CLONE_SET, replicas=2, template=template)
    cluster = Cluster(spread(subset("a", patch=wrong)), targets=[target])
    # when
    first = await cluster.seen()
    again = await cluster.seen()
    # then
    assert {name for name, _ in first.patch_errors} == {"a"}
    assert again.patch_errors == first.patch_errors
    assert cluster.asked == ["web"]
    assert plan_spread(first).waiting is not None
    assert plan_spread(first).waiting.code == Code.PATCH  # type: ignore[union-attr]
    # when the template changes
    target["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    cluster.show(TARGET_VIEWS[GroupKind("apps.kruise.io", "CloneSet")], target)
    await cluster.seen()
    # then it is read again, and without a patch it is never read
    assert cluster.asked == ["web", "web"]
    plain = Cluster(spread(subset("a")), targets=[target])
    assert (await plain.seen()).patch_errors == ()
    assert plain.asked == []
