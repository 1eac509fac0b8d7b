"""Texts as a person reads them, kept in files.

`PYKRUISE_GOLDEN=write pytest …` writes them anew.
"""

import os
import re
from pathlib import Path

_RANDOM = re.compile(r"\bweb-(?:[a-z0-9]{8,10}-)?[a-z0-9]{5}\b")
_AGES = re.compile(r"\(for [0-9hms]+\)|(?<=^  in )[0-9hms]+(?=:)", re.MULTILINE)


def same_as(path: Path, told: str, *, with_ages: bool = True) -> None:
    """Compare with the file. Random parts of names stand there as their number of appearance.

    Without `with_ages` it does not matter how long something lasts.
    """
    found: dict[str, str] = {}
    plain = _RANDOM.sub(lambda match: found.setdefault(match[0], f"web-<{len(found) + 1}>"), told)
    if not with_ages:
        plain = _AGES.sub(lambda match: "(for …)" if match[0].startswith("(") else "…", plain)
    if os.environ.get("PYKRUISE_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(plain, "utf-8")
    assert plain == path.read_text("utf-8")
