"""Exploration: every order of events in small worlds, their number, and the shortest path to a broken rule.

make explore KIND=cloneset PODS=3
python -m exploration --kind statefulset --small --only "in order"
"""

import argparse
import os
import sys
import time

import msgspec

from exploration.explorer import explore, follow
from exploration.scopes import KINDS, scopes
from exploration.world import Scope
from pykruise.testing.exploration.graph import Graph

__all__ = ["main"]


def main() -> int:
    """0: nothing was found."""
    parser = argparse.ArgumentParser(prog="exploration", description=__doc__)
    parser.add_argument(
        "--kind", default="", choices=["", *sorted(KINDS)], help="of all kinds where it is not given"
    )
    parser.add_argument("--pods", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="what the tests explore")
    parser.add_argument("--only", default="", help="scopes with this text in their names")
    parser.add_argument("--lag", type=int, default=0, help="another bound than the scope's")
    parser.add_argument("--most", type=int, default=200_000, help="states of a scope")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    number = 0
    for kind in [options.kind] if options.kind else KINDS:
        for scope in scopes(kind, pods=options.pods, is_large=not options.small):
            if options.only in scope.name:
                scope = msgspec.structs.replace(scope, lag=options.lag) if options.lag else scope
                number += _explore(scope, most=options.most, processes=options.processes)
    return 1 if number else 0


def _explore(scope: Scope, *, most: int, processes: int) -> int:
    begun = time.monotonic()
    graph = Graph(explore(scope, most_states=most, processes=processes))
    seconds = time.monotonic() - begun
    end = f", {len(graph.left)} not followed" if graph.left else ""
    print(
        f"{scope.name}: {len(graph.states)} states, {graph.transitions} transitions, "
        f"{len(graph.rests)} at rest{end}, {seconds:.1f} s",
        flush=True,
    )
    stuck = graph.stuck()
    for rule in sorted({step.rule for step in graph.broken}):
        _show(scope, graph, rule)
    if stuck:
        path = min((graph.path_to(state) for state in stuck), key=len)
        print(f"  {len(stuck)} states without a way to rest, the nearest:", *path, sep="\n    ")
    return len(graph.broken) + len(stuck)


def _show(scope: Scope, graph: Graph, rule: str) -> None:
    """Print the shortest path to a broken rule. If it does not break the rule again, print the explored path."""
    steps = [step for step in graph.broken if step.rule == rule]
    step = min(steps, key=lambda step: len(graph.path_to(step.after)))
    path = tuple(graph.path_to(step.after))
    violation, _ = follow(scope, path)
    if violation is None or violation.rule != rule:
        step = min(steps, key=lambda step: len(step.path))
        path = step.path
    print(f"  {len(steps)} ways to break {rule}: {step.what}", *path, sep="\n    ", flush=True)


if __name__ == "__main__":
    sys.exit(main())
