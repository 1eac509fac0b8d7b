"""A random script: a CloneSet, operations on it, and faults.

seed ──▶ generate() ──▶ Script

Some seeds have many faults and some hardly any: calm ones, in which rules are strictest, are as frequent as wild ones.
"""

import random
from typing import Any

from simulation.chance import (
    Chooser,
    claim,
    containers,
    image_faults,
    kruise_object,
    scripted,
    with_pods,
    writers,
)
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Fault, Operation, Script

__all__ = ["generate"]

_PATHS = ("/pods", "/clonesets", "/controllerrevisions", "/persistentvolumeclaims", "")
_WATCHES = ("/pods", "/pods", "/clonesets", "/controllerrevisions", "/persistentvolumeclaims")


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"simulation-{seed}")
    document = _with_options(seed, _cloneset(rng))
    length_s = rng.choice((20.0, 60.0, 180.0))
    operations, faults = (
        _operations(rng, length_s),
        faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES),
    )
    if rng.random() < 0.06:
        more_operations, more_faults = _recovery_unseen(rng)
        operations, faults = [*operations, *more_operations], [*faults, *more_faults]
    return scripted(
        rng,
        seed,
        object=document,
        nodes=rng.choice((2, 3, 4)),
        operations=operations,
        faults=faults,
    )


def _cloneset(rng: random.Random) -> dict[str, Any]:
    pod = {"containers": containers(rng)}
    labels = {"app": "web"}
    rolling: dict[str, Any] = {
        "podUpdatePolicy": rng.choice(("ReCreate", "InPlaceIfPossible", "InPlaceIfPossible", "InPlaceOnly"))
    }
    if rng.random() < 0.8:
        rolling["maxUnavailable"] = rng.choice((1, 1, 2, "20%", "40%", "100%", "12.5%"))
    if rolling["podUpdatePolicy"] != "InPlaceOnly" and rng.random() < 0.4:
        rolling["maxSurge"] = rng.choice((1, 2, "30%"))
        if rng.random() < 0.3:
            rolling["maxUnavailable"] = rng.choice((1, "10%"))
    if rng.random() < 0.35:
        rolling["partition"] = rng.choice((1, 2, 3, "50%", "99%", "100%"))
    if rolling["podUpdatePolicy"] != "ReCreate" and rng.random() < 0.3:
        rolling["inPlaceUpdateStrategy"] = {"gracePeriodSeconds": rng.choice((0, 5, 30))}
    spec: dict[str, Any] = {
        "replicas": rng.choice((1, 2, 3, 4, 5, 6, 8)),
        "selector": {"matchLabels": {"app": "web"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
    }
    if rng.random() < 0.2:
        spec["minReadySeconds"] = rng.choice((2, 10))
    if rng.random() < 0.2:
        spec["scaleStrategy"] = {"maxUnavailable": rng.choice((1, 2, "50%"))}
    if rng.random() < 0.25:
        spec["volumeClaimTemplates"] = [claim("data")]
        spec.setdefault("scaleStrategy", {})["enablePVCReuse"] = rng.random() < 0.5
    lifecycle: dict[str, Any] = {}
    if rng.random() < 0.2:
        lifecycle["preDelete"] = {"labelsHandler": {"hook/delete": "true"}}
        labels["hook/delete"] = "true"
    if rng.random() < 0.2:
        lifecycle["inPlaceUpdate"] = {"labelsHandler": {"hook/update": "true"}}
        labels["hook/update"] = "true"
    if lifecycle:
        spec["lifecycle"] = lifecycle
    if rng.random() < 0.2:
        spec["progressDeadlineSeconds"] = 30
    spec["template"] = {"metadata": {"labels": labels}, "spec": pod}
    return kruise_object("CloneSet", spec)


def _with_options(seed: int, document: dict[str, Any]) -> dict[str, Any]:
    """Let some CloneSets wait for the end of terminating pods, and place some successors near their
    predecessors. The other random values of the seed do not change."""
    annotations = {}
    if random.Random(f"options-{seed}").random() < 0.3:
        annotations["pykruise.io/pod-replacement-policy"] = "Failed"
    if random.Random(f"placement-{seed}").random() < 0.3:
        annotations["pykruise.io/successor-placement"] = "PreferSameNode"
    if annotations:
        document["metadata"]["annotations"] = annotations
    return document


def _operations(rng: random.Random, length_s: float) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add
    rest = [
        lambda: add("scale", replicas=rng.choice((0, 1, 2, 3, 4, 6, 8))),
        lambda: add("scale", replicas=rng.choice((2, 3, 4, 5, 7))),
        lambda: add("image", tag=rng.choice((1, 2, 3)), sidecar=rng.random() < 0.3),
        lambda: add("image", tag=rng.choice((1, 2))),
        lambda: add("env", value=rng.choice((1, 2))),
        lambda: add("rolling", partition=rng.choice((0, 0, 1, 2, 4, "50%", "100%"))),
        lambda: add("rolling", paused=True),
        lambda: add("rolling", maxUnavailable=rng.choice((1, 2, "50%"))),
        lambda: add("rolling", maxSurge=rng.choice((0, 1, 2))),
        lambda: add("rolling", podUpdatePolicy=rng.choice(("ReCreate", "InPlaceIfPossible"))),
        lambda: add("limit_scaling", limit=rng.choice((None, 1, 2))),
        lambda: add("list_to_delete", pods=[rng.randrange(8) for _ in range(rng.choice((1, 2)))]),
        lambda: add("annotate", value=rng.randrange(9)),
        lambda: add("mark", pod=rng.randrange(8)),
        lambda: add("mark", pod=rng.randrange(8)),
        *with_pods(chooser),
        lambda: add("cost", pod=rng.randrange(8), cost=rng.choice((-5, 10))),
        *writers(chooser),
        lambda: add("drain", node=rng.randrange(4)),
        *image_faults(chooser, nodes=4),
    ]
    chooser.some_of(rest)
    chooser.maybe_deleted(0.12)
    chooser.maybe_on_delete(0.07)
    return chooser.found


def _recovery_unseen(rng: random.Random) -> tuple[list[Operation], list[Fault]]:
    """Pods become ready while the watch lags, and at the same time a user requests the deletion of some of them."""
    at = round(rng.uniform(8, 20), 2)
    pods = rng.sample(range(8), 3)
    operations = [
        Operation(at, "bad_image", {"tag": 1, "how": "never ready"}),
        Operation(at + 2, "fix_images"),
        Operation(at + 3.5, "list_to_delete", {"pods": pods}),
    ]
    return operations, [Fault(at + 1.5, "delay", "/pods", 8, 5.0)]
