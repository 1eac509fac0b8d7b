"""Command lines as Go programs parse them, from a table of flags.

argv, table ──▶ read_texts() ──▶ the texts of each flag ──▶ read_value() ──▶ its value
      table ──▶ format_help_lines() ──▶ the lines of --help

Pure. Flags are `--name=value` or `--name value`, with one dash or two, or `-v4`; a boolean flag without a value is
true. An unknown flag is an error. A flag that has no effect here is accepted with a note, so that manifests can be
used unchanged.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.program.serving import Address
from pykruise.kube.values.durations import parse_duration

__all__ = [
    "HELP",
    "LOG_FLAGS",
    "Flag",
    "FlagError",
    "format_help_lines",
    "list_unused_notes",
    "make_text_flag",
    "parse_boolean",
    "read_address",
    "read_boolean",
    "read_duration",
    "read_names",
    "read_one_of",
    "read_positive",
    "read_texts",
    "read_value",
    "read_whole",
    "switch",
]

HELP: Final = ("help", "h")
_QUIET: Final = frozenset(("logtostderr", "alsologtostderr", "stderrthreshold"))
"""Flags without effect that need no note: the behaviour that they request is the normal one here."""


class FlagError(ValueError):
    """An invalid command line; the message names the flag, the mistake and the remedy."""


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """A flag. `read` parses its text, and raises ValueError with the mistake."""

    name: str
    default: str
    read: Callable[[str], Any]
    help: str
    is_boolean: bool = False
    is_list: bool = False
    """Whether the flag may be repeated, so that all its values are used."""
    unused: str = ""
    """Reason why the flag has no effect here; empty: it has an effect."""


# ── reading values ───────────────────────────────────────────────────────────


def parse_boolean(text: str) -> bool | None:
    """Parse a boolean as Go's strconv.ParseBool does; None: not a boolean."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    return False if text in ("0", "f", "F", "false", "FALSE", "False") else None


def read_boolean(text: str) -> bool:
    """Parse true or false as Go does. Raises ValueError."""
    if (value := parse_boolean(text)) is None:
        raise ValueError(f"{text!r} is not a boolean; write true or false")
    return value


def read_whole(minimum: int | None = None, maximum: int | None = None) -> Callable[[str], int]:
    """Return a parser for a whole number within limits, which raises ValueError."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
        if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
            within = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
            raise ValueError(f"{number} is not {within}")
        return number

    return read


def read_duration(text: str) -> float:
    """Parse a duration such as `15s` or `2m0s` into seconds. Raises ValueError, also for a negative one."""
    seconds = parse_duration(text)
    if seconds < 0:
        raise ValueError(f"{text!r} must not be negative")
    return seconds


def read_positive(text: str) -> float:
    """Parse a duration longer than 0 into seconds. Raises ValueError."""
    seconds = read_duration(text)
    if seconds <= 0:
        raise ValueError(f"{text!r} must be longer than 0")
    return seconds


def read_address(text: str) -> Address | None:
    """Parse `host:port`, or `:port` for all interfaces; `0` and an empty text mean: not served.

    Raises ValueError.
    """
    if text in ("", "0"):
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not an address; write host:port or :port")
    return Address(host.strip("[]"), int(port))


def read_one_of(*values: str) -> Callable[[str], str]:
    """Return a parser that accepts one of these words, and raises ValueError for any other text."""

    def read(text: str) -> str:
        if text not in values:
            raise ValueError(f"{text!r} is not one of: {', '.join(values)}")
        return text

    return read


def read_names(text: str) -> tuple[str, ...]:
    """Parse comma-separated names into lower case."""
    return tuple(name.strip().lower() for name in text.split(",") if name.strip())


# ── the table ────────────────────────────────────────────────────────────────


def make_text_flag(name: str, default: str, help: str, **more: Any) -> Flag:
    """Return a flag with a text value, or with a value that `read` parses."""
    return Flag(name=name, default=default, read=more.pop("read", str), help=help, **more)


def switch(name: str, default: str, help: str, **more: Any) -> Flag:
    """Return a boolean flag."""
    return Flag(name=name, default=default, read=read_boolean, help=help, is_boolean=True, **more)


_LOGS = "pykruise writes no log files; logs go to standard error"

LOG_FLAGS: Final[Sequence[Flag]] = (
    make_text_flag("vmodule", "", "No effect.", unused="the verbosity is the same for all modules"),
    switch("logtostderr", "true", "No effect.", unused=_LOGS),
    switch("alsologtostderr", "false", "No effect.", unused=_LOGS),
    make_text_flag("stderrthreshold", "2", "No effect.", unused=_LOGS),
    make_text_flag("log_file", "", "No effect.", unused=_LOGS),
    make_text_flag("log_dir", "", "No effect.", unused=_LOGS),
    make_text_flag("log_file_max_size", "1800", "No effect.", unused=_LOGS),
    make_text_flag("log-flush-frequency", "5s", "No effect.", unused=_LOGS),
    switch("log-text-split-stream", "false", "No effect.", unused=_LOGS),
    make_text_flag("log-text-info-buffer-size", "0", "No effect.", unused=_LOGS),
    switch("log-json-split-stream", "false", "No effect.", unused=_LOGS),
    make_text_flag("log-json-info-buffer-size", "0", "No effect.", unused=_LOGS),
    make_text_flag(
        "log_backtrace_at",
        ":0",
        "No effect.",
        unused="unexpected errors are always logged with their traceback",
    ),
    switch("skip_headers", "false", "No effect.", unused="log lines always have a header"),
    switch("skip_log_headers", "false", "No effect.", unused=_LOGS),
    switch("one_output", "false", "No effect.", unused=_LOGS),
    switch("add_dir_header", "false", "No effect.", unused="log lines name the module"),
)
"""Flags of Kubernetes' log library, accepted for manifests that pass them."""


