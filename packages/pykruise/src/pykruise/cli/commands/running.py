"""Runs a command: sets up its log, its event loop and its cluster, and reports its errors.

coroutine ──▶ run() ──▶ its result | one line of error and exit code 1
text ──▶ say(), note() ──▶ standard output, standard error, without control characters
"""

import asyncio
import functools
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pykruise.cli.commands.words import format_usage
from pykruise.cli.errors import CommandError, CommandLineError, format_one_line
from pykruise.cli.terminal_text import escape_terminal
from pykruise.kube.errors import KubeError, UnauthorizedError, UnreachableError

if TYPE_CHECKING:
    from pykruise.cli.insight.traced_requests import Reach

T = TypeVar("T")


def say(text: str) -> None:
    """Print a line on standard output, without control characters."""
    click.echo(escape_terminal(text))


def note(text: str) -> None:
    """Print a line on standard error, without control characters."""
    click.echo(escape_terminal(text), err=True)


def run(
    command: Coroutine[Any, Any, T],
    *,
    level: int = logging.ERROR,
    on: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """Run a command on an event loop and return its result. `on` creates the loop; if it is None, uvloop creates the
    loop.

    The log contains messages of this level and of more severe ones. Expected errors become one line on standard error
    and exit code 1.
    """
    logging.basicConfig(
        level=level, format="%(asctime)s %(levelname)s %(name)s %(message)s", stream=sys.stderr
    )
    if on is None:
        from uvloop import new_event_loop as on

    try:
        with asyncio.Runner(loop_factory=on) as runner:
            return runner.run(command)
    except BrokenPipeError:
        raise
    except CommandLineError as error:
        raise report_misuse(format_one_line(error)) from None
    except (CommandError, KubeError, OSError) as error:
        raise report_failure(said_of(error)) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None


def said_of(error: Exception) -> str:
    """Text of an expected error. If the cluster is unreachable or rejects the user, the text has a hint instead of the
    failed request.
    """
    if isinstance(error, UnreachableError):
        cause = error.__cause__
        where = f"{error.origin}: {cause}" if error.origin and cause is not None else format_one_line(error)
        hints = "check that the kubeconfig is the right one, and that the cluster runs"
        return f"the cluster cannot be reached: {where}; {hints}"
    if isinstance(error, UnauthorizedError):
        hints = "the cluster rejects the credentials of the kubeconfig: log in again, or choose a --context"
        return f"{format_one_line(error)}; {hints}"
    return format_one_line(error)


def report_misuse(text: str) -> click.exceptions.Exit:
    """Print a usage error with a reference to the help. Return the exception that ends the command with exit code 1."""
    context = click.get_current_context()
    note(format_usage(click.UsageError(text, ctx=context), context.command_path))
    return click.exceptions.Exit(1)


def report_failure(text: str) -> click.exceptions.Exit:
    """Print an error. Return the exception that ends the command with exit code 1."""
    note(f"error: {text}")
    return click.exceptions.Exit(1)


def reach() -> "Reach":
    """Function that connects to the cluster, with the overrides of kubectl's global flags."""
    from pykruise.cli.insight.traced_requests import REQUEST_TIMEOUT_S, connect_traced
    from pykruise.cli.kubectl.flags import CommandCall
    from pykruise.cli.kubectl.session import TRACED_FROM, overrides_of

    call = click.get_current_context().obj or CommandCall()
    return functools.partial(
        connect_traced,
        overrides=overrides_of(call),
        timeout_s=call.seconds("request-timeout") or REQUEST_TIMEOUT_S,
        trace=note if call.number("v") >= TRACED_FROM else None,
    )
