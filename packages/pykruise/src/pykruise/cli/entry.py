"""Entry point of the `pykruise` script.

`pykruise manager` runs for months, so it imports only its own module: the modules that parse the options of other
commands (click and its imports) would use a quarter of the manager's memory.
"""

import gc
import sys

from pykruise.cli.garbage import collect_rarely


def main() -> None:
    """Run the command line, and end the process with the command's exit code."""
    if sys.argv[1:2] == ["manager"]:
        from pykruise.cli.manager import run_manager_command

        sys.exit(run_manager_command(sys.argv[2:]))
    collect_rarely()
    from pykruise.cli.main import main as run

    try:
        run()
    finally:
        gc.freeze()  # the process ends: another garbage collection of living objects is useless
