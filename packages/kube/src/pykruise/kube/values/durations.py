"""Durations as Go programs write them on the command line (`15s`, `2m0s`, `1h30m`, `500ms`), and durations for
people. Pure.
"""

import re

__all__ = ["format_duration", "format_short_duration", "parse_duration"]

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d++\.?\d*+|\.\d++)(ns|us|µs|μs|ms|s|m|h)")
_PARTS = re.compile(f"(?:{_PART.pattern})+")


def parse_duration(text: str) -> float:
    """Parse a duration into seconds. Only `0` needs no unit; a sign may precede the number.

    Raises ValueError for anything else. This is the rule of Go's time.ParseDuration.
    """
    sign, rest = (-1.0 if text.startswith("-") else 1.0), text.lstrip("+-")
    if len(text) - len(rest) <= 1:
        if rest == "0":
            return 0.0
        if _PARTS.fullmatch(rest):
            return sign * sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(rest))
    raise ValueError(f"{text!r} is not a duration such as 15s, 2m0s or 500ms")


def format_duration(seconds: float) -> str:
    """Return `2m0s`, `15s` or `500ms`, a text that `parse_duration` reads; the precision is milliseconds."""
    milliseconds = round(abs(seconds) * 1000)
    sign = "-" if seconds < 0 and milliseconds else ""
    if milliseconds < 1000:
        return f"{sign}{milliseconds}ms" if milliseconds else "0s"
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest / 1000:g}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def format_short_duration(seconds: float) -> str:
    """Return `45s`, `3m20s` or `2h5m` for people: whole seconds, and whole minutes from one hour on."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    return f"{minutes // 60}h{minutes % 60}m" if minutes % 60 else f"{minutes // 60}h"
