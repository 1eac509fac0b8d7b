"""Responses to probes: `/healthz` (the event loop runs) and `/readyz` (the manager can do its work).

Manager, components ──▶ checks by name ──▶ make_responder() ──▶ PlainServer

kube/program/health.py defines the format of the responses.
"""

from collections.abc import Mapping

from pykruise.kube.program.health import Check, make_responder
from pykruise.kube.program.serving import Responder
from pykruise.manager.manager import Manager


def make_health_paths(manager: Manager) -> Mapping[str, Responder]:
    """Return the paths of the probes. For `/healthz`, any response proves that the event loop runs."""
    checks: dict[str, Check] = {
        "ping": lambda: (),
        "shutdown": manager.shutdown_problems,
        "caches-synced": manager.cache_problems,
    }
    checks |= {component.name: component.list_problems for component in manager.components}
    return {
        "/healthz": make_responder("healthz", {"ping": lambda: ()}),
        "/readyz": make_responder("readyz", checks),
    }
