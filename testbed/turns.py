"""The minor of the day: `python -m testbed.turns` prints another minor each day.

day of the year ──▶ find_minor_in_turn() ──▶ its name, or only a note if its control plane has not been built

It builds nothing: a build takes minutes, for which a CI run has no time.
"""

import sys
import time
from collections.abc import Sequence
from typing import Final

from testbed.build import CONTROL_PLANE, is_built

TRIED_WHOLE: Final = ("1.32", "1.37")
"""Minors on which all tests run in any case."""


def find_minor_in_turn(minors: Sequence[str], day: int) -> str:
    """Return the minor for this day of the year, among those that are not tested otherwise."""
    others = [minor for minor in minors if minor not in TRIED_WHOLE]
    return others[day % len(others)]


def main() -> int:
    """Print the minor, or a note on standard error if it cannot be used."""
    minor = find_minor_in_turn(CONTROL_PLANE.minors, time.gmtime().tm_yday)
    if not is_built(minor):
        build = f"python testbed/build.py --kubernetes {minor}"
        print(f"nothing runs on Kubernetes {minor}, whose turn it is: {build} builds it", file=sys.stderr)
        return 0
    print(minor)
    return 0


if __name__ == "__main__":
    sys.exit(main())
