"""Responses to probes: the results of a program's checks.

checks by name ──▶ make_responder("healthz", …) ──▶ PlainServer

Text and query parameters follow Kubernetes' components: `ok`, or each check with `[+]` and `[-]`; `?verbose=1` shows
all checks, `?exclude=<check>` leaves one out, `/readyz/<check>` returns one.
"""

from collections.abc import Callable, Mapping, Sequence

from pykruise.kube.program.serving import PathAnswer, Query, Responder

__all__ = ["Check", "make_responder"]

Check = Callable[[], Sequence[str]]
"""Returns the problems, one sentence each; empty: the check passed."""


def make_responder(endpoint: str, checks: Mapping[str, Check]) -> Responder:
    """Return a responder for one endpoint: 200 when every check passes, else 500 with the failed checks."""

    def respond(rest: str, query: Query) -> PathAnswer:
        if rest:
            return _answer_for_check(rest, checks)
        excluded = query.get("exclude", ())
        wanted = {name: check() for name, check in checks.items() if name not in excluded}
        is_fine = not any(wanted.values())
        if is_fine and "verbose" not in query:
            return PathAnswer("ok")
        lines = [line for name, problems in wanted.items() for line in _check_lines(name, problems)]
        lines.append(f"{endpoint} check {'passed' if is_fine else 'failed'}")
        return PathAnswer("\n".join(lines) + "\n", 200 if is_fine else 500)

    return respond


def _answer_for_check(name: str, checks: Mapping[str, Check]) -> PathAnswer:
    check = checks.get(name)
    if check is None:
        return PathAnswer(f"no check {name}; the checks are: {', '.join(checks)}\n", 404)
    problems = check()
    if not problems:
        return PathAnswer("ok")
    return PathAnswer("".join(f"{line}\n" for line in _check_lines(name, problems)), 500)


def _check_lines(name: str, problems: Sequence[str]) -> list[str]:
    return [f"[-]{name} failed: {problem}" for problem in problems] or [f"[+]{name} ok"]
