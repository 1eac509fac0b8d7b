"""Minor whose turn it is: `python -m testbed.turns` prints a minor, another each day.

day of the year ──▶ minor_in_turn() ──▶ its name, or nothing and a note, where its control plane has not been built

Nothing is built: a build takes minutes, which a run of continuous integration does not have.
"""

import sys
import time
from collections.abc import Sequence
from typing import Final

from testbed.build import CONTROL_PLANE, is_built

TRIED_WHOLE: Final = ("1.32", "1.37")
"""Minors on which all tests run anyway."""


def minor_in_turn(minors: Sequence[str], day: int) -> str:
    """The minor of this day of the year, of those on which nothing runs otherwise."""
    others = [minor for minor in minors if minor not in TRIED_WHOLE]
    return others[day % len(others)]


def main() -> int:
    """Print it; a note on standard error where it cannot be used."""
    minor = minor_in_turn(CONTROL_PLANE.minors, time.gmtime().tm_yday)
    if not is_built(minor):
        build = f"python testbed/build.py --kubernetes {minor}"
        print(f"nothing runs on Kubernetes {minor}, whose turn it is: {build} builds it", file=sys.stderr)
        return 0
    print(minor)
    return 0


if __name__ == "__main__":
    sys.exit(main())
