"""Reading one object from a cluster once, with everything that its plan and its explanation need.

Client ──get, list──▶ look() ──the kind's snapshot()──▶ Sight: the document, its pods as stored, the snapshot

This module only reads. The kind's own function builds the snapshot from lists instead of caches, so the plan is the
same as the manager's.
"""

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, annotations_of, decode, encode, get_path
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import NODES, PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.insight import WorkloadInsight
from pykruise.plans.kind import Kind
from pykruise.plans.views import BUDGET_VIEWS, CLAIM_VIEWS, NODE_VIEWS, POD_VIEWS, NodeView, project_node
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import ClaimView
from pykruise.runtime.listed_objects import Listed, Only, list_once
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views


class ClaimProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Problem of a PVC that has no volume."""

    words: str
    """Words that follow the name of the PVC."""
    remedy: str = ""
    """Action that gives the PVC a volume; empty if no action is known."""
    is_of_template: bool = False
    """Whether a claim template of the explained object defines the PVC. The class of a PVC cannot be changed, so a
    corrected template reaches only a new PVC.
    """


class GateProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Problem of a pod whose readiness gate is closed."""

    words: str
    remedy: str = ""
    """Action that opens the gate; empty: only the controller of the condition can open it."""
    is_whole: bool = False
    """Whether the words replace the words about the gate; False: they follow the words about the gate."""

    def add_to(self, words: str) -> str:
        """Return the words about the gate with this problem."""
        return self.words if self.is_whole else f"{words}; {self.words}"


