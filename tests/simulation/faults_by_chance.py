"""Random faults: the same for every kind.

random.Random ──▶ faults_by_chance() ──▶ Faults

Some seeds have many faults and some hardly any: calm ones, in which rules are strictest, are as frequent as wild ones.
"""

import random
from collections.abc import Sequence

from pykruise.testing.simulation.network import REQUEST_FAULTS
from simulation.script import Fault

__all__ = ["faults_by_chance"]


def faults_by_chance(
    rng: random.Random, length_s: float, *, paths: Sequence[str], watches: Sequence[str]
) -> list[Fault]:
    """Random faults of this number of seconds: requests by parts of their `paths`, watches of `watches`,
    managers."""
    faults: list[Fault] = []
    share = rng.choice(("calm", "calm", "some", "wild"))

    def at() -> float:
        return round(rng.uniform(0, length_s + 15), 2)

    for _ in range({"calm": rng.choice((0, 1)), "some": 3, "wild": 8}[share]):
        sort = rng.random()
        if sort < 0.5:
            kind = rng.choice(REQUEST_FAULTS)
            faults.append(
                Fault(at(), kind, rng.choice(paths), rng.choice((1, 1, 2, 5)), rng.choice((0.5, 3.0, 20.0)))
            )
        elif sort < 0.85:
            kind = rng.choice(
                ("cut", "cut", "gone", "end", "garbage", "delay", "delay", "stall", "duplicate", "swap")
            )
            faults.append(
                Fault(
                    at(),
                    kind,
                    rng.choice(watches),
                    rng.choice((1, 1, 3)),
                    rng.choice((0.3, 2.0, 15.0, 60.0)),
                )
            )
        else:
            kind = rng.choice(
                ("crash", "crash", "crash", "second leader", "clock jump", "compact", "graceful restart")
            )
            seconds = {
                "clock jump": rng.choice((-3600.0, -20.0, 5.0, 60.0)),
                "second leader": rng.choice((1.0, 10.0)),
            }.get(kind, rng.choice((0.0, 1.0, 20.0)))
            faults.append(Fault(at(), kind, "", rng.randrange(1, 200), seconds))
    return faults
