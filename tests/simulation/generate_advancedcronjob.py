"""A random script: an AdvancedCronJob, children that end or do not, clocks that jump, and other faults.

seed ──▶ generate() ──▶ Script
"""

import random
from typing import Any

from simulation.chance import Chooser, kruise_object, pace
from simulation.faults_by_chance import faults_by_chance
from simulation.script import Fault, Operation, Script

__all__ = ["generate"]

_PATHS = ("/jobs", "/jobs", "/advancedcronjobs", "/advancedcronjobs", "")
_WATCHES = ("/jobs", "/jobs", "/advancedcronjobs")
_SCHEDULES = ("*/5 * * * *", "*/5 * * * *", "*/10 * * * *", "@every 300s", "@every 400s", "@hourly")


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"advancedcronjob-{seed}")
    length_s = rng.choice((900.0, 1800.0, 5400.0))
    operations = _operations(rng, length_s)
    faults = faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES)
    if rng.random() < 0.3:
        at, seconds = round(rng.uniform(0, length_s), 2), rng.choice((-3600.0, -400.0, 400.0, 3600.0))
        faults.append(Fault(at, "clock jump", "", 1, seconds))
        if rng.random() < 0.5:
            faults.append(Fault(at + rng.choice((5.0, 700.0)), "clock jump", "", 1, -seconds))
    if rng.random() < 0.4:  # no manager runs at some of the times
        faults.append(
            Fault(round(rng.uniform(0, length_s), 2), "crash", "", 1, rng.choice((10.0, 800.0, 4000.0)))
        )
    return Script(
        seed=seed,
        kind="advancedcronjob",
        object=_cron(rng),
        nodes=0,
        operations=tuple(sorted(operations, key=lambda operation: operation.at)),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        **pace(rng),
    )


def _cron(rng: random.Random) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "main", "image": "app:1"}], "restartPolicy": "Never"}}
    spec: dict[str, Any] = {
        "schedule": rng.choice(_SCHEDULES),
        "concurrencyPolicy": rng.choice(("Allow", "Forbid", "Replace")),
        "successfulJobsHistoryLimit": rng.choice((0, 1, 3)),
        "failedJobsHistoryLimit": rng.choice((0, 1)),
        "template": {"jobTemplate": {"spec": {"template": pod}}},
    }
    if rng.random() < 0.2:
        spec["startingDeadlineSeconds"] = rng.choice((20, 100, 1000))
    return kruise_object("AdvancedCronJob", spec)


def _operations(rng: random.Random, length_s: float) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add = chooser.add
    for _ in range(rng.choice((0, 5, 20))):
        add("end_child", number=rng.randrange(4), how=rng.choice(("Complete", "Complete", "Failed")))
    chooser.some_of(
        [
            lambda: add("delete_child", number=rng.randrange(4)),
            lambda: add("delete_child", number=rng.randrange(4)),
            lambda: add("spec", paused=rng.random() < 0.5),
            lambda: add("spec", schedule=rng.choice(_SCHEDULES)),
            lambda: add("spec", concurrencyPolicy=rng.choice(("Allow", "Forbid", "Replace"))),
            lambda: add("spec", startingDeadlineSeconds=rng.choice((None, 20, 1000))),
            lambda: add("spec", successfulJobsHistoryLimit=rng.choice((0, 1, 3))),
            lambda: add("annotate", value=rng.randrange(9)),
        ]
    )
    if rng.random() < 0.1:
        at = add("delete_set", policy=rng.choice(("Background", "Foreground")))
        if rng.random() < 0.6:
            chooser.found.append(Operation(round(at + rng.uniform(0.5, 30), 2), "create_set"))
    return chooser.found