def format_help_lines(flags: Sequence[Flag]) -> list[str]:
    """Return help lines for all flags with their defaults."""
    width = max(len(flag.name) for flag in flags) + 4
    defaults = (f" (default {flag.default})" if flag.default else "" for flag in flags)
    lines = [
        f"  {'--' + flag.name:<{width}}{flag.help}{default}"
        for flag, default in zip(flags, defaults, strict=True)
    ]
    return [
        "Flags:",
        *lines,
        "",
        "A flag may be written as --name=value or --name value, also with one dash: -v=5 and -v5 mean --v=5.",
    ]


def list_unused_notes(given: Iterable[str], known: Mapping[str, Flag]) -> list[str]:
    """Return notes about given flags that have no effect here."""
    return [
        f"--{name} has no effect: {known[name].unused}"
        for name in given
        if known[name].unused and name not in _QUIET
    ]


def read_texts(argv: Sequence[str], known: Mapping[str, Flag]) -> dict[str, list[str]]:
    """Return the texts of each flag, in the order of the command line. Raises FlagError."""
    given: dict[str, list[str]] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word in ("-", "--"):
            raise FlagError(f"{word!r} is not a flag; flags begin with --")
        name, equals, text = _split_word(word, known)
        if name in HELP:
            given[name] = []
            continue
        flag = known.get(name)
        if flag is None:
            raise FlagError(f"--{name} is not known{_suggest_flag(name, known)}; --help lists all flags")
        if not equals:
            if flag.is_boolean:
                text = "true"
            elif not rest:
                raise FlagError(f"--{name} needs a value: --{name}=…")
            else:
                text = rest.pop(0)
        given.setdefault(name, []).append(text)
    return given


def _split_word(word: str, known: Mapping[str, Flag]) -> tuple[str, str, str]:
    """Return the name of the flag, `=` if the word contains the value, and the value. As in Go programs with pflag,
    a number may follow a flag of one letter immediately: `-v4`.
    """
    letter, number = word[1:2], word[2:]
    if letter in known and not known[letter].is_boolean and number.isdecimal():
        return letter, "=", number
    return word.lstrip("-").partition("=")


def _suggest_flag(name: str, known: Mapping[str, Flag]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean --{close[0]}?" if close else ""


def read_value(flag: Flag, texts: Iterable[str] | None) -> Any:
    """Return the value of a flag. Only the last text counts, but the other texts must be valid too.

    Raises FlagError.
    """
    value: Any = None
    for text in (flag.default,) if texts is None else texts:
        try:
            value = flag.read(text)
        except ValueError as error:
            raise FlagError(f"--{flag.name}: {error}") from error
    return value
