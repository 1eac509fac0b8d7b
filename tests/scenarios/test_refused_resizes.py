"""A refused resize never takes pods out of service repeatedly, for every way of refusal and every other change.

The API server answers 403, or the kubelet reports Infeasible or Deferred. The container restarts for its resources or
not, its image changes too or not, and the pod leaves service for a grace period first or not.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import product
from typing import Any, Literal

import msgspec
import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS
from pykruise.kube.cache.cache import Change
from pykruise.kube.documents import decode
from pykruise.kube.resources import PODS, Resource
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.view.pod_view import PodView
from pykruise.sandbox.nodes.specs import NodeSpec
from support.daemonsets import POOL_LABEL, Pool, node_pool
from support.faults import Answer, FaultyTransport, Request, patches
from support.scenario import Object, Stage, cloneset, pod_watch, rolling
from support.statefulsets import statefulset

PATIENCE_S = 20.0
GRACE_S = 3
LONG_S = 240.0
REPLICAS = 3
FREE_CPUS = 2
SETTINGS = ManagerSettings(kubernetes="1.37", flags={"inplace-resize-timeout": PATIENCE_S})

Refuser = Literal["API server", "API server, later", "Infeasible", "Deferred"]
"""`API server, later`: it accepts the dry run before a pod leaves service, and refuses the resize itself."""


def amounts(cpu: int) -> Object:
    """Resources with a CPU request of this number of millicores."""
    return {"requests": {"cpu": f"{cpu}m", "memory": "64Mi"}, "limits": {"cpu": "950", "memory": "512Mi"}}


SMALL, GIVEN = 20, 40
REFUSED: dict[Refuser, tuple[int, int]] = {
    "API server": (60, 80),
    "API server, later": (60, 80),
    "Infeasible": (900_000, 901_000),
    "Deferred": (FREE_CPUS * 1000 + 100, FREE_CPUS * 1000 + 200),
}
"""Two resizes each that are refused."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One refused resize."""

    resource: Resource
    refuser: Refuser
    restarts: bool
    """Whether the container restarts for its resources."""
    changes_image: bool
    grace_s: int
    policy: str = "InPlaceIfPossible"

    def __str__(self) -> str:
        words = [self.resource.kind, self.refuser, "RestartContainer" if self.restarts else "NotRequired"]
        words += ["image"] if self.changes_image else []
        words += ["grace"] if self.grace_s else []
        return ", ".join([*words, self.policy])


def all_cases() -> list[Case]:
    kinds = (CLONE_SETS, ADVANCED_STATEFUL_SETS, DAEMON_SETS)
    policies = ("InPlaceIfPossible", "InPlaceOnly")
    grid = product(kinds, REFUSED, (False, True), (False, True), (0, GRACE_S), policies)
    cases = [
        Case(
            resource=kind,
            refuser=refuser,
            restarts=restarts,
            changes_image=image,
            grace_s=grace,
            policy=policy,
        )
        for kind, refuser, restarts, image, grace, policy in grid
    ]
    # A DaemonSet has no grace period, and of the three kinds only a CloneSet takes other resources under InPlaceOnly.
    # Without a grace period there is no time between a dry run and the resize.
    return [
        case
        for case in cases
        if (case.resource is not DAEMON_SETS or not case.grace_s)
        and (case.resource is CLONE_SETS or case.policy == "InPlaceIfPossible")
        and (case.refuser != "API server, later" or (case.grace_s and case.restarts))
    ]


