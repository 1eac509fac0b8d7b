"""A random script: a CloneSet whose pods a WorkloadSpread spreads over zones, and faults.

seed ──▶ generate() ──▶ Script
"""

import random
from typing import Any

from simulation.chance import Chooser, kruise_object, scripted, with_pods
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Operation, Script

__all__ = ["generate"]

_PATHS = ("/pods", "/workloadspreads", "/workloadspreads", "/clonesets", "")
_WATCHES = ("/pods", "/pods", "/workloadspreads", "/workloadspreads", "/clonesets")
_MOST = (0, 1, 1, 2, 2, 3, "30%", "50%")


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"workloadspread-{seed}")
    nodes = rng.choice((2, 3, 4))
    length_s = rng.choice((20.0, 60.0, 180.0))
    beside = _workloadspread(rng)
    result = _shrunk(rng) if seed % 16 == 7 else _operations(rng, length_s, nodes=nodes)
    operations = [*_zones(nodes), *result]
    faults = faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES)
    return scripted(
        rng,
        seed,
        kind="workloadspread",
        object=_cloneset(rng),
        beside=beside,
        is_versioned=rng.random() < 0.5,
        nodes=nodes,
        operations=operations,
        faults=faults,
    )


def _zones(nodes: int) -> list[Operation]:
    """The last node is zone b, the others are zone a."""
    return [
        Operation(0.0, "label_node", {"node": node, "value": "b" if node == nodes - 1 else "a"})
        for node in range(nodes)
    ]


def _cloneset(rng: random.Random) -> dict[str, Any]:
    rolling: dict[str, Any] = {
        "podUpdatePolicy": rng.choice(("ReCreate", "ReCreate", "InPlaceIfPossible")),
        "maxUnavailable": rng.choice((1, 2, "40%")),
    }
    if rng.random() < 0.3:
        rolling["maxSurge"] = rng.choice((1, 2))
    if rng.random() < 0.2:
        rolling["partition"] = rng.choice((1, 2, "50%"))
    labels = {"app": "web"}
    spec = {
        "replicas": rng.choice((1, 2, 3, 4, 6, 8)),
        "selector": {"matchLabels": labels},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "main", "image": "app:1"}]},
        },
    }
    return kruise_object("CloneSet", spec)


def _workloadspread(rng: random.Random) -> dict[str, Any]:
    first, second = _subset(rng, "first", "a"), _subset(rng, "second", "b")
    first["maxReplicas"] = rng.choice(_MOST)
    subsets = [first, second]
    if rng.random() < 0.3:
        subsets.insert(1, {**_subset(rng, "between", rng.choice("ab")), "maxReplicas": rng.choice(_MOST)})
    if rng.random() < 0.25:
        second["maxReplicas"] = rng.choice((1, 2, 4))
    spec: dict[str, Any] = {
        "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"},
        "subsets": subsets,
    }
    if rng.random() < 0.25:
        seconds = rng.choice((3, 10))
        spec["scheduleStrategy"] = {"type": "Adaptive", "adaptive": {"rescheduleCriticalSeconds": seconds}}
    return kruise_object("WorkloadSpread", spec, name="spread")


def _subset(rng: random.Random, name: str, zone: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "sim/pool", "operator": "In", "values": [zone]}]}
    subset: dict[str, Any] = {"name": name, "requiredNodeSelector": term}
    if rng.random() < 0.3:
        subset["patch"] = {"metadata": {"labels": {"subset": name}}}
    return subset


def _operations(rng: random.Random, length_s: float, *, nodes: int) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add
    rest = [
        lambda: add("scale", replicas=rng.choice((0, 1, 2, 3, 4, 6, 8))),
        lambda: add("scale", replicas=rng.choice((2, 3, 5, 8))),
        lambda: add("image", tag=rng.choice((1, 2, 3))),
        lambda: add("env", value=rng.choice((1, 2))),
        lambda: add("rolling", partition=rng.choice((0, 1, 2))),
        lambda: add("rolling", maxSurge=rng.choice((0, 1, 2))),
        lambda: add("mark", pod=rng.randrange(8)),
        lambda: add("cost", pod=rng.randrange(8), cost=rng.choice((-5, 10))),
        lambda: add("subset", number=rng.randrange(3), most=rng.choice(_MOST)),
        lambda: add("subset", number=rng.randrange(3), most=rng.choice(_MOST)),
        *with_pods(chooser),
        lambda: add("drain", node=rng.randrange(nodes)),
        lambda: add("node_down", node=rng.randrange(nodes)),
        lambda: add("node_lost", node=rng.randrange(nodes)),
        lambda: add("bad_image", tag=rng.choice((2, 3)), how=rng.choice(("never ready", "pull", "slow"))),
    ]
    chooser.some_of(rest)
    if rng.random() < 0.3:
        chooser.found += _rush(rng)
    chooser.maybe_deleted(0.06)
    if rng.random() < 0.12:
        at = add("delete_beside")
        chooser.found.append(Operation(round(at + rng.uniform(0.5, 40), 2), "create_beside"))
    return chooser.found


def _rush(rng: random.Random) -> list[Operation]:
    """Many pods are created and deleted at the same time: admission and controller write the status
    concurrently."""
    at = rng.uniform(5, 15)
    operations: list[Operation] = []
    for _ in range(rng.choice((2, 4, 8))):
        operations.append(Operation(round(at, 2), "scale", {"replicas": rng.choice((0, 1, 2))}))
        at += rng.choice((0.2, 0.5, 2.0))
        operations.append(Operation(round(at, 2), "scale", {"replicas": rng.choice((8, 10, 12))}))
        at += rng.choice((0.3, 1.0, 3.0))
    return operations


def _shrunk(rng: random.Random) -> list[Operation]:
    """A subset takes fewer pods than it has, and just then they are recreated, several at a time."""
    at = round(rng.uniform(10, 15), 2)
    return [
        Operation(1.0, "subset", {"number": 0, "most": 6}),
        Operation(2.0, "scale", {"replicas": 8}),
        Operation(3.0, "rolling", {"maxUnavailable": 4, "partition": 0, "podUpdatePolicy": "ReCreate"}),
        Operation(at, "subset", {"number": 0, "most": rng.choice((1, 2, 3))}),
        Operation(round(at + rng.choice((0.5, 3)), 2), "image", {"tag": 4}),
    ]
