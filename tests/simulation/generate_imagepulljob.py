"""A random script: an ImagePullJob, nodes that join and leave while they pull, images that fail, and faults.

seed ──▶ generate() ──▶ Script

Jobs are created a little later than nodes, because a job that selects no node is complete immediately. Some scripts
are long, for nodes that are silent for ten minutes and for entries that expire.
"""

import random
from typing import Any

from simulation.chance import Chooser, kruise_object, scripted
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Operation, Script

__all__ = ["generate", "pull_operations", "pull_spec"]

IMAGES = ("app:1", "app:1", "app:1", "app:2", "app", "side:1", "docker.io/library/app:2")
DAY_S = 95_000.0
"""More than a day, and an hour by which a clock may have jumped."""
_PATHS = ("/imagepulljobs", "/imagepulljobs", "/nodeimages", "/nodeimages", "/nodes", "")
_WATCHES = ("/imagepulljobs", "/nodeimages", "/nodeimages", "/nodes", "/pods")


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"imagepulljob-{seed}")
    document = kruise_object("ImagePullJob", {"image": rng.choice(IMAGES), **pull_spec(rng)})
    length_s = rng.choice((15.0, 15.0, 60.0, 60.0, 900.0))
    operations = _operations(rng, document, length_s)
    script = scripted(
        rng,
        seed,
        operations=operations,
        faults=faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES),
        kind="imagepulljob",
        object=document,
        nodes=rng.choice((1, 2, 3, 4, 6)),
    )
    script.kubelet["pull_s"] = rng.choice((0.0, 0.5, 3.0, 20.0))
    return script


def pull_spec(rng: random.Random) -> dict[str, Any]:
    """The spec without the images."""
    completion: dict[str, Any] = {"type": rng.choice(("Always", "Always", "Always", "Never"))}
    timeout_s = rng.choice((2, 10, 60))
    if completion["type"] == "Always":
        if rng.random() < 0.3:
            completion["activeDeadlineSeconds"] = timeout_s + rng.choice((0, 10, 60))
        if rng.random() < 0.3:
            completion["ttlSecondsAfterFinished"] = rng.choice((0, 5, 60))
    spec: dict[str, Any] = {
        "completionPolicy": completion,
        "pullPolicy": {"timeoutSeconds": timeout_s, "backoffLimit": rng.choice((0, 1, 3))},
    }
    if rng.random() < 0.8:
        spec["parallelism"] = rng.choice((0, 1, 1, 2, 2, 10, "2"))
    if rng.random() < 0.3:
        spec["imagePullPolicy"] = rng.choice(("Always", "IfNotPresent"))
    if rng.random() < 0.2:
        part = rng.choice(("labels", "annotations"))
        spec["sandboxConfig"] = {part: {"who": rng.choice(("a", "b"))}}
    chosen = rng.random()
    if chosen < 0.15:
        spec["selector"] = {"names": [f"node-{number}" for number in rng.sample(range(1, 8), 4)]}
    elif chosen < 0.4:
        spec["selector"] = _labels(rng, "sim/pool")
    elif chosen < 0.6:
        spec["podSelector"] = _labels(rng, "pool")
    elif chosen < 0.65:
        spec["selector"] = {}
    return spec


def _labels(rng: random.Random, key: str) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {"matchLabels": {key: "a"}}
    return {"matchExpressions": [{"key": key, "operator": "In", "values": ["a", "c"]}]}


def pull_operations(rng: random.Random, chooser: Chooser, document: dict[str, Any]) -> float:
    """Operations on nodes, pods and images during the pulls. Returns the time at which the job is created."""
    add, operations = chooser.add, chooser.found
    created_at = rng.choice((0.5, 3.0, 3.0, 3.0, 10.0))
    operations.append(Operation(created_at, "create_set"))
    spec = document["spec"]
    if "selector" in spec and "names" not in spec["selector"]:
        operations += [
            Operation(0.0, "label_node", {"node": n, "value": "a"}) for n in range(6) if rng.random() < 0.7
        ]
    pods = []
    if "podSelector" in spec:
        pods = [
            lambda: add("create_pod", number=rng.randrange(9), node=rng.randrange(6)),
            lambda: add("delete_pod", pod=rng.randrange(8)),
            lambda: add("label_pod", pod=rng.randrange(8), labels={"pool": rng.choice(("a", "b"))}),
        ] * 2
        operations += [
            Operation(0.0, "create_pod", {"number": n, "node": rng.randrange(6)})
            for n in range(6)
            if rng.random() < 0.7
        ]
    ways = ("pull", "pull", "slow pull", "endless pull")
    chooser.some_of(
        [
            *pods,
            lambda: add("join", number=rng.randrange(3)),
            lambda: add("join", number=rng.randrange(3)),
            lambda: add("leave", node=rng.randrange(6)),
            lambda: add("label_node", node=rng.randrange(6), value=rng.choice(("a", "b", None))),
            lambda: add("node_down", node=rng.randrange(6)),
            lambda: add("node_down", node=rng.randrange(6)),
            lambda: add("bad_image", tag=rng.choice((1, 1, 2)), how=rng.choice(ways)),
            lambda: add("spec", parallelism=rng.choice((0, 1, 2, 10))),
            lambda: add("spec", parallelism=rng.choice((1, 2, 10))),
            lambda: add("annotate", value=rng.randrange(9)),
        ]
    )
    if rng.random() < 0.3:
        operations.append(Operation(0.0, "bad_image", {"tag": 1, "how": rng.choice(ways)}))
    if (
        pods and spec["completionPolicy"]["type"] == "Never"
    ):  # may select another node after all others have responded
        operations.append(Operation(created_at + 60.0, "create_pod", {"number": 9, "node": 5}))
    return created_at


def _operations(rng: random.Random, document: dict[str, Any], length_s: float) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add, operations = chooser.add, chooser.found
    created_at = pull_operations(rng, chooser, document)
    if rng.random() < 0.2:
        add("spec", image=rng.choice(IMAGES))
    if rng.random() < 0.4:
        add("create_job", name="other", image=rng.choice(IMAGES), parallelism=rng.choice((1, 10)))
        if rng.random() < 0.4:
            add("delete_job", name="other")
    if rng.random() < 0.15:
        at = round(created_at + rng.uniform(0, length_s), 2)
        operations.append(Operation(at, "delete_set", {"policy": rng.choice(("Background", "Foreground"))}))
        if rng.random() < 0.6:
            operations.append(Operation(round(at + rng.uniform(0.5, 30), 2), "create_set"))
    if length_s > 600:  # lasts until the manager notices nodes that never respond
        operations.append(Operation(1700.0, "annotate", {"value": 0}))
    if document["spec"]["completionPolicy"]["type"] == "Never" and rng.random() < 0.1:
        operations.append(Operation(DAY_S, "annotate", {"value": 1}))
    return operations
