"""Letting time run in a copy: a workload plays its rollout in a sandbox of its own, in virtual time.

Play (objects, a change, how nodes behave) ──▶ play() ──▶ Played: what was done when, samples, extremes

values.py   what goes in and what comes out      cluster_copy.py     the cluster of a play
record.py   what is seen of its pods             simulation_run.py      one play from its begin to its end
other_actors.py   what happens besides: drains, hooks, pods that fail

An hour of ten pods takes less than half a second. Equal plays give equal results: `seed` decides names, delays and
who fails. Who does it is the real manager with the real caches and kubelets on paper; nothing is modelled a second
time.
"""

from pykruise.cli.insight.simulating.nodes import nodes_in, nodes_of_subsets, room_for
from pykruise.cli.insight.simulating.simulation_run import play
from pykruise.cli.insight.simulating.values import (
    Drain,
    NodeChange,
    Outage,
    Play,
    PlayAction,
    Played,
    PlayWorld,
    Sample,
)

__all__ = [
    "Drain",
    "NodeChange",
    "Outage",
    "Play",
    "PlayAction",
    "PlayWorld",
    "Played",
    "Sample",
    "nodes_in",
    "nodes_of_subsets",
    "play",
    "room_for",
]
