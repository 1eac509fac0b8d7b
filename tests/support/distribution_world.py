"""A simulated ResourceDistribution with namespaces and objects: plans are computed and carried out.

world = DistributionWorld({"allNamespaces": True}, {"a": {}, "b": {}}); world.settle(); world.objects

The real views decode all objects from JSON. Like an API server, the world checks names that are taken, uids
and resource versions.
"""

import copy
import random
from collections.abc import Mapping, Sequence
from typing import Any, Self

from pykruise.kinds.resourcedistribution.kind import KIND
from pykruise.kinds.resourcedistribution.plan import plan_distribution
from pykruise.kinds.resourcedistribution.snapshot import DistributionSettings, read_snapshot
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kinds.resourcedistribution.view import COPY_VIEWS, DISTRIBUTION_VIEWS
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, encode
from pykruise.kube.patches import apply_strategic_merge
from pykruise.plans.views import NAMESPACE_VIEWS
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.snapshots import read_of, taken

__all__ = ["NAME", "UID", "DistributionWorld", "is_copy", "named", "resource"]

NAME, UID = "pull", "d1"
NOW = parse_time("2026-01-31T12:00:00Z")


def resource(data: Mapping[str, str], kind: str = "ConfigMap", **fields: Any) -> Document:
    """The distributed resource."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": NAME}, "data": dict(data), **fields}


def named(*names: str) -> Document:
    """A list of namespaces by name."""
    return {"list": [{"name": name} for name in names]}


def is_copy(doc: Mapping[str, Any], uid: str = UID) -> bool:
    """Whether the distribution controls this object."""
    return any(
        reference.get("controller") and reference["uid"] == uid
        for reference in doc["metadata"].get("ownerReferences") or ()
    )


class DistributionWorld:
    """Namespaces and their copies of a distributed object.

    `objects`: objects of the distributed kind and name, by namespace, including objects of other creators.
    `terminating`: namespaces that are being deleted. `writes`: number of writes to each namespace.
    """

    def __init__(
        self,
        targets: Document,
        namespaces: Mapping[str, Mapping[str, str]],
        *,
        wanted: Document | None = None,
    ) -> None:
        self.namespaces = {name: dict(labels) for name, labels in namespaces.items()}
        self.terminating: set[str] = set()
        self.objects: dict[str, Document] = {}
        self.document: Document = {
            "apiVersion": RESOURCE_DISTRIBUTIONS.api_version,
            "kind": RESOURCE_DISTRIBUTIONS.kind,
            "metadata": {"name": NAME, "uid": UID, "resourceVersion": "1", "generation": 1},
            "spec": {"resource": wanted or resource({"a": "1"}), "targets": targets},
        }
        self._version = 1

    @property
    def status(self) -> Document:
        """The stored status."""
        status: Document = self.document.get("status") or {}
        return status

    def change(self, **spec: Any) -> None:
        """Change fields of the spec."""
        self.document["spec"] |= spec
        self.document["metadata"]["generation"] += 1

    def put(self, namespace: str, doc: Document, *, owner: str = "") -> None:
        """Write an object of that name as another client; `owner`: uid of the distribution that controls it."""
        metadata = {**doc["metadata"], "namespace": namespace, "uid": f"o-{namespace}", **self._next()}
        if owner:
            reference = {"uid": owner, "controller": True, "kind": RESOURCE_DISTRIBUTIONS.kind, "name": NAME}
            metadata["ownerReferences"] = [{"apiVersion": RESOURCE_DISTRIBUTIONS.api_version, **reference}]
        self.objects[namespace] = _stored({**copy.deepcopy(doc), "metadata": metadata})

    def plan(self, *, order: int = 0) -> Plan:
        """Compute a plan. `order`: a number that selects the order in which caches have their objects."""
        shuffled = random.Random(order)
        namespaces = [self._namespace(name) for name in sorted(self.namespaces)]
        objects = [self.objects[name] for name in sorted(self.objects)]
        shuffled.shuffle(namespaces)
        shuffled.shuffle(objects)
        (view,) = self._views(DISTRIBUTION_VIEWS, [self.document])
        kind = self.document["spec"]["resource"]["kind"]
        result: dict[Any, Any] = {
            NAMESPACE_VIEWS: self._views(NAMESPACE_VIEWS, namespaces),
            **{
                views: self._views(views, objects) if views.resource.kind == kind else []
                for views in COPY_VIEWS.values()
            },
        }
        read = read_of(KIND, view, result, settings=DistributionSettings(), now=NOW)
        world = taken(read_snapshot(view, read))
        assert world is not None
        return plan_distribution(world)

    def carry_out(self, plan: Plan, *, writes: int | None = None) -> Self:
        """The plan, or its first writes, as if the manager was ended after them."""
        for number, step in enumerate(plan.steps):
            if writes is not None and number >= writes:
                return self
            self._write(step.action)
        if plan.status is not None:
            self.document["status"] = plan.status
        return self

    def settle(self) -> Self:
        """Carry out plans until there are no more writes; three plans are sufficient in any world."""
        for _ in range(3):
            plan = self.plan()
            self.carry_out(plan)
            if not list(plan.steps):
                return self
        raise AssertionError("there is always something left to write")

    def contents(self, *, annotations: bool = True) -> dict[str, Document]:
        """Contents of the objects, without the fields that an API server sets. A copy that was already correct
        before the spec changed keeps its annotations: leave them out if that matters."""
        return {
            name: {key: value for key, value in doc.items() if key not in ("metadata", "data")}
            | {"data": doc.get("data") or {}, "ours": is_copy(doc)}
            | ({"annotations": doc["metadata"].get("annotations")} if annotations else {})
            for name, doc in sorted(self.objects.items())
        }

    def _namespace(self, name: str) -> Document:
        metadata: Document = {"name": name, "uid": f"n-{name}", "resourceVersion": "1"}
        if name in self.terminating:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return {"metadata": metadata | {"labels": self.namespaces[name]}}

    @staticmethod
    def _views(views: Any, documents: Sequence[Document]) -> list[Any]:
        project = views.projector()
        return [project(encode(doc)) for doc in documents]

    def _next(self) -> Document:
        self._version += 1
        return {"resourceVersion": str(self._version)}

    def _write(self, action: Create | Patch | Delete) -> None:
        namespace, kind = action.key.namespace, self.document["spec"]["resource"]["kind"]
        assert action.key.name == NAME
        assert action.resource.kind == kind
        if isinstance(action, Create):
            assert namespace not in self.objects, "the name is taken"
            self.objects[namespace] = _stored(copy.deepcopy(action.body))
            self.objects[namespace]["metadata"] |= {"uid": f"o-{namespace}", **self._next()}
            return
        result = self.objects[namespace]
        assert action.uid == result["metadata"]["uid"]
        if isinstance(action, Delete):
            del self.objects[namespace]
            return
        assert action.resource_version == result["metadata"]["resourceVersion"]
        patched = apply_strategic_merge(result, action.body, definition=f"io.k8s.api.core.v1.{kind}")
        patched["metadata"] |= self._next()
        self.objects[namespace] = _stored(patched)


def _stored(doc: Document) -> Document:
    """The object as an API server stores it: without empty fields."""
    return {key: value for key, value in doc.items() if value not in (None, {}, False)}
