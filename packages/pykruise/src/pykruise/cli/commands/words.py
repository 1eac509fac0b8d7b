"""The words of the `pykruise` command as click knows them: with examples in their help.

@word("plan", examples=("plan clonesets/web --set replicas=5",)) ──▶ Word      @group(…) ──▶ WordGroup

Usage errors have kubectl's form, in two lines: what is wrong, and which help says more.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import click

SETTINGS: Final = {
    "show_default": True,
    "max_content_width": 110,
    "help_option_names": ["-h", "--help"],
}
"""Settings of all commands, also of other distributions."""


class Word(click.Command):
    """One command. `examples`: command lines without the program's name."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = tuple(examples)
        _show_no_empty_defaults(self.params)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, after the options."""
        if not self.examples:
            return
        program = ctx.find_root().info_name
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{' ' * formatter.current_indent}{program} {example}\n")


class WordGroup(click.Group):
    """A word whose children do the work."""

    command_class = Word


def word(name: str | None = None, *, examples: Sequence[str], **options: Any) -> Callable[[Any], Word]:
    """Make a command of a function, as `click.command` does."""
    return click.command(name, cls=Word, examples=examples, **options)


def group(name: str | None = None, **options: Any) -> Callable[[Any], WordGroup]:
    """Make a group of a function, as `click.group` does."""
    return click.group(name, cls=WordGroup, **options)


def usage_text(error: click.ClickException, program: str) -> str:
    """Text for an invalid command line: kubectl's two lines."""
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    command = program if context is None else context.command_path
    return f"error: {message}\nSee '{command} --help' for usage."


def _show_no_empty_defaults(parameters: Sequence[click.Parameter]) -> None:
    """An option that is empty by default says in its help what that means."""
    for parameter in parameters:
        if isinstance(parameter, click.Option) and parameter.default == "":
            parameter.show_default = False
