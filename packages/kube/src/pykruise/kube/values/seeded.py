"""Random numbers from a seed, for decisions: the same seed gives the same numbers.

seed (a value of the snapshot) ──▶ make_random() ──▶ names, ids, choices

Pure. Code that decides imports this module instead of `random`, whose functions share one state in the process.
"""

import random

__all__ = ["make_random"]


def make_random(seed: int | str) -> random.Random:
    """Return a separate source of random numbers that starts from the seed."""
    return random.Random(seed)
