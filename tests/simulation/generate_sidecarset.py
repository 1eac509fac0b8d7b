"""A random script: a CloneSet whose pods get the sidecars of a SidecarSet, and faults.

seed ──▶ generate() ──▶ Script
"""

import random
from typing import Any

from simulation.chance import Chooser, kruise_object, scripted, with_pods, writers
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Operation, Script

__all__ = ["generate"]

FIRST = 100
"""Seed from which on SidecarSets have annotations for pods."""
ROLLS = "pykruise.io/roll-on-pod-metadata"

_PATHS = ("/pods", "/pods", "/sidecarsets", "/sidecarsets", "/controllerrevisions", "")
_WATCHES = ("/pods", "/pods", "/sidecarsets", "/sidecarsets", "/controllerrevisions")


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"sidecarset-{seed}")
    length_s = rng.choice((20.0, 60.0, 180.0))
    beside = _sidecarset(rng)
    beside, metadata = _with_metadata(seed, beside, length_s)
    canary = _canary_operations(seed, length_s)
    operations = _operations(rng, length_s, has_selector="selector" in beside["spec"]["updateStrategy"])
    faults = faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES)
    return scripted(
        rng,
        seed,
        kind="sidecarset",
        object=_cloneset(rng),
        beside=beside,
        nodes=rng.choice((2, 3)),
        operations=[*operations, *canary, *metadata],
        faults=faults,
    )


def _cloneset(rng: random.Random) -> dict[str, Any]:
    rolling = {
        "podUpdatePolicy": rng.choice(("ReCreate", "InPlaceIfPossible", "InPlaceIfPossible")),
        "maxUnavailable": rng.choice((1, 2, "40%")),
    }
    spec = {
        "replicas": rng.choice((1, 2, 3, 4, 6)),
        "selector": {"matchLabels": {"app": "web"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "app:1"}]},
        },
    }
    return kruise_object("CloneSet", spec)


def _sidecarset(rng: random.Random) -> dict[str, Any]:
    containers = [{"name": "log", "image": "log:1"}]
    if rng.random() < 0.3:
        containers.append({"name": "mesh", "image": "mesh:1"})
    strategy: dict[str, Any] = {"type": "RollingUpdate"}
    if rng.random() < 0.7:
        strategy["maxUnavailable"] = rng.choice((1, 1, 2, "30%", "50%"))
    if rng.random() < 0.15:
        strategy["selector"] = {"matchLabels": {"app": "web", "canary": "yes"}}
    elif rng.random() < 0.3:
        strategy["partition"] = rng.choice((1, 2, "50%", "100%"))
    if rng.random() < 0.15:
        strategy["paused"] = True
    spec = {
        "selector": {"matchLabels": {"app": "web"}},
        "containers": containers,
        "updateStrategy": strategy,
    }
    return kruise_object("SidecarSet", spec, name="log")


def _with_metadata(
    seed: int, beside: dict[str, Any], length_s: float
) -> tuple[dict[str, Any], list[Operation]]:
    """Give some SidecarSets annotations for pods that change, most of them with the option for running pods. Scripts
    of seeds below FIRST stay as they are, because it is known which of them break rules.
    """
    rng = random.Random(f"metadata-{seed}")
    if seed < FIRST or rng.random() > 0.4:
        return beside, []
    spec = {**beside["spec"], "patchPodMetadata": _level(0)}
    metadata = dict(beside["metadata"])
    if rng.random() < 0.8:
        metadata["annotations"] = {ROLLS: "true"}
    operations = [
        Operation(
            round(rng.uniform(1, length_s + 5), 2), "remember", {"patchPodMetadata": _level(rng.randrange(4))}
        )
        for _ in range(rng.choice((1, 2, 4)))
    ]
    if rng.random() < 0.3:
        value = rng.choice(("true", "false", None))
        at = round(rng.uniform(1, length_s), 2)
        operations.append(Operation(at, "note_beside", {"annotations": {ROLLS: value}}))
    return {**beside, "metadata": metadata, "spec": spec}, operations


def _level(value: int) -> list[dict[str, Any]]:
    return [{"annotations": {"sim/level": str(value)}, "patchPolicy": "Overwrite"}]


def _canary_operations(seed: int, length_s: float) -> list[Operation]:
    """Give a fixed number of pods the newest sidecars in some scripts, without a change of the seed's other choices."""
    rng = random.Random(f"options-{seed}")
    if rng.random() > 0.3:
        return []
    at = rng.uniform(2, length_s)
    canary = {"number": rng.choice((0, 1, 2, 3)), "tag": rng.choice((2, 3))}
    scales = [
        Operation(round(at + rng.uniform(1, 30), 2), "scale", {"replicas": rng.choice((1, 3, 6))})
        for _ in range(3)
    ]
    number = rng.choice((None, "1", "3"))
    change = Operation(
        round(at + rng.uniform(10, 40), 2),
        "note_beside",
        {"annotations": {"pykruise.io/updated-pods": number}},
    )
    return [
        Operation(round(at, 2), "canary_pods", canary),
        *scales,
        *([change] if rng.random() < 0.5 else []),
    ]


def _operations(rng: random.Random, length_s: float, *, has_selector: bool) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add
    rest = [
        *[lambda: add("sidecar", field="image", value=f"log:{rng.choice((1, 2, 3))}")] * 3,
        lambda: add("sidecar", field="image", value="log:2"),
        lambda: add("sidecar", field="env", value=[{"name": "SETTING", "value": str(rng.randrange(3))}]),
        lambda: add("sidecar_strategy", paused=rng.random() < 0.4),
        lambda: add("sidecar_strategy", maxUnavailable=rng.choice((1, 2, "50%"))),
        lambda: add("label_pod", pod=rng.randrange(8), labels={"canary": "yes"}),
        lambda: add("scale", replicas=rng.choice((0, 1, 2, 4, 6))),
        lambda: add("image", tag=rng.choice((1, 2, 3))),
        lambda: add("env", value=rng.choice((1, 2))),
        lambda: add("mark", pod=rng.randrange(8)),
        *with_pods(chooser),
        *writers(chooser),
        lambda: add("drain", node=rng.randrange(3)),
        lambda: add("node_down", node=rng.randrange(3)),
        lambda: add("bad_image", tag=2, how=rng.choice(("never ready", "pull", "slow"))),
        lambda: add("bad_image", tag=2, how=rng.choice(("never ready", "pull", "slow")), name="log"),
    ]
    if not has_selector:
        rest.append(lambda: add("sidecar_strategy", partition=rng.choice((0, 0, 1, 2, "50%"))))
    chooser.some_of(rest)
    chooser.maybe_deleted(0.05)
    if rng.random() < 0.1:
        at = add("delete_beside")
        chooser.found.append(Operation(round(at + rng.uniform(0.5, 40), 2), "create_beside"))
    return chooser.found
