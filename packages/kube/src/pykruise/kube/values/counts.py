"""Numbers with their noun and lists of names, as people read them: `1 pod is`, `web-0, web-1, …`. Pure."""

from collections.abc import Sequence

__all__ = ["format_command", "format_count", "format_first"]


def format_count(count: int, singular: str, plural: str = "") -> str:
    """`count` and its noun, or its noun and verb. `plural`: the plural, if it is not the singular with an s."""
    return f"{count} {singular if count == 1 else plural or f'{singular}s'}"


def format_first(names: Sequence[str], most: int) -> str:
    """The first `most` names, with `…` for the others."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def format_command(command: str, names: Sequence[str], most: int, *, end: str = "") -> str:
    """The command with the first `most` names as arguments. `end`: the text after the names. If there are more names,
    words after the command say that it must be repeated for them.
    """
    rest = " and likewise for the others" if len(names) > most else ""
    return f"{command} {' '.join(names[:most])}{end}{rest}"
