"""A random script: a CloneSet, StatefulSet or DaemonSet with a PodUnavailableBudget, and operations that take pods out
of service at the same time: deletions, evictions, drains, updates, node losses.

seed ──▶ generate() ──▶ Script
"""

import random
from collections.abc import Callable
from typing import Any

from simulation.chance import Chooser, image_faults, kruise_object, scripted, with_pods, writers
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Fault, Operation, Script

__all__ = ["generate"]

_WORKLOADS = ("CloneSet", "CloneSet", "StatefulSet", "DaemonSet")
_NODES = 4
_AMOUNTS: tuple[dict[str, Any], ...] = (
    {"maxUnavailable": 1},
    {"maxUnavailable": 1},
    {"maxUnavailable": 2},
    {"maxUnavailable": "25%"},
    {"maxUnavailable": "50%"},
    {"minAvailable": 1},
    {"minAvailable": 3},
    {"minAvailable": "60%"},
    {"minAvailable": "100%"},
    {"maxUnavailable": 0},
)
_AT_LAST = {"maxUnavailable": "100%", "minAvailable": None, "protectOperations": None}


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"podunavailablebudget-{seed}")
    length_s = rng.choice((20.0, 60.0, 180.0))
    kind = rng.choice(_WORKLOADS)
    path = f"/{kind.lower()}s"
    paths = ("/pods", "/podunavailablebudgets", "/podunavailablebudgets", path, "")
    watches = ("/pods", "/pods", "/podunavailablebudgets", "/podunavailablebudgets", path)
    operations = _operations(rng, length_s, kind=kind)
    workload, budget = _workload(rng, kind), _budget(rng, kind)
    _with_options(seed, workload)
    faults = faults_by_chance(rng, length_s, paths=paths, watches=watches)
    if seed % 16 == 7 and kind != "DaemonSet":
        workload["spec"]["replicas"] = 8
        budget["spec"] = {"targetRef": budget["spec"]["targetRef"], "maxUnavailable": rng.choice((1, 2, 3))}
        operations, faults = _all_at_once(rng), []
    unseen, hanging = _unseen(random.Random(f"podunavailablebudget-unseen-{seed}"))
    operations, faults = [*operations, *unseen], [*faults, *hanging]
    end_s = max(operation.at for operation in operations)
    # In the end the budget admits every request, also those that it would reject forever.
    operations.append(Operation(round(end_s + 30, 2), "budget", _AT_LAST))
    if kind == "StatefulSet":  # a released pod keeps its name, and no other pod can have it
        operations.append(Operation(round(end_s + 60, 2), "remove_released"))
    return scripted(
        rng,
        seed,
        kind=f"podunavailablebudget of {kind}",
        object=workload,
        beside=budget,
        nodes=_NODES,
        operations=operations,
        faults=faults,
    )


def _workload(rng: random.Random, kind: str) -> dict[str, Any]:
    """A workload whose own limits are higher than the budget."""
    wide = rng.choice((2, "50%", "100%"))
    pod: dict[str, Any] = {"containers": [{"name": "main", "image": "app:1"}]}
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": "web"}}}
    rolling: dict[str, Any] = {"maxUnavailable": wide}
    if kind == "DaemonSet":
        rolling["rollingUpdateType"] = rng.choice(("Standard", "InPlaceIfPossible"))
    else:
        spec["replicas"] = rng.choice((2, 3, 4, 6, 8))
        rolling["podUpdatePolicy"] = rng.choice(("ReCreate", "InPlaceIfPossible", "InPlaceIfPossible"))
        if rng.random() < 0.3:
            rolling["inPlaceUpdateStrategy"] = {"gracePeriodSeconds": rng.choice((1, 5))}
    if kind == "StatefulSet":
        spec["podManagementPolicy"] = "Parallel"
        pod["readinessGates"] = [{"conditionType": "InPlaceUpdateReady"}]
    spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    spec["template"] = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
    return kruise_object(kind, spec)


def _with_options(seed: int, workload: dict[str, Any]) -> None:
    """Some CloneSets create successors before evictions. The other random values of the seed do not change."""
    rng = random.Random(f"options-{seed}")
    if workload["kind"] == "CloneSet" and rng.random() < 0.4:
        surge = rng.choice(("1", "2", "50%"))
        workload["metadata"]["annotations"] = {"pykruise.io/eviction-surge": surge}


