"""Format of log lines: text for people, or JSON for machines. Both contain no secrets.

logging.getLogger(...).info("…", extra={"fields": {"object": "default/web"}}) ──▶ formatter ──▶ standard error

`fields` describe the subject of a line (object, duration, …): `key=value` after the text, or keys of the JSON object.
Text that looks like a credential is masked as the last step, so that no caller can forget it. A line has at most
MOST_LINE characters, a traceback at most _MOST_LINES lines.
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

__all__ = ["MOST_LINE", "JsonFormatter", "LogSettings", "TextFormatter", "mask_secrets", "set_up"]


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Verbosity and format of logs."""

    format: Literal["text", "json"] = "text"
    verbosity: int = 0
    """Verbosity. Debug lines are shown from 5 on."""


MOST_LINE: Final = 8 * 1024
_MOST_LINES: Final = 200
_MOST_MASKED: Final = 256 * 1024
"""Maximum number of characters that are searched for secrets, because the search takes time. Further characters are
never shown.
"""
_SHORT: Final = (int, float, bool, type(None))
"""Types that are written to JSON unchanged."""

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


def mask_secrets(text: str) -> str:
    """Return `text` without anything that looks like a credential: keys, tokens, passwords, users of URLs.

    The time grows linearly with the text: no pattern reads a part of the text again and again. So a line of 120 kB
    takes milliseconds, whatever its content.
    """
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return _WORDS.sub(lambda word: _without_tokens(word[0]), text) if "eyJ" in text else text


def _without_tokens(word: str) -> str:
    """Return the word without JSON web tokens, which have three parts with dots between them:
    `eyJhbGciOiJI.eyJzdWIi.c2ln`.
    """
    parts = word.split(".")
    tokens: list[str] = []
    at = 0
    while at < len(parts):
        begun = _TOKEN_START.search(parts[at]) if at + 2 < len(parts) and len(parts[at + 1]) >= 4 else None
        tokens.append(f"{parts[at][: begun.start()]}…" if begun else parts[at])
        at += 3 if begun else 1
    return ".".join(tokens)


def set_up(settings: LogSettings, *, stream: TextIO | None = None) -> None:
    """Let the root logger write to `stream` (default: standard error) according to the settings."""
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
        """Return one line, followed by a traceback if there is one."""
        fields = "".join(f" {key}={_format_value(value)}" for key, value in _read_fields(record).items())
        lines = _mask_and_shorten(
            f"{_format_time(record)} {record.levelname} {record.name} {record.getMessage()}{fields}"
        )
        if trace := _format_trace(self, record):
            lines += "\n" + "\n".join(
                _mask_and_shorten(line, most=MOST_LINE)
                for line in _trace_lines(mask_secrets(trace[:_MOST_MASKED]))
            )
        return lines


class JsonFormatter(logging.Formatter):
    """JSON objects, one per line: ts, level, logger, msg, the fields, and error with a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        message, trace = record.getMessage(), _format_trace(self, record)
        for most in (MOST_LINE, MOST_LINE // 4, MOST_LINE // 32):  # escapes make a text longer
            line: dict[str, Any] = {
                "ts": _format_time(record),
                "level": record.levelname.lower(),
                "logger": record.name,
                "msg": _mask_and_shorten(message, most=most),
            }
            line |= {
                key: value if isinstance(value, _SHORT) else _mask_and_shorten(str(value), most=most)
                for key, value in _read_fields(record).items()
            }
            if trace:
                line["error"] = _mask_and_shorten(trace, most=most)
            text = json.dumps(line, ensure_ascii=False)
            if len(text) <= MOST_LINE:
                break
        return (
            text
            if len(text) <= MOST_LINE
            else json.dumps({"ts": _format_time(record), "msg": _mask_and_shorten(message, most=512)})
        )


def _mask_and_shorten(text: str, *, most: int = MOST_LINE) -> str:
    """Return the text without secrets, shortened. Masking comes first: the end of a secret alone does not look like
    one.
    """
    return excerpt(mask_secrets(text[:_MOST_MASKED]), most=most)


def _trace_lines(trace: str) -> list[str]:
    lines = trace.splitlines()
    return (
        lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES // 2], "…", *lines[-_MOST_LINES // 2 :]]
    )


def _read_fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, Mapping) else {}


def _format_trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""


def _format_time(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"


def _format_value(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return json.dumps(text, ensure_ascii=False) if not text or re.search(r'[\s"=]', text) else text
