"""Commands `pykruise manager`, which runs the controllers against a real cluster, and `pykruise crds`, which prints
the definitions that the cluster needs first.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from pykruise.cli.errors import CommandError, format_one_line
from pykruise.kinds import build_crds
from pykruise.kinds.gates import GateError
from pykruise.kube.config.kubeconfig import load
from pykruise.kube.errors import ApiError, KubeError
from pykruise.kube.program.flags import FlagError
from pykruise.kube.program.logs import set_up
from pykruise.kube.program.process import run_until, stop_on_signals
from pykruise.manager.flags import Parsed, format_flag_help, parse
from pykruise.manager.process import run_process
from pykruise.manager.webhooks import WebhooksNotReadyError


def run_manager_command(argv: Sequence[str]) -> int:
    """Run `pykruise manager` with these flags on uvloop, and return the exit code.

    An expected error becomes one line on standard error, or in the log if the log is JSON.
    """
    try:
        parsed = read_flags(argv)
    except CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if parsed.wants_help:
        print(format_flag_help())
        return 0
    set_up(parsed.settings.log)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run_manager(parsed))
    except (CommandError, KubeError, OSError, WebhooksNotReadyError) as error:
        if parsed.settings.log.format == "json":
            logging.getLogger("pykruise").critical(format_one_line(error))
        else:
            print(f"error: {format_one_line(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def read_flags(argv: Sequence[str]) -> Parsed:
    """Parse the command line into settings. Raises CommandError when it is invalid."""
    try:
        return parse(argv, environ=os.environ)
    except (FlagError, GateError) as error:
        raise CommandError(str(error)) from error


async def run_manager(parsed: Parsed) -> None:
    """Run until SIGINT or SIGTERM, then finish pending writes.

    Raises CommandError when the cluster rejects a request without which the manager cannot work, and the errors of
    `kube.config.kubeconfig.load` for an invalid configuration.
    """
    stopping = asyncio.Event()
    # First, because without a handler a signal ends the process without cleanup, or has no effect in a container.
    stop_on_signals(stopping.set)
    kubeconfig = Path(parsed.kubeconfig) if parsed.kubeconfig else None
    connection = await run_until(stopping, load(kubeconfig, context=parsed.context or None))
    if connection is None:
        return
    try:
        await run_process(connection, parsed.settings, stopping=stopping)
    except ApiError as error:
        raise CommandError(f"the cluster rejected a request: {error}") from error


def format_crd_manifests(*, layout: str) -> str:
    """All CustomResourceDefinitions as one YAML stream. `layout`: see `find_stored_version` in kinds."""
    from pykruise.kube.yaml_documents import format_yaml_stream

    return format_yaml_stream(build_crds(layout=layout))
