"""The answers to probes: `/healthz` (the process turns) and `/readyz` (it can do its work).

Manager.problems(), components ──▶ checks by name ──▶ respond() ──▶ PlainServer

How answers look: kube/program/health.py.
"""

from collections.abc import Mapping

from pykruise.kube.program.health import Check, responder
from pykruise.kube.program.serving import Responder
from pykruise.manager.manager import Manager


def health_paths(manager: Manager) -> Mapping[str, Responder]:
    """Paths of the probes. The answer itself shows that the process turns."""
    checks: dict[str, Check] = {
        "ping": lambda: (),
        "shutdown": manager.shutdown_problems,
        "caches-synced": manager.cache_problems,
    }
    checks |= {component.name: component.problems for component in manager.components}
    return {"/healthz": responder("healthz", {"ping": lambda: ()}), "/readyz": responder("readyz", checks)}
