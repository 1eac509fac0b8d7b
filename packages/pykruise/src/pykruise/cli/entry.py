"""Entry point of the `pykruise` script.

`pykruise manager` runs for months beside others, so it goes straight to its own module: what reads the other
commands' options (click, and what that imports) would take a quarter of its memory.
"""

import gc
import sys

from pykruise.cli.garbage import collect_rarely


def main() -> None:
    """Run what the command line says; ends the process with the command's exit code."""
    if sys.argv[1:2] == ["manager"]:
        from pykruise.cli.manager import manager_command

        sys.exit(manager_command(sys.argv[2:]))
    collect_rarely()
    from pykruise.cli.main import main as run

    try:
        run()
    finally:
        gc.freeze()  # the process ends: what is alive need not be searched for garbage once more
