"""The settings with which the command line makes plans: the same as those of the cluster's manager.

--feature-gates A=true,B=false ──▶ parse_settings() ─┐
                                                     ├─▶ fit_settings() to the API server's version ──▶ ManagerSettings
the manager's Deployment ──▶ read_manager_settings() ─────┘
"""

from pykruise.cli.errors import CommandLineError
from pykruise.kinds.gates import GateError, parse
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.documents import decode
from pykruise.kube.errors import ApiError, ForbiddenError
from pykruise.kube.program.flags import FlagError
from pykruise.manager.doctor.live import Live
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.in_place import has_resize


def parse_settings(feature_gates: str, *, kubernetes: str = "") -> ManagerSettings:
    """Return settings with these feature gates and the default flags; an empty text gives all defaults. `kubernetes`:
    the minor version when there is no cluster.

    Raises CommandLineError for an invalid gate.
    """
    try:
        gates = parse([feature_gates] if feature_gates else [])
    except GateError as error:
        raise CommandLineError(f"--feature-gates: {error}") from error
    return ManagerSettings(gates=gates, kubernetes=kubernetes)


async def fit_settings(client: Client, settings: ManagerSettings) -> ManagerSettings:
    """Adjust the settings to the API server as a manager of this cluster does. If the user may not read the version,
    return the settings unchanged.
    """
    try:
        version = decode(await client.get_path("/version"))
        discovery = decode(await client.get_path("/api/v1"))
    except ApiError:
        return settings
    return settings.fit_version(version, uses_resize=has_resize(discovery))


async def read_manager_settings(client: Client, clock: Clock) -> ManagerSettings:
    """Read flags and feature gates from the arguments of the manager's Deployment.

    Returns the defaults when there is no Deployment (the sandbox), when the user may not read it, or when its arguments
    are not valid for pykruise (because it runs another program).
    """
    try:
        settings = await Live(client, clock=clock).read_settings()
    except (ForbiddenError, FlagError, GateError):
        settings = ManagerSettings()
    return await fit_settings(client, settings)
