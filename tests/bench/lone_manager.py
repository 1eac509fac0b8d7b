"""`pykruise manager` as in a pod of a cluster, with a measured event loop: the process that large.py measures.

service account (a folder) ──▶ run_process ──▶ API server
line on standard input ──▶ one line of JSON on standard output: the longest stop since the last one, memory, CPU

PYTHONPATH=tests python -m bench.lone_manager FOLDER [flags of the manager]. It imports only modules that
the command imports, so that its memory is that of a manager. With PROFILE in its environment it also takes a sample
every few milliseconds of CPU time, and appends the samples to this file with every output. With WHERE it reports the
place of the longest stop. For this a thread examines the loop, which costs CPU; such a process crashed once.
"""

import asyncio
import gc
import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType

import msgspec
import uvloop

from bench.orphans import end_with_parent
from pykruise.cli.manager import read_flags
from pykruise.kinds.cloneset.kind import KIND
from pykruise.kinds.cloneset.snapshot import CloneSetSnapshot
from pykruise.kube.config.kubeconfig import load_in_cluster
from pykruise.kube.program.logs import set_up
from pykruise.kube.program.process import stop_on_signals
from pykruise.manager.process import run_process
from pykruise.runtime.plan import Plan

LOOK_S = 0.005

SAMPLE_S = 0.002
"""Seconds of CPU time between two samples of a profile; the kernel's clock may be slower."""


class LoopWatch:
    """The maximum CPU time of this thread between two iterations of its loop, and the place.

    CPU time, so that other work on the machine does not count; it includes the garbage collector. The time is read
    every `LOOK_S`, and the time used since the last read counts as one stop, which may be too long by up to
    `LOOK_S`.
    """

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.waited_s = 0.0
        """The longest time between two iterations, including that of other threads and processes."""
        self.where = ""
        self.collecting_s = 0.0
        """The longest garbage collection."""
        self._thread = threading.get_ident()
        self._turn = 0
        self._seen: tuple[int, str] = (0, "")
        self._collection_began = 0.0
        gc.callbacks.append(self._on_collection)

    async def run(self) -> None:
        """Measure until cancelled."""
        if os.environ.get("WHERE"):
            threading.Thread(target=self._look, daemon=True).start()
        while True:
            self._turn += 1
            before, began = time.thread_time(), time.perf_counter()
            await asyncio.sleep(LOOK_S)
            used = time.thread_time() - before
            self.waited_s = max(self.waited_s, time.perf_counter() - began - LOOK_S)
            if used > self.longest_s:
                self.longest_s = used
                self.where = self._seen[1] if self._seen[0] == self._turn else ""

    def _look(self) -> None:
        """Record the place of the loop if an iteration takes long."""
        turn, seen = self._turn, Counter[str]()
        while True:
            time.sleep(0.005)
            if turn != self._turn:
                turn, seen = self._turn, Counter()
                continue
            stack = traceback.extract_stack(sys._current_frames().get(self._thread), limit=7)
            seen[
                " > ".join(
                    f"{Path(frame_summary.filename).name}:{frame_summary.name}"
                    for frame_summary in stack[-2:]
                )
            ] += 1
            self._seen = (turn, ", ".join(f"{count} {where}" for where, count in seen.most_common(4)))

    def _on_collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collection_began = time.thread_time()
        else:
            self.collecting_s = max(self.collecting_s, time.thread_time() - self._collection_began)

    def report(self) -> dict[str, object]:
        """Figures since the last report."""
        report: dict[str, object] = {
            "stop_ms": self.longest_s * 1000,
            "wait_ms": self.waited_s * 1000,
            "where": self.where,
            "collection_ms": self.collecting_s * 1000,
            "rss_mb": _rss_mb(),
            "cpu_s": time.process_time(),
        }
        self.longest_s = self.collecting_s = self.waited_s = 0.0
        return report


class Plans:
    """Number of plans of CloneSets, the CPU time of all of them and of the longest."""

    def __init__(self) -> None:
        self.count = 0
        self.sum_s = 0.0
        self.longest_s = 0.0
        control = KIND.control
        assert control is not None
        plan = control.plan

        def timed(snapshot: CloneSetSnapshot) -> Plan:
            began = time.thread_time()
            try:
                return plan(snapshot)
            finally:
                took = time.thread_time() - began
                self.count += 1
                self.sum_s += took
                self.longest_s = max(self.longest_s, took)

        msgspec.structs.force_setattr(control, "plan", timed)

    def report(self) -> dict[str, float]:
        """Figures since the last report; times in milliseconds."""
        report = {
            "plans": self.count,
            "plans_ms": self.sum_s * 1000,
            "longest_plan_ms": self.longest_s * 1000,
        }
        self.count, self.sum_s, self.longest_s = 0, 0.0, 0.0
        return report


class Samples:
    """CPU use of the process by function: its own share, and that of all functions that it calls."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._own: Counter[str] = Counter()
        self._whole: Counter[str] = Counter()
        self._count = 0
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)

    def _sample(self, _: int, frame: FrameType | None) -> None:
        self._count += 1
        seen: set[str] = set()
        while frame is not None:
            code = frame.f_code
            name = f"{'/'.join(Path(code.co_filename).parts[-2:])}:{code.co_qualname}"
            if not seen:
                self._own[f"{name}:{frame.f_lineno}"] += 1
            if name not in seen:
                seen.add(name)
                self._whole[name] += 1
            frame = frame.f_back

    def write(self) -> None:
        """Append the samples since the last call."""
        # Samples go on while this writes.
        count, own, whole = self._count or 1, self._own, self._whole
        self._count, self._own, self._whole = 0, Counter(), Counter()
        with self._file.open("a") as file:
            for title, result in (("whole", whole), ("own", own)):
                file.write(f"── {title}, of {count} samples\n")
                file.writelines(f"{n / count:7.1%} {name}\n" for name, n in result.most_common(120))


def _rss_mb() -> float:
    """Resident memory of this process and its child processes."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return sum(map(_resident, ("self", *children))) * resource.getpagesize() / 2**20


def _resident(pid: str) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


async def _answer(watch: LoopWatch, plans: Plans, samples: Samples | None) -> None:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while await reader.readline():
        print(json.dumps({**watch.report(), **plans.report()}), flush=True)
        if samples is not None:
            samples.write()


async def main() -> None:
    """Run the manager until it is killed."""
    parsed = read_flags(sys.argv[2:])
    set_up(parsed.settings.log)
    connection = load_in_cluster(environ=os.environ, service_account=Path(sys.argv[1]))
    watch, plans, stopping = LoopWatch(), Plans(), asyncio.Event()
    stop_on_signals(stopping.set)
    samples = Samples(Path(os.environ["PROFILE"])) if os.environ.get("PROFILE") else None
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(watch.run())
        tasks.create_task(_answer(watch, plans, samples))
        tasks.create_task(run_process(connection, parsed.settings, stopping=stopping))


if __name__ == "__main__":
    end_with_parent()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
