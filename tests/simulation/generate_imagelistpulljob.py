"""A random script: an ImageListPullJob whose images and template change while its ImagePullJobs pull.

seed ──▶ generate() ──▶ Script
"""

import random
from typing import Any

from simulation.chance import Chooser, kruise_object, scripted
from simulation.faults_by_chance import faults_by_chance
from simulation.generate_imagepulljob import pull_operations, pull_spec
from simulation.script import Operation, Script

__all__ = ["generate"]

_IMAGES = ("app:1", "app:2", "app", "side:1", "side:2")
_PATHS = ("/imagepulljobs", "/imagepulljobs", "/imagelistpulljobs", "/imagelistpulljobs", "/nodeimages", "")
_WATCHES = ("/imagepulljobs", "/imagepulljobs", "/imagelistpulljobs", "/nodeimages")


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    rng = random.Random(f"imagelistpulljob-{seed}")
    spec = {"images": rng.sample(_IMAGES, rng.choice((1, 2, 3, 5))), **pull_spec(rng)}
    document = kruise_object("ImageListPullJob", spec)
    length_s = rng.choice((15.0, 60.0))
    script = scripted(
        rng,
        seed,
        operations=_operations(rng, document, length_s),
        faults=faults_by_chance(rng, length_s, paths=_PATHS, watches=_WATCHES),
        kind="imagelistpulljob",
        object=document,
        nodes=rng.choice((1, 2, 4)),
    )
    script.kubelet["pull_s"] = rng.choice((0.0, 0.5, 3.0, 20.0))
    return script


def _operations(rng: random.Random, document: dict[str, Any], length_s: float) -> list[Operation]:
    chooser = Chooser(rng, length_s)
    add, operations = chooser.add, chooser.found
    created_at = pull_operations(rng, chooser, document)
    chooser.some_of(
        [
            lambda: add("spec", images=rng.sample(_IMAGES, rng.choice((1, 2, 4)))),
            lambda: add("spec", images=rng.sample(_IMAGES, rng.choice((1, 2, 4)))),
            lambda: add("spec", pullPolicy={"backoffLimit": rng.choice((0, 1, 3))}),
            lambda: add("spec", imagePullPolicy=rng.choice(("Always", "IfNotPresent"))),
            lambda: add("delete_pull_job", number=rng.randrange(5)),
        ]
    )
    if rng.random() < 0.1:
        at = round(created_at + rng.uniform(0, length_s), 2)
        operations.append(Operation(at, "delete_set", {"policy": rng.choice(("Background", "Foreground"))}))
        if rng.random() < 0.6:
            operations.append(Operation(round(at + rng.uniform(0.5, 30), 2), "create_set"))
    return operations
