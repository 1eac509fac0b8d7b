"""The `pykruise` command: its subcommands, and how errors are printed.

argv ──▶ click ──▶ commands/: options ──▶ one module per command ──▶ exit code

Every expected error (a port in use, an unreadable kubeconfig, an API server that rejects the request) becomes one line
on standard error that names the problem, its place and the remedy, and exit code 1. Tracebacks are for bugs.

A short command needs most of its time to start, so each command imports its modules when it is called.
"""

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from pykruise.cli.commands.asking import explain, mcp, plan, simulate
from pykruise.cli.commands.clusters import demo, kubelets, manager, up
from pykruise.cli.commands.installing import crds, doctor, install, manifests, uninstall
from pykruise.cli.commands.running import report_failure
from pykruise.cli.commands.switching import storage, switch_over
from pykruise.cli.commands.words import SETTINGS, format_usage, group
from pykruise.kube.version import __version__


@group(context_settings=SETTINGS)
@click.version_option(__version__, "--version", message="%(version)s")
def app() -> None:
    """OpenKruise's workloads for Kubernetes, implemented in Python."""


for subcommand in (
    up,
    demo,
    manager,
    kubelets,
    install,
    doctor,
    uninstall,
    switch_over,
    storage,
    crds,
    manifests,
    explain,
    plan,
    simulate,
    mcp,
):
    app.add_command(subcommand)


@app.command(
    short_help="Show rollouts and what they wait for, in a browser.",
    examples=("dashboard",),
    # The dashboard is another distribution, which parses its own flags.
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
@click.pass_context
def dashboard(context: click.Context) -> None:
    """Show in a browser which objects progress, which objects wait, and why. Comes with pykruise-dashboard."""
    from importlib.metadata import entry_points

    result = entry_points(group="pykruise.commands", name="dashboard")
    if not result:
        _print_install_hint(context)
        return
    command: click.Command = next(iter(result)).load()
    with command.make_context(context.info_name, list(context.args), parent=context.parent) as own:
        command.invoke(own)


def _print_install_hint(context: click.Context) -> None:
    if set(context.args) & {"-h", "--help"}:
        click.echo(context.get_help())
        return
    raise report_failure(
        "the dashboard is a separate package; install pykruise-dashboard of the same version beside"
        " pykruise: pip install pykruise-dashboard, or from a checkout:"
        " pip install ./packages/sandbox ./packages/dashboard"
    )


@app.command(examples=("version",))
def version() -> None:
    """Print the version."""
    click.echo(__version__)


@app.command(
    short_help="Print a shell's completion script.", examples=("completion bash > ~/.pykruise-completion",)
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell: source <(pykruise completion bash)."""
    from click.shell_completion import get_completion_class

    result = get_completion_class(shell)
    assert result is not None  # click supports these three shells
    click.echo(result(app, {}, "pykruise", "_PYKRUISE_COMPLETE").source())


def main() -> None:
    """Entry point of the `pykruise` script."""
    sys.exit(run_app(sys.argv[1:], program="pykruise"))


def run_app(argv: Sequence[str], *, program: str) -> int:
    """Run the command line and return the exit code. For an invalid command line the code is 1, as for all failures,
    because 2 and 3 have other meanings.
    """
    from pykruise.cli.kubectl.flags import KubectlFlagError, take_out_flags

    call = None
    if argv and argv[0] in _ASKING:
        from pykruise.cli.kubectl.command import GLOBAL

        try:
            call, argv = take_out_flags(argv, [flag for flag in GLOBAL if flag.name not in _OWN_FLAGS])
        except KubectlFlagError as error:
            click.echo(f"error: {error}\nSee '{program} {argv[0]} --help' for usage.", err=True)
            return 1
    try:
        code = app.main(list(argv), prog_name=program, standalone_mode=False, obj=call)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        click.echo(format_usage(error, program), err=True)
        return 1
    except click.exceptions.Abort:
        return 130
    except BrokenPipeError:
        return _handle_closed_pipe()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _handle_closed_pipe()
    return code if isinstance(code, int) else 0


_ASKING: Final = frozenset({"explain", "plan", "simulate", "mcp", "doctor"})
"""Commands that take kubectl's global flags."""

_OWN_FLAGS: Final = frozenset({"kubeconfig", "context", "namespace"})
"""Flags that are options of each command."""


def _handle_closed_pipe() -> int:
    """Discard the output after its reader closed the pipe, and return 0. Buffered output would fail again when the
    interpreter ends.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
