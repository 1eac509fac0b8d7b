"""A random script: an EphemeralJob, pods that are created and deleted during its run, and faults.

seed ──▶ generate() ──▶ Script
"""

import random
from typing import Any

from simulation.chance import Chooser, kruise_object, pace, with_pods
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Operation, Script

__all__ = ["generate"]

_PATHS = ("/pods", "/pods", "/ephemeralcontainers", "/ephemeraljobs", "/ephemeraljobs", "")
_WATCHES = ("/pods", "/pods", "/ephemeraljobs")
_FINALIZER = "apps.kruise.io/ephemeralcontainers-cleanup"
_NODES = 2


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"ephemeraljob-{seed}")
    document = _job(rng)
    length_s = rng.choice((5.0, 20.0, 60.0))
    operations = _operations(rng, document, length_s)
    operations += [
        Operation(round(rng.uniform(0, 3), 2), "create_named_pod", {"name": f"pod-{number}", **_labels(rng)})
        for number in range(rng.choice((0, 1, 3, 5, 8)))
    ]
    faults = faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES)
    paces = pace(rng)
    paces["kubelet"]["job_s"] = rng.choice((0.5, 5.0, 20.0))
    return Script(
        seed=seed,
        kind="ephemeraljob",
        object=document,
        nodes=_NODES,
        operations=tuple(sorted(operations, key=lambda operation: operation.at)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        **paces,
    )


def _job(rng: random.Random) -> dict[str, Any]:
    item = {"key": "app", "operator": "In", "values": ["web", "other"]}
    spec: dict[str, Any] = {
        "selector": rng.choice(({"matchLabels": {"app": "web"}}, {"matchExpressions": [item]})),
        "template": {"ephemeralContainers": _containers(rng)},
    }
    if rng.random() < 0.6:
        spec["parallelism"] = rng.choice((1, 2, 2, 10))
    if rng.random() < 0.3:
        spec["replicas"] = rng.choice((1, 2, 4))
    if rng.random() < 0.25:
        spec["activeDeadlineSeconds"] = rng.choice((5, 30, 120))
    if rng.random() < 0.5:
        spec["ttlSecondsAfterFinished"] = rng.choice((0, 5, 60))
    if rng.random() < 0.1:
        spec["paused"] = True
    result = kruise_object("EphemeralJob", spec)
    if rng.random() < 0.2:  # as OpenKruise's manager leaves it
        result["metadata"]["finalizers"] = [_FINALIZER]
    return result | {"apiVersion": "apps.kruise.io/v1alpha1"}


def _containers(rng: random.Random) -> list[dict[str, Any]]:
    """One container that ends, or two; or one that a person must end."""
    rest = {"imagePullPolicy": "IfNotPresent", "terminationMessagePolicy": "File"}
    containers: list[dict[str, Any]] = [{"name": "look", "image": "tool:1", **rest}]
    if rng.random() < 0.25:
        env = [{"name": "KRUISE_EJOB_ID", "value": "of-another"}, {"name": "SETTING", "value": "1"}]
        containers.append({"name": "dump", "image": "tool:2", "env": env, **rest})
    if rng.random() < 0.1:
        containers[0]["stdin"] = True
    return containers


def _labels(rng: random.Random) -> dict[str, str]:
    return {"app": rng.choice(("web", "web", "web", "web", "other", "third"))}


def _operations(rng: random.Random, document: dict[str, Any], length_s: float) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add
    ways = ("pull", "crash", "crash", "slow")
    chooser.some_of(
        [
            lambda: add("create_named_pod", name=f"late-{rng.randrange(4)}", **_labels(rng)),
            lambda: add("create_named_pod", name=f"late-{rng.randrange(4)}", **_labels(rng)),
            lambda: add("create_named_pod", name=f"pod-{rng.randrange(8)}", **_labels(rng)),
            lambda: add("label_pod", pod=rng.randrange(8), labels={"app": rng.choice(("web", "third"))}),
            lambda: add("debug", pod=rng.randrange(8), container=rng.choice(("look", "mine"))),
            lambda: add("debug", pod=rng.randrange(8), container=rng.choice(("look", "dump")), job="another"),
            lambda: add("touch", pod=rng.randrange(8), times=rng.choice((3, 20))),
            lambda: add("node_down", node=rng.randrange(_NODES)),
            lambda: add("node_lost", node=rng.randrange(_NODES)),
            lambda: add("bad_image", name="tool", tag=rng.choice((1, 1, 2)), how=rng.choice(ways)),
            lambda: add("spec", parallelism=rng.choice((0, 1, 2, 10))),
            lambda: add("spec", replicas=rng.choice((None, 0, 1, 3))),
            lambda: add("spec", paused=rng.random() < 0.6),
            lambda: add("spec", paused=rng.random() < 0.6),
            lambda: add("spec", activeDeadlineSeconds=rng.choice((None, 5, 60))),
            lambda: add("spec", ttlSecondsAfterFinished=rng.choice((0, 5, 60))),
            lambda: add("annotate", value=rng.randrange(9)),
            *with_pods(chooser),
        ]
    )
    for operation in tuple(chooser.found):  # most are resumed
        if operation.do == "spec" and operation.args.get("paused") and rng.random() < 0.7:
            later = round(operation.at + rng.uniform(1, 20), 2)
            chooser.found.append(Operation(later, "spec", {"paused": False}))
    if document["spec"].get("paused") and rng.random() < 0.7:
        chooser.found.append(Operation(round(length_s + 20, 2), "spec", {"paused": False}))
    chooser.maybe_deleted(0.12)
    return chooser.found
