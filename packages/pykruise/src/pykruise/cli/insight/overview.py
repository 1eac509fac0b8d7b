"""Many objects at a glance: one row each, objects that need action first.

Explanations ──▶ format_overview() ──▶ rows: object, phase, cause; number of healthy objects; command for details

Pure.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pykruise.cli.insight.explanations import Explanation
from pykruise.kube.values.counts import format_count
from pykruise.plans.progress import Phase

_ORDER: Final = (
    *(Phase.FAILED, Phase.DEGRADED, Phase.PROGRESSING),
    *(Phase.PAUSED, Phase.HEALTHY, Phase.COMPLETED),
)
"""Order of rows: objects that need a person, objects that progress, objects that are as requested."""
MOST_WORDS: Final = 120


def format_overview(explanations: Sequence[Explanation], *, names_namespace: bool = False) -> str:
    """Return the overview as text for people. `names_namespace`: commands must name the namespace, because some objects
    are perhaps not in the namespace of the kubeconfig's context.
    """
    if not explanations:
        return "There is nothing to explain."
    ordered = sort_by_need(explanations)
    names = [_name_of(explanation) for explanation in ordered]
    width = min(max(map(len, names)), 60)
    lines = [
        f"{name:{width}}  {explanation.phase:11}  {_in_brief(explanation)}".rstrip()
        for name, explanation in zip(names, ordered, strict=True)
    ]
    return "\n".join(
        [
            _count_line(ordered),
            "",
            *lines,
            *_format_details_command(ordered[0], names_namespace=names_namespace),
        ]
    )


def format_hidden_kinds(kinds: Sequence[str]) -> str:
    """Return the sentence about kinds that the user has no permission to list; empty if there are none."""
    if not kinds:
        return ""
    return f"These kinds are not shown, because you have no permission to list their objects: {', '.join(kinds)}."


def sort_by_need(explanations: Iterable[Explanation]) -> list[Explanation]:
    """Sort objects that need action first, then by kind, namespace and name."""
    return sorted(
        explanations,
        key=lambda explanation: (
            _ORDER.index(explanation.phase),
            explanation.kind,
            explanation.namespace,
            explanation.name,
        ),
    )


def _name_of(explanation: Explanation) -> str:
    return (
        f"{explanation.kind} {explanation.namespace}/{explanation.name}"
        if explanation.namespace
        else f"{explanation.kind} {explanation.name}"
    )


def _count_line(explanations: Sequence[Explanation]) -> str:
    count = sum(explanation.phase.needs_a_person for explanation in explanations)
    objects = format_count(len(explanations), "object")
    if not count:
        return f"No action is needed for {objects}."
    return f"{count} of {objects} {'needs' if count == 1 else 'need'} action."


def _in_brief(explanation: Explanation) -> str:
    """Return the cause in brief; without waits, the headline."""
    if not explanation.waits:
        words = explanation.headline
    else:
        first = explanation.waits[0]
        pods = (
            f"{first.pods[0]}{f' (and {len(first.pods) - 1} more)' if len(first.pods) > 1 else ''}: "
            if first.pods
            else ""
        )
        words = f"{first.code}: {pods}{first.words}"
    words = " ".join(words.split())  # a row is one line
    return words if len(words) <= MOST_WORDS else f"{words[: MOST_WORDS - 1]}…"


def _format_details_command(first: Explanation, *, names_namespace: bool) -> list[str]:
    """Return the command that shows details of the first row, when that object needs action."""
    if not first.phase.needs_a_person:
        return []
    where = f" -n {first.namespace}" if first.namespace and names_namespace else ""
    return ["", f"Details and remedies: pykruise explain {first.kind.lower()}/{first.name}{where}"]
