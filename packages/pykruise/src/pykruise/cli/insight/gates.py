"""The settings that plans are made with on the command line: those that the cluster's manager runs with.

--feature-gates A=true,B=false ──▶ given_settings() ─┐
                                                     ├─▶ fitted() to the API server's version ──▶ Settings
the manager's Deployment ──▶ manager_settings() ─────┘
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


def given_settings(feature_gates: str, *, kubernetes: str = "") -> ManagerSettings:
    """Settings with these gates, and the defaults of flags; empty: all defaults. `kubernetes`: the minor, where there
    is no cluster.

    Raises CommandLineError for what is no gate.
    """
    try:
        gates = parse([feature_gates] if feature_gates else [])
    except GateError as error:
        raise CommandLineError(f"--feature-gates: {error}") from error
    return ManagerSettings(gates=gates, kubernetes=kubernetes)


async def fitted(client: Client, settings: ManagerSettings) -> ManagerSettings:
    """The settings as a manager of this cluster fits them to its API server. What may not be read changes nothing."""
    try:
        version = decode(await client.get_path("/version"))
        discovery = decode(await client.get_path("/api/v1"))
    except ApiError:
        return settings
    return settings.fitted(version, uses_resize=has_resize(discovery))


async def manager_settings(client: Client, clock: Clock) -> ManagerSettings:
    """Flags and gates in the arguments of the manager's Deployment.

    The defaults when there is none (the sandbox), when it may not be read, or when pykruise refuses what it says
    (another program's).
    """
    try:
        settings = await Live(client, clock=clock).settings()
    except (ForbiddenError, FlagError, GateError):
        settings = ManagerSettings()
    return await fitted(client, settings)
