"""Scripted failures in a file: a list of rules in YAML, with errors that name their line.

    - image: "shop:2.*"
      node: node-1
      never_ready: true
      after_s: 30

path ──▶ read_rules() ──▶ rules (faults.py), or FaultsFileError("rules.yaml:3: [0].never_ready: ...")
     ──▶ follow_file()  ──▶ the new rules each time the file has changed
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Never

import yaml

from pykruise.kube.values.counts import format_count
from pykruise.sandbox.nodes.faults import Rule, parse_rules

_LOOK_S: Final = 1.0
"""Seconds between two checks of the file."""


class FaultsFileError(Exception):
    """The file cannot be used. The message is one line with file, line and field."""


def read_rules(path: Path) -> tuple[Rule, ...]:
    """Read the rules of a file; an empty file has none. Raises FaultsFileError."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as err:
        reason = getattr(err, "strerror", None) or str(err)
        raise FaultsFileError(f"{path}: cannot be read: {reason}") from err
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark
        line = f":{mark.line + 1}" if mark is not None else ""
        raise FaultsFileError(f"{path}{line}: invalid YAML: {err.problem}") from err
    except yaml.YAMLError as err:
        raise FaultsFileError(f"{path}: invalid YAML: {' '.join(str(err).split())}") from err
    if values is None:
        return ()
    if not isinstance(values, list):
        raise FaultsFileError(f"{path}:1: expected a list of rules; each rule begins with a dash")
    try:
        return parse_rules(values)
    except ValueError as err:
        raise FaultsFileError(_with_place(path, tree, str(err))) from err


@asynccontextmanager
async def follow_file(
    path: Path | None, use: Callable[[Sequence[Rule]], None], *, tell: Callable[[str], None]
) -> AsyncIterator[None]:
    """While this context is entered, call `use` with the new rules each time the file has changed. If the file cannot
    be used, the previous rules stay. `tell` is called with a line about each change and error. Without a `path`, no
    file is read.
    """
    if path is None:
        yield
        return
    task = asyncio.create_task(_follow_file(path, use, tell), name="failures")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _follow_file(
    path: Path, use: Callable[[Sequence[Rule]], None], tell: Callable[[str], None]
) -> Never:
    seen = await asyncio.to_thread(_read_stamp, path)
    while True:
        await asyncio.sleep(_LOOK_S)
        now = await asyncio.to_thread(_read_stamp, path)
        if now == seen:
            continue
        seen = now
        try:
            rules = await asyncio.to_thread(read_rules, path)
        except FaultsFileError as error:
            tell(f"{error}; the previous rules stay in effect")
        else:
            use(rules)
            tell(f"{path}: {format_count(len(rules), 'rule')} in effect from now on")


def _read_stamp(path: Path) -> tuple[int, int] | None:
    try:
        result = path.stat()
    except OSError:
        return None
    return result.st_mtime_ns, result.st_size


_PLACE: Final = re.compile(r"`\$((?:\[\d+\]|\.[A-Za-z_]+)*)`")
_UNKNOWN: Final = re.compile(r"unknown field `([^`]+)`")


def _with_place(path: Path, tree: Any, text: str) -> str:
    """Put the line of the error before its message."""
    match = _PLACE.search(text)
    steps = re.findall(r"\[(\d+)\]|\.([A-Za-z_]+)", match[1]) if match else []
    node, line = tree, 1
    names = ""
    unknown = _UNKNOWN.search(text)
    if unknown:
        steps.append(("", unknown[1]))
    for index, name in steps:
        names += f"[{index}]" if index else f".{name}"
        if isinstance(node, yaml.SequenceNode) and index:
            node = node.value[int(index)]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == name), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line + 1, pair[1]
    message = text.removeprefix("faults: ")
    message = re.sub(r" - at `[^`]*`$", "", message)
    message = re.sub(r"^`\$[^`]*`: ", "", message)
    if unknown:
        fields = ", ".join(Rule.__struct_fields__)
        message = f"unknown field; the fields are {fields}"
    return f"{path}:{line}: {names or 'rules'}: {message[:1].lower()}{message[1:]}"
