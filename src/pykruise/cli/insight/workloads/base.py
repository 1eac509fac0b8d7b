"""What a kind of workload brings to plan, explain and simulate: one value.

look.py reads a cluster ──▶ Around ──▶ Workload.snapshot() ──▶ Workload.plan() ──▶ Plan
a spec ──▶ Workload.strategy() ──▶ Strategy      a status ──▶ Workload.counts() ──▶ Counts

Everything else (reading, playing, causes of pods, texts) is the same for all kinds. A further kind is a module
beside this one and a line in the registry.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.resources import Resource
from pykruise.manager.settings import Settings
from pykruise.plans.plan import Plan
from pykruise.plans.sources import NodeView
from pykruise.pods.budgets import BudgetView
from pykruise.pods.claims import ClaimView
from pykruise.pods.in_place import Settings as InPlaceSettings
from pykruise.pods.lifecycle import Lifecycle
from pykruise.pods.revisions import RevisionView
from pykruise.pods.views import PodView

__all__ = ["Around", "Counts", "Known", "Snapshot", "Strategy", "Workload"]


class Snapshot(Protocol):
    """What every kind's snapshot has."""

    @property
    def pods(self) -> Sequence[PodView]:
        """All pods that it controls."""
        ...

    @property
    def revisions(self) -> Sequence[RevisionView]:
        """Its own, oldest first."""
        ...

    @property
    def now(self) -> Instant:
        """When it was made."""
        ...


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """Everything in the cluster that a workload's snapshot may need, as it was read."""

    raw: bytes
    """The workload."""
    uid: str
    pods: Sequence[PodView]
    """Those that it controls."""
    others: Sequence[PodView]
    """The other pods of its namespace."""
    revisions: Sequence[RevisionView]
    """All of its namespace."""
    claims: Sequence[ClaimView]
    """All of its namespace."""
    nodes: Sequence[NodeView]
    """Empty also when they may not be read."""
    budgets: Sequence[BudgetView] = ()
    """PodUnavailableBudgets of its namespace, when the manager asks them."""
    now: Instant
    seed: int
    settings: Settings

    @property
    def orphans(self) -> list[PodView]:
        """Pods that nobody controls."""
        return [pod for pod in self.others if pod.controller is None]


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    """How a spec wants its pods to get a new template."""

    in_place: Literal["never", "if possible", "only"]
    recreates_because: str = ""
    """With "never": the field that says so."""
    is_paused: bool = False
    is_on_delete: bool = False
    min_ready_s: int = 0
    lifecycle: Lifecycle | None = None


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How far a workload is, from its spec and status. Unit: pods."""

    wanted: int
    updated: int
    to_be_updated: int
    available: int
    revision: str
    """The update revision, as its status names it."""


def is_owner(workload: Document, dependent: Document) -> bool:
    """Whether the workload is among the owners of an object."""
    uid = workload["metadata"]["uid"]
    return any(ref.get("uid") == uid for ref in dependent["metadata"].get("ownerReferences") or ())


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A kind by its names."""

    resource: Resource
    names: frozenset[str] = frozenset()
    """What a person may type for it besides its plural and kind: `cloneset`, `clone`."""
    fields: Mapping[str, tuple[str, ...]] = {}
    """What --set can change → where it is in the object."""
    containers: tuple[str, ...] = ("spec", "template", "spec", "containers")
    """Where `--set image=…` finds containers; empty: it has none."""

    def answers_to(self, name: str) -> bool:
        """Whether a person means this kind."""
        plural, group = self.resource.plural, self.resource.group
        said = name.lower()
        full = {
            plural,
            self.resource.kind.lower(),
            f"{plural}.{group}",
            f"{self.resource.kind.lower()}.{group}",
        }
        return said in full or said in self.names

    def is_of(self, document: Mapping[str, Any]) -> bool:
        """Whether the document is one of this kind."""
        group = str(document.get("apiVersion") or "").rpartition("/")[0]
        return document.get("kind") == self.resource.kind and group == self.resource.group


class Workload(Known, frozen=True, kw_only=True):
    """One kind that owns pods."""

    snapshot: Callable[[Around], Snapshot]
    plan: Callable[[Any], Plan]
    strategy: Callable[[Mapping[str, Any]], tuple[Strategy | None, str]]
    """Of a spec; or None and what cannot be read."""
    counts: Callable[[Document, Mapping[str, Any], Plan], Counts]
    """Of the document, the status (stored, or as planned), and the plan."""
    in_place_settings: Callable[[Settings], InPlaceSettings]
    words: Sequence[tuple[str, str, str]] = ()
    """How reasons of its plan begin → code, remedy; beyond those that all kinds share."""
    has_claim: Callable[[Document, Document], bool] = is_owner
    """Whether a claim of its namespace is one of its pods'."""
    asks_budgets: Callable[[Settings], bool] = lambda _: False
    """Whether its manager asks PodUnavailableBudgets by itself."""
    is_per_node: bool = False
    """Pods go to nodes by name, so all nodes have to be known."""
    has_known_names: bool = False
    """Pods that are made have names that are known beforehand."""
