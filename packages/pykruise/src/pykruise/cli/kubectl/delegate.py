"""Commands of other programs: `explain`, `plan`, `simulate`, `doctor` of pykruise, `apply`, `patch`, … of kubectl.

name, arguments ──▶ to_pykruise(), to_kubectl() ──▶ exit code
"""

import shutil
from collections.abc import Sequence

from pykruise.cli.kubectl.session import Surroundings


def to_pykruise(path: Sequence[str], arguments: Sequence[str], around: Surroundings) -> int:
    """A command of `pykruise`, with the same arguments and exit codes."""
    from pykruise.cli.main import run_app

    return run_app([*path, *arguments], program=around.program)


def to_kubectl(path: Sequence[str], arguments: Sequence[str], around: Surroundings) -> int:
    """Becomes kubectl; 1 and a line when there is none."""
    program = shutil.which("kubectl", path=around.environ.get("PATH"))
    if program is not None:
        return around.become(program, [program, *path, *arguments])
    around.err(f"error: {' '.join(path)} is kubectl's own, and there is no kubectl in PATH\n")
    return 1
