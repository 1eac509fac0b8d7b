"""The page of all reasons, generated from their table: docs/reasons.md.

CODES ──▶ reasons_page() ──▶ Markdown; `python -m tools.reasons_page` prints it, and a test compares

Pure.
"""

import sys
from typing import Final

from pykruise.pods.reasons import AT_REST, CODES, NOT_WRITTEN, Code
from pykruise.runtime.reasons import NOTHING

__all__ = ["reasons_page"]

_HEAD: Final = """# Reasons

Made by `python -m tools.reasons_page`.

Why something is not (yet) as it was asked for has a code and a message. The code is the reason of the condition
`Waiting`, and what [`explain` and `plan`](plan-and-explain.md) show and write as JSON: programs go by it. The message
is for people and may be worded otherwise in the next version; it names the pods, the fields, and what helps in this
one case, where that is known. The order is that in which `explain` looks for the cause: what stands further up comes
first, what only follows from it comes after.

- *at rest*: as it was asked for, or worth knowing; nothing is waited for.
- *not written*: what is planned does not come about; the manager tries again by itself.

| code | what it means | what helps | |
|---|---|---|---|
"""


def reasons_page() -> str:
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
    sys.stdout.write(reasons_page())
