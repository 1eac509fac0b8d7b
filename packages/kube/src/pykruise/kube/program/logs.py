"""How log lines look: text for people, JSON for machines, and no secret in either.

logging.getLogger(...).info("…", extra={"fields": {"object": "default/web"}}) ──▶ formatter ──▶ standard error

`fields` are what a line is about (object, duration, …): `key=value` after the text, or keys of the JSON object.
Whatever looks like a credential is masked at the very end, so that no caller can forget to. A line has MOST_LINE
characters at most, a traceback _MOST_LINES lines.
"""

import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from typing import Any, Final, Literal, TextIO

import msgspec

from pykruise.kube.excerpts import excerpt

__all__ = ["MOST_LINE", "JsonFormatter", "LogSettings", "TextFormatter", "masked", "set_up"]


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How much is logged and how it looks."""

    format: Literal["text", "json"] = "text"
    verbosity: int = 0
    """From 5 on, debug lines too."""


MOST_LINE: Final = 8 * 1024
_MOST_LINES: Final = 200
_MOST_MASKED: Final = 256 * 1024
"""Characters that are searched for secrets; the rest is never shown, and the search takes time."""
_SHORT: Final = (int, float, bool, type(None))
"""Types that are written to JSON as they are."""

DEBUG_FROM = 5
"""Verbosity from which debug lines are shown."""

_SECRETS = (
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
        "…",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}"), r"\1 …"),
    (
        re.compile(
            r"""(?ix) (["']?(?:password|passwd|token|secret|api[_-]?key|client-key-data|private[_-]?key|tls\.key)
            ["']?\s*[:=]\s*["']?) [^\s"',;&}]{4,}"""
        ),
        r"\1…",
    ),
    (re.compile(r"(https?://)[^\s/:@]+:[^\s/@]+@"), r"\1…@"),
)


_WORDS = re.compile(r"[\w.-]+")
_TOKEN_START = re.compile(r"\beyJ(?=[\w-]{8})")


def masked(text: str) -> str:
    """`text` without what looks like a credential: keys, tokens, passwords, users of URLs.

    Each pattern either ends where its next try could begin, or is tried once a word: a line of 120 kB takes
    milliseconds, whatever is in it.
    """
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return _WORDS.sub(lambda word: _without_tokens(word[0]), text) if "eyJ" in text else text


def _without_tokens(word: str) -> str:
    """Without JSON web tokens, three parts with dots between them: `eyJhbGciOiJI.eyJzdWIi.c2ln`."""
    parts = word.split(".")
    tokens: list[str] = []
    at = 0
    while at < len(parts):
        begun = _TOKEN_START.search(parts[at]) if at + 2 < len(parts) and len(parts[at + 1]) >= 4 else None
        tokens.append(f"{parts[at][: begun.start()]}…" if begun else parts[at])
        at += 3 if begun else 1
    return ".".join(tokens)


def set_up(settings: LogSettings, *, stream: TextIO | None = None) -> None:
    """Let the root logger write to `stream` (default: standard error) as the settings say."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.format == "json" else TextFormatter())
    root = logging.getLogger()
    for other in tuple(root.handlers):
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if settings.verbosity >= DEBUG_FROM else logging.INFO)
    for noisy in ("aiohttp.access", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO module text key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and a traceback below it where there is one."""
        fields = "".join(f" {key}={_word(value)}" for key, value in _fields(record).items())
        lines = _shown(f"{_time(record)} {record.levelname} {record.name} {record.getMessage()}{fields}")
        if trace := _trace(self, record):
            lines += "\n" + "\n".join(
                _shown(line, most=MOST_LINE) for line in _lines(masked(trace[:_MOST_MASKED]))
            )
        return lines


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ts, level, logger, msg, the fields, and error with a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        message, trace = record.getMessage(), _trace(self, record)
        for most in (MOST_LINE, MOST_LINE // 4, MOST_LINE // 32):  # escapes make a text longer
            line: dict[str, Any] = {
                "ts": _time(record),
                "level": record.levelname.lower(),
                "logger": record.name,
                "msg": _shown(message, most=most),
            }
            line |= {
                key: value if isinstance(value, _SHORT) else _shown(str(value), most=most)
                for key, value in _fields(record).items()
            }
            if trace:
                line["error"] = _shown(trace, most=most)
            text = json.dumps(line, ensure_ascii=False)
            if len(text) <= MOST_LINE:
                break
        return (
            text
            if len(text) <= MOST_LINE
            else json.dumps({"ts": _time(record), "msg": _shown(message, most=512)})
        )


def _shown(text: str, *, most: int = MOST_LINE) -> str:
    """Without secrets, and cut. Masked first: the end of a secret alone does not look like one."""
    return excerpt(masked(text[:_MOST_MASKED]), most=most)


def _lines(trace: str) -> list[str]:
    lines = trace.splitlines()
    return (
        lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES // 2], "…", *lines[-_MOST_LINES // 2 :]]
    )


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, Mapping) else {}


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""


def _time(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"


def _word(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return json.dumps(text, ensure_ascii=False) if not text or re.search(r'[\s"=]', text) else text