def workload(case: Case, pool: Pool) -> Object:
    """The workload with small pods on the nodes of the pool."""
    in_place: Object = {"inPlaceUpdateStrategy": {"gracePeriodSeconds": case.grace_s}} if case.grace_s else {}
    if case.resource is DAEMON_SETS:
        doc = pool.daemonset(updateStrategy=rolling(rollingUpdateType=case.policy, maxUnavailable=1))
    else:
        strategy = rolling(podUpdatePolicy=case.policy, maxUnavailable=1, **in_place)
        spec: Object = {"replicas": REPLICAS, "updateStrategy": strategy}
        # With OrderedReady, the set would wait for a pod that fits on no node.
        doc = cloneset(**spec) if case.resource is CLONE_SETS else statefulset(parallel=True, **spec)
        doc["spec"]["template"]["spec"]["nodeSelector"] = {POOL_LABEL: pool.name}
    container = doc["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = amounts(SMALL)
    if case.restarts:
        names = ("cpu", "memory")
        container["resizePolicy"] = [
            {"resourceName": name, "restartPolicy": "RestartContainer"} for name in names
        ]
    return doc


async def fill(stage: Stage, node: str) -> None:
    """Fill the node, so that no pod on it can get more CPU than it has."""
    cpus = int(NodeSpec(name=node).cpu) - FREE_CPUS
    container = {"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": str(cpus)}}}
    spec = {"nodeName": node, "containers": [container]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"other-{node}"}, "spec": spec}
    await stage.create(body, resource=PODS)


class Service:
    """Records which pods serve, and how often a pod leaves service."""

    def __init__(self) -> None:
        self.serving: dict[str, bool] = {}
        self.leaves: Counter[str] = Counter()
        self.fewest = REPLICAS
        self.is_counting = False

    def see(self, change: Change[PodView]) -> None:
        """Take a changed pod into account."""
        old, new = change.old, change.new
        pod = new or old
        assert pod is not None
        serves = new is not None and new.is_ready and not new.is_deleting
        if self.serving.get(pod.uid) and not serves and new is not None and not new.is_deleting:
            self.leaves[pod.uid] += 1
        self.serving[pod.uid] = serves
        if self.is_counting:
            self.fewest = min(self.fewest, sum(self.serving.values()))

    def count_from_now(self) -> None:
        """Forget earlier changes, and count the serving pods from now on."""
        self.leaves.clear()
        self.is_counting = True


@asynccontextmanager
async def service_of(stage: Stage) -> AsyncIterator[Service]:
    service = Service()
    async with pod_watch(stage) as watch:
        watch.cache.subscribe(service.see)
        service.serving = {pod.uid: pod.is_ready for pod in watch.cache.values()}
        yield service


async def change(stage: Stage, case: Case, cpu: int, image: str) -> None:
    stored = await stage.get("web", resource=case.resource)
    containers = stored["spec"]["template"]["spec"]["containers"]
    containers[0] |= {"resources": amounts(cpu), "image": image}
    await stage.merge(
        "web", {"spec": {"template": {"spec": {"containers": containers}}}}, resource=case.resource
    )


async def pods_are(stage: Stage, cpu: int, image: str) -> bool:
    """Whether all pods serve, with these resources and this image."""
    listed = await stage.client.list(PODS, stage.namespace, label_selector="app=web")
    docs = [decode(raw) for raw in listed.items]
    wanted = (amounts(cpu)["requests"]["cpu"], image)
    return len(docs) == REPLICAS and all(_is_as(doc, wanted) for doc in docs)


def _is_as(doc: Any, wanted: tuple[str, str]) -> bool:
    container = doc["spec"]["containers"][0]
    statuses = doc.get("status", {}).get("containerStatuses") or [{}]
    given = (statuses[0].get("resources") or {}).get("requests", {}).get("cpu")
    conditions = {each["type"]: each["status"] for each in doc.get("status", {}).get("conditions") or ()}
    asked = (container["resources"]["requests"]["cpu"], container["image"])
    return asked == wanted and given == wanted[0] and conditions.get("Ready") == "True"


