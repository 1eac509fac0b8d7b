"""Garbage collection of commands: rarely during the start, and as usual afterwards in commands that stay."""

import subprocess
import sys

SCRIPT = """
import gc
before = gc.get_threshold()
from pykruise.cli.garbage import collect_as_usual, collect_rarely
collect_rarely()
assert gc.get_threshold() > before, gc.get_threshold()
assert gc.get_freeze_count() == 0
collect_as_usual()
assert gc.get_threshold() == before, gc.get_threshold()
assert gc.get_freeze_count() > 1_000, gc.get_freeze_count()
"""


def test_garbage_is_collected_rarely_at_the_start_and_as_usual_later() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
