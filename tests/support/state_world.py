"""A simulated PersistentPodState with its workload, pods and nodes: plans are computed and carried out.

world = StateWorld(); world.put_pod(0, node="n0"); world.sync(); world.records

The real views and the real snapshot decode all objects from JSON. The world serves annotations of pods like an
API server.
"""

import asyncio
import copy
import random
from collections.abc import Mapping
from typing import Any, Self

from pykruise.kinds.persistentpodstate.kind import KIND
from pykruise.kinds.persistentpodstate.plan import plan_state
from pykruise.kinds.persistentpodstate.snapshot import StateSettings, read_snapshot
from pykruise.kinds.persistentpodstate.types import PERSISTENT_POD_STATES
from pykruise.kinds.persistentpodstate.view import (
    ADVANCED,
    GENERATED,
    STATE_VIEWS,
    WORKLOAD_VIEWS,
    StateView,
    make_absent_view,
    project_state,
)
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, encode
from pykruise.kube.errors import ErrorStatus, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.resources import Resource
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.plan import Plan
from support.snapshots import read_of

__all__ = ["AUTO", "NAME", "PREFERRED", "RECORDED", "REQUIRED", "UID", "StateWorld"]

NAME, NAMESPACE, UID = "web", "shop", "w1"
NOW = parse_time("2026-01-31T12:00:00Z")
TARGET = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": NAME}
AUTO = "kruise.io/auto-generate-persistent-pod-state"
REQUIRED = "kruise.io/required-persistent-topology"
PREFERRED = "kruise.io/preferred-persistent-topology"
RECORDED = "kruise.io/persistent-pod-annotations"


class StateWorld:
    """`state`: the PersistentPodState, or None; `workload`: None if it is deleted; `pods` and `nodes`
    by name."""

    def __init__(self, *, replicas: int = 3, owner: str = "", **spec: Any) -> None:
        self.workload: Document | None = {
            "metadata": {
                "name": NAME,
                "namespace": NAMESPACE,
                "uid": UID,
                "resourceVersion": "1",
                "annotations": {},
            },
            "spec": {"replicas": replicas},
        }
        self.pods: dict[str, Document] = {}
        self.nodes: dict[str, Document] = {}
        self.state: Document | None = None
        self._version = 1
        self.write_state(owner=owner, **spec)

    @property
    def records(self) -> Document:
        """The stored records, by name of the pod."""
        records: Document = ((self.state or {}).get("status") or {}).get("podStates") or {}
        return records

    @property
    def view(self) -> StateView:
        """The PersistentPodState as caches have it."""
        if self.state is None:
            return make_absent_view(Key(NAMESPACE, NAME))
        return project_state(encode(self.state))

    def write_state(self, *, owner: str = "", **spec: Any) -> None:
        """A user creates the PersistentPodState, or a manager generates it; `owner`: uid of its managing owner."""
        metadata: Document = {"name": NAME, "namespace": NAMESPACE, "uid": "s1", "generation": 1}
        if owner:
            metadata["ownerReferences"] = [{**TARGET, "uid": owner, "controller": True}]
            metadata["annotations"] = {GENERATED: "true"}
        whole = {"targetRef": TARGET, "requiredPersistentTopology": {"keys": ["zone"]}, **spec}
        self.state = {
            "metadata": metadata | self._next(),
            "spec": {key: value for key, value in whole.items() if value is not None},
        }

    def put_node(self, name: str, **labels: str) -> None:
        """Add a node with these labels, or replace the node of that name."""
        self.nodes[name] = {"metadata": {"name": name, "uid": f"u-{name}", "labels": labels, **self._next()}}

    def put_pod(
        self,
        ordinal: int,
        *,
        node: str = "",
        ready: bool = True,
        deleting: bool = False,
        owner: str = UID,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Add a pod of that ordinal with a new uid, or replace the pod of that name."""
        version = self._next()
        metadata: Document = {
            "name": f"{NAME}-{ordinal}",
            "namespace": NAMESPACE,
            "uid": f"p-{version['resourceVersion']}",
            "annotations": dict(annotations or {}),
            "ownerReferences": [{**TARGET, "uid": owner, "controller": True}],
            **version,
        }
        if deleting:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.pods[metadata["name"]] = {
            "metadata": metadata,
            "spec": {"nodeName": node, "containers": [{"name": "main"}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            },
        }

    async def get(self, _: Resource, __: str, name: str) -> bytes:
        """A pod, as an API server returns it."""
        if name not in self.pods:
            raise NotFoundError(ErrorStatus(code=404, message="not found"))
        return encode(self.pods[name])

    def plan(self, *, order: int = 0) -> Plan:
        """Compute a plan. `order`: a number that selects the order in which caches have their objects."""
        pods, nodes = [self.pods[name] for name in sorted(self.pods)], list(self.nodes.values())
        shuffled = random.Random(order)
        shuffled.shuffle(pods)
        shuffled.shuffle(nodes)
        view = self.view
        project_pod, project_node = POD_VIEWS.projector(), NODE_VIEWS.projector()
        owners = WORKLOAD_VIEWS[ADVANCED]
        objects: dict[Any, Any] = {
            STATE_VIEWS: [view] if view.uid else [],
            POD_VIEWS: [project_pod(encode(pod)) for pod in pods],
            NODE_VIEWS: [project_node(encode(node)) for node in nodes],
            **{views: [] for views in WORKLOAD_VIEWS.values()},
        }
        if self.workload is not None:
            objects[owners] = [owners.projector()(encode(self.workload))]
        read = read_of(KIND, view, objects, settings=StateSettings(start_ordinal=True), now=NOW, live=self)
        result = asyncio.run(read_snapshot(view, read))
        return Plan() if result is None else plan_state(result)

    def carry_out(self, plan: Plan, *, writes: int | None = None) -> Self:
        """Carry out the plan, or only its first writes (the status is one), as if the manager was ended after
        them."""
        for number, step in enumerate(plan.steps):
            if writes is not None and number >= writes:
                return self
            self._write(step.action)
        if plan.status is not None and self.state is not None and writes is None:
            self.state["status"] = plan.status
        return self

    def sync(self, times: int = 3) -> Self:
        """Carry out this number of plans."""
        for _ in range(times):
            self.carry_out(self.plan())
        return self

    def _next(self) -> Document:
        self._version += 1
        return {"resourceVersion": str(self._version)}

    def _write(self, action: Create | Patch | Delete) -> None:
        assert action.resource is PERSISTENT_POD_STATES
        if isinstance(action, Create):
            assert self.state is None, "the name is taken"
            self.state = copy.deepcopy(action.body)
            self.state["metadata"] |= {"uid": f"s{self._version}", "generation": 1, **self._next()}
            return
        assert self.state is not None
        assert action.uid == self.state["metadata"]["uid"]
        if isinstance(action, Delete):
            self.state = None
            return
        self.state = apply_merge_patch(self.state, action.body)
        self.state["metadata"] |= {"generation": self.state["metadata"]["generation"] + 1, **self._next()}
