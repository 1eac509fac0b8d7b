"""The page of all reasons, generated from their table: docs/reasons.md.

CODES ──▶ render_reasons_page() ──▶ Markdown; `python -m tools.reasons_page` prints it, and a test compares

Pure.
"""

import sys
from typing import Final

from pykruise.pods.reasons import AT_REST, CODES, NOT_WRITTEN, Code
from pykruise.runtime.reasons import NOTHING

__all__ = ["render_reasons_page"]

_HEAD: Final = """# Reasons

`python -m tools.reasons_page` generates this page.

When an object does not (yet) match its spec, the reason has a code and a message. The code is the `reason` of the
condition `Waiting`, and [`explain` and `plan`](plan-and-explain.md) show it and write it as JSON. Programs should
compare the code. The message is for people, and its text may change in the next version. It names the pods, the
fields and, if known, a remedy for this case. `explain` looks for the cause in the order of this table: causes come
before their consequences.

- *at rest*: the spec requests this state, or the reason is only information. Nothing waits.
- *not written*: a planned write fails, and the manager retries it automatically. With `NoManager`, no manager has
  planned the write.

| code | what it means | what helps | |
|---|---|---|---|
"""


def render_reasons_page() -> str:
    """Return the whole page."""
    return _HEAD + "".join(_format_row(code) for code in Code)


def _format_row(code: Code) -> str:
    meaning = CODES[code]
    helps = (meaning.helps or NOTHING).replace("|", "\\|")
    return f"| `{code}` | {meaning.means} | {helps} | {_describe_state(code)} |\n"


def _describe_state(code: Code) -> str:
    if code in AT_REST:
        return "at rest"
    return "not written" if code in NOT_WRITTEN else ""


if __name__ == "__main__":
    sys.stdout.write(render_reasons_page())
