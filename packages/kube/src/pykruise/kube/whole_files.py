"""Files that are replaced as a whole, because other programs may read them at any time.

path, text ──▶ replace_file() ──▶ a new file beside it ──▶ the file
"""

import os
import tempfile
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a file atomically: other programs read the old text or the new one. `mode`: permissions of the file.

    Raises OSError when the file cannot be written; then an existing file stays unchanged.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # created with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, mode)
            file.write(text)
            file.flush()
            os.fsync(handle)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
