"""What probes are told: `/healthz` (the process turns) and `/readyz` (it can do its work).

Manager.problems(), components ──▶ checks by name ──▶ respond() ──▶ PlainServer

Text and query parameters follow Kubernetes' components: `ok`, or each check with `[+]` and `[-]`;
`?verbose=1` shows all of them, `?exclude=<check>` leaves one out, `/readyz/<check>` asks for one.
"""

from collections.abc import Callable, Mapping, Sequence

from pykruise.manager.manager import Manager
from pykruise.manager.serving import Answer, Query, Responder

__all__ = ["Check", "health_paths", "responder"]

Check = Callable[[], Sequence[str]]
"""Problems, one sentence each; empty: passed."""


def health_paths(manager: Manager) -> Mapping[str, Responder]:
    """Paths of the probes. Whether the process turns is told by the answer itself."""
    checks: dict[str, Check] = {
        "ping": lambda: (),
        "shutdown": manager.shutdown_problems,
        "caches-synced": manager.cache_problems,
    }
    checks |= {component.name: component.problems for component in manager.components}
    return {"/healthz": responder("healthz", {"ping": lambda: ()}), "/readyz": responder("readyz", checks)}


def responder(endpoint: str, checks: Mapping[str, Check]) -> Responder:
    """Answers for one endpoint: 200 when every check passes, else 500 with what does not."""

    def respond(rest: str, query: Query) -> Answer:
        if rest:
            return _one(rest, checks)
        excluded = query.get("exclude", ())
        wanted = {name: check() for name, check in checks.items() if name not in excluded}
        is_fine = not any(wanted.values())
        if is_fine and "verbose" not in query:
            return Answer("ok")
        lines = [line for name, problems in wanted.items() for line in _lines(name, problems)]
        lines.append(f"{endpoint} check {'passed' if is_fine else 'failed'}")
        return Answer("\n".join(lines) + "\n", 200 if is_fine else 500)

    return respond


def _one(name: str, checks: Mapping[str, Check]) -> Answer:
    check = checks.get(name)
    if check is None:
        return Answer(f"no check {name}; there are: {', '.join(checks)}\n", 404)
    problems = check()
    if not problems:
        return Answer("ok")
    return Answer("".join(f"{line}\n" for line in _lines(name, problems)), 500)


def _lines(name: str, problems: Sequence[str]) -> list[str]:
    return [f"[-]{name} failed: {problem}" for problem in problems] or [f"[+]{name} ok"]
