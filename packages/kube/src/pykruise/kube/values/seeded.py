"""Random numbers that follow from a seed, for decisions: the same seed gives the same numbers.

seed (a value of the snapshot) ──▶ numbers_from() ──▶ names, ids, choices

Pure. Decisions import this instead of `random`, whose functions draw from a state that all of a process share.
"""

import random

__all__ = ["numbers_from"]


def numbers_from(seed: int | str) -> random.Random:
    """A source of its own, which begins with the seed."""
    return random.Random(seed)
