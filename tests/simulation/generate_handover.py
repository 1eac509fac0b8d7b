"""A random script in which the leader changes while the standbys' watches lag.

seed ──▶ generate() ──▶ Script of kind handover, with two or three managers that take part in leader election
seed ──▶ generate_slots() ──▶ Script of kind slots, with two to four managers that share the work
"""

import random

import msgspec

from pykruise.testing.simulation.network import REQUEST_FAULTS
from simulation.chance import kruise_object
from simulation.script import Fault, Operation, Script

__all__ = ["generate", "generate_slots"]

LEASE_S = 15.0


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"handover-{seed}")
    at = round(rng.uniform(8, 12), 2)
    operations, faults = [], []
    for number in range(rng.choice((1, 2, 3))):
        operations.append(_change(rng, at, number))
        # The leader goes in the middle of what follows, and the standby gets the events late.
        moment = round(at + rng.uniform(0.0, 1.5), 2)
        if rng.random() < 0.8:
            kind, seconds = rng.choice((("delay", 5.0), ("delay", 30.0), ("stall", 0.0)))
            faults.append(
                Fault(round(at - rng.uniform(0.0, 2.0), 2), kind, "/pods", rng.choice((1, 4, 12)), seconds)
            )
        faults.append(
            Fault(moment, rng.choice(("kill leader", "stop leader", "cut leader")), "", 1, LEASE_S + 5.0)
        )
        if rng.random() < 0.3:
            lost = rng.choice(REQUEST_FAULTS)
            faults.append(
                Fault(round(moment - 0.3, 2), lost, "/pods", rng.choice((1, 3)), rng.choice((0.5, 3.0)))
            )
        at = round(at + rng.uniform(20, 60), 2)
    return Script(
        seed=seed,
        kind="handover",
        object=_cloneset(rng),
        nodes=3,
        managers=rng.choice((2, 2, 3)),
        operations=tuple(operations),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        latency_s=rng.choice((0.005, 0.05, 0.3)),
        kubelet={"start_s": 0.5, "ready_s": 0.5, "stop_s": rng.choice((0.1, 3.0))},
    )


def generate_slots(seed: int) -> Script:
    """The same for managers that share the work: the manager that owns the CloneSet ends."""
    script = generate(seed)
    rng = random.Random(f"slots-{seed}")
    return msgspec.structs.replace(script, kind="slots", shares=True, managers=rng.choice((2, 3, 4)))


def _change(rng: random.Random, at: float, number: int) -> Operation:
    if rng.random() < 0.6:
        return Operation(at, "scale", {"replicas": rng.choice((6, 9, 12))})
    return Operation(at, "image", {"tag": number + 2})


def _cloneset(rng: random.Random) -> dict[str, object]:
    rolling = {
        "podUpdatePolicy": rng.choice(("ReCreate", "InPlaceIfPossible")),
        "maxUnavailable": rng.choice((1, 2)),
        "maxSurge": rng.choice((0, 0, 1)),
    }
    spec = {
        "replicas": rng.choice((2, 4)),
        "selector": {"matchLabels": {"app": "web"}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "app:1"}]},
        },
    }
    return kruise_object("CloneSet", spec)
