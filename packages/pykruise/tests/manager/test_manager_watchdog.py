"""The watchdog: it logs the stack of a blocked event loop and ends the process, but not that of a busy one."""

import asyncio
import subprocess
import sys
import threading

import pytest

from pykruise.manager.watchdog import EXIT_CODE, Watchdog

BLOCKED = """
import asyncio, logging, sys, time
logging.basicConfig(stream=sys.stderr, level=logging.INFO)
from pykruise.manager.watchdog import Watchdog

def endless_computation():
    while True:
        time.sleep(0.01)

async def main():
    Watchdog(timeout_s=0.5, turn_s=0.1).start()
    await asyncio.sleep(0.3)
    print("blocking now", flush=True)
    endless_computation()

asyncio.run(main())
"""

LOCKED = """
import asyncio, ctypes
from pykruise.manager.watchdog import Watchdog

async def main():
    Watchdog(timeout_s=0.2, turn_s=0.05).start()
    await asyncio.sleep(0.2)
    ctypes.PyDLL(None).usleep(60_000_000)  # keeps the interpreter's lock

asyncio.run(main())
"""


def run(program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_blocked_loop_ends_the_process_with_a_stack_trace_in_the_log() -> None:
    done = run(BLOCKED)
    assert done.returncode == EXIT_CODE
    assert "blocking now" in done.stdout
    assert "the event loop has been blocked for 0.5 s; this process ends" in done.stderr
    assert "in endless_computation" in done.stderr


def test_code_that_keeps_the_interpreter_s_lock_is_ended_too() -> None:
    done = run(LOCKED)
    assert done.returncode != 0
    assert "in main" in done.stderr


@pytest.mark.real_time
async def test_a_running_loop_is_not_reported_as_blocked() -> None:
    # given
    blocked: list[str] = []
    beats = threading.Event()
    watchdog = Watchdog(timeout_s=0.2, turn_s=0.02, on_blocked=blocked.append)
    # when the loop is busy, but not blocked
    watchdog.start()
    for _ in range(20):
        await asyncio.sleep(0.02)
    watchdog.stop()
    # then
    assert blocked == []
    assert not beats.is_set()
