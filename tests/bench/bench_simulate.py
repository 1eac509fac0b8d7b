"""Cost of an hour of rollout in `pykruise simulate`: the whole command, and its parts. Prints; asserts nothing.

manifests of N pods, one replaced at a time ──▶ the command in its own process, several times ──▶ CPU seconds

PYTHONPATH=tests python -m bench.bench_simulate [--pods 60] [--runs 3]

CPU times are longer on a busy machine. So the bench also measures a fixed loop, and runs are compared by their ratio
to it. Modules are compiled before, as in an installed package.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

sys.path[:0] = [str(Path(__file__).parents[1])]

from support.scenario import cloneset, rolling  # noqa: E402

_COMMAND = "from pykruise.cli.entry import main; main()"
_START = """
import gc
gc.set_threshold(100_000, 50, 1000)  # as pykruise.cli.entry does
import pykruise.cli.main, pykruise.cli.simulate
gc.freeze()
"""
_LOOP = 3_000_000


def main() -> None:
    """Measure, and print a line for each run."""
    parser = argparse.ArgumentParser(description="Measure `pykruise simulate`.")
    parser.add_argument("--pods", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arguments = _manifests(Path(folder), asked.pods)
        compiled = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
        compiled.pop("PYTHONDONTWRITEBYTECODE", None)
        _cpu_s(_START, [], compiled)
        for number in range(1, asked.runs + 1):
            loop_s = _loop_s()
            start_s = _cpu_s(_START, [], compiled)
            whole_s = _cpu_s(_COMMAND, ["simulate", *arguments], compiled)
            loop_s = (loop_s + _loop_s()) / 2
            print(
                f"run {number}: an hour of {asked.pods} pods {whole_s:.2f} s CPU (of it starting {start_s:.2f} s); "
                f"{whole_s / loop_s:.1f} times a fixed loop ({loop_s:.2f} s)"
            )


def _manifests(folder: Path, pods: int) -> list[str]:
    """Arguments of a simulation of an hour: the start of a pod takes the time for which all of them need an
    hour."""
    files = []
    for name, image in (("app.yaml", "nginx:1"), ("new.yaml", "nginx:2")):
        files.append(folder / name)
        document = cloneset(replicas=pods, image=image, updateStrategy=rolling(maxUnavailable=1))
        files[-1].write_text(yaml.safe_dump(document), "utf-8")
    return ["-f", str(files[0]), "--change", str(files[1]), "--pods-ready-after", f"{3600 / pods - 1:.3f}s"]


def _cpu_s(code: str, arguments: list[str], environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", code, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _loop_s() -> float:
    started, total = time.process_time(), 0
    for number in range(_LOOP):
        total += number * number % 7
    return time.process_time() - started


if __name__ == "__main__":
    main()
