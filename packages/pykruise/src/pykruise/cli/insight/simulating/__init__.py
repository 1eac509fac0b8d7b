"""Simulation of a workload's rollout in a separate sandbox, in virtual time.

Play (objects, a change, how nodes behave) ──▶ play() ──▶ Played: what was done when, samples, extremes

values.py   inputs and results                   cluster_copy.py     the cluster of a simulation
record.py   record of its pods                   simulation_run.py   one simulation from beginning to end
other_actors.py   other actors: drains, hooks, pods that fail

The simulation of ten pods for one hour takes less than half a second. Equal inputs give equal results: `seed` decides
names, delays and failures. The real manager does the work, with real caches and simulated kubelets; no logic exists
twice.
"""

from pykruise.cli.insight.simulating.nodes import make_roomy_nodes, nodes_of_subsets, read_nodes
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
    "make_roomy_nodes",
    "nodes_of_subsets",
    "play",
    "read_nodes",
]
