"""The table in docs/kubectl.md of the verbs that each kind supports, generated from the presentation of the kinds.

kinds.all_shown() ──▶ table() ──▶ with_table(page) ──▶ docs/kubectl.md

    python -m tools.verbs_page docs/kubectl.md
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pykruise.kinds import all_shown
from pykruise.plans.shown import Shown

__all__ = ["BEGIN", "END", "table", "with_table"]

BEGIN: Final = "<!-- made by: python -m tools.verbs_page docs/kubectl.md -->"
END: Final = "<!-- end of what is made -->"

_VERBS: Final[Sequence[tuple[str, Callable[[Shown], bool]]]] = (
    ("`rollout status`", lambda shown: shown.progress is not None),
    ("`rollout history`, `undo`", lambda shown: bool(shown.verbs.history)),
    ("`rollout pause`, `resume`", lambda shown: "paused" in shown.fields),
    ("`rollout restart`", lambda shown: bool(shown.verbs.restart)),
    (
        "`set image`, `env`, `resources`, `serviceaccount`",
        lambda shown: bool(shown.templates or shown.pod_spec),
    ),
    ("`set partition`", lambda shown: "partition" in shown.fields),
    ("`set maxunavailable`", lambda shown: "maxUnavailable" in shown.fields),
    ("`set maxsurge`", lambda shown: "maxSurge" in shown.fields),
    ("`set update-strategy`", lambda shown: shown.verbs.strategy is not None),
    ("`scaledown --pods`", lambda shown: bool(shown.verbs.victims)),
    ("`expose`", lambda shown: shown.verbs.exposes),
    ("a table of `get all`", lambda shown: bool(shown.columns)),
)
"""Verbs, and a test whether a kind supports the verb."""


def table() -> str:
    """Return a table with a row for each verb."""
    rows = ["| verb | of Kubernetes | of OpenKruise |", "|---|---|---|"]
    for verb, is_for in _VERBS:
        kinds = [shown for shown in all_shown() if is_for(shown)]
        theirs = ", ".join(sorted(shown.kind for shown in kinds if not _is_kruise(shown)))
        ours = ", ".join(sorted(shown.title or shown.kind for shown in kinds if _is_kruise(shown)))
        rows.append(f"| {verb} | {theirs} | {ours} |")
    return "\n".join(rows)


def _is_kruise(shown: Shown) -> bool:
    return shown.group.endswith("kruise.io")


def with_table(page: str) -> str:
    """Return the page with the current table. Raises ValueError for a page without markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no place for the table: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text("utf-8")), "utf-8")
