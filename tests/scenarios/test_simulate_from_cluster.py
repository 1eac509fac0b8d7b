"""`pykruise simulate` of what a cluster gives: an object and the nodes as `kubectl get -o yaml` prints them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from pykruise.cli.simulate import Conditions, run_simulate
from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kinds.daemonset.kind import KIND as DAEMON_SET
from pykruise.kinds.statefulset.kind import KIND as STATEFUL_SET
from pykruise.kube.documents import decode
from pykruise.kube.resources import NODES
from pykruise.plans.kind import Kind
from support.daemonsets import Pool
from support.scenario import Object, Stage, cloneset
from support.statefulsets import statefulset

KINDS: dict[str, tuple[Kind, Callable[[Pool], Object], int]] = {
    "cloneset": (CLONE_SET, lambda _pool: cloneset(replicas=2), 2),
    "daemonset": (DAEMON_SET, lambda pool: pool.daemonset(), 4),
    "statefulset": (STATEFUL_SET, lambda _pool: statefulset(replicas=2), 2),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_object_of_the_cluster_is_simulated(
    stage: Stage, pool: Pool, tmp_path: Path, kind: str
) -> None:
    # given an object that the cluster has at rest, and its nodes
    workload, make, pods = KINDS[kind]
    await stage.start_manager()
    await stage.create(make(pool), resource=workload.resource)

    async def are_ready() -> bool:
        result = await stage.pods()
        return len(result) == pods and all(pod.is_serving for pod in result)

    await stage.until(are_ready, what="the pods")
    live = await stage.get("web", resource=workload.resource)
    nodes = [decode(raw) for raw in (await stage.client.list(NODES)).items]
    nodes = [{**node, "apiVersion": "v1", "kind": "Node"} for node in nodes]
    listed = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": nodes}
    app, new = tmp_path / "app.yaml", tmp_path / "new.yaml"
    app.write_text(yaml.safe_dump_all([live, listed]), "utf-8")
    live["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    new.write_text(yaml.safe_dump(live), "utf-8")
    before = {pod.uid for pod in await stage.pods()}
    # when
    printed: list[str] = []
    conditions = Conditions(pods_ready_after="5s")
    await run_simulate(app, changes=[new], conditions=conditions, svg=None, output="text", say=printed.append)
    # then it is played to its end, and the cluster knows nothing of it
    assert printed[0].startswith("new.yaml: complete after ")
    assert f"pods                {pods} created, {pods} deleted" in printed[0]
    assert {pod.uid for pod in await stage.pods()} == before
