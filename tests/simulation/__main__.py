"""Play many seeds, and find the shortest script of each failure.

make simulate SEEDS=100000            seeds 0 to 99999, on all cores
python -m simulation --first 5 --seeds 1 --trace
python -m simulation --replay tests/simulation/found/name.json --trace
"""

import argparse
import gc
import logging
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

from simulation.kinds import GENERATORS, generate
from simulation.script import from_json, to_json
from simulation.shrinking import shrink
from simulation.world import Outcome, run

COLLECT_EVERY = 10


def main() -> int:
    """Exit code 0: no seed failed. All the seeds are played for each of the kinds."""
    arguments = _arguments()
    logging.disable(logging.CRITICAL)
    if arguments.replay:
        outcome = run(from_json(Path(arguments.replay).read_bytes()))
        show(outcome, trace=arguments.trace)
        return bool(outcome.violations)
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.trace:
        for kind, seed in product(arguments.kind, seeds):
            print(to_json(generate(seed, kind)))
            show(run(generate(seed, kind)), trace=True)
        return 0
    out, most = Path(arguments.out), arguments.most
    return max(
        _hunt(seeds, kind=kind, processes=arguments.processes, out=out, most=most) for kind in arguments.kind
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kind", nargs="+", default=["cloneset"], choices=sorted(GENERATORS))
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", default="simulation-found", help="where failing scripts are written to")
    parser.add_argument("--most", type=int, default=20, help="stop after so many failures")
    parser.add_argument("--replay", help="play the script of this file")
    parser.add_argument("--trace", action="store_true", help="print every write")
    return parser.parse_args()


def _hunt(seeds: range, *, kind: str, processes: int, out: Path, most: int) -> int:
    begun = time.monotonic()
    rules: Counter[str] = Counter()
    done = 0
    with ProcessPoolExecutor(processes, initializer=_begin) as pool:
        for seed, rule, text in pool.map(partial(_try, kind=kind), seeds, chunksize=8):
            done += 1
            if done % 100 == 0:
                passed = time.monotonic() - begun
                failures = sum(rules.values())
                print(f"{done} seeds, up to {seed}: {failures} failures, {passed:.0f} s", flush=True)
            if not rule:
                continue
            rules[rule] += 1
            print(f"seed {seed}: {text}", flush=True)
            if rules[rule] == 1 and not rule.startswith("exception"):
                out.mkdir(exist_ok=True)
                path = out / f"{kind}-{rule.replace(' ', '-')}-{seed}.json"
                path.write_text(to_json(shrink(generate(seed, kind), rule)))
                print(f"  shrunk to {path}", flush=True)
            if sum(rules.values()) >= most:
                pool.shutdown(cancel_futures=True)
                break
    print(f"{done} seeds in {time.monotonic() - begun:.0f} s: {dict(rules) or 'nothing found'}")
    return 1 if rules else 0


def _begin() -> None:
    """Prepare each process: the garbage collector examines only objects that are created from now on."""
    logging.disable(logging.CRITICAL)
    run(generate(0))
    gc.collect()
    gc.freeze()
    gc.disable()


def _try(seed: int, *, kind: str) -> tuple[int, str, str]:
    if seed % COLLECT_EVERY == 0:
        gc.collect()
    try:
        outcome = run(generate(seed, kind))
    except Exception as error:  # a simulator that falls over is a failure like any other
        return seed, f"exception {type(error).__name__}", f"{type(error).__name__}: {error}"
    return seed, outcome.rule, str(outcome.violations[0]) if outcome.violations else ""


def show(outcome: Outcome, *, trace: bool) -> None:
    """Print how a script went."""
    if trace:
        print("\n".join(outcome.trace))
    print(f"{outcome.seconds:.0f} virtual seconds, {outcome.writes} writes by managers")
    for violation in outcome.violations:
        print(violation)


if __name__ == "__main__":
    sys.exit(main())
