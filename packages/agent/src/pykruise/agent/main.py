"""`pykruise-agent`: the node agent against a real cluster."""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from pykruise.agent.flags import AgentSettings, format_help, parse
from pykruise.kube.config.connection import Connection
from pykruise.kube.config.kubeconfig import load
from pykruise.kube.errors import KubeError
from pykruise.kube.program.flags import FlagError
from pykruise.kube.program.logs import set_up


def main() -> int:
    """Run with the flags of the command line and return the exit code. Expected errors are printed as one line."""
    try:
        settings = parse(sys.argv[1:], environ=os.environ)
    except FlagError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if settings is None:
        sys.stdout.write(format_help() + "\n")
        return 0
    set_up(settings.log)
    try:
        from pykruise.agent.process import run_process
    except ModuleNotFoundError as error:  # the package was installed without the libraries that a node needs
        sys.stderr.write(
            f"error: the Python module {error.name} is missing; run: pip install 'pykruise-agent[node]'\n"
        )
        return 1
    try:
        asyncio.run(_run(run_process, settings))
    except (KubeError, OSError) as error:
        logging.getLogger("pykruise.agent").critical("%s", error)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


async def _run(
    run_process: Callable[[Connection, AgentSettings], Awaitable[None]], settings: AgentSettings
) -> None:
    kubeconfig = Path(settings.kubeconfig) if settings.kubeconfig else None
    await run_process(await load(kubeconfig, context=settings.context or None), settings)


if __name__ == "__main__":
    sys.exit(main())
