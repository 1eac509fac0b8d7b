"""A random script: a UnitedDeployment that divides replicas among zones, and faults.

seed ──▶ generate() ──▶ Script
"""

import random
from typing import Any

from simulation.chance import Chooser, kruise_object, scripted, with_pods
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Operation, Script

__all__ = ["generate"]

_PATHS = ("/clonesets", "/clonesets", "/uniteddeployments", "/controllerrevisions", "/pods", "")
_WATCHES = ("/clonesets", "/clonesets", "/uniteddeployments", "/pods", "/controllerrevisions")
_ZONES = "ab"


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"uniteddeployment-{seed}")
    nodes = rng.choice((2, 3, 4))
    length_s = rng.choice((20.0, 60.0, 180.0))
    united = _united(rng)
    operations = [*_zones(nodes), *_operations(rng, length_s, united, nodes=nodes)]
    faults = faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES)
    return scripted(
        rng, seed, kind="uniteddeployment", object=united, nodes=nodes, operations=operations, faults=faults
    )


def _zones(nodes: int) -> list[Operation]:
    """The last node is zone b, the others are zone a."""
    return [
        Operation(0.0, "label_node", {"node": node, "value": "b" if node == nodes - 1 else "a"})
        for node in range(nodes)
    ]


def _united(rng: random.Random) -> dict[str, Any]:
    labels = {"app": "web"}
    rolling = {"maxUnavailable": rng.choice((1, 2, "50%")), "podUpdatePolicy": "ReCreate"}
    if rng.random() < 0.3:
        rolling["podUpdatePolicy"] = "InPlaceIfPossible"
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "app:1"}]},
            },
        },
    }
    topology: dict[str, Any] = {"subsets": _subsets(rng)}
    if any("maxReplicas" in subset for subset in topology["subsets"]) and rng.random() < 0.5:
        times = {"rescheduleCriticalSeconds": rng.choice((3, 10)), "unschedulableDuration": 20}
        topology["scheduleStrategy"] = {"type": "Adaptive", "adaptive": times}
    spec = {
        "replicas": rng.choice((0, 1, 2, 4, 5, 8)),
        "selector": {"matchLabels": labels},
        "template": {"cloneSetTemplate": template},
        "topology": topology,
    }
    return kruise_object("UnitedDeployment", spec)


def _subsets(rng: random.Random) -> list[dict[str, Any]]:
    subsets = [_subset(name, zone) for name, zone in (("first", "a"), ("second", "b"))]
    if rng.random() < 0.5:
        subsets.insert(rng.randrange(3), _subset("third", rng.choice(_ZONES)))
    if rng.random() < 0.5:
        for entry in subsets[:-1]:
            entry["minReplicas"] = rng.choice((0, 0, 1, 2))
            entry["maxReplicas"] = entry["minReplicas"] + rng.choice((0, 1, 2, 4))
    if rng.random() < 0.3:
        rng.choice(subsets)["patch"] = {"metadata": {"labels": {"tier": "gold"}}}
    return subsets


def _subset(name: str, zone: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": "sim/pool", "operator": "In", "values": [zone]}]}
    return {"name": name, "nodeSelectorTerm": term}


def _operations(
    rng: random.Random, length_s: float, united: dict[str, Any], *, nodes: int
) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add
    subsets = united["spec"]["topology"]["subsets"]
    names = [subset["name"] for subset in subsets]
    rest = [
        lambda: add("scale", replicas=rng.choice((0, 1, 2, 3, 5, 8))),
        lambda: add("scale", replicas=rng.choice((2, 4, 7, 10))),
        lambda: add("united_image", tag=rng.choice((1, 2, 3))),
        lambda: add("united_image", tag=rng.choice((2, 3))),
        lambda: add("united_partition", subset=rng.choice(names), value=rng.choice((0, 1, 2))),
        lambda: add("united_subsets", subsets=_changed(rng, subsets)),
        lambda: add("united_subsets", subsets=_changed(rng, subsets)),
        lambda: add("scale_workload", number=rng.randrange(3), replicas=rng.choice((0, 1, 6))),
        lambda: add("delete_workload", number=rng.randrange(3)),
        *with_pods(chooser),
        lambda: add("drain", node=rng.randrange(nodes)),
        lambda: add("drain", node=nodes - 1),
        lambda: add("node_down", node=rng.randrange(nodes)),
        lambda: add("bad_image", tag=rng.choice((2, 3)), how=rng.choice(("never ready", "pull", "slow"))),
    ]
    chooser.some_of(rest)
    chooser.maybe_deleted(0.15)
    if rng.random() < 0.3:
        chooser.found += _outage(rng, nodes)
    return chooser.found


def _outage(rng: random.Random, nodes: int) -> list[Operation]:
    """All nodes of zone a take no pods for a while."""
    at = round(rng.uniform(15, 40), 2)
    later = round(at + rng.choice((8, 40, 90)), 2)
    return [
        operation
        for node in range(nodes - 1)
        for operation in (
            Operation(at, "drain", {"node": node}),
            Operation(later, "uncordon", {"node": node}),
        )
    ]


def _changed(rng: random.Random, subsets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One subset is removed or added, or bounds change."""
    result = [dict(subset) for subset in subsets]
    match rng.randrange(3):
        case 0 if len(result) > 2:
            result.pop(rng.randrange(len(result) - 1))
        case 1:
            result.insert(0, _subset("fresh", rng.choice(_ZONES)))
        case _:
            for entry in result[:-1]:
                if "maxReplicas" in entry:
                    entry["maxReplicas"] = entry["minReplicas"] + rng.choice((0, 1, 3, 5))
    return result
