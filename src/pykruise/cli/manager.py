"""`pykruise manager`: the controllers against a real cluster; `pykruise crds`: what it must know first."""

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import yaml

from pykruise.cli.errors import CommandError
from pykruise.kinds import crds
from pykruise.kinds.gates import GateError
from pykruise.kube.client import Client
from pykruise.kube.config import load
from pykruise.kube.errors import ApiError
from pykruise.kube.http import HttpTransport
from pykruise.manager.flags import FlagError, Parsed, parse
from pykruise.manager.manager import Manager

_log = logging.getLogger(__name__)


def read_flags(argv: Sequence[str]) -> Parsed:
    """The command line as settings. Raises CommandError for one that cannot be meant."""
    try:
        return parse(argv, environ=os.environ)
    except (FlagError, GateError) as error:
        raise CommandError(str(error)) from error


async def run_manager(parsed: Parsed) -> None:
    """Run until SIGINT or SIGTERM, then finish writes in flight.

    Raises CommandError when the cluster refuses the credentials, and the errors of `kube.config.load` for a
    configuration that cannot be used.
    """
    kubeconfig = Path(parsed.kubeconfig) if parsed.kubeconfig else None
    transport = HttpTransport(await load(kubeconfig, context=parsed.context or None))
    try:
        client = Client(transport)
        await _check(client)
        for note in parsed.settings.notes:
            _log.warning("%s", note)
        manager = Manager(client, settings=parsed.settings, freeze_heap=True)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, manager.stop)
        await manager.run()
    finally:
        await transport.close()


async def _check(client: Client) -> None:
    """One cheap request, so that what is wrong with the configuration is said at once and not in a log."""
    try:
        await client.get_path("/version")
    except ApiError as error:
        raise CommandError(f"the cluster refuses: {error}") from error


def crd_manifests() -> str:
    """All CustomResourceDefinitions as one YAML stream."""
    return yaml.safe_dump_all(crds(), sort_keys=False, explicit_start=True)
