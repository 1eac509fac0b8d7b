"""How many examples a property has, as a share of what the profile says (tests/conftest.py).

@examples(0.5)   half as many: one of its examples costs more than others' do
"""

from typing import Any

from hypothesis import settings


def examples(share: float, **others: Any) -> settings:
    """Settings with that share of the profile's examples; `others` as for hypothesis' own."""
    return settings(max_examples=max(1, round(share * settings.default.max_examples)), **others)
