"""Functions that generators of scripts share: containers, paces, and operations on pods and nodes of any workload.

random.Random ──▶ a generator of a kind ──▶ these ──▶ parts of its Script
"""

import random
from collections.abc import Callable, Iterable
from typing import Any

from simulation.script import Fault, Operation, Script

__all__ = [
    "Chooser",
    "claim",
    "containers",
    "image_faults",
    "kruise_object",
    "pace",
    "scripted",
    "with_pods",
    "writers",
]


class Chooser:
    """Collects operations at random times. `length_s`: the time in which operations happen."""

    def __init__(self, rng: random.Random, length_s: float) -> None:
        self.rng = rng
        self.found: list[Operation] = []
        self._length_s = length_s
        self._begin_s = rng.choice((0.0, 15.0))

    def add(self, do: str, **args: Any) -> float:
        """Add an operation, and return its time."""
        at = round(self._begin_s + self.rng.uniform(0, self._length_s), 2)
        self.found.append(Operation(at, do, args))
        return at

    def some_of(self, choices: list[Callable[[], object]]) -> None:
        """Some of these operations, and their usual successors."""
        for _ in range(self.rng.choice((1, 2, 3, 5, 8))):
            self.rng.choice(choices)()
        for operation in tuple(self.found):
            self._follow_up(operation)

    def _follow_up(self, operation: Operation) -> None:
        rng = self.rng
        later = round(operation.at + rng.uniform(1, 40), 2)
        if operation.do == "rolling" and operation.args.get("paused") and rng.random() < 0.7:
            self.found.append(Operation(later, "rolling", {"paused": False}))
        elif operation.do == "drain" and rng.random() < 0.7:
            self.found.append(Operation(later, "uncordon", {"node": operation.args["node"]}))
        elif operation.do == "taint" and rng.random() < 0.6:
            self.found.append(Operation(later, "untaint", {"node": operation.args["node"]}))
        elif operation.do == "node_down" and rng.random() < 0.7:
            self.found.append(Operation(later, "node_up", operation.args))
        elif operation.do == "bad_image" and rng.random() < 0.5:
            self.found.append(Operation(later, "fix_images"))

    def maybe_deleted(self, share: float) -> None:
        """The workload is deleted, and sometimes created again."""
        if self.rng.random() < share:
            at = self.add("delete_set", policy=self.rng.choice(("Background", "Foreground", "Orphan")))
            if self.rng.random() < 0.6:
                self.found.append(Operation(at + self.rng.uniform(0.5, 30), "create_set"))

    def maybe_on_delete(self, share: float, **args: Any) -> None:
        """Pods are updated only when they are deleted, and there is an update."""
        if self.rng.random() < share:
            at = self.add("strategy", type="OnDelete", **args)
            self.found.append(Operation(round(at + 5, 2), "image", {"tag": self.rng.choice((1, 2, 3))}))


def kruise_object(kind: str, spec: dict[str, Any], *, name: str = "web") -> dict[str, Any]:
    """An object of one of OpenKruise's kinds."""
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def scripted(
    rng: random.Random, seed: int, *, operations: Iterable[Operation], faults: Iterable[Fault], **fields: Any
) -> Script:
    """The script of a seed, in order of time, with random paces. `fields`: further fields of the Script."""
    return Script(
        seed=seed,
        operations=tuple(sorted(operations, key=lambda operation: operation.at)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        **fields,
        **pace(rng),
    )


def containers(rng: random.Random) -> list[dict[str, str]]:
    """One container, or two."""
    containers = [{"name": "main", "image": "app:1"}]
    if rng.random() < 0.2:
        containers.append({"name": "side", "image": "app:1"})
    return containers


def claim(name: str) -> dict[str, Any]:
    """A claim template."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": {"name": name}, "spec": spec}


def pace(rng: random.Random) -> dict[str, Any]:
    """Durations, as settings of a Script."""
    return {
        "latency_s": rng.choice((0.005, 0.02, 0.2)),
        "hook_s": rng.choice((0.5, 3.0, 10.0)),
        "kubelet": {
            "start_s": rng.choice((0.2, 1.0, 5.0)),
            "ready_s": rng.choice((0.0, 0.5, 4.0)),
            "stop_s": rng.choice((0.1, 1.0, 8.0)),
        },
    }


def with_pods(chooser: Chooser) -> list[Callable[[], object]]:
    """Pods that go, or leave their workload."""
    rng, add = chooser.rng, chooser.add
    return [
        lambda: add("delete_pod", pod=rng.randrange(8), now=rng.random() < 0.3),
        lambda: add("delete_pod", pod=rng.randrange(8)),
        lambda: add("evict", pod=rng.randrange(8)),
        lambda: add("relabel", pod=rng.randrange(8)),
    ]


def writers(chooser: Chooser) -> list[Callable[[], object]]:
    """Other clients write to pods."""
    rng, add = chooser.rng, chooser.add
    return [
        lambda: add("touch", pod=rng.randrange(8), times=rng.choice((3, 20))),
        lambda: add("stale_condition", pod=rng.randrange(8)),
    ]


def image_faults(chooser: Chooser, nodes: int) -> list[Callable[[], object]]:
    """Nodes and images fail."""
    rng, add = chooser.rng, chooser.add
    ways = ("never ready", "pull", "crash", "slow")
    return [
        lambda: add("node_down", node=rng.randrange(nodes)),
        lambda: add("node_lost", node=rng.randrange(nodes)),
        lambda: add("bad_image", tag=rng.choice((2, 3)), how=rng.choice(ways)),
    ]
