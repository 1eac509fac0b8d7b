"""The words of the `pykruise` command as click knows them: with examples in their help.

@word("plan", examples=("plan clonesets/web --set replicas=5",)) ──▶ Word      @group(…) ──▶ WordGroup

Usage errors have kubectl's form, in two lines: what is wrong, and which help says more.
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
"""Settings of all commands, also of other distributions."""


NO_SANDBOX: Final = (
    "{command} plays a cluster in this process, which is a package of its own;"
    " install it beside pykruise: pip install 'pykruise[sandbox]', or from a checkout: pip install ./packages/sandbox"
)


class Word(click.Command):
    """One command.

    `examples`: command lines without the program's name. `needs_sandbox`: it plays a cluster, and the sandbox is a
    distribution of its own.
    """

    def __init__(
        self, *args: Any, examples: Sequence[str] = (), needs_sandbox: bool = False, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.examples = tuple(examples)
        self.needs_sandbox = needs_sandbox
        _show_no_empty_defaults(self.params)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; without what it needs, say how to install that."""
        if self.needs_sandbox and find_spec("pykruise.sandbox") is None:
            click.echo(f"error: {NO_SANDBOX.format(command=ctx.command_path)}", err=True)
            raise click.exceptions.Exit(1)
        return super().invoke(ctx)

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
    message = " ".join(error.format_message().split()).rstrip(".")
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    command = program if context is None else context.command_path
    return f"error: {message}\nSee '{command} --help' for usage."


def _show_no_empty_defaults(parameters: Sequence[click.Parameter]) -> None:
    """An option that is empty by default says in its help what that means."""
    for parameter in parameters:
        if isinstance(parameter, click.Option) and parameter.default == "":
            parameter.show_default = False
