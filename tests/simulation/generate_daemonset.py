"""A random script: a DaemonSet, operations on it and on its nodes, and faults.

seed ──▶ generate() ──▶ Script
"""

import random
from typing import Any

from simulation.chance import Chooser, containers, image_faults, kruise_object, scripted, with_pods, writers
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Operation, Script

__all__ = ["generate"]

_PATHS = ("/pods", "/daemonsets", "/controllerrevisions", "/nodes", "")
_WATCHES = ("/pods", "/pods", "/daemonsets", "/controllerrevisions", "/nodes")


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"daemonset-{seed}")
    document, further = _with_options(seed, _daemonset(rng))
    nodes = rng.choice((1, 2, 3, 4, 6))
    length_s = rng.choice((20.0, 60.0, 180.0))
    operations = [*_operations(rng, document, length_s), *further]
    if _pool(document):
        operations += [
            Operation(0.0, "label_node", {"node": n, "value": "a"})
            for n in range(nodes)
            if rng.random() < 0.7
        ]
    faults = faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES)
    return scripted(
        rng,
        seed,
        kind="daemonset",
        object=document,
        nodes=nodes,
        operations=operations,
        faults=faults,
    )


def _pool(document: dict[str, Any]) -> bool:
    return "nodeSelector" in document["spec"]["template"]["spec"]


def _with_options(seed: int, document: dict[str, Any]) -> tuple[dict[str, Any], list[Operation]]:
    """Some DaemonSets leave out nodes out of service, and some update unavailable pods within the budget. In many of
    these, nodes fail before a rollout. The seed's other choices stay the same.
    """
    rng = random.Random(f"options-{seed}")
    annotations: dict[str, str] = {}
    if rng.random() < 0.3:
        annotations["pykruise.io/ignore-unavailable-nodes"] = rng.choice(("0", "1", "1", "2", "34%"))
    if rng.random() < 0.3:
        annotations["pykruise.io/strict-max-unavailable"] = "true"
    if not annotations:
        return document, []
    document["metadata"]["annotations"] = annotations
    fails = [
        Operation(0.0, rng.choice(("node_down", "drain")), {"node": rng.randrange(6)})
        for _ in range(rng.randrange(4))
    ]
    bad = Operation(0.0, "bad_image", {"tag": 2, "how": rng.choice(("never ready", "crash", "slow"))})
    rollouts = [Operation(round(rng.uniform(1, 60), 2), "image", {"tag": tag}) for tag in (2, 3)]
    return document, [*fails, *([bad] if rng.random() < 0.4 else []), *rollouts]


def _daemonset(rng: random.Random) -> dict[str, Any]:
    pod: dict[str, Any] = {"containers": containers(rng)}
    labels = {"app": "web"}
    rolling: dict[str, Any] = {}
    sort = rng.random()
    if sort < 0.35:
        rolling = {"rollingUpdateType": "Standard", "maxUnavailable": rng.choice((1, 1, 2, "50%", "100%"))}
    elif sort < 0.65:
        rolling = {"rollingUpdateType": "InPlaceIfPossible", "maxUnavailable": rng.choice((1, 1, 2, "34%"))}
    elif sort < 0.9:
        rolling = {
            "rollingUpdateType": "Standard",
            "maxSurge": rng.choice((1, 2, "50%")),
            "maxUnavailable": 0,
        }
    if rng.random() < 0.3:
        rolling["partition"] = rng.choice((1, 2, 3, "50%"))
    if rng.random() < 0.25:
        pod["nodeSelector"] = {"sim/pool": "a"}
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": "web"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
    }
    if rng.random() < 0.2:
        spec["minReadySeconds"] = rng.choice((2, 10))
    if rng.random() < 0.2:
        spec["burstReplicas"] = rng.choice((1, 2, "50%"))
    if rng.random() < 0.2:
        spec["lifecycle"] = {"preDelete": {"labelsHandler": {"hook/delete": "true"}}}
        labels["hook/delete"] = "true"
    spec["template"] = {"metadata": {"labels": labels}, "spec": pod}
    return kruise_object("DaemonSet", spec)


def _operations(rng: random.Random, document: dict[str, Any], length_s: float) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add
    surges = bool(document["spec"]["updateStrategy"]["rollingUpdate"].get("maxSurge"))

    def limit() -> float:
        if surges:
            return add("rolling", maxSurge=rng.choice((1, 2, "100%")))
        return add("rolling", maxUnavailable=rng.choice((1, 2, "50%")))

    rest = [
        lambda: add("image", tag=rng.choice((1, 2, 3)), sidecar=rng.random() < 0.3),
        lambda: add("image", tag=rng.choice((1, 2))),
        lambda: add("image", tag=2),
        lambda: add("env", value=rng.choice((1, 2))),
        lambda: add("env", value=rng.choice((1, 2))),
        lambda: add("rolling", partition=rng.choice((0, 0, 1, 2, "50%"))),
        lambda: add("rolling", paused=True),
        limit,
        lambda: add("annotate", value=rng.randrange(9)),
        *with_pods(chooser),
        *writers(chooser),
        lambda: add("drain", node=rng.randrange(6)),
        lambda: add("taint", node=rng.randrange(6), effect=rng.choice(("NoSchedule", "NoExecute"))),
        lambda: add("taint", node=rng.randrange(6), effect=rng.choice(("NoSchedule", "NoExecute"))),
        lambda: add("label_node", node=rng.randrange(6), value=rng.choice(("a", "b", None))),
        lambda: add("join", number=rng.randrange(3)),
        lambda: add("leave", node=rng.randrange(6)),
        *image_faults(chooser, nodes=6),
    ]
    if _pool(document):
        rest += [lambda: add("node_selector", pool=rng.choice(("a", "b", None)))]
    chooser.some_of(rest)
    chooser.maybe_deleted(0.1)
    chooser.maybe_on_delete(0.12)
    return chooser.found
