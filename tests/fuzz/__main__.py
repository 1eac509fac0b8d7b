"""`make fuzz OBJECTS=2000 FIRST=0`: batches of invalid objects, half of them without the webhooks.

Each batch has its own cluster, so a finding names a batch that can be repeated.
"""

import argparse
import asyncio
import sys

from fuzz.hunt import Findings, hunt
from fuzz.mutants import mutants
from pykruise.sandbox.virtual_time import VirtualLoop

BATCH = 40


def play(seed: int, *, reviewed: bool, count: int = BATCH) -> Findings:
    """Play one batch in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(hunt(list(mutants(count, seed=seed)), reviewed=reviewed, seed=seed))


def main() -> int:
    """Play batches until this number of objects was sent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    problems = stored = sent = 0
    seed = options.first
    while sent < options.objects:
        for reviewed in (False, True):
            findings = play(seed, reviewed=reviewed)
            sent += BATCH
            stored += findings.stored
            problems += len(findings.problems)
            for problem in findings.problems:
                print(f"seed {seed}, {'with' if reviewed else 'without'} webhooks: {problem}", flush=True)
        seed += 1
    print(f"{sent} objects sent, {stored} stored, {problems} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
