"""Random numbers from a seed, for decisions: the same seed gives the same numbers.

seed (a value of the snapshot) ──▶ numbers_from() ──▶ names, ids, choices

Pure. Decisions import this instead of `random`, whose functions use a state that the whole process shares.
"""

import random

__all__ = ["numbers_from"]


def numbers_from(seed: int | str) -> random.Random:
    """Return a separate source that starts from the seed."""
    return random.Random(seed)
