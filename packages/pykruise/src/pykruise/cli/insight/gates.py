"""The settings that plans are made with on the command line: those that the cluster's manager runs with.

--feature-gates A=true,B=false ──▶ given_settings() ─┐
                                                     ├─▶ Settings
the manager's Deployment ──▶ manager_settings() ─────┘
"""

from pykruise.cli.errors import CommandLineError
from pykruise.kinds.gates import GateError, parse
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.errors import ForbiddenError
from pykruise.kube.program.flags import FlagError
from pykruise.manager.doctor.live import Live
from pykruise.manager.settings import ManagerSettings


def given_settings(feature_gates: str) -> ManagerSettings:
    """Settings with these gates, and the defaults of flags; empty: all defaults.

    Raises CommandLineError for what is no gate.
    """
    try:
        return ManagerSettings(gates=parse([feature_gates] if feature_gates else []))
    except GateError as error:
        raise CommandLineError(f"--feature-gates: {error}") from error


async def manager_settings(client: Client, clock: Clock) -> ManagerSettings:
    """Flags and gates in the arguments of the manager's Deployment.

    The defaults when there is none (the sandbox), when it may not be read, or when pykruise refuses what it says
    (another program's).
    """
    try:
        return await Live(client, clock=clock).settings()
    except (ForbiddenError, FlagError, GateError):
        return ManagerSettings()
