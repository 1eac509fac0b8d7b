"""Texts as a person reads them, compared with files in tests/unit/cli/golden.

`PYKRUISE_GOLDEN=write pytest …` writes the files anew.
"""

import os
import re
from pathlib import Path

__all__ = ["same_as"]

GOLDEN = Path(__file__).parents[1] / "unit" / "cli" / "golden"


def same_as(name: str, told: str, *, namespace: str = "") -> None:
    """Compare with the golden file. Random parts of names stand there as their number of appearance, `namespace`
    as shop."""
    found: dict[str, str] = {}
    plain = told.replace(namespace, "shop") if namespace else told
    plain = re.sub(
        r"\b(web|agent)-([a-z0-9]{5}|[bcdfghjklmnpqrstvwxz2456789]{8,10})\b",
        lambda match: found.setdefault(match[0], f"{match[1]}-<{len(found) + 1}>"),
        plain,
    )
    plain = re.sub(r"pods of [bcdfghjklmnpqrstvwxz2456789]{8,10}:", "pods of <hash>:", plain)
    plain = plain.rstrip("\n") + "\n"
    path = GOLDEN / name
    if os.environ.get("PYKRUISE_GOLDEN") == "write":
        path.write_text(plain, "utf-8")
    assert plain == path.read_text("utf-8")
