"""Snapshots of an ImagePullJob: its nodes, their order, and other jobs for the same image."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from pykruise.kinds.imagepulljob.kind import KIND
from pykruise.kinds.imagepulljob.snapshot import ORDER_AGAIN_S, ImagePullJobSettings, ImagePullJobSnapshot
from pykruise.kube.documents import encode
from pykruise.kube.errors import ErrorStatus, InternalError, KubeError, NotFoundError
from pykruise.kube.resources import Resource
from pykruise.plans.views import NODE_IMAGE_VIEWS, POD_VIEWS, PULL_JOB_VIEWS
from pykruise.pods.images.node_images import NodeImageView
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS, PullJobView
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Memories
from support.image_objects import NOW, at, entry, job, job_document, node_image, reference
from support.snapshots import control_of, read_of

GOING = {"deletionTimestamp": at(0)}


class Workloads:
    """An API server with one workload, or with an error."""

    def __init__(self, workload: dict[str, Any] | None = None) -> None:
        self.workload = workload
        self.error: KubeError | None = None
        self.asked: list[str] = []

    async def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        self.asked.append(f"{resource.plural} {namespace}/{name}")
        if self.error is not None:
            raise self.error
        return encode(self.workload)


def seen(
    pull_job: PullJobView,
    *nodes: NodeImageView,
    pods: Iterable[PodView] = (),
    jobs: Iterable[PullJobView] = (),
    live: "Workloads | Jobs | None" = None,
    memories: Memories | None = None,
    after_s: float = 0.0,
    settings: ImagePullJobSettings = ImagePullJobSettings(),  # noqa: B008 - frozen
) -> ImagePullJobSnapshot:
    """The snapshot `after_s` seconds after NOW."""
    objects: dict[Any, Any] = {NODE_IMAGE_VIEWS: nodes, POD_VIEWS: pods, PULL_JOB_VIEWS: [pull_job, *jobs]}
    read = read_of(
        KIND, pull_job, objects, settings=settings, now=NOW + after_s, live=live, memories=memories
    )
    snapshot: ImagePullJobSnapshot = asyncio.run(control_of(KIND).snapshot(pull_job, read))  # type: ignore[arg-type]
    return snapshot


def names(snapshot: ImagePullJobSnapshot) -> list[str]:
    """Names of the nodes, in the order in which they start."""
    return [node.name for node in snapshot.nodes]


def nodes(*wanted: str) -> list[NodeImageView]:
    return [node_image(name) for name in wanted]


# ── nodes ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (None, ["a", "b", "c"]),
        ({}, ["a", "b", "c"]),
        ({"matchLabels": {"zone": "x"}}, ["b"]),
        ({"names": ["c", "a", "c"]}, ["c", "a"]),
        ({"names": []}, []),
    ],
)
def test_a_job_is_for_the_nodes_that_it_selects(selector: object, wanted: list[str]) -> None:
    """images, 6.2 step 5"""
    world = [node_image("b", labels={"zone": "x"}), *nodes("c", "a")]
    snapshot = seen(job(selector=selector), *world)
    assert names(snapshot) == wanted
    assert list(snapshot.unknown_nodes) == []


@pytest.mark.parametrize(
    ("selector", "unknown"), [(None, []), ({"names": ["a", "going", "ghost"]}, ["going", "ghost"])]
)
def test_a_terminating_nodeimage_does_not_count(selector: object, unknown: list[str]) -> None:
    """images case 24"""
    snapshot = seen(job(selector=selector), *nodes("a"), node_image("going", metadata=GOING))
    assert names(snapshot) == ["a"]
    assert list(snapshot.unknown_nodes) == unknown


@pytest.mark.parametrize(
    "over", [{"status": {"completionTime": at(0)}}, {"metadata": GOING}, {"image": "UPPER"}]
)
def test_a_finished_or_terminating_or_invalid_job_has_no_nodes(over: dict[str, Any]) -> None:
    assert names(seen(job(**over), *nodes("a"))) == []


# ── nodes of pods ────────────────────────────────────────────────────────────


def pod(
    name: str, *, node: str | None = None, namespace: str = "shop", phase: str = "Running", **more: Any
) -> PodView:
    """A pod of app x, by default on the node `on-<name>`."""
    document = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": name,
            "resourceVersion": "1",
            "labels": {"app": "x", **more.pop("labels", {})},
            **more,
        },
        "spec": {
            "nodeName": f"on-{name}" if node is None else node,
            "containers": [{"name": "c", "image": "i"}],
        },
        "status": {"phase": phase},
    }
    return project_pod(encode(document))


def by_pods(kind: str = "", *, group: str = "apps.kruise.io") -> PullJobView:
    """A job for the pods of app x, of a workload of this kind."""
    owner = {"apiVersion": f"{group}/v1beta1", "kind": kind, "name": "web", "uid": "w", "controller": True}
    return job(
        podSelector={"matchLabels": {"app": "x"}}, metadata={"ownerReferences": [owner] if kind else []}
    )


def test_a_job_for_pods_is_for_the_nodes_of_those_that_live() -> None:
    """images cases 26 and 27"""
    pods = [
        pod("z", node="n1"),
        pod("a", node="n2"),
        pod("b", node="n1"),
        pod("ended", phase="Succeeded"),
        pod("going", deletionTimestamp=at(0)),
        pod("waiting", node=""),
        pod("elsewhere", namespace="other"),
        pod("other", labels={"app": "y"}),
        pod("unknown", node="ghost"),
    ]
    hosts = [f"on-{name}" for name in ("ended", "going", "elsewhere", "other")]
    snapshot = seen(by_pods(), *nodes("n1", "n2", *hosts, "free"), pods=pods)
    assert names(snapshot) == ["n2", "n1"]  # sorted by the names of the pods
    assert list(snapshot.unknown_nodes) == []


PODS = [pod("web-0"), pod("web-1")]
HOSTS = nodes("on-web-0", "on-web-1")
DOWN, UP = ["on-web-1", "on-web-0"], ["on-web-0", "on-web-1"]


@pytest.mark.parametrize(
    ("owner", "order", "asked"),
    [
        (by_pods("StatefulSet"), DOWN, ["statefulsets shop/web"]),
        (by_pods("SidecarSet"), UP, ["sidecarsets /web"]),
        (by_pods("StatefulSet", group="apps"), UP, []),
        (by_pods(), UP, []),
    ],
)
def test_nodes_start_in_the_order_in_which_the_workload_updates_its_pods(
    owner: PullJobView, order: list[str], asked: list[str]
) -> None:
    """images, lifted limit b"""
    live = Workloads({"spec": {}})
    assert names(seen(owner, *HOSTS, pods=PODS, live=live)) == order
    assert live.asked == asked


def test_the_workload_of_a_single_pod_is_not_read_for_its_order() -> None:
    live = Workloads({"spec": {}})
    assert names(
        seen(by_pods("StatefulSet"), *HOSTS, pods=[PODS[0], pod("waiting", node="")], live=live)
    ) == ["on-web-0"]
    assert live.asked == []


def test_the_workload_is_read_for_its_pod_order_once_per_interval() -> None:
    """Each answer of a node needs another snapshot of the job."""
    # given
    live, memories = Workloads({"spec": {}}), Memories()

    def order(after_s: float) -> list[str]:
        return names(
            seen(by_pods("StatefulSet"), *HOSTS, pods=PODS, live=live, memories=memories, after_s=after_s)
        )

    # then
    assert [order(0.0), order(ORDER_AGAIN_S - 1)] == [DOWN, DOWN]
    assert len(live.asked) == 1
    # and an unreadable workload has no order, for the same time
    live.error = InternalError(ErrorStatus(code=500, reason="InternalError"))
    assert [order(ORDER_AGAIN_S), order(ORDER_AGAIN_S + 1)] == [UP, UP]
    assert len(live.asked) == 2


def test_simulated_nodes_are_ordered_by_the_names_of_their_pods() -> None:
    assert names(seen(by_pods("StatefulSet"), *HOSTS, pods=PODS)) == UP


# ── other jobs ───────────────────────────────────────────────────────────────


class Jobs:
    """An API server with these ImagePullJobs; it records the names that it is asked for."""

    def __init__(self, *jobs: str) -> None:
        self._jobs = jobs
        self.asked: list[str] = []

    async def get(self, resource: Resource, _namespace: str, name: str) -> bytes:
        assert resource == IMAGE_PULL_JOBS
        self.asked.append(name)
        if name not in self._jobs:
            raise NotFoundError(ErrorStatus(code=404))
        return encode(job_document(name))


def test_references_of_other_jobs_are_resolved_to_existing_or_deleted_ones() -> None:
    # given
    mine, other, going = job("mine"), job("other"), job("going", metadata=GOING)
    world = [
        node_image("a", entry(jobs=[mine, other, going, job("gone"), job("anew", uid="old")])),
        node_image("b", entry()),
        node_image("c"),
    ]
    # when
    snapshot = seen(mine, *world, jobs=[other, going, job("anew", uid="new"), job("free")], live=Jobs())
    # then
    assert snapshot.others == {"uid-other": other, "uid-going": None, "uid-gone": None, "old": None}


def test_a_job_that_another_manager_has_named_before_the_cache_shows_it_is_known() -> None:
    live = Jobs("new")
    world = [node_image(name, entry(jobs=[job("new")])) for name in ("a", "b")]
    assert seen(job(), *world, live=live).others == {"uid-new": job("new")}
    assert live.asked == ["new"]


def test_jobs_in_unwatched_namespaces_are_not_resolved() -> None:
    away, live = job("away", namespace="away"), Jobs()
    world = [node_image("a", entry(jobs=[away, job("gone")]))]
    assert seen(job(), *world, live=live, settings=ImagePullJobSettings(namespace="shop")).others == {
        "uid-gone": None
    }
    assert live.asked == ["gone"]


def test_a_recreated_job_is_known_besides_its_predecessor() -> None:
    """Otherwise a job for the same image would drop the reference, and the nodes would pull twice."""
    anew = job("other", uid="new")
    world = [node_image("a", entry(jobs=[anew])), node_image("b", entry(jobs=[job("other", uid="old")]))]
    assert seen(job(), *world, jobs=[anew], live=Jobs()).others == {"new": anew, "old": None}


def test_an_owner_of_another_kind_is_not_mistaken_for_the_job_of_its_name() -> None:
    other = job("other")
    owner = {**reference(other), "apiVersion": "example.com/v1"}
    assert seen(job(), node_image("a", entry(ownerReferences=[owner])), jobs=[other]).others == {}
