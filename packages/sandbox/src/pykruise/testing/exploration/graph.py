"""Results of an exploration: the numbers of states and steps, broken rules, and states from which the world never comes
to rest.

Steps ──▶ Graph ──▶ violations, stuck(), path_to()

Pure. A world is at rest when no more steps follow (deciding.py).
"""

from collections import deque
from collections.abc import Sequence

from pykruise.testing.exploration.searching import ExploredStep

__all__ = ["Graph"]


class Graph:
    """States and the steps between them."""

    def __init__(self, steps: Sequence[ExploredStep]) -> None:
        self.transitions = len(steps)
        self.states = {step.after for step in steps}
        self.rests = {step.after for step in steps if step.is_rest}
        self.left = {step.after for step in steps if step.is_left}
        """States that were not followed, because the bound was reached."""
        self.broken = [step for step in steps if step.rule]
        self._first: dict[int, tuple[int, str]] = {}
        self._to: dict[int, list[tuple[int, str]]] = {}
        self._from: dict[int, list[int]] = {}
        for step in steps:
            self._to.setdefault(step.before, []).append((step.after, step.label))
            self._from.setdefault(step.after, []).append(step.before)

    def stuck(self) -> set[int]:
        """Return the states from which the world never comes to rest: deadlocks, and cycles without an exit.

        States that were not followed, and states in which a rule was broken, are treated like states at rest.
        """
        good = {*self.rests, *self.left, *(step.after for step in self.broken)}
        todo = deque(good)
        while todo:
            for before in self._from.get(todo.popleft(), ()):
                if before not in good:
                    good.add(before)
                    todo.append(before)
        return self.states - good

    def path_to(self, state: int) -> list[str]:
        """Return the labels of a shortest path to the state."""
        first: dict[int, tuple[int, str]] = {}
        todo = deque([0])
        while todo:
            at = todo.popleft()
            for after, label in self._to.get(at, ()):
                if after not in first:
                    first[after] = (at, label)
                    todo.append(after)
        path = []
        while state != 0:
            state, label = first[state]
            path.append(label)
        return [label for label in reversed(path) if label]
