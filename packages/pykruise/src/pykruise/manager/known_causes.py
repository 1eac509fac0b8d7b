"""Waits of each object, as far as a manager knows them without asking: its own, its pods' and nodes', its children's.

Manager.rollouts + Manager.objects(kind) ──▶ KnownCauses.of() ──▶ codes of one object ──▶ the metric pykruise_phase

Made for one scrape. Each object is looked at once for itself and once for each parent that has made it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.manager.manager import Manager
from pykruise.plans.kind import Kind
from pykruise.runtime.rollouts import RolloutMeter


class KnownCauses:
    """Codes of waits by object."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._kinds = {kind.resource: kind for kind in manager.kinds}
        self._objects: dict[Resource, Mapping[Key, Any]] = {}
        """Objects of the kinds that others have made, as they are asked for."""

    def of(self, kind: Kind, key: Key) -> Iterator[str]:
        """Codes of an object, its pods and nodes; its own wait first."""
        meter = self._meter_of(kind)
        if key in meter.waiting:
            yield meter.waiting[key]
        yield from meter.causes.get(key, ())

    def of_children(self, kind: Kind, key: Key) -> Iterator[str]:
        """Codes of the children that are at work for an object, and of theirs."""
        for resource, child in self._meter_of(kind).children.get(key, ()):
            if (child_kind := self._kinds.get(resource)) is not None:
                yield self._shown_reason(child_kind, child)
                yield from self.of(child_kind, child)
                yield from self.of_children(child_kind, child)

    def _shown_reason(self, kind: Kind, key: Key) -> str:
        """Reason that the object's own status gives."""
        if kind.resource not in self._objects:
            objects = self._manager.objects(kind)
            self._objects[kind.resource] = {Key(view.namespace, view.name): view for view in objects}
        view = self._objects[kind.resource].get(key)
        if view is None or kind.shown is None:
            return ""
        return kind.shown.progress_of(document_of(view)).reason

    def _meter_of(self, kind: Kind) -> RolloutMeter:
        assert kind.control is not None
        return self._manager.rollouts.get(kind.control.name, RolloutMeter())


def document_of(view: Any) -> Document:
    """The object of a view, as far as it decides how the object shows itself."""
    spec, stored = getattr(view, "spec", None), getattr(view, "stored_status", {})
    conditions = [*(stored.get("conditions") or ()), *getattr(view, "kstatus", ())]
    metadata = {
        "name": view.name,
        "generation": getattr(view, "generation", None),
        "annotations": getattr(view, "annotations", {}),
        "creationTimestamp": format_time(created_at(view)),
    }
    if getattr(view, "is_deleting", False):
        metadata["deletionTimestamp"] = "now"
    return {
        "metadata": metadata,
        "spec": msgspec.to_builtins(spec) if spec is not None else {},
        "status": {**stored, **({"conditions": conditions} if conditions else {})},
    }


def created_at(view: Any) -> float:
    """When the object of a view was created, Unix time; 0: it does not say."""
    time = getattr(view, "creation_time", "")
    return parse_time(time) if time else float(getattr(view, "created_at", None) or 0.0)
