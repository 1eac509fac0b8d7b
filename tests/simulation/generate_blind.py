"""A random script of a CloneSet in which the manager does not know the current state at critical times.

seed ──▶ generate() ──▶ Script of kind cloneset

Situations that are rare in the usual scripts are frequent here: the response to a write is lost while the watch lags,
the history is compacted while a watch stalls, pods recover unobserved, PVCs are reused, a user requests the deletion
of another pod before the watch has reported the first deletion, no watch reports the deletion of the workload.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

from simulation.chance import claim, kruise_object
from simulation.script import Fault, Operation, Script

__all__ = ["generate"]


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"blind-{seed}")
    document = _cloneset(rng)
    at = round(rng.uniform(12, 20), 2)
    spots: tuple[Callable[[random.Random, float], tuple[list[Operation], list[Fault]]], ...] = (
        _lost_answers,
        _lost_history,
        _recovery_unseen,
        _in_order,
    )
    spot = _RARE.get(seed % 8) or rng.choice(spots)
    operations, faults = spot(rng, at)
    # Faults end after the last operation. This operation changes nothing, so that the faults last until then.
    operations.append(Operation(round(at + 75, 2), "fix_images"))
    return Script(
        seed=seed,
        object=document,
        nodes=3,
        operations=tuple(sorted(operations, key=lambda operation: operation.at)),
        faults=tuple(faults),
        latency_s=rng.choice((0.005, 0.02)),
        hook_s=0.5,
        kubelet={"start_s": 0.5, "ready_s": 0.5, "stop_s": rng.choice((0.1, 3.0))},
    )


def _cloneset(rng: random.Random) -> dict[str, Any]:
    rolling: dict[str, Any] = {
        "podUpdatePolicy": rng.choice(("ReCreate", "InPlaceIfPossible")),
        "maxUnavailable": rng.choice((1, 2)),
    }
    labels = {"app": "web"}
    spec: dict[str, Any] = {
        "replicas": rng.choice((2, 3, 5)),
        "selector": {"matchLabels": {"app": "web"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
    }
    if rng.random() < 0.4:
        spec["volumeClaimTemplates"] = [claim("data")]
        spec["scaleStrategy"] = {"enablePVCReuse": rng.random() < 0.7}
    if rng.random() < 0.3:
        spec["lifecycle"] = {"preDelete": {"labelsHandler": {"hook/delete": "true"}}}
        labels["hook/delete"] = "true"
    containers = [{"name": "main", "image": "app:1"}]
    spec["template"] = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return kruise_object("CloneSet", spec)


def _lost_answers(rng: random.Random, at: float) -> tuple[list[Operation], list[Fault]]:
    """Writes take effect, responses are lost, the watch lags."""
    operation = rng.choice(
        (
            Operation(at, "scale", {"replicas": 8}),
            Operation(at, "image", {"tag": 2}),
            Operation(at, "mark", {"pod": rng.randrange(8)}),
        )
    )
    kind = rng.choice(("answer lost", "no answer", "timeout after the fact", "error after the fact"))
    lost = Fault(round(at - 0.5, 2), kind, "/pods", rng.choice((1, 2, 4)), 1.0)
    return [operation], [lost, Fault(round(at - 0.5, 2), "delay", "/pods", 12, rng.choice((5.0, 20.0)))]


def _lost_history(rng: random.Random, at: float) -> tuple[list[Operation], list[Fault]]:
    """A watch stalls for minutes; when it is opened again, the missed history has been compacted."""
    watch = rng.choice(("/pods", "/clonesets"))
    operations = [
        Operation(at, "image", {"tag": 2}),
        Operation(at + 1, "delete_pod", {"pod": rng.randrange(8), "now": True}),
    ]
    operations += [Operation(at + 2, "scale", {"replicas": rng.choice((1, 6))})]
    return operations, [Fault(round(at - 5, 2), "stall", watch), Fault(at + 20, "compact")]


def _recovery_unseen(rng: random.Random, at: float) -> tuple[list[Operation], list[Fault]]:
    """Pods become ready while the watch lags, and at the same time some of them must be deleted or updated."""
    change = rng.choice(
        (
            Operation(at + 3.5, "list_to_delete", {"pods": rng.sample(range(8), 3)}),
            Operation(at + 3.5, "image", {"tag": 2}),
        )
    )
    operations = [
        Operation(at, "bad_image", {"tag": 1, "how": "never ready"}),
        Operation(at + 2, "fix_images"),
        change,
    ]
    return operations, [Fault(round(at + 1.5, 2), "delay", "/pods", 8, 5.0)]


def _other_victim(rng: random.Random, at: float) -> tuple[list[Operation], list[Fault]]:
    """A pod is deleted, and another one must be deleted before the watch reports it."""
    first, second = rng.sample(range(5), 2)
    operations = [
        Operation(at, "list_to_delete", {"pods": [first]}),
        Operation(round(at + 0.4, 2), "list_to_delete", {"pods": [second]}),
    ]
    return operations, [Fault(round(at - 0.1, 2), "delay", "/pods", 12, 5.0)]


def _in_order(rng: random.Random, at: float) -> tuple[list[Operation], list[Fault]]:
    """No faults: the rules that do not apply during faults apply."""
    operations = [
        Operation(at, "mark", {"pod": rng.randrange(8)}),
        Operation(at + 15, "image", {"tag": 2}),
        Operation(at + 40, "scale", {"replicas": rng.choice((1, 2))}),
        Operation(at + 60, "scale", {"replicas": 5}),
    ]
    return operations, []


def _gone_owner(rng: random.Random, at: float) -> tuple[list[Operation], list[Fault]]:
    """The workload is deleted, and watches that would report it and its pods hang."""
    operations = [
        Operation(at, "delete_set", {"policy": "Background"}),
        Operation(round(at + 30, 2), "create_set"),
    ]
    begin = round(at - 1, 2)
    return operations, [Fault(begin, "stall", "/clonesets"), Fault(begin, "stall", "/pods")]


_RARE: Mapping[int, Callable[[random.Random, float], tuple[list[Operation], list[Fault]]]] = {
    3: _other_victim,
    5: _gone_owner,
    7: _other_victim,
}
"""Remainder of the seed → the generator of a rare script."""
