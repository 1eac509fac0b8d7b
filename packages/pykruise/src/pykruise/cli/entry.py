"""Entry point of the `pykruise` script.

`pykruise manager` runs for months beside others, so it goes straight to its own module: what reads the other
commands' options (click, and what that imports) would take a quarter of its memory.
"""

import gc
import sys

__all__ = ["main"]

_SHORT = frozenset({"plan", "explain", "simulate"})
"""Commands that end before there is garbage worth looking for: a tenth of their start would be looking for it."""


def main() -> None:
    """Run what the command line says; ends the process with the command's exit code."""
    if sys.argv[1:2] == ["manager"]:
        from pykruise.cli.manager import manager_command

        sys.exit(manager_command(sys.argv[2:]))
    if sys.argv[1:2] and sys.argv[1] in _SHORT:
        gc.set_threshold(100_000, 50, 1000)
    from pykruise.cli.main import main as run

    try:
        run()
    finally:
        gc.freeze()  # the process ends: what is alive need not be searched for garbage once more