@pytest.mark.sandbox_only
@pytest.mark.checkered(3)
@pytest.mark.parametrize("case", all_cases(), ids=str)
async def test_a_refused_resize_takes_no_pod_out_of_service_twice(stage: Stage, case: Case) -> None:
    # given
    pool = await node_pool(stage, REPLICAS)

    def refuse(request: Request) -> Answer | None:
        asks_first = "later" in case.refuser and "dryRun" in request.query
        (container,) = request.to_document["spec"]["containers"]
        is_refused = container["resources"]["requests"]["cpu"] in (f"{cpu}m" for cpu in REFUSED[case.refuser])
        return Answer(403, "no room") if is_refused and not asks_first else None

    transport = FaultyTransport(stage.manager_transport())
    if "API server" in case.refuser:
        transport.on(patches("/resize"), refuse)
    await stage.start_manager(transport, settings=SETTINGS)
    await stage.create(workload(case, pool), resource=case.resource)
    await stage.until(lambda: pods_are(stage, SMALL, "nginx:1"), what="that all serve")
    if case.refuser == "Deferred":
        for node in pool.nodes:
            await fill(stage, node)
    async with service_of(stage) as service:
        for number, cpu in enumerate(REFUSED[case.refuser]):
            # when
            service.count_from_now()
            image = f"nginx:{number + 2}" if case.changes_image else "nginx:1"
            await change(stage, case, cpu, image)
            await asyncio.sleep(LONG_S)
            # then
            assert max(service.leaves.values(), default=0) <= (case.refuser != "API server"), service.leaves
            assert service.fewest >= REPLICAS - 1
            # then pods that may be recreated were, and a node took them
            is_recreated = "API server" in case.refuser and case.policy == "InPlaceIfPossible"
            assert not is_recreated or await pods_are(stage, cpu, image)
        # when it is one that is not refused
        image = "nginx:4" if case.changes_image else "nginx:1"
        await change(stage, case, GIVEN, image)
        # then
        await stage.until(lambda: pods_are(stage, GIVEN, image), what="that all serve as they should at last")
        assert service.fewest >= REPLICAS - 1


@pytest.mark.node
@pytest.mark.skipif(
    os.environ.get("KUBERNETES", "1.37") not in ("1.36", "1.37"), reason="needs resize without a gate"
)
@pytest.mark.parametrize(
    ("resource", "grace_s"),
    [(CLONE_SETS, 0), (CLONE_SETS, GRACE_S), (ADVANCED_STATEFUL_SETS, GRACE_S), (DAEMON_SETS, 0)],
    ids=["CloneSet", "CloneSet with grace", "StatefulSet with grace", "DaemonSet"],
)
async def test_pods_keep_serving_while_no_node_can_give_what_restarts_their_containers(
    stage: Stage, resource: Resource, grace_s: int
) -> None:
    """An API server of 1.37 with real nodes refuses such a resize; in the sandbox, the kubelet reports Infeasible."""
    # given
    case = Case(resource=resource, refuser="Infeasible", restarts=True, changes_image=True, grace_s=grace_s)
    pool = await node_pool(stage, REPLICAS)
    patient = ManagerSettings(kubernetes="1.37", flags={"inplace-resize-timeout": 3600.0})
    await stage.start_manager(settings=patient)
    await stage.create(workload(case, pool), resource=resource)
    await stage.until(lambda: pods_are(stage, SMALL, "nginx:1"), what="that all serve")
    uids = {pod.uid for pod in await stage.pods()}
    async with service_of(stage) as service:
        # when
        service.count_from_now()
        await change(stage, case, REFUSED[case.refuser][0], "nginx:2")
        await asyncio.sleep(min(stage.long_s, 30))
        # then
        assert service.fewest >= REPLICAS - 1
        assert max(service.leaves.values(), default=0) <= (0 if stage.has_nodes else 1), service.leaves
    # when it is corrected
    await change(stage, case, GIVEN, "nginx:3")
    # then the same pods serve with it
    await stage.until(lambda: pods_are(stage, GIVEN, "nginx:3"), what="that all serve as they should at last")
    assert {pod.uid for pod in await stage.pods()} == uids
