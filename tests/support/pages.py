"""Pages of the documentation as sessions: their blocks run against their own cluster.

page ──▶ read_page() ──▶ Page(steps) ──▶ play(page, folder) ──▶ [differences from the page]

A page is played from its top to its end, in one folder and with a cluster of its own. Its blocks are

    console   commands after `$ `, each with its whole output
    sh        commands that must succeed; their output is not compared
    yaml      whole objects are applied; a part is merged into the page's first object
    python    run as a program; packages/sandbox/tests/testing runs tests that are not in a file
    text      not run: pictures, formulas

In outputs a line `…` matches any lines, and `…` in a line matches any text. Random ends of names, ages, times,
uids and the widths of columns are not compared. A command that only reads is repeated until its output is correct. If
an output shows a name with a random end, later commands use the real name in its place.

Comments, which readers do not see, contain:

    <!-- setup … -->                    commands, as in a console block
    <!-- apply … -->                    objects, as in a yaml block
    <!-- not run: why -->               the next block does not run
    <!-- cluster: nodes=5 plain -->     a new cluster from here on (options of HttpSandbox); `plain`: without the kinds
    <!-- failures: [{…}] -->            from here on
    <!-- file: web.yaml -->             the next block is a file that commands read
    <!-- from: examples/a.py -->        the next block is a part of that file, whose own tests play it
    <!-- at: spec.template.spec -->     where in its object the next block belongs
    <!-- with: {spec: {…}} -->          what the object needs beside it

With PYKRUISE_GOLDEN=write outputs that differ are written into the page.
"""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from pykruise.cli.kubectl.entry import run as run_kubectl_kruise
from pykruise.cli.kubectl.session import Surroundings
from pykruise.cli.kubectl.tree import lookup
from pykruise.cli.main import run_app
from pykruise.fixtures.server import KruiseServer
from pykruise.testing.http import HttpSandbox
from support.up import pauses
from support.yaml_documents import yaml_document, yaml_documents

__all__ = ["LANGUAGES", "PAGES", "ROOT", "Block", "Page", "commands_of", "play", "read_page", "same_output"]

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

OTHER_KINDS: Final = Path(__file__).with_name("other_kinds.yaml")
"""Definitions of kinds of other programs that pages apply objects of."""

PATIENCE_S: Final = 20.0
"""Seconds for which a command that only reads is repeated until its output is correct."""
WRITING_S: Final = 5.0
"""Seconds for which such a command is repeated when the outputs of the page are recorded."""
COMMAND_S: Final = 60.0


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A fenced block with what the comments before it say, or the commands of a comment (`setup`)."""

    language: str
    text: str
    line: int
    """The line of the page where the block begins."""
    notes: Mapping[str, str] = {}

    @property
    def not_run(self) -> str:
        """Why it is not run; empty: it is."""
        return self.notes.get("not run", "")

    @property
    def is_played(self) -> bool:
        is_test = self.language == "python" and "def test_" in self.text and "file" not in self.notes
        is_elsewhere = is_test or "from" in self.notes
        return self.language in _SHOWN | _HIDDEN and not self.not_run and not is_elsewhere

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command, or a script; `shown` is None where a page does not show its output."""

    line: str
    shown: str | None


class Page(msgspec.Struct, frozen=True):
    """A page and its blocks in order."""

    path: Path
    blocks: tuple[Block, ...]

    @property
    def is_played(self) -> bool:
        return any(block.is_played and block.language in _SHOWN for block in self.blocks)


