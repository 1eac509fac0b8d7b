"""All webhooks with one stored object, and the views of caches, for documents that may be invalid.

Whole + document ──▶ Cluster ──▶ rules_around() ──▶ every admission review, which reads that object
document ──▶ view_of() ──▶ the view, with its indexes
"""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import orjson

from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds import list_kinds
from pykruise.kinds.gates import GATES, Gates
from pykruise.kube.admission import ReviewRule
from pykruise.kube.ids import Key
from pykruise.plans.review import Lookups
from pykruise.pods.workload.allowed_workloads import WhiteList
from support.wrong_values import LABELS, Document, Whole, pod

__all__ = ["NOW", "Cluster", "rules_around", "view_of", "views"]

NOW: Final = 1_800_000_000.0
SETTINGS: Final = AdmissionSettings(
    gates=Gates.of(**dict.fromkeys(GATES, True)),
    deletion_protection=True,
    crd_cascading=True,
)


class Cluster:
    """The reads of webhooks if only one object is stored."""

    def __init__(self, whole: Whole | None = None, document: Document | None = None) -> None:
        self._kind = whole.resource.kind if whole is not None else ""
        self._document = document

    def views(self, kind: str) -> list[Any]:
        if kind != self._kind or self._document is None:
            return []
        return [view_of(kind, self._document)]

    async def list_sidecar_sets(self) -> list[Any]:
        return self.views("SidecarSet")

    async def list_spreads(self, namespace: str) -> list[Any]:
        return self.views("WorkloadSpread")

    async def list_states(self, namespace: str) -> list[Any]:
        return self.views("PersistentPodState")

    async def list_in_namespace(self, namespace: str) -> list[Any]:
        return self.views("PodUnavailableBudget")

    async def read_fresh(self, key: Key) -> Any:
        return next(iter([*self.views("WorkloadSpread"), *self.views("PodUnavailableBudget")]), None)

    async def write(self, view: Any, changes: Any) -> Any:
        return view

    async def is_supported(self, kind: Any) -> bool:
        return True

    async def read_namespace_labels(self, name: str) -> Mapping[str, str]:
        return LABELS

    async def list_revisions(self, name: str) -> list[Any]:
        return []

    async def read_replicas(self, view: Any) -> int:
        return 4

    async def read_pod(self, namespace: str, name: str) -> Document:
        return pod().document

    async def read_cloneset(self, namespace: str, name: str) -> Document:
        return {"metadata": {"name": name, "uid": "uid"}}

    async def record_eviction(self, pod: Document, record: Document) -> None:
        pass

    async def read(self, kind: Any, namespace: str, name: str, **_: Any) -> Document | None:
        return self._document

    async def _nothing(self, *_: Any, **__: Any) -> None:
        return None

    find_newest = read_fresh
    patch_status = write

    async def read_white_list(self) -> WhiteList:
        return WhiteList()

    read_controller = read_target = read_whitelist = _nothing


class _Markers:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list_in_namespace(self, namespace: str) -> list[Any]:
        return self._cluster.views("PodProbeMarker")


@cache
def views() -> Mapping[str, Any]:
    """Views of the objects of each kind."""
    return {kind.resource.kind: kind.control.objects for kind in list_kinds() if kind.control is not None}


def view_of(kind: str, document: Document) -> Any:
    """The view, as caches keep it and look it up."""
    result = views()[kind]
    view = result.project(orjson.dumps(document))
    for entries in result.indexes.values():
        list(entries(view))
    return view


def rules_around(cluster: Any) -> Sequence[ReviewRule]:
    """All webhooks, in a cluster that stores only this object."""
    readers = {
        **{
            kind.name: cluster
            for kind in list_kinds()
            if kind.pods is not None and kind.pods.reads is not None
        },
        "podprobemarker": _Markers(cluster),
    }
    lookups = Lookups(readers=readers, clock=lambda: NOW)
    return build_reviewers(SETTINGS, ReviewContext(lookups=lookups, rng=random.Random(1)))
