"""Comparison of texts for people with files.

`PYKRUISE_GOLDEN=write pytest …` writes the files again.
"""

import difflib
import os
import re
from pathlib import Path

__all__ = ["same_as"]

COMMANDS = Path(__file__).parents[2] / "packages" / "pykruise" / "tests" / "cli" / "golden"
"""Folder with outputs of the commands."""

_HASH = "[bcdfghjklmnpqrstvwxz2456789]{8,10}"
_RANDOM = re.compile(rf"\b(web|agent)-((?:[a-z0-9]{{8,10}}-)?[a-z0-9]{{5}}|{_HASH})\b")
_AGES = re.compile(r"\(for [0-9hms]+\)|(?<=^  in )[0-9hms]+(?=:)", re.MULTILINE)


def same_as(file: str | Path, text: str, *, namespace: str = "", with_ages: bool = True) -> None:
    """Compare a text with a file; a name without a path is one of COMMANDS.

    Numbers in the order of appearance replace random parts of names, and `namespace` becomes shop. Without `with_ages`
    durations are not compared.
    """
    result: dict[str, str] = {}
    plain = text.replace(namespace, "shop") if namespace else text
    plain = _RANDOM.sub(lambda match: result.setdefault(match[0], f"{match[1]}-<{len(result) + 1}>"), plain)
    plain = re.sub(f"pods of {_HASH}:", "pods of <hash>:", plain)
    if not with_ages:
        plain = _AGES.sub(lambda match: "(for …)" if match[0].startswith("(") else "…", plain)
    plain = plain.rstrip("\n") + "\n"
    path = file if isinstance(file, Path) else COMMANDS / file
    if os.environ.get("PYKRUISE_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(plain, "utf-8")
    stored = path.read_text("utf-8").rstrip("\n") + "\n"
    if plain != stored:
        changes = difflib.unified_diff(stored.splitlines(), plain.splitlines(), "stored", "now", lineterm="")
        raise AssertionError("\n".join(changes))