_HIDDEN: Final = frozenset({"setup", "apply", "failures", "cluster"})
"""Comments that are played like blocks."""
_SHOWN: Final = frozenset({"console", "sh", "yaml", "python"})
LANGUAGES: Final = _SHOWN | {"text"}
_PART: Final = re.compile(
    r"^<!-- (?P<note>setup|apply|not run|cluster|failures|file|from|at|with)\b:?(?P<said>.*?)-->$"
    r"|^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)


def read_page(path: Path) -> Page:
    """The page as blocks."""
    text = path.read_text("utf-8")
    blocks: list[Block] = []
    notes: dict[str, str] = {}
    for part in _PART.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        note, said = part["note"], (part["said"] or "").strip()
        if note in _HIDDEN:
            blocks.append(Block(language=note, text=said + "\n", line=line))
        elif note:
            notes[note] = said
        else:
            blocks.append(Block(language=part["language"], text=part["text"], line=line, notes=notes))
            notes = {}
    return Page(path, tuple(blocks))


def commands_of(block: Block) -> list[Command]:
    """The commands of a block; a backslash at the end of a line continues it."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "sh":
        return [Command(line=script, shown=None) for script in _scripts(lines)]
    commands: list[Command] = []
    for line in lines:
        if line.startswith("$ "):
            commands.append(Command(line=line[2:], shown="" if block.language == "console" else None))
        elif commands:
            last = commands[-1]
            commands[-1] = Command(line=last.line, shown=f"{last.shown}\n{line}" if last.shown else line)
    return commands


def _scripts(lines: Sequence[str]) -> Iterator[str]:
    """The lines as scripts: a command that runs until Ctrl-C is separate."""
    script: list[str] = []
    for line in lines:
        if not _STAYS.match(line):
            script.append(line)
            continue
        if script:
            yield "\n".join(script)
        script = []
        yield line
    if script:
        yield "\n".join(script)


# ── comparing ────────────────────────────────────────────────────────────────

_SAFE: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_MASKS: Final = (
    (re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(\.[0-9]+)?Z"), "TIME"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    # Not the random end of a name, such as web-2457s.
    (re.compile(r"(?<![\w-])([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+\b"), "AGE"),
    (re.compile(r"127\.0\.0\.1:[0-9]+"), "127.0.0.1:PORT"),
    (re.compile(r"(?<=\S)  +"), "  "),
)
_NAME: Final = re.compile(rf"(\b[a-z][a-z0-9-]*-{_SAFE}{{5}}\b)")


def _masked(line: str) -> str:
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    return line.rstrip()


def same_output(shown: str, said: str) -> dict[str, str] | None:
    """Whether an output matches the page by the rules above: the real names for those on the page; otherwise
    None."""
    names: list[str] = []
    pattern = "\n".join(_pattern(_masked(line), names) for line in shown.strip("\n").splitlines())
    match = re.fullmatch(pattern, "\n".join(_masked(line) for line in said.strip("\n").splitlines()))
    if match is None:
        return None
    came: dict[str, str] = {}
    for name, value in zip(names, match.groups(), strict=True):
        came.setdefault(name, value)
    return came


def _pattern(line: str, names: list[str]) -> str:
    """A line as an expression, with a group for each of its random names, which are added to `names`."""
    if line == "…":
        return r"(?:.*\n)*?.*"
    pattern = ""
    for part in _NAME.split(line):
        if _NAME.fullmatch(part):
            names.append(part)
            pattern += f"({re.escape(part[:-5])}{_SAFE}{{5}})"
        else:
            pattern += ".*".join(re.escape(text) for text in part.split("…"))
    return pattern


# ── playing ──────────────────────────────────────────────────────────────────

_READS: Final = re.compile(
    r"(kubectl (kruise )?(-n \S+ )?(get|describe|explain|rollout (status|history)|image status|doctor)"
    r"|pykruise (explain|doctor|plan)|pykruise uninstall --check)\b"
)
_STAYS: Final = re.compile(r"^pykruise up\b")
_SHELL: Final = re.compile(r"[|&;<>$`*?~#\n]|^[A-Z_]+=")


class Player:
    """Plays one page in a folder. It holds the cluster, the files, and the page's first object."""

    def __init__(self, page: Path, folder: Path) -> None:
        self._page = page
        self._folder = folder
        self._cluster = contextlib.ExitStack()
        self._server: HttpSandbox
        self._environ = {
            **os.environ,
            "HOME": str(folder),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        self._base: Mapping[str, Any] = {}
        self._names: dict[str, str] = {}

    def begin(self, options: str = "") -> None:
        """Have a new cluster: `nodes=5 plain`."""
        self.close()
        result: dict[str, Any] = {"manifests": [OTHER_KINDS], "stop_s": 0.1}
        for word in options.split():
            name, _, value = word.partition("=")
            result[name] = int(value) if value.isdecimal() else value or True
        kind = HttpSandbox if result.pop("plain", False) else KruiseServer
        self._server = self._cluster.enter_context(kind(self._folder / "kubeconfig", **result))
        self._environ["KUBECONFIG"] = self._server.kubeconfig

    def play(self, block: Block) -> Iterator[str]:
        """Play a block, and yield its differences from the page."""
        if "file" in block.notes:
            (self._folder / block.notes["file"]).write_text(block.text, "utf-8")
        elif block.language == "cluster":
            self.begin(block.text)
        elif block.language == "failures":
            self._server.fail(*yaml_document(block.text))
        elif block.language == "python":
            code, said = self._run("python -", stdin=block.text)
            if code != 0:
                yield said
        elif block.language in ("yaml", "apply"):
            yield from self._apply(block)
        else:
            for command in commands_of(block):
                if problem := self._type(command):
                    yield f"$ {command.line}\n{problem}"

    def close(self) -> None:
        """End the cluster, and all programs that commands have started."""
        self._cluster.close()

    def _apply(self, block: Block) -> Iterator[str]:
        documents = yaml_documents(block.text)
        if all(isinstance(document, dict) and "kind" in document for document in documents):
            if block.language == "yaml" and not self._base:
                self._base = documents[0]
            done = self._run("kubectl apply -f -", stdin=block.text)
        else:
            whole = _merged(self._base, yaml_document(block.notes.get("with", "{}")))
            whole = _merged(whole, _placed(documents[0], block.notes.get("at", "")))
            strict = "kubectl apply --dry-run=server --validate=strict -f -"
            done = self._run(strict, stdin=json.dumps(whole))
        if done[0] != 0:
            yield done[1]

    def _type(self, command: Command) -> str:
        """Run a command, and return the differences of its output."""
        if _STAYS.match(command.line):
            return self._start(command.line)
        line = command.line
        for shown, came in self._names.items():
            line = line.replace(shown, came)
        end = time.monotonic() + (WRITING_S if _is_writing() else PATIENCE_S)
        waits = pauses()
        while True:
            code, said = self._run(line)
            if command.shown is None and code == 0:
                return ""
            if command.shown is not None and (names := same_output(command.shown, said)) is not None:
                self._names |= names
                return ""
            if not _READS.search(line) or time.monotonic() > end:
                if command.shown is not None and _is_writing():
                    self._write(command, said)
                    return ""
                return f"{said}[exit code {code}]"
            time.sleep(next(waits))

    def _write(self, command: Command, said: str) -> None:
        """Write the real output into the page."""
        before = f"$ {command.line}\n{command.shown}\n" if command.shown else f"$ {command.line}\n"
        text = self._page.read_text("utf-8")
        self._page.write_text(text.replace(before, f"$ {command.line}\n{said.strip(chr(10))}\n", 1), "utf-8")

    def _run(self, line: str, *, stdin: str | None = None) -> tuple[int, str]:
        """Exit code and output; pykruise's own commands run in this process, as most of their time is their start."""
        words = shlex.split(line, comments=True) if not _SHELL.search(line) else []
        if words[:1] == ["pykruise"] or (words[:2] == ["kubectl", "kruise"] and _is_own(words[2:])):
            return self._run_here(words)
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", line],
            cwd=self._folder,
            env=self._environ,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        return done.returncode, done.stdout

    def _run_here(self, words: Sequence[str]) -> tuple[int, str]:
        said = io.StringIO()
        with (
            contextlib.chdir(self._folder),
            _environment(self._environ),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
        ):
            if words[0] == "pykruise":
                code = run_app(words[1:], program="pykruise")
            else:
                around = Surroundings(out=said.write, err=said.write, environ=self._environ)
                code = run_kubectl_kruise(words[2:], around)
        return code, said.getvalue()

    def _start(self, line: str) -> str:
        """Start a cluster that runs until Ctrl-C; commands that follow are for it."""
        process = subprocess.Popen(
            shlex.split(line),
            cwd=self._folder,
            env={**self._environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._cluster.callback(_end, process)
        assert process.stdout is not None
        said = ""
        for text in process.stdout:
            said += text
            if exported := re.search(r"export KUBECONFIG=(\S+)", text):
                self._environ["KUBECONFIG"] = str(self._folder / exported[1])
            if "Ctrl-C" in text:
                return ""
        return said


def _is_writing() -> bool:
    return os.environ.get("PYKRUISE_GOLDEN") == "write"


def _is_own(words: Sequence[str]) -> bool:
    """Whether `kubectl kruise …` runs the command itself, instead of kubectl."""
    return lookup(words)[0].takes != "kubectl"


def _end(process: "subprocess.Popen[str]") -> None:
    process.terminate()
    process.communicate(timeout=20)


@contextlib.contextmanager
def _environment(environ: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _placed(part: Any, path: str) -> Any:
    for name in reversed(path.split(".") if path else []):
        part = {name: part}
    return part


def _merged(base: Any, part: Any) -> Any:
    """The base with the part merged into it: mappings are merged, everything else is replaced."""
    if not isinstance(base, dict) or not isinstance(part, dict):
        return part
    return {**base, **{name: _merged(base.get(name), value) for name, value in part.items()}}


def play(page: Page, folder: Path) -> list[str]:
    """Play a page in a folder and a cluster of its own, and return the differences, each with its line."""
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "charts").symlink_to(ROOT / "charts")
    player = Player(page.path, folder)
    problems: list[str] = []
    try:
        player.begin()
        for block in page.blocks:
            if block.is_played:
                problems += [f"{page.path.name}:{block.line}: {text}" for text in player.play(block)]
    finally:
        player.close()
    return problems
