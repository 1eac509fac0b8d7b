"""A random script: a BroadcastJob, nodes that join and leave during its run, and faults.

seed ──▶ generate() ──▶ Script
"""

import random
from typing import Any

from simulation.chance import Chooser, kruise_object, pace, with_pods
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Operation, Script

__all__ = ["generate"]

_PATHS = ("/pods", "/pods", "/broadcastjobs", "/broadcastjobs", "/nodes", "")
_WATCHES = ("/pods", "/pods", "/broadcastjobs", "/nodes", "/nodes")


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"broadcastjob-{seed}")
    document = _broadcastjob(rng)
    nodes = rng.choice((1, 2, 3, 4, 6))
    length_s = rng.choice((10.0, 20.0, 60.0))
    operations = _operations(rng, document, length_s)
    if "nodeSelector" in document["spec"]["template"]["spec"]:
        operations += [
            Operation(0.0, "label_node", {"node": n, "value": "a"})
            for n in range(nodes)
            if rng.random() < 0.7
        ]
    faults = faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES)
    paces = pace(rng)
    paces["kubelet"]["job_s"] = rng.choice((0.5, 5.0, 5.0, 20.0))
    return Script(
        seed=seed,
        kind="broadcastjob",
        object=document,
        nodes=nodes,
        operations=tuple(sorted(operations, key=lambda operation: operation.at)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        **paces,
    )


def _broadcastjob(rng: random.Random) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "containers": [{"name": "main", "image": "app:1"}],
        "restartPolicy": rng.choice(("Never", "Never", "OnFailure")),
    }
    if rng.random() < 0.25:
        pod["nodeSelector"] = {"sim/pool": "a"}
    completion: dict[str, Any] = {"type": rng.choice(("Always", "Always", "Always", "Never"))}
    if completion["type"] == "Always":
        if rng.random() < 0.25:
            completion["activeDeadlineSeconds"] = rng.choice((5, 30))
        if rng.random() < 0.25:
            completion["ttlSecondsAfterFinished"] = rng.choice((0, 5, 60))
    failure: dict[str, Any] = {"type": rng.choice(("FailFast", "Continue", "Continue", "Pause"))}
    if rng.random() < 0.5:
        failure["restartLimit"] = rng.choice((1, 2))
    spec: dict[str, Any] = {
        "completionPolicy": completion,
        "failurePolicy": failure,
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
    }
    if rng.random() < 0.6:
        spec["parallelism"] = rng.choice((1, 1, 2, "50%", "34"))
    if rng.random() < 0.1:
        spec["paused"] = True
    return kruise_object("BroadcastJob", spec)


def _operations(rng: random.Random, document: dict[str, Any], length_s: float) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add
    ways = ("pull", "crash", "crash", "slow")
    chooser.some_of(
        [
            lambda: add("join", number=rng.randrange(3)),
            lambda: add("join", number=rng.randrange(3)),
            lambda: add("leave", node=rng.randrange(6)),
            lambda: add("drain", node=rng.randrange(6)),
            lambda: add("drain", node=rng.randrange(6)),
            lambda: add("taint", node=rng.randrange(6), effect=rng.choice(("NoSchedule", "NoExecute"))),
            lambda: add("label_node", node=rng.randrange(6), value=rng.choice(("a", "b", None))),
            lambda: add("node_down", node=rng.randrange(6)),
            lambda: add("node_lost", node=rng.randrange(6)),
            lambda: add("bad_image", tag=rng.choice((1, 1, 2)), how=rng.choice(ways)),
            lambda: add("image", tag=rng.choice((1, 2, 3))),
            lambda: add("spec", parallelism=rng.choice((0, 1, 2, 10, "50%"))),
            lambda: add("spec", paused=rng.random() < 0.6),
            lambda: add("annotate", value=rng.randrange(9)),
            *with_pods(chooser)[:3],
        ]
    )
    # A user who sees it paused corrects what was wrong, and resumes it.
    for operation in tuple(chooser.found):
        if operation.do == "spec" and operation.args.get("paused") and rng.random() < 0.7:
            chooser.found.append(
                Operation(round(operation.at + rng.uniform(1, 20), 2), "spec", {"paused": False})
            )
    if document["spec"]["failurePolicy"]["type"] == "Pause" or document["spec"].get("paused"):
        late = round(length_s + 20, 2)
        chooser.found += [
            Operation(late, "fix_images"),
            Operation(round(late + 1, 2), "remove_failed"),
            Operation(round(late + 2, 2), "spec", {"paused": False}),
        ]
    if rng.random() < 0.2:
        chooser.found.append(Operation(0.0, "bad_image", {"tag": 1, "how": "crash"}))
        chooser.found.append(Operation(round(rng.uniform(10, 60), 2), "fix_images"))
    if rng.random() < 0.2:
        chooser.found += [
            Operation(0.0, "original_pod", {"node": number}) for number in range(rng.choice((1, 2)))
        ]
    chooser.maybe_deleted(0.08)
    return chooser.found
