"""Facts about a kind for explain, plan and simulate in addition to its plan: names, fields, and progress.

KIND.insight ──▶ cli/insight: a spec ──▶ strategy() ──▶ RolloutStrategy   a status ──▶ counts() ──▶ RolloutCounts

Pure.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.pods.corrections import Correction
from pykruise.pods.lifecycle.states import Lifecycle
from pykruise.runtime.plan import Plan
from pykruise.runtime.rollouts import ChildAtWork, ChildrenOf
from pykruise.runtime.views import Views


class RolloutStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """Method by which a spec updates its pods to a new template."""

    in_place: Literal["never", "if possible", "only"]
    recreates_because: str = ""
    """Field that makes the strategy "never"."""
    is_paused: bool = False
    is_on_delete: bool = False
    min_ready_s: int = 0
    lifecycle: Lifecycle | None = None


_WAYS: Final[Mapping[str, Literal["if possible", "only"]]] = {
    "InPlaceIfPossible": "if possible",
    "InPlaceOnly": "only",
}


def make_strategy_reader(
    read_spec: Callable[[Mapping[str, Any]], tuple[Any, str]],
    *,
    min_ready_s: Callable[[Any], int],
    recreates_because: str = "podUpdatePolicy is ReCreate",
) -> Callable[[Mapping[str, Any]], tuple[RolloutStrategy | None, str]]:
    """Return `WorkloadInsight.strategy` for a kind whose spec has an update policy. `read_spec`: returns the typed
    spec, or None and the unreadable part. `recreates_because`: the policy that recreates pods.
    """

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
    """Progress of a workload, from its spec and status. Unit: pods."""

    wanted: int
    updated: int
    to_be_updated: int
    available: int
    revision: str
    """The update revision in its status."""


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Restriction that keeps a pod off nodes that could run it otherwise."""

    pod: str
    node: str
    """Name of the recorded node."""
    labels: Mapping[str, str]
    """Labels of the recorded node: the pod needs a node with them."""
    remedy: str
    """Action that ends the binding."""


class SetCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of pods that an object sets. Pods can have it as a readiness gate."""

    type: str
    probe: str
    """Name of the probe that decides whether the condition is True."""
    selects: Callable[[Mapping[str, str]], bool]
    """Whether the object sets the condition of pods with these labels."""


class InsightChild(msgspec.Struct, frozen=True, kw_only=True):
    """An object that its parent created. Problems of the child are also problems of the parent."""

    resource: Resource
    key: Key
    has_failed: bool = False
    """Whether it ended with a failure."""
    reason: str = ""
    """Code of the reason why it waits, if the parent's snapshot contains the code; empty: see its own status."""
    correction: Correction | None = None
    """Instructions for a person who corrects the object that defines it; None: those for every object of its kind."""


class Insight(msgspec.Struct, frozen=True, kw_only=True):
    """Names and fields of a kind for its users."""

    names: frozenset[str] = frozenset()
    """Names that a user may type besides its plural and kind: `clone`."""
    containers: tuple[str, ...] = ("spec", "template", "spec", "containers")
    """Path of the containers that `--set image=…` changes; empty: it has none."""
    headline: Callable[[Mapping[str, Any]], str] | None = None
    """Progress as a sentence about its status; None: its plan describes it as well."""
    everywhere: tuple[Views[Any], ...] = ()
    """Views that it reads in all namespaces."""
    children: Callable[[Any], Iterator[InsightChild]] | None = None
    """Children of the object, from a snapshot, the most important first; None: it creates none."""
    bindings: Callable[[Document], Iterator[Binding]] | None = None
    """Pods that the object binds to nodes; None: the kind binds none."""
    conditions: Callable[[Document], Iterator[SetCondition]] | None = None
    """Conditions that the object sets in pods; None: objects of the kind set none."""
    has_observed_generation: bool = True
    """Whether its status has observedGeneration."""
    targets: Collection[GroupKind] | None = None
    """Kinds that its spec.targetRef can name without a white list; None: every workload."""


def find_children_at_work(insight: Insight | None) -> ChildrenOf | None:
    """Return the function that lists the children for which a parent waits, without failed ones; None: it has none."""
    children = None if insight is None else insight.children
    if children is None:
        return None
    return lambda snapshot: [
        ChildAtWork(child.resource, child.key, child.reason)
        for child in children(snapshot)
        if not child.has_failed
    ]


def is_owner(workload: Document, dependent: Document) -> bool:
    """Whether the workload is among the owners of an object."""
    uid = workload["metadata"]["uid"]
    return any(ref.get("uid") == uid for ref in dependent["metadata"].get("ownerReferences") or ())


class WorkloadInsight(Insight, frozen=True, kw_only=True):
    """A kind that owns pods. Its snapshots have `pods` and `revisions`, and its settings have `in_place` unless the
    strategy is "never".
    """

    strategy: Callable[[Mapping[str, Any]], tuple[RolloutStrategy | None, str]]
    """Strategy in a spec; or None and the unreadable part."""
    counts: Callable[[Document, Mapping[str, Any], Plan], RolloutCounts]
    """Counts from the document, the status (stored, or as planned), and the plan."""
    has_claim: Callable[[Document, Document], bool] = is_owner
    """Whether a claim of its namespace belongs to one of its pods."""
    asks_budgets: Callable[[Any], bool] = lambda _: False
    """Whether it checks PodUnavailableBudgets before an update with these settings."""
    has_known_names: bool = False
    """Whether the names of new pods are known in advance."""
    replaces_stuck: Callable[[Mapping[str, Any]], bool] = lambda _: True
    """Whether, with this spec, a pod that never became ready is replaced automatically when its template is rolled
    back.
    """


class JobInsight(Insight, frozen=True, kw_only=True):
    """A kind whose pods run to completion on nodes; simulate adds and removes nodes meanwhile."""

    waits_s: Callable[[Mapping[str, Any]], float] = lambda _: 0.0
    """Maximum seconds that it may wait for its own deadline or TTL while nothing else happens, from the spec."""


class ClockInsight(Insight, frozen=True, kw_only=True):
    """A kind that creates objects on a schedule; simulate runs a month of its plans in simulated time."""

    ticks: Callable[[Any, Instant], Iterator[Instant]]
    """Times of a snapshot's schedule after the snapshot's time, up to that instant."""
    tick_of: Callable[[Mapping[str, Any]], Instant | None]
    """Scheduled time of an object that it created; None: unknown."""
    is_active: Callable[[Any], bool]
    """Whether such an object has not ended, from its view."""
    ended: Callable[[Document, Instant, Instant, bool], Document]
    """Returns a created object in its state after it began and ended at these times, with success (True) or without."""
    zone: Callable[[Any], str]
    """IANA name of the schedule's time zone, from a snapshot; empty: UTC."""
