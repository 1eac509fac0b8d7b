"""Limits the length of answers: an assistant reads every character, and a workload may have 10,000 pods.

document ──▶ shorten_document() ──▶ the same, with the count of omitted items

Pure.
"""

from typing import Any, Final

from pykruise.kube.values.counts import format_count

MOST_ITEMS: Final = 50
"""Maximum number of items of a list."""
MOST_CHARACTERS: Final = 4_000
"""Maximum number of characters of a text."""
MOST_TEXT: Final = 20_000
"""Maximum number of characters of a report for people."""


def shorten_document(value: Any) -> Any:
    """Return the document with long lists and texts cut.

    A list of texts ends with `… and 950 more`. For any other list, such as `batches`, an additional field
    (`omitted_batches`) contains the number of items that are left out.
    """
    if isinstance(value, str):
        return shorten_text(value)
    if isinstance(value, dict):
        result = {name: shorten_document(part) for name, part in value.items()}
        return result | {
            f"omitted_{name}": count for name, part in value.items() if (count := _count_omitted_items(part))
        }
    if not isinstance(value, list):
        return value
    kept = [shorten_document(item) for item in value[:MOST_ITEMS]]
    if len(value) > MOST_ITEMS and all(isinstance(item, str) for item in value):
        kept.append(f"… and {len(value) - MOST_ITEMS} more")
    return kept


def _count_omitted_items(value: Any) -> int:
    """Return the number of items that `shorten_document` drops from a list; 0 for a list of texts, whose last item
    names the number.
    """
    if not isinstance(value, list) or all(isinstance(item, str) for item in value):
        return 0
    return max(len(value) - MOST_ITEMS, 0)


def shorten_text(text: str, limit: int = MOST_CHARACTERS) -> str:
    """The text, cut after `limit` characters."""
    return (
        text
        if len(text) <= limit
        else f"{text[:limit]}… and {format_count(len(text) - limit, 'more character')}"
    )
