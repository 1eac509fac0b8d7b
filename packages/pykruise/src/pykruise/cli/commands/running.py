"""How a command runs: its log, its loop, its cluster, and how it ends.

coroutine ──▶ run() ──▶ what it returns | one line of error and exit code 1
"""

import asyncio
import functools
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pykruise.cli.errors import CommandError, one_line
from pykruise.kube.errors import KubeError

if TYPE_CHECKING:
    from pykruise.cli.insight.traced_requests import Reach

T = TypeVar("T")


def run(
    command: Coroutine[Any, Any, T],
    *,
    level: int = logging.ERROR,
    on: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> T:
    """Run a command on a loop of this kind, by default uvloop's; returns what it returns. Of the log it shows this
    level and worse. Expected errors become one line on standard error and exit code 1."""
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
    except (CommandError, KubeError, OSError) as error:
        raise failed(one_line(error)) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None


def failed(text: str) -> click.exceptions.Exit:
    """Say it as an error; what ends the command with exit code 1."""
    click.echo(f"error: {text}", err=True)
    return click.exceptions.Exit(1)


def reach() -> "Reach":
    """How the cluster is reached that kubectl's global flags name."""
    from pykruise.cli.insight.traced_requests import REQUEST_TIMEOUT_S, reached
    from pykruise.cli.kubectl.flags import CommandCall
    from pykruise.cli.kubectl.session import TRACED_FROM, overrides_of

    call = click.get_current_context().obj or CommandCall()
    return functools.partial(
        reached,
        overrides=overrides_of(call),
        timeout_s=call.seconds("request-timeout") or REQUEST_TIMEOUT_S,
        trace=functools.partial(click.echo, err=True) if call.number("v") >= TRACED_FROM else None,
    )
