"""Help texts, built from the tree of commands.

Command ──▶ help_of() ──▶ text

Pure.
"""

import difflib
from collections.abc import Sequence

from pykruise.cli.kubectl.command import Command
from pykruise.cli.kubectl.flags import KubectlFlag


def help_of(command: Command, *, program: str, root: str) -> str:
    """Help of a command: description, examples, subcommands and flags."""
    parts = [f"{command.short.rstrip('.')}."]
    if command.examples:
        parts.append("Examples:\n" + "\n".join(f"  {root} {example}" for example in command.examples))
    parts += _format_command_lists(command)
    if command.flags:
        parts.append("Options:\n" + format_flags(command.flags))
    usage = command.usage or ("SUBCOMMAND [flags]" if command.children else "[flags]")
    parts.append(f"Usage:\n  {program} {usage}")
    if command.children:
        parts.append(f'Use "{program} <command> --help" for more information about a given command.')
    parts.append(f'Use "{root} options" for a list of global command-line options (applies to all commands).')
    return "\n\n".join(parts) + "\n"


def _format_command_lists(command: Command) -> list[str]:
    shown = [child for child in command.children if not child.is_hidden]
    groups = list(dict.fromkeys(command.group for command in shown))
    width = max((len(command.name) for command in shown), default=0) + 2
    return [
        f"{f'{group} Commands' if group else 'Available Commands'}:\n"
        + "\n".join(
            f"  {command.name.ljust(width)}{command.short}" for command in shown if command.group == group
        )
        for group in groups
    ]


def format_flags(flags: Sequence[KubectlFlag]) -> str:
    """Flags with their defaults, each with its help text on the next line."""
    lines = []
    for flag in sorted(flags, key=lambda flag: flag.name):
        if flag.is_hidden:
            continue
        short = f"-{flag.short}, " if flag.short else ""
        default = "[]" if flag.type in ("list", "words") else flag.default or _EMPTY.get(flag.type, "''")
        shown = f"'{default}'" if flag.type == "text" and flag.default else default
        lines.append(f"    {short}--{flag.name}={shown}:\n\t{flag.help}")
    return "\n\n".join(lines)


_EMPTY = {"int": "0", "seconds": "0s", "bool": "false"}


def list_similar(word: str, names: Sequence[str]) -> list[str]:
    """Names similar to `word`, for a suggestion."""
    return difflib.get_close_matches(word, names, n=3, cutoff=0.6)
