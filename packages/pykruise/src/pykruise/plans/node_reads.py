"""Reads of the nodes of pods, from the caches.

names of nodes ──▶ read_nodes() ──▶ snapshots
"""

from collections.abc import Iterable, Mapping

from pykruise.kube.ids import Key
from pykruise.plans.views import NODE_VIEWS, NodeView
from pykruise.runtime.read import Mirrors


def read_nodes(names: Iterable[str], read: Mirrors) -> Mapping[str, NodeView]:
    """Return the existing nodes with these names, by name. The empty name, of pods without a node, is ignored."""
    nodes = (read.get(NODE_VIEWS, Key("", name)) for name in set(names))
    return {node.name: node for node in nodes if node is not None}
