"""An explanation as text for people.

Explanation ──▶ format_explanation(now=…) ──▶ lines

Pure.
"""

from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.kube.clock import Instant, parse_time
from pykruise.plans.progress import Phase


def format_explanation(explanation: Explanation, *, now: Instant) -> str:
    """Return the explanation as text for people."""
    item = explanation
    where = f"{item.namespace}/{item.name}" if item.namespace else item.name
    lines = [f"{item.kind} {where}: {item.phase}. {_capitalize(item.headline)}."]
    if item.condition:
        lines += ["", f"Condition: {item.condition}"]
    if item.done:
        lines += ["", "Done", *(f"  {line}" for line in item.done)]
    lines += format_waits(item, now=now)
    if item.next:
        lines += ["", "Next", *(f"  {line}" for line in item.next)]
    return "\n".join(map(_join_line, lines)) + "\n"


def format_waits(explanation: Explanation, *, now: Instant) -> list[str]:
    """Return the lines about waits, or about parts that are on hold as configured; empty when there are no waits."""
    if not explanation.waits:
        return []
    return [
        "",
        _choose_title(explanation),
        *(_join_line(line) for wait in explanation.waits for line in _wait_lines(wait, now)),
    ]


def _join_line(text: str) -> str:
    """Return the line with spaces instead of the line ends of a message: a part of a message must not look like a line
    of this command, for example like a remedy.
    """
    first, *more = text.splitlines() or [""]
    return " ".join([first, *(line.strip() for line in more)])


def _choose_title(explanation: Explanation) -> str:
    if explanation.verdict != "done":
        return "Waiting for"
    return "Note" if explanation.phase is Phase.COMPLETED else "On hold, as configured"


def _wait_lines(wait: Wait, now: Instant) -> list[str]:
    who = ""
    if wait.pods:
        shown = ", ".join(wait.pods[:6]) + (f", and {len(wait.pods) - 6} more" if len(wait.pods) > 6 else "")
        who = f"{shown}: "
    age = f" (for {format_age(max(now - parse_time(wait.since), 0))})" if wait.since else ""
    if wait.tried:
        age += f"; last tried {format_age(max(now - parse_time(wait.tried), 0))} ago"
    if wait.again:
        left = parse_time(wait.again) - now
        age += f", next try {f'in about {format_age(left)}' if left > 0 else 'now'}"
    lines = [f"  {wait.code}: {who}{wait.words}{age}"]
    if wait.remedy:
        lines.append(f"    → {wait.remedy}")
    return lines


def _capitalize(words: str) -> str:
    return words[:1].upper() + words[1:]


def format_age(seconds: float) -> str:
    """Format a duration: `45s`, `3m20s`, `2h5m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    return f"{minutes // 60}h{minutes % 60}m"
