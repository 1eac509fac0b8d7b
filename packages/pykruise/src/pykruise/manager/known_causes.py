"""Reasons why an object waits, as far as a manager knows them without requests: reasons of the object, of its pods and
nodes, and of its children.

Manager.rollouts + Manager.list_objects(kind) ──▶ KnownCauses.list_codes() ──▶ codes of one object
    ──▶ the metric pykruise_phase

Each scrape creates one `KnownCauses`. It reads the codes of an object once for the object itself, and once for each
parent that created it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from pykruise.kube.clock import format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.manager.manager import Manager
from pykruise.plans.kind import Kind
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from pykruise.runtime.rollouts import RolloutMeter


class KnownCauses:
    """Codes of the reasons why objects wait."""

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._kinds = {kind.resource: kind for kind in manager.kinds}
        self._objects: dict[Resource, Mapping[Key, Any]] = {}
        """Objects of the children's kinds, filled on demand."""
        self._reconciled: dict[Resource, Callable[[Key], bool]] = {}
        """Functions that tell whether this manager reconciles an object, filled on demand."""

    def list_codes(self, kind: Kind, key: Key) -> Iterator[str]:
        """Yield the codes of an object, and then those of its pods and nodes. Yield nothing for an object that another
        manager reconciles: this manager may have codes of an earlier time, which are not valid any more.
        """
        if not self._is_reconciled(kind, key):
            return
        meter = self._find_meter(kind)
        if key in meter.waiting:
            yield meter.waiting[key]
        yield from meter.causes.get(key, ())

    def list_codes_of_children(self, kind: Kind, key: Key) -> Iterator[str]:
        """Yield the codes of the active children of an object, and of their children."""
        if not self._is_reconciled(kind, key):
            return
        for child in self._find_meter(kind).children.get(key, ()):
            yield child.reason
            if (child_kind := self._kinds.get(child.resource)) is not None:
                yield self._find_shown_reason(child_kind, child.key)
                yield from self.list_codes(child_kind, child.key)
                yield from self.list_codes_of_children(child_kind, child.key)

    def _find_shown_reason(self, kind: Kind, key: Key) -> str:
        """Return the reason in the object's own status."""
        if kind.resource not in self._objects:
            objects = self._manager.list_objects(kind)
            self._objects[kind.resource] = {Key(view.namespace, view.name): view for view in objects}
        view = self._objects[kind.resource].get(key)
        if view is None or kind.shown is None:
            return ""
        progress = kind.shown.progress_of(document_of(view))
        return progress.reason or (Code.PAUSED if progress.phase is Phase.PAUSED else "")

    def _is_reconciled(self, kind: Kind, key: Key) -> bool:
        if kind.resource not in self._reconciled:
            self._reconciled[kind.resource] = self._manager.select_reconciled(kind)
        return self._reconciled[kind.resource](key)

    def _find_meter(self, kind: Kind) -> RolloutMeter:
        assert kind.control is not None
        return self._manager.rollouts.get(kind.control.name, RolloutMeter())


def document_of(view: Any) -> Document:
    """Return the parts of the view's object that decide how the object is displayed."""
    spec, stored = getattr(view, "spec", None), getattr(view, "stored_status", {})
    conditions = [*(stored.get("conditions") or ()), *getattr(view, "kstatus", ())]
    metadata = {
        "name": view.name,
        "generation": getattr(view, "generation", None),
        "annotations": getattr(view, "annotations", {}),
        "creationTimestamp": format_time(read_creation_time(view)),
    }
    if getattr(view, "is_deleting", False):
        metadata["deletionTimestamp"] = "now"
    return {
        "metadata": metadata,
        "spec": msgspec.to_builtins(spec) if spec is not None else {},
        "status": {**stored, **({"conditions": conditions} if conditions else {})},
    }


def read_creation_time(view: Any) -> float:
    """Return the creation time of the view's object as Unix time; 0 if it is unknown."""
    time = getattr(view, "creation_time", "")
    return parse_time(time) if time else float(getattr(view, "created_at", None) or 0.0)