def _budget(rng: random.Random, kind: str) -> dict[str, Any]:
    target = {"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "name": "web"}
    spec: dict[str, Any] = {"targetRef": target, **rng.choice(_AMOUNTS)}
    if rng.random() < 0.15:
        spec["protectOperations"] = rng.choice((["DELETE"], ["EVICT"], ["UPDATE", "EVICT"]))
    if kind == "DaemonSet":
        spec["protectTotalReplicas"] = _NODES
    result = kruise_object("PodUnavailableBudget", spec, name="pub")
    return {**result, "apiVersion": "policy.kruise.io/v1beta1"}


def _operations(rng: random.Random, length_s: float, *, kind: str) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add
    rest: list[Callable[[], object]] = [
        *with_pods(chooser),
        *writers(chooser),
        *image_faults(chooser, nodes=_NODES),
        lambda: add("image", tag=rng.choice((1, 2, 3))),
        lambda: add("image", tag=2),
        lambda: add("env", value=rng.choice((1, 2))),
        lambda: add("drain", node=rng.randrange(_NODES), patience_s=60.0),
        lambda: add("drain", node=rng.randrange(_NODES)),
        lambda: add("mark", pod=rng.randrange(8)),
        lambda: add("budget", **rng.choice(_AMOUNTS)),
        lambda: add("label_pod", pod=rng.randrange(8), labels={"unavailable-pod.kruise.io/test": "yes"}),
        lambda: add("strip", pod=rng.randrange(8), label="unavailable-pod.kruise.io/test"),
    ]
    if kind != "DaemonSet":
        rest += [lambda: add("scale", replicas=rng.choice((0, 2, 3, 4, 6, 8)))] * 2
    chooser.some_of(rest)
    if rng.random() < 0.5:
        chooser.found += _rush(rng)
    chooser.maybe_deleted(0.06)
    if rng.random() < 0.08:
        at = add("delete_beside")
        chooser.found.append(Operation(round(at + rng.uniform(0.5, 40), 2), "create_beside"))
    return chooser.found


def _unseen(rng: random.Random) -> tuple[list[Operation], list[Fault]]:
    """Operations and faults of one in eight scripts: pods are deleted while the watch of pods hangs, and other pods are
    deleted after the records of the first ones have expired."""
    if rng.random() >= 1 / 8:
        return [], []
    at = rng.uniform(20, 60)
    hanging = Fault(round(at, 2), "stall", "/pods")
    later = (at + 0.1, at + 1, at + 21.5, at + 22.5, at + 24)
    operations = [Operation(round(when, 2), "delete_pod", {"pod": rng.randrange(8)}) for when in later]
    return operations, [hanging]


def _rush(rng: random.Random) -> list[Operation]:
    """Many clients delete, evict or change pods at the same moment."""
    at = rng.uniform(10, 30)
    operations: list[Operation] = []
    for _ in range(rng.choice((1, 2, 4))):
        for pod in rng.sample(range(8), k=rng.choice((2, 4, 8))):
            do, args = rng.choice((("delete_pod", {}), ("evict", {}), ("delete_pod", {"now": True})))
            operations.append(Operation(round(at + rng.uniform(0, 0.3), 2), do, {"pod": pod, **args}))
        if rng.random() < 0.4:
            operations.append(
                Operation(round(at, 2), "drain", {"node": rng.randrange(_NODES), "patience_s": 60.0})
            )
        if rng.random() < 0.3:
            operations.append(Operation(round(at, 2), "image", {"tag": rng.choice((2, 3))}))
        if rng.random() < 0.3:
            operations.append(Operation(round(at, 2), "node_down", {"node": rng.randrange(_NODES)}))
        at += rng.choice((0.5, 3.0, 12.0, 21.0))
    return operations


def _all_at_once(rng: random.Random) -> list[Operation]:
    """Deletes all pods repeatedly: each request finds the status of an earlier request or of the controller."""
    return [
        Operation(round(at + rng.uniform(0, 0.3), 2), rng.choice(("delete_pod", "evict")), {"pod": pod})
        for at in (12, 32, 52, 72, 92, 112)
        for pod in range(8)
    ]
