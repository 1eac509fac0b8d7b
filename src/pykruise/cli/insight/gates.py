"""Feature gates on the command line: those that the cluster's manager runs with.

--feature-gates A=true,B=false ──▶ settings_of() ──▶ Settings, as the manager would make them
"""

from pykruise.cli.errors import CommandError
from pykruise.kinds.gates import GateError, parse
from pykruise.manager.settings import Settings

__all__ = ["settings_of"]


def settings_of(text: str) -> Settings:
    """What these gates mean for plans; empty: the defaults. Raises CommandError for what is no gate."""
    try:
        return Settings(gates=parse([text] if text else []))
    except GateError as error:
        raise CommandError(f"--feature-gates: {error}") from error
