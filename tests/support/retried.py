"""`python -m support.retried [CACHE]`: counts and lists the tests that failed and are repeated.

pytest's cache of the last run ──▶ one line per test ──▶ exit 1 if there are more than PYKRUISE_MOST_RETRIED

Many tests wait for real programs, and the machine may be shared. So one failure proves nothing, but several do.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["main"]


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """The exit code. Without a limit everything may be tried again. `argv`: another cache_dir of pytest."""
    cache = Path(*(argv or [".pytest_cache"]), "v/cache/lastfailed")
    failed = sorted(json.loads(cache.read_text())) if cache.exists() else []
    most = environ.get("PYKRUISE_MOST_RETRIED")
    print(f"{len(failed)} failed, and are tried once more" + (f" (at most {most} may)" if most else ""))
    for item in failed:
        print(f"  {item}")
    return int(most is not None and len(failed) > int(most))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
