"""Number of examples of a property, as a share of the profile's number (conftest.py).

@examples(0.5)   half of the number, because these examples are expensive
"""

from typing import Any

from hypothesis import settings


def examples(share: float, **others: Any) -> settings:
    """Settings with that share of the profile's examples; `others`: further settings of hypothesis."""
    return settings(max_examples=max(1, round(share * settings.default.max_examples)), **others)
