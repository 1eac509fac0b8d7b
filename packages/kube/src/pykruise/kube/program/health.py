"""Answers to probes: whether each check of a program passes.

checks by name ──▶ responder("healthz", …) ──▶ PlainServer

Text and query parameters follow Kubernetes' components: `ok`, or each check with `[+]` and `[-]`;
`?verbose=1` shows all of them, `?exclude=<check>` leaves one out, `/readyz/<check>` asks for one.
"""

from collections.abc import Callable, Mapping, Sequence

from pykruise.kube.program.serving import PathAnswer, Query, Responder

__all__ = ["Check", "responder"]

Check = Callable[[], Sequence[str]]
"""Problems, one sentence each; empty: passed."""


def responder(endpoint: str, checks: Mapping[str, Check]) -> Responder:
    """Answers for one endpoint: 200 when every check passes, else 500 with what does not."""

    def respond(rest: str, query: Query) -> PathAnswer:
        if rest:
            return _one(rest, checks)
        excluded = query.get("exclude", ())
        wanted = {name: check() for name, check in checks.items() if name not in excluded}
        is_fine = not any(wanted.values())
        if is_fine and "verbose" not in query:
            return PathAnswer("ok")
        lines = [line for name, problems in wanted.items() for line in _lines(name, problems)]
        lines.append(f"{endpoint} check {'passed' if is_fine else 'failed'}")
        return PathAnswer("\n".join(lines) + "\n", 200 if is_fine else 500)

    return respond


def _one(name: str, checks: Mapping[str, Check]) -> PathAnswer:
    check = checks.get(name)
    if check is None:
        return PathAnswer(f"no check {name}; there are: {', '.join(checks)}\n", 404)
    problems = check()
    if not problems:
        return PathAnswer("ok")
    return PathAnswer("".join(f"{line}\n" for line in _lines(name, problems)), 500)


def _lines(name: str, problems: Sequence[str]) -> list[str]:
    return [f"[-]{name} failed: {problem}" for problem in problems] or [f"[+]{name} ok"]
