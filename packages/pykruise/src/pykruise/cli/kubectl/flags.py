"""Parser of flags, as in kubectl: `--name=value`, `--name value`, `-n value`, `-nvalue`; a boolean without a value is
true.

argv, a command's flags ──▶ parse() ──▶ CommandCall: values, given flags, arguments before and after `--`

Pure. Underscores in names count as dashes. Messages equal kubectl's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from pykruise.kube.program.flags import parse_boolean
from pykruise.kube.values.durations import parse_duration
from pykruise.kube.values.go_text import quote_text

FlagType = Literal["text", "bool", "int", "list", "words", "seconds"]


class KubectlFlagError(ValueError):
    """An invalid command line, in kubectl's words."""


class KubectlFlag(msgspec.Struct, frozen=True, kw_only=True):
    """A flag. A flag of type `list` may be repeated; values of type `words` may also be joined with commas."""

    name: str
    help: str
    short: str = ""
    type: FlagType = "text"
    default: str = ""
    """Default value as text; empty for a list."""
    alone: str = ""
    """Value if the command line names the flag without a value. Empty: the flag requires a value, unless it is a
    boolean.
    """
    is_hidden: bool = False
    deprecated: str = ""
    """Notice about the replacement of a deprecated flag."""


class CommandCall(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed command line."""

    values: Mapping[str, Any] = {}
    given: frozenset[str] = frozenset()
    """Names of the flags on the command line."""
    arguments: tuple[str, ...] = ()
    deprecations: tuple[str, ...] = ()
    """Deprecation notices of the given flags."""
    after_dashes: tuple[str, ...] | None = None
    """Arguments after `--`; None if there is no `--`."""

    def text(self, name: str) -> str:
        """Value of a text flag; empty when the command has no such flag."""
        return str(self.values.get(name, ""))

    def is_on(self, name: str) -> bool:
        """Value of a boolean."""
        return bool(self.values.get(name, False))

    def number(self, name: str) -> int:
        """Value of a whole number."""
        return int(self.values.get(name, 0))

    def seconds(self, name: str) -> float:
        """Value of a duration."""
        return float(self.values.get(name, 0.0))

    def listed(self, name: str) -> tuple[str, ...]:
        """Values of a list."""
        return tuple(self.values.get(name, ()))

    def has_files(self) -> bool:
        """Whether `-f` or `-k` names objects."""
        return bool(self.listed("filename") or self.text("kustomize"))

    @property
    def everything(self) -> tuple[str, ...]:
        """All arguments, also those after `--`."""
        return (*self.arguments, *(self.after_dashes or ()))


def _parse_boolean(text: str) -> bool:
    if (value := parse_boolean(text)) is None:
        raise ValueError(f"strconv.ParseBool: parsing {quote_text(text)}: invalid syntax")
    return value


def _parse_whole(text: str) -> int:
    try:
        return int(text, 0) if text.strip() == text and "_" not in text else _refuse_number(text)
    except ValueError:
        return _refuse_number(text)


def _refuse_number(text: str) -> int:
    raise ValueError(f"strconv.ParseInt: parsing {quote_text(text)}: invalid syntax")


def _parse_seconds(text: str) -> float:
    if text.isdecimal():  # kubectl's --request-timeout also accepts whole seconds
        return float(text)
    try:
        return parse_duration(text)
    except ValueError:
        raise ValueError(f"time: invalid duration {quote_text(text)}") from None


_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "text": str,
    "bool": _parse_boolean,
    "int": _parse_whole,
    "seconds": _parse_seconds,
    "list": lambda text: (text,),
    "words": lambda text: tuple(text.split(",")) if text else (),
}


class _Reading:
    """State of parsing one command line."""

    def __init__(self, flags: Sequence[KubectlFlag]) -> None:
        self._by_name = {flag.name: flag for flag in flags}
        self._by_short = {flag.short: flag for flag in flags if flag.short}
        self.values: dict[str, Any] = {
            flag.name: ()
            if flag.type in ("list", "words")
            else _READ[flag.type](flag.default or _ZERO[flag.type])
            for flag in flags
        }
        self.given: dict[str, KubectlFlag] = {}

    def read_long(self, text: str, rest: list[str]) -> None:
        name, equals, value = text[2:].partition("=")
        flag = self._by_name.get(name.replace("_", "-"))
        if flag is None:
            raise KubectlFlagError(f"unknown flag: --{name}")
        if not equals:
            value = self._choose_default_value(flag, rest, f"--{name}")
        self._set_value(flag, value)

    def read_short(self, text: str, rest: list[str]) -> None:
        letters = text[1:]
        while letters:
            flag = self._by_short.get(letters[0])
            if flag is None:
                raise KubectlFlagError(f"unknown shorthand flag: {quote_text(letters[0])[1:-1]!r} in {text}")
            shown, letters = f"{letters[0]!r} in {text}", letters[1:]
            if letters.startswith("="):
                self._set_value(flag, letters[1:])
                return
            if letters and not (flag.type == "bool" or flag.alone):
                self._set_value(flag, letters)
                return
            self._set_value(flag, self._choose_default_value(flag, rest, shown))

    @staticmethod
    def _choose_default_value(flag: KubectlFlag, rest: list[str], shown: str) -> str:
        if flag.alone:
            return flag.alone
        if flag.type == "bool":
            return "true"
        if not rest:
            raise KubectlFlagError(f"flag needs an argument: {shown}")
        return rest.pop(0)

    def _set_value(self, flag: KubectlFlag, text: str) -> None:
        try:
            value = _READ[flag.type](text)
        except ValueError as error:
            shown = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
            raise KubectlFlagError(
                f'invalid argument {quote_text(text)} for "{shown}" flag: {error}'
            ) from None
        if flag.type in ("list", "words"):
            value = (*self.values[flag.name], *value) if flag.name in self.given else value
        self.values[flag.name] = value
        self.given[flag.name] = flag

    def knows(self, text: str) -> bool:
        """Whether the text is one of these flags, long or short."""
        if text.startswith("--"):
            return text[2:].partition("=")[0].replace("_", "-") in self._by_name
        return text[1:2] in self._by_short


def take_out_flags(argv: Sequence[str], flags: Sequence[KubectlFlag]) -> tuple[CommandCall, list[str]]:
    """Remove these flags from the command line, wherever they are before `--`. Return their values and the other
    words. Raises KubectlFlagError.
    """
    reading, rest, left = _Reading(flags), list(argv), list[str]()
    while rest:
        text = rest.pop(0)
        if text == "--":
            left += [text, *rest]
            break
        if not text.startswith("-") or not reading.knows(text):
            left.append(text)
        elif text.startswith("--"):
            reading.read_long(text, rest)
        else:
            reading.read_short(text, rest)
    return CommandCall(values=reading.values, given=frozenset(reading.given)), left


_ZERO: Final = {"text": "", "bool": "false", "int": "0", "seconds": "0"}


def parse(
    argv: Sequence[str], flags: Sequence[KubectlFlag], *, stops_at_argument: bool = False
) -> CommandCall:
    """Parse a command line. Raises KubectlFlagError.

    `stops_at_argument`: everything after the first argument counts as arguments.
    """
    reading, rest = _Reading(flags), list(argv)
    arguments: list[str] = []
    after: tuple[str, ...] | None = None
    while rest:
        text = rest.pop(0)
        if text == "--":
            after = tuple(rest)
            break
        if text.startswith("--"):
            reading.read_long(text, rest)
        elif text.startswith("-") and text != "-":
            reading.read_short(text, rest)
        else:
            arguments.append(text)
            if stops_at_argument:
                arguments += rest
                break
    return CommandCall(
        values=reading.values,
        given=frozenset(reading.given),
        arguments=tuple(arguments),
        after_dashes=after,
        deprecations=tuple(
            f"Flag --{flag.name} has been deprecated, {flag.deprecated}"
            for flag in reading.given.values()
            if flag.deprecated
        ),
    )
