"""`kubectl drain` of two nodes goes on as fast as a budget lets, and ends; with successors first, no pod is missed.

kubectl ──▶ `pykruise up`, or a real control plane with its webhooks, simulated kubelets and the manager
"""

import copy
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykruise.pods.workload.options import EVICTION_SURGE
from support.up import Kubectl, running_real, running_up

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(400)]

REPLICAS = 8
OUT = 2
APP = "drained-web"
"""Label of these pods: only they are drained, because nodes of a real control plane may have pods of other tests, with
their own budgets."""

CLONE_SET = {
    "apiVersion": "apps.kruise.io/v1beta1",
    "kind": "CloneSet",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": REPLICAS,
        "selector": {"matchLabels": {"app": APP}},
        "template": {
            "metadata": {"labels": {"app": APP}},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
        },
    },
}
BUDGET = {
    "apiVersion": "policy.kruise.io/v1beta1",
    "kind": "PodUnavailableBudget",
    "metadata": {"name": "web"},
    "spec": {
        "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
        "maxUnavailable": "25%",
    },
}


@pytest.fixture
def kubectl(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kubectl]:
    if request.config.getoption("--cluster") == "real":
        with running_real(request.getfixturevalue("plane"), nodes=4) as kubectl:
            yield kubectl
        return
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    with running_up(tmp_path, "--nodes", "4") as up:
        yield up


def serving(kubectl: Kubectl) -> list[str]:
    """The nodes of pods that serve."""
    result = json.loads(kubectl.says("get", "pods", "-n", "drained", "-l", f"app={APP}", "-o", "json"))[
        "items"
    ]
    return [
        pod["spec"]["nodeName"]
        for pod in result
        if "deletionTimestamp" not in pod["metadata"]
        and any(
            (condition["type"], condition["status"]) == ("Ready", "True")
            for condition in pod["status"].get("conditions", ())
        )
    ]


def test_two_parallel_drains_never_exceed_the_budget(
    kubectl: Kubectl,
) -> None:
    """podunavailablebudget case 66"""
    # given eight pods on four nodes, of which two may be out
    kubectl.says("create", "namespace", "drained")
    for document in (CLONE_SET, BUDGET):
        kubectl.says("apply", "-n", "drained", "-f", "-", stdin=json.dumps(document))
    allowed = ("-o", "jsonpath={.status.unavailableAllowed}")
    kubectl.until("get", "pub", "web", "-n", "drained", *allowed, shows=str(OUT), within_s=60)
    nodes = sorted({*serving(kubectl)})[:2]
    # when both nodes are drained
    drains = [
        kubectl.start("drain", node, f"--pod-selector=app={APP}", "--delete-emptydir-data", "--timeout=170s")
        for node in nodes
    ]
    fewest, end = REPLICAS, time.monotonic() + 170
    while {*serving(kubectl)} & {*nodes} or len(serving(kubectl)) < REPLICAS:
        fewest = min(fewest, len(serving(kubectl)))
        assert time.monotonic() < end, kubectl.says("get", "pods,pub", "-n", "drained", "-o", "wide")
        time.sleep(0.05)
    said = [drain() for drain in drains]
    # then both end, and the others went on serving
    assert all(f"node/{node} drained" in text for node, text in zip(nodes, said, strict=True)), said
    assert fewest >= REPLICAS - OUT
    for node in nodes:
        kubectl.says("uncordon", node)
    kubectl.says("delete", "namespace", "drained")


def test_drains_of_two_nodes_with_20_pods_lose_no_available_pod(kubectl: Kubectl) -> None:
    """podunavailablebudget case 67, cloneset cases 99 and 100"""
    # given 20 pods on two of four nodes, a budget that lets none go, and at most four successors at the same time
    kubectl.says("create", "namespace", "drained")
    everyone = kubectl.says("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()
    first, second, *others = everyone
    kubectl.says("cordon", *others)
    cloneset = copy.deepcopy(CLONE_SET)
    cloneset["metadata"]["annotations"] = {EVICTION_SURGE.annotation: "4"}
    cloneset["spec"]["replicas"] = 20
    budget = {**BUDGET, "spec": {**BUDGET["spec"], "maxUnavailable": 0}}
    for document in (cloneset, budget):
        kubectl.says("apply", "-n", "drained", "-f", "-", stdin=json.dumps(document))
    shown = ("-o", "jsonpath={.status.availableReplicas} {.status.replicas}")
    kubectl.until("get", "clone", "web", "-n", "drained", *shown, shows="20 20", within_s=60)
    kubectl.says("uncordon", *others)
    fewest, most = 20, 20
    for node in (first, second):
        # when
        drain = kubectl.start(
            "drain", node, f"--pod-selector=app={APP}", "--delete-emptydir-data", "--timeout=170s"
        )
        end = time.monotonic() + 170
        while node in (nodes := serving(kubectl)):
            fewest, most = min(fewest, len(nodes)), max(most, len(nodes))
            assert time.monotonic() < end, kubectl.says("get", "pods,pub", "-n", "drained", "-o", "wide")
            time.sleep(0.05)
        text = drain()
        # then the drain says what it waits for, and ends
        assert "CloneSet web creates a successor first (pykruise.io/eviction-surge)" in text
        assert f"node/{node} drained" in text
    # and always 20 pods served, and never many more
    kubectl.until("get", "clone", "web", "-n", "drained", *shown, shows="20 20", within_s=60)
    assert (fewest, most <= 24) == (20, True)
    kubectl.says("uncordon", first, second)
    kubectl.says("delete", "namespace", "drained")
