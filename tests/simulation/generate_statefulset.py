"""A random script: an Advanced StatefulSet, operations on it, and faults.

seed ──▶ generate() ──▶ Script
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
from simulation.script import Operation, Script

__all__ = ["generate"]

_PATHS = ("/pods", "/statefulsets", "/controllerrevisions", "/persistentvolumeclaims", "")
_WATCHES = ("/pods", "/pods", "/statefulsets", "/controllerrevisions", "/persistentvolumeclaims")
_RESERVED: tuple[list[int | str], ...] = ([], [], [0], [1], [2], [0, 3], ["1-2"], ["0-1", 4])


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"statefulset-{seed}")
    document, further = _with_options(seed, _statefulset(rng))
    further = [*further, *_ignore_nodes(seed, document)]
    length_s = rng.choice((20.0, 60.0, 180.0))
    operations = [*further, *_operations(rng, document, length_s)]
    faults = faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES)
    return scripted(
        rng,
        seed,
        kind="statefulset",
        object=document,
        nodes=rng.choice((2, 3, 4)),
        operations=operations,
        faults=faults,
    )


def _with_options(seed: int, document: dict[str, Any]) -> tuple[dict[str, Any], list[Operation]]:
    """Some sets replace pods that have never been ready, and their revisions often are faulty. The other random
    values of the seed do not change."""
    rng = random.Random(f"options-{seed}")
    if rng.random() > 0.3:
        return document, []
    document["metadata"]["annotations"] = {
        "pykruise.io/replace-never-ready-after-seconds": rng.choice(("1", "5", "20"))
    }
    if rng.random() < 0.5:
        document["spec"]["podManagementPolicy"] = "OrderedReady"
        document["spec"].pop("scaleStrategy", None)
        rolling = document["spec"]["updateStrategy"]["rollingUpdate"]
        for name in ("maxUnavailable", "unorderedUpdate"):
            rolling.pop(name, None)
    faulty = Operation(0.0, "bad_image", {"tag": 1, "how": rng.choice(("never ready", "pull", "crash"))})
    corrected = Operation(round(rng.uniform(1, 30), 2), "image", {"tag": 2})
    return document, [faulty, corrected] if rng.random() < 0.7 else []


def _ignore_nodes(seed: int, document: dict[str, Any]) -> list[Operation]:
    """Some parallel sets leave nodes out of service out of maxUnavailable, and update while nodes are cordoned."""
    rng = random.Random(f"nodes-{seed}")
    if rng.random() > 0.3 or document["spec"]["podManagementPolicy"] != "Parallel":
        return []
    annotations = document["metadata"].setdefault("annotations", {})
    annotations["pykruise.io/ignore-unavailable-nodes"] = rng.choice(("0", "1", "1", "2", "34%"))
    at = round(rng.uniform(5, 15), 2)
    drained = [Operation(at, "drain", {"node": node}) for node in rng.sample(range(4), rng.choice((1, 2)))]
    return [*drained, Operation(round(at + rng.uniform(0, 3), 2), "image", {"tag": 2})]


def _statefulset(rng: random.Random) -> dict[str, Any]:
    is_parallel = rng.random() < 0.6
    pod: dict[str, Any] = {
        "containers": containers(rng),
        "readinessGates": [{"conditionType": "InPlaceUpdateReady"}],
    }
    labels = {"app": "web"}
    spec: dict[str, Any] = {
        "replicas": rng.choice((1, 2, 3, 4, 5, 6)),
        "podManagementPolicy": "Parallel" if is_parallel else "OrderedReady",
        "selector": {"matchLabels": {"app": "web"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": _rolling(rng, is_parallel=is_parallel)},
    }
    if is_parallel and rng.random() < 0.3:
        spec["scaleStrategy"] = {"maxUnavailable": rng.choice((1, 2, "50%"))}
    if rng.random() < 0.3:
        spec["reserveOrdinals"] = rng.choice(_RESERVED)
    if rng.random() < 0.4:
        spec["volumeClaimTemplates"] = [claim("data")]
        spec["persistentVolumeClaimRetentionPolicy"] = {
            "whenScaled": rng.choice(("Retain", "Delete")),
            "whenDeleted": rng.choice(("Retain", "Delete")),
        }
    lifecycle: dict[str, Any] = {}
    for name, share in (("preDelete", 0.2), ("inPlaceUpdate", 0.2), ("preNormal", 0.1)):
        if rng.random() < share:
            lifecycle[name] = {"labelsHandler": {f"hook/{name}": "true"}}
            if name != "preNormal":
                labels[f"hook/{name}"] = "true"
    if lifecycle:
        spec["lifecycle"] = lifecycle
    spec["template"] = {"metadata": {"labels": labels}, "spec": pod}
    return kruise_object("StatefulSet", spec)


def _rolling(rng: random.Random, *, is_parallel: bool) -> dict[str, Any]:
    result: dict[str, Any] = {
        "podUpdatePolicy": rng.choice(("ReCreate", "InPlaceIfPossible", "InPlaceIfPossible", "InPlaceOnly"))
    }
    if is_parallel and rng.random() < 0.7:
        result["maxUnavailable"] = rng.choice((1, 2, 3, "40%", "100%"))
    if is_parallel and rng.random() < 0.2:
        result["unorderedUpdate"] = rng.choice(
            (
                {},
                {
                    "priorityStrategy": {
                        "orderPriority": [{"orderedKey": "statefulset.kubernetes.io/pod-name"}]
                    }
                },
            )
        )
    if rng.random() < 0.35:
        result["partition"] = rng.choice((1, 2, 3))
    if rng.random() < 0.2:
        result["minReadySeconds"] = rng.choice((2, 10))
    if result["podUpdatePolicy"] != "ReCreate" and rng.random() < 0.3:
        result["inPlaceUpdateStrategy"] = {"gracePeriodSeconds": rng.choice((0, 5, 30))}
    return result


def _operations(rng: random.Random, document: dict[str, Any], length_s: float) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add
    rest = [
        lambda: add("scale", replicas=rng.choice((0, 1, 2, 3, 4, 6))),
        lambda: add("scale", replicas=rng.choice((1, 2, 3, 4, 5))),
        lambda: add("image", tag=rng.choice((1, 2, 3)), sidecar=rng.random() < 0.3),
        lambda: add("image", tag=rng.choice((1, 2))),
        lambda: add("image", tag=2),
        lambda: add("env", value=rng.choice((1, 2))),
        lambda: add("reserve", ordinals=rng.choice(_RESERVED)),
        lambda: add("rolling", partition=rng.choice((0, 0, 1, 2, 4))),
        lambda: add("rolling", paused=True),
        lambda: add("rolling", podUpdatePolicy=rng.choice(("ReCreate", "InPlaceIfPossible"))),
        lambda: add("annotate", value=rng.randrange(9)),
        lambda: add("mark", pod=rng.randrange(8)),
        lambda: add("mark", pod=rng.randrange(8)),
        lambda: add("strip", pod=rng.randrange(8), label="statefulset.kubernetes.io/pod-name"),
        *with_pods(chooser),
        *writers(chooser),
        lambda: add("drain", node=rng.randrange(4)),
        *image_faults(chooser, nodes=4),
    ]
    if document["spec"]["podManagementPolicy"] == "Parallel":
        rest += [
            lambda: add("rolling", maxUnavailable=rng.choice((1, 2, "50%"))),
            lambda: add("limit_scaling", limit=rng.choice((None, 1, 2))),
        ]
    if "volumeClaimTemplates" in document["spec"]:
        rest += [
            lambda: add(
                "retain", scaled=rng.choice(("Retain", "Delete")), deleted=rng.choice(("Retain", "Delete"))
            )
        ]
    chooser.some_of(rest)
    for operation in tuple(chooser.found):
        if operation.do == "relabel":  # a released pod keeps its name, and no other can have it
            chooser.found.append(Operation(round(operation.at + rng.uniform(1, 40), 2), "remove_released"))
    chooser.maybe_deleted(0.12)
    chooser.maybe_on_delete(0.12, alone=True)
    return chooser.found
