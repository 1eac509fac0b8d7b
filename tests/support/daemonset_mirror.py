"""A DaemonSet's nodes and pods as caches have them: only a changed object gets a new view.

mirror = Mirror(daemonset(1000)); mirror.snapshot(); mirror.builder.taint("n7", "x:NoExecute"); mirror.snapshot()

`snapshot()` uses the memory of the previous snapshot, `afresh()` does not.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import orjson

from pykruise.kinds.daemonset.snapshot import DaemonSetSnapshot
from pykruise.plans.views import NodeView, project_node
from pykruise.pods.view.decoding import PodProjector
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Memories
from support.daemonset_builder import DaemonSetBuilder

V = TypeVar("V")


class Mirror:
    """Views of the builder's documents. A view stays the same object while its document does not change."""

    def __init__(self, builder: DaemonSetBuilder) -> None:
        self.builder = builder
        self.revisions = builder.revision_views()
        self._nodes: dict[bytes, NodeView] = {}
        self._pods: dict[bytes, PodView] = {}
        self._project = PodProjector()
        self._memories = Memories()

    def snapshot(self) -> DaemonSetSnapshot:
        """Snapshot with the memory of the previous one, as in a controller that keeps running."""
        return self._snapshot(self._memories)

    def afresh(self) -> DaemonSetSnapshot:
        """Snapshot without memory, as in a manager that has just started."""
        return self._snapshot(Memories())

    def _snapshot(self, memories: Memories) -> DaemonSetSnapshot:
        builder = self.builder
        self._nodes = _views(builder.nodes.values(), self._nodes, project_node)
        self._pods = _views(builder.pods.values(), self._pods, self._project)
        return builder.snapshot_of(
            self._nodes.values(), self._pods.values(), self.revisions, memories=memories
        )


def _views(
    documents: Iterable[Mapping[str, Any]], known: Mapping[bytes, V], project: Callable[[bytes], V]
) -> dict[bytes, V]:
    texts = [orjson.dumps(document) for document in documents]
    return {text: known[text] if text in known else project(text) for text in texts}
