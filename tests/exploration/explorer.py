"""Every path of a scope of pykruise's kinds: `pykruise.testing.exploration` with the worlds of world.py.

Scope ──▶ explore() ──▶ Steps ──▶ Graph          Scope + labels ──▶ follow() ──▶ the rule that is broken then
"""

from collections.abc import Sequence

from exploration.world import Scope, World
from pykruise.testing.exploration.searching import MOST_STATES, ExploredStep, follow_labels, search
from pykruise.testing.simulation.worlds import Violation

__all__ = ["ExploredStep", "explore", "follow"]


def explore(
    scope: Scope,
    *,
    most_states: int = MOST_STATES,
    processes: int = 1,
    until_broken: bool = False,
    seed: int = 0,
) -> list[ExploredStep]:
    """Try everything that can happen in a scope; return each step. `until_broken`: stop at the first broken rule."""
    return search(
        lambda choose: World(scope).play(choose),
        most_states=most_states,
        processes=processes,
        until_broken=until_broken,
        seed=seed,
        deepest=scope.deepest,
        lead=scope.lead,
    )


def follow(scope: Scope, labels: Sequence[str]) -> tuple[Violation | None, tuple[str, ...]]:
    """Play these choices in a child process: the rule that they break, and the next possible choices."""
    return follow_labels(lambda choose: World(scope).play(choose), labels)
