"""Lines of files that a function runs.

Tracer(files) ── with it on ──▶ lines: file ──▶ line numbers
"""

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["Lines", "tracing"]

Lines = dict[str, set[int]]


@contextmanager
def tracing(files: Collection[str]) -> Iterator[Lines]:
    """Trace the lines of these files that run in the block, in this thread."""
    result: Lines = {file: set() for file in files}

    def on_call(frame: FrameType, _event: str, _argument: Any) -> Any:
        lines = result.get(frame.f_code.co_filename)
        if lines is None:
            return None
        add = lines.add

        def on_line(frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "line":
                add(frame.f_lineno)
            return on_line

        return on_line

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield result
    finally:
        sys.settrace(before)
        for file in [file for file, lines in result.items() if not lines]:
            del result[file]
