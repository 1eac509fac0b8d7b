"""`pykruise manager`: the controllers against a real cluster; `pykruise crds`: what it must know first."""

import os
from collections.abc import Sequence
from pathlib import Path

import yaml

from pykruise.cli.errors import CommandError
from pykruise.kinds import crds
from pykruise.kinds.gates import GateError
from pykruise.kube.config import load
from pykruise.kube.errors import ApiError
from pykruise.manager.flags import FlagError, Parsed, parse
from pykruise.manager.process import run_process


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
    connection = await load(kubeconfig, context=parsed.context or None)
    try:
        await run_process(connection, parsed.settings)
    except ApiError as error:
        raise CommandError(f"the cluster refuses: {error}") from error


def crd_manifests() -> str:
    """All CustomResourceDefinitions as one YAML stream."""
    return yaml.safe_dump_all(crds(), sort_keys=False, explicit_start=True)