class Sight(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One object as it is now, or as it would be after a change.

    `dict=True`: properties keep the values that they decode from the lists, because functions read them once per pod.
    """

    kind: Kind
    document: Document
    snapshot: Any
    """Snapshot of the type that the object's kind uses; every such type has the field `now`."""
    listed: Mapping[Views[Any], Listed[Any]]
    """Lists from which the snapshot was built."""
    nodes: Mapping[str, NodeView] = {}
    """All nodes of the cluster by name; empty when the user may not read them."""
    lost_nodes: frozenset[str] = frozenset()
    """Names of nodes that do not respond or are deleted."""
    claim_problems: Mapping[str, ClaimProblem] = {}
    """Problems of PVCs in its namespace that have no volume, by name of the PVC."""
    gate_problems: Mapping[str, GateProblem] = {}
    """Problems of its pods with a closed readiness gate, by name of the pod; readiness_gates.py finds them."""

    @property
    def uid(self) -> str:
        """UID of the object."""
        return str(self.document["metadata"].get("uid", ""))

    @cached_property
    def pods(self) -> Mapping[str, Document]:
        """Stored pods that the object controls, by name, including terminating and finished pods."""
        listed = self.listed.get(POD_VIEWS)
        return (
            {}
            if listed is None
            else {doc["metadata"]["name"]: doc for doc in listed.list_owned_documents(self.uid)}
        )

    @cached_property
    def pod_views(self) -> Sequence[PodView]:
        """The same pods as `pods`, as plans read them."""
        listed = self.listed.get(POD_VIEWS)
        return () if listed is None else listed.list_owned(self.uid)

    @cached_property
    def claims(self) -> Sequence[ClaimView]:
        """PVCs that the object controls."""
        listed = self.listed.get(CLAIM_VIEWS)
        return () if listed is None else listed.list_owned(self.uid)

    @cached_property
    def budgets(self) -> Sequence[Document]:
        """PodUnavailableBudgets of the object's namespace; empty when the manager does not check budgets for this
        kind.
        """
        listed = self.listed.get(BUDGET_VIEWS)
        return () if listed is None else listed.list_documents()

    def plan(self) -> Plan:
        """Return the plan that the manager would carry out now."""
        assert self.kind.control is not None
        return self.kind.control.plan(self.snapshot)


async def look(
    client: Client,
    kind: Kind,
    key: Key,
    *,
    now: Instant,
    settings: ManagerSettings | None = None,
    seed: int = 1,
) -> Sight:
    """Read one object. Raises NotFoundError when it does not exist, and the error of a read that is denied."""
    document = decode(await client.get(kind.resource, key.namespace, key.name))
    return await look_at(client, kind, document, now=now, settings=settings, seed=seed)


async def look_at(
    client: Client,
    kind: Kind,
    document: Document,
    *,
    now: Instant,
    settings: ManagerSettings | None = None,
    seed: int = 1,
    only: Mapping[Views[Any], Only] | None = None,
) -> Sight:
    """Build the Sight of a document, which need not be stored, with the objects around it. `only` limits which objects
    of a resource are read.
    """
    control = kind.control
    assert control is not None
    own = (settings or ManagerSettings()).read_kind_settings(kind)
    view = control.objects.projector()(encode(document))
    reads = control.reads(own)
    everywhere = kind.insight.everywhere if kind.insight is not None else ()
    enough = {**{views: Only() for views in everywhere}, **(only or {})}
    listed = await list_once(
        client, dict.fromkeys((*reads, NODE_VIEWS)), namespace=view.namespace, only=enough
    )
    others = listed[control.objects].values() if control.objects in listed else ()
    namesakes = [other for other in others if (other.namespace, other.name) != (view.namespace, view.name)]
    listed[control.objects] = Listed(control.objects, [view, *namesakes])
    read: Read[Any] = Read(
        listed,
        key=Key(view.namespace, view.name),
        uid=view.uid,
        now=lambda: now,
        rng=random.Random(seed),
        settings=own,
        live=client,
    )
    nodes = listed[NODE_VIEWS]
    sight = Sight(
        kind=kind,
        document=document,
        snapshot=await control.snapshot(view, read),
        listed=listed,
        nodes={node.name: node for node in nodes.values()},
    )
    sight = msgspec.structs.replace(sight, claim_problems=await _read_claim_problems(client, sight))
    if not sight.nodes:
        return sight
    return msgspec.structs.replace(sight, lost_nodes=find_lost_nodes(sight.pod_views, sight.nodes))


async def _read_claim_problems(client: Client, sight: Sight) -> dict[str, ClaimProblem]:
    """Return problems of PVCs. PVCs are read only when a pod without a node uses PVCs. Objects that the user may not
    read are left out.
    """
    insight = sight.kind.insight
    waiting = [pod for pod in sight.pods.values() if not pod["spec"].get("nodeName")]
    names = {name for pod in waiting for name in list_claim_names(pod)}
    has_claim = insight.has_claim if isinstance(insight, WorkloadInsight) else None
    namespace = sight.document["metadata"].get("namespace", "")
    return await find_claim_problems(
        client,
        namespace,
        names,
        is_of_template=lambda claim: has_claim is not None and has_claim(sight.document, claim),
    )


def list_claim_names(pod: Document) -> list[str]:
    """Names of the PVCs that the volumes of a pod use."""
    claims = (volume.get("persistentVolumeClaim") for volume in pod["spec"].get("volumes") or ())
    return [str(claim["claimName"]) for claim in claims if claim]


async def find_claim_problems(
    client: Client,
    namespace: str,
    names: Collection[str],
    *,
    is_of_template: Callable[[Document], bool] = lambda _: False,
) -> dict[str, ClaimProblem]:
    """Return the problem of each of these PVCs that has no volume; empty without permission to list PVCs and storage
    classes. `is_of_template`: whether a claim template of the explained object defines the PVC.
    """
    if not names:
        return {}
    try:
        listed = await client.list(PERSISTENT_VOLUME_CLAIMS, namespace)
        documents = [decode(raw) for raw in (await client.list(STORAGE_CLASSES)).items]
    except (ForbiddenError, NotFoundError):
        return {}
    claims = {entry["metadata"]["name"]: entry for entry in (decode(raw) for raw in listed.items)}
    classes = {
        document["metadata"]["name"]: annotations_of(document).get(_IS_DEFAULT) == "true"
        for document in documents
    }
    problems = {name: _find_claim_problem(name, claims.get(name), classes) for name in sorted(names)}
    return {
        name: msgspec.structs.replace(problem, is_of_template=name in claims and is_of_template(claims[name]))
        for name, problem in problems.items()
        if problem is not None
    }


_IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"


def _find_claim_problem(
    name: str, claim: Document | None, classes: Mapping[str, bool]
) -> ClaimProblem | None:
    """Return the problem of a PVC; None if it has a volume. `classes`: names of the storage classes, each with whether
    it is the default class.
    """
    if claim is None:
        return ClaimProblem(
            words="does not exist", remedy=f"create the missing PVC {name} (kubectl apply -f FILE)"
        )
    if (claim.get("status") or {}).get("phase") == "Bound":
        return None
    wanted = claim["spec"].get("storageClassName")
    if wanted and wanted not in classes:
        return ClaimProblem(
            words=f"requests storage class {wanted}, which does not exist",
            remedy=f"create storage class {wanted}, which administrators of the cluster may do (kubectl get"
            " storageclasses shows the existing ones): the PVC gets its volume then",
        )
    if wanted:
        return ClaimProblem(words=f"waits for a volume of storage class {wanted}")
    if wanted == "" or any(classes.values()):
        return ClaimProblem(words="has no volume yet")
    return ClaimProblem(
        words="names no storage class, and the cluster has no default storage class",
        remedy="create a default storage class, which administrators of the cluster may do (for an existing one:"
        " kubectl annotate storageclass NAME storageclass.kubernetes.io/is-default-class=true): the PVC gets its volume"
        " then",
    )


async def nodes_of(client: Client) -> dict[str, NodeView]:
    """Return every node by name; empty when the user may not read nodes."""
    try:
        listed = await client.list(NODES)
    except ForbiddenError:
        return {}
    return {(view := project_node(raw)).name: view for raw in listed.items}


def find_lost_nodes(pods: Iterable[PodView], nodes: Mapping[str, NodeView]) -> frozenset[str]:
    """Return the names of the nodes of these pods that are not ready or do not exist. `nodes`: all nodes, by name."""
    used = {pod.node_name for pod in pods} - {""}
    return frozenset(name for name in used if is_lost(nodes.get(name)))


def is_lost(node: NodeView | None) -> bool:
    """Whether the node of a pod is not ready, or does not exist (None)."""
    return node is None or node.ready_since is None


def find_unready_nodes(nodes: Iterable[Document]) -> Iterator[tuple[str, str]]:
    """Yield the name of each node that is not ready, and the time since which it is not ready; empty if unknown."""
    for node in nodes:
        for condition in get_path(node, "status", "conditions", default=()):
            if condition["type"] == "Ready" and condition["status"] != "True":
                yield node["metadata"]["name"], str(condition.get("lastTransitionTime") or "")
