"""`pykruise manager`: the controllers against a real cluster; `pykruise crds`: what it must know first."""

import asyncio
import signal
from pathlib import Path

import yaml

from pykruise.cli.errors import CommandError
from pykruise.kinds import crds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client import Client
from pykruise.kube.config import load
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.http import HttpTransport
from pykruise.manager.manager import Manager


async def run_manager(*, kubeconfig: Path | None, context: str | None) -> None:
    """Run until SIGINT or SIGTERM, then finish writes in flight.

    Raises CommandError when the cluster does not know the kinds or refuses the credentials, and the errors of
    `kube.config.load` for a configuration that cannot be used.
    """
    transport = HttpTransport(await load(kubeconfig, context=context))
    try:
        client = Client(transport)
        await _check(client)
        manager = Manager(client, freeze_heap=True)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, manager.stop)
        await manager.run()
    finally:
        await transport.close()


async def _check(client: Client) -> None:
    """One cheap request, so that what is wrong is said at once and not in a log."""
    try:
        await client.list(CLONE_SETS, limit=1)
    except NotFoundError as error:
        raise CommandError(
            "the cluster does not know CloneSets; install them first: pykruise crds | kubectl apply -f -"
        ) from error
    except ApiError as error:
        raise CommandError(f"the cluster refuses to list CloneSets: {error}") from error


def crd_manifests() -> str:
    """All CustomResourceDefinitions as one YAML stream."""
    return yaml.safe_dump_all(crds(), sort_keys=False, explicit_start=True)
