"""Commands of other programs: pykruise runs `explain`, `plan`, `simulate` and `doctor`, kubectl runs `apply`, `patch`
and others.

name, arguments ──▶ to_pykruise(), to_kubectl() ──▶ exit code
"""

import shutil
from collections.abc import Sequence

from pykruise.cli.kubectl.session import Surroundings


def to_pykruise(path: Sequence[str], arguments: Sequence[str], around: Surroundings) -> int:
    """Run a command of `pykruise` with the same arguments. Return its exit code."""
    from pykruise.cli.main import run_app

    return run_app([*path, *arguments], program=around.program)


def to_kubectl(path: Sequence[str], arguments: Sequence[str], around: Surroundings) -> int:
    """Replace this process by kubectl. Without kubectl: write an error line and return 1."""
    program = shutil.which("kubectl", path=around.environ.get("PATH"))
    if program is not None:
        return around.become(program, [program, *path, *arguments])
    around.err(f"error: {' '.join(path)} needs kubectl, which is not in PATH\n")
    return 1
