"""Facts of a kind for explain, plan and simulate besides its plan: names, fields, and progress.

KIND.insight ──▶ cli/insight: a spec ──▶ strategy() ──▶ Strategy      a status ──▶ counts() ──▶ Counts

Pure.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.pods.corrections import Correction
from pykruise.pods.lifecycle.states import Lifecycle
from pykruise.runtime.plan import Plan
from pykruise.runtime.rollouts import ChildrenOf
from pykruise.runtime.views import Views


class RolloutStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """How a spec wants its pods to get a new template."""

    in_place: Literal["never", "if possible", "only"]
    recreates_because: str = ""
    """With "never": the field that says so."""
    is_paused: bool = False
    is_on_delete: bool = False
    min_ready_s: int = 0
    lifecycle: Lifecycle | None = None


_WAYS: Final[Mapping[str, Literal["if possible", "only"]]] = {
    "InPlaceIfPossible": "if possible",
    "InPlaceOnly": "only",
}


def strategy_by_policy(
    read_spec: Callable[[Mapping[str, Any]], tuple[Any, str]],
    *,
    min_ready_s: Callable[[Any], int],
    recreates_because: str = "podUpdatePolicy is ReCreate",
) -> Callable[[Mapping[str, Any]], tuple[RolloutStrategy | None, str]]:
    """`WorkloadInsight.strategy` of a kind whose spec has a policy of updates. `read_spec`: the spec, typed, or None
    and what cannot be read. `recreates_because`: which policy says so."""

    def strategy(spec: Mapping[str, Any]) -> tuple[RolloutStrategy | None, str]:
        read, problem = read_spec(spec)
        if read is None:
            return None, problem
        strategy = RolloutStrategy(
            in_place=_WAYS.get(read.policy, "never"),
            recreates_because=recreates_because,
            is_paused=read.is_paused,
            is_on_delete=read.is_on_delete,
            min_ready_s=min_ready_s(read),
            lifecycle=read.lifecycle,
        )
        return strategy, ""

    return strategy


class RolloutCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How far a workload is, from its spec and status. Unit: pods."""

    wanted: int
    updated: int
    to_be_updated: int
    available: int
    revision: str
    """The update revision, as its status names it."""


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Restriction that keeps a pod from nodes that would otherwise take it."""

    pod: str
    node: str
    """Where it was."""
    labels: Mapping[str, str]
    """Labels of the recorded node: the pod needs a node with them."""
    remedy: str
    """Action that ends the binding."""


class Child(msgspec.Struct, frozen=True, kw_only=True):
    """An object that another one has made, and whose causes are the other one's too."""

    resource: Resource
    key: Key
    has_failed: bool = False
    """It has ended, and not well."""
    correction: Correction | None = None
    """How a person corrects what it was made from; None: as an object of its kind that a person made."""


class Insight(msgspec.Struct, frozen=True, kw_only=True):
    """A kind as people name and change it."""

    names: frozenset[str] = frozenset()
    """Names that a person may type for it besides its plural and kind: `clone`."""
    containers: tuple[str, ...] = ("spec", "template", "spec", "containers")
    """Where `--set image=…` finds containers; empty: it has none."""
    headline: Callable[[Mapping[str, Any]], str] | None = None
    """How far it is, in a sentence about its status; None: nothing better than its plan says so."""
    everywhere: tuple[Views[Any], ...] = ()
    """Views that it reads in other namespaces than its object's own."""
    children: Callable[[Any], Iterator[Child]] | None = None
    """Children of the object, from a snapshot, the most important first; None: it creates none."""
    bindings: Callable[[Document], Iterator[Binding]] | None = None
    """Pods that the object binds; None: a kind that binds none."""
    has_observed_generation: bool = True
    """Whether its status says which generation was seen last."""


def children_at_work(insight: Insight | None) -> ChildrenOf | None:
    """Children whose waits are their parent's too, from a snapshot of it; None: a kind that creates none. That one has
    failed is a wait of the parent itself."""
    children = None if insight is None else insight.children
    if children is None:
        return None
    return lambda snapshot: [
        (child.resource, child.key) for child in children(snapshot) if not child.has_failed
    ]


def is_owner(workload: Document, dependent: Document) -> bool:
    """Whether the workload is among the owners of an object."""
    uid = workload["metadata"]["uid"]
    return any(ref.get("uid") == uid for ref in dependent["metadata"].get("ownerReferences") or ())


class WorkloadInsight(Insight, frozen=True, kw_only=True):
    """A kind that owns pods. Its snapshots have `pods` and `revisions`, and its settings `in_place` where a strategy
    is not "never"."""

    strategy: Callable[[Mapping[str, Any]], tuple[RolloutStrategy | None, str]]
    """Strategy in a spec; or None and the unreadable part."""
    counts: Callable[[Document, Mapping[str, Any], Plan], RolloutCounts]
    """Counts from the document, the status (stored, or as planned), and the plan."""
    has_claim: Callable[[Document, Document], bool] = is_owner
    """Whether a claim of its namespace is one of its pods'."""
    asks_budgets: Callable[[Any], bool] = lambda _: False
    """Whether it asks PodUnavailableBudgets before an update, under these settings."""
    has_known_names: bool = False
    """Pods that are made have names that are known beforehand."""
    replaces_stuck: Callable[[Mapping[str, Any]], bool] = lambda _: True
    """Whether a pod that never became ready is replaced automatically when its template is rolled back, by the spec."""


class JobInsight(Insight, frozen=True, kw_only=True):
    """A kind whose pods run to their end on nodes; simulate plays it while nodes come and go."""

    waits_s: Callable[[Mapping[str, Any]], float] = lambda _: 0.0
    """Longest time that it may wait for its own deadline or time to live while nothing else happens, from the spec."""


class ClockInsight(Insight, frozen=True, kw_only=True):
    """A kind that makes objects by a clock; simulate plays its plans on paper, a month of them in a moment."""

    ticks: Callable[[Any, Instant], Iterator[Instant]]
    """Times of a snapshot's schedule after the snapshot's and up to that instant."""
    tick_of: Callable[[Mapping[str, Any]], Instant | None]
    """Scheduled time of an object that it created; None: unknown."""
    is_active: Callable[[Any], bool]
    """Whether such an object has not ended, from its view."""
    ended: Callable[[Document, Instant, Instant, bool], Document]
    """An object that it made, as it is after it began and ended at these times, well (True) or not."""
    zone: Callable[[Any], str]
    """IANA name of the schedule's time zone, from a snapshot; empty: UTC."""
