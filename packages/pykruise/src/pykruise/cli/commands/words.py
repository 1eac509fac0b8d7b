"""Classes of `pykruise` commands for click, with examples in their help.

@word("plan", examples=("plan clonesets/web --set replicas=5",)) ──▶ Word      @group(…) ──▶ WordGroup

Usage errors have kubectl's form, in two lines: the error, and the command that prints the help.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, Final

import click

SETTINGS: Final = {
    "show_default": True,
    "max_content_width": 110,
    "help_option_names": ["-h", "--help"],
}
"""Settings of all commands, also of commands in other distributions."""


NO_SANDBOX: Final = (
    "{command} simulates a cluster in this process, which needs another package;"
    " install it beside pykruise: pip install 'pykruise[sandbox]', or from a checkout: pip install ./packages/sandbox"
)


class Word(click.Command):
    """A command.

    `examples`: command lines without the program's name. `needs_sandbox`: the command simulates a cluster, so it
    needs the sandbox's distribution.
    """

    def __init__(
        self, *args: Any, examples: Sequence[str] = (), needs_sandbox: bool = False, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.examples = tuple(examples)
        self.needs_sandbox = needs_sandbox
        _hide_empty_defaults(self.params)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Without the sandbox that it needs, print how to install it."""
        if self.needs_sandbox and find_spec("pykruise.sandbox") is None:
            click.echo(f"error: {NO_SANDBOX.format(command=ctx.command_path)}", err=True)
            raise click.exceptions.Exit(1)
        return super().invoke(ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples after the options."""
        if not self.examples:
            return
        program = ctx.find_root().info_name
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{' ' * formatter.current_indent}{program} {example}\n")


class WordGroup(click.Group):
    """A command with subcommands."""

    command_class = Word


def word(name: str | None = None, *, examples: Sequence[str], **options: Any) -> Callable[[Any], Word]:
    """Turn a function into a command, like `click.command`."""
    return click.command(name, cls=Word, examples=examples, **options)


def group(name: str | None = None, **options: Any) -> Callable[[Any], WordGroup]:
    """Turn a function into a group, like `click.group`."""
    return click.group(name, cls=WordGroup, **options)


def format_usage(error: click.ClickException, program: str) -> str:
    """Text for an invalid command line: kubectl's two lines."""
    message = " ".join(error.format_message().split()).rstrip(".")
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    command = program if context is None else context.command_path
    return f"error: {message}\nSee '{command} --help' for usage."


def _hide_empty_defaults(parameters: Sequence[click.Parameter]) -> None:
    """Hide a default that is empty: the option's help text explains it."""
    for parameter in parameters:
        if isinstance(parameter, click.Option) and parameter.default == "":
            parameter.show_default = False
