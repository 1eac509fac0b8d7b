"""Facts about a kind for the commands explain, plan and simulate, in addition to its plan: names, fields, and progress.

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
from pykruise.kube.values.selectors import Selector
from pykruise.pods.corrections import Correction
from pykruise.pods.lifecycle.states import Lifecycle
from pykruise.runtime.plan import Plan
from pykruise.runtime.rollouts import ChildAtWork, ChildrenOf
from pykruise.runtime.views import Views


class RolloutStrategy(msgspec.Struct, frozen=True, kw_only=True):
    """Strategy of a spec for updating pods to a new template."""

    in_place: Literal["never", "if possible", "only"]
    recreates_because: str = ""
    """Field and value of the spec because of which `in_place` is "never"."""
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
    """Return a function for `WorkloadInsight.strategy`, for a kind whose spec has an update policy. `read_spec` returns
    the typed spec, or None and the problem. `recreates_because`: the field and value that recreate pods.
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
    """Progress of a workload from its spec and status, as numbers of pods."""

    wanted: int
    updated: int
    to_be_updated: int
    available: int
    revision: str
    """The update revision in the status."""


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """A restriction of a pod to some of the nodes that could otherwise run it."""

    pod: str
    node: str
    """Name of the recorded node."""
    labels: Mapping[str, str]
    """Recorded labels of the node. The pod can run only on nodes with these labels."""
    remedy: str
    """Action that removes the restriction."""


class SetCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of pods that an object sets. Pods can have it as a readiness gate."""

    type: str
    probe: str
    """Name of the probe that decides whether the condition is True."""
    selects: Callable[[Mapping[str, str]], bool]
    """Whether the object sets the condition of pods with these labels."""


class SetLabels(msgspec.Struct, frozen=True, kw_only=True):
    """Labels that an object sets in pods."""

    where: str
    """Field of the object that contains the labels."""
    labels: Mapping[str, str]
    selects: Callable[[Mapping[str, str]], bool]
    """Whether the object selects pods with these labels."""


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why a namespace lacks an object, and the action that gives it the object."""

    words: str
    remedy: str = ""
    """Action after which the object exists; empty if only its creation by hand helps."""


class Supply(msgspec.Struct, frozen=True, kw_only=True):
    """A Secret or ConfigMap that an object creates in other namespaces."""

    kind: str
    name: str
    explain_absence: Callable[[str, Mapping[str, str]], Absence]
    """Returns why a namespace with this name and these labels lacks the Secret or ConfigMap."""


class InsightChild(msgspec.Struct, frozen=True, kw_only=True):
    """An object that its parent created. A problem of the child is also a problem of the parent."""

    resource: Resource
    key: Key
    has_failed: bool = False
    """Whether the child ended with a failure."""
    reason: str = ""
    """Code of the reason why the child waits, if the parent's snapshot contains this code. If empty, the status of the
    child has the reason.
    """
    correction: Correction | None = None
    """Instructions to correct the child, if they differ from those for other objects of its kind; otherwise None."""


class AtWork(msgspec.Struct, frozen=True, kw_only=True):
    """A pod or node that uses up the parallelism of a job."""

    name: str
    container: str = ""
    """Container of the pod that has not ended; empty for a node, or if no container runs yet."""
    since: str = ""
    """Time at which the work began; empty for a pod, because the status of its container has the time."""
    remedy: str = ""
    """Action for work that never ends; empty if only waiting helps."""


class DeletedFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A failed child may have been deleted immediately: only a warning event about the parent reports it, with the
    reason `RunFailed`.
    """

    since: Instant
    """Time of the last child that may have failed. Earlier events are about earlier children."""
    remedy: str
    """Action that keeps the next failed child."""


class KeptChildren(msgspec.Struct, frozen=True, kw_only=True):
    """The children of an object by their state, and the limits up to which the object keeps ended ones."""

    resource: Resource
    active: int
    succeeded: int
    failed: int
    succeeded_field: str
    """Path of the field with the limit for children that succeeded."""
    succeeded_limit: int | None
    """The limit; None: all are kept."""
    failed_field: str
    failed_limit: int | None


class Insight(msgspec.Struct, frozen=True, kw_only=True):
    """Names and fields of a kind, for users of the commands."""

    names: frozenset[str] = frozenset()
    """Further names of the kind that a user can type, besides its plural and kind, such as `clone`."""
    containers: tuple[str, ...] = ("spec", "template", "spec", "containers")
    """Path of the containers that `--set image=…` changes; empty if the kind has no containers."""
    headline: Callable[[Mapping[str, Any]], str] | None = None
    """A function that returns one line about the progress, from the status. If this field is None, the plan already
    describes the progress.
    """
    everywhere: tuple[Views[Any], ...] = ()
    """Views that the kind reads in all namespaces."""
    children: Callable[[Any], Iterator[InsightChild]] | None = None
    """Yields the children of the object from a snapshot, the most important first. If this field is None, the kind has
    no children.
    """
    pod_selector: tuple[str, ...] = ()
    """Path of the label selector by which the object selects pods of its namespace; empty if it selects no pods, or
    pods of other namespaces too.
    """
    one_child_at_a_time: str = ""
    """Action after which the next child is created only when the last one has ended; empty if the kind has none."""
    at_work: Callable[[Any], Iterator[AtWork]] | None = None
    """Yields, from a snapshot, the pods or nodes that use up the parallelism of a job. If this field is None, objects
    of the kind have no parallelism.
    """
    node_of: Callable[[Any, str], str] | None = None
    """Returns, from a snapshot, the node whose agent the object waits for. The second argument is the key of the reason
    in `Plan.skipped`; it is empty if the reason belongs to the whole object. If this field is None, no agent works for
    objects of the kind.
    """
    selector_of_nodes: Callable[[Any], Selector | None] | None = None
    """Returns, from a snapshot, the selector by which the object chooses nodes (`spec.selector`), or None if it chooses
    nodes in another way. If this field is None, objects of the kind choose no nodes by their labels.
    """
    deleted_failure: Callable[[Any], DeletedFailure | None] | None = None
    """Returns, from a snapshot, where a failed child that was deleted immediately is reported, or None if the object
    keeps failed children. If this field is None, the kind never deletes them immediately.
    """
    kept_children: Callable[[Any], KeptChildren | None] | None = None
    """Returns, from a snapshot, the number of the object's children by state, and how many ended ones it keeps, or None
    if this is unknown. If this field is None, the kind keeps no ended children.
    """
    bindings: Callable[[Document], Iterator[Binding]] | None = None
    """Yields the pods that the object binds to nodes. If this field is None, objects of the kind bind no pods."""
    unheeded: Callable[[Document, Document | None], tuple[str, str]] | None = None
    """Returns why annotations of a workload that request an object of the kind have no effect, and the remedy; empty if
    there is no problem. The second argument is the object with the workload's name, or None if there is none.
    If this field is None, no annotations request objects of the kind.
    """
    is_requested: Callable[[Document], bool] = lambda _: False
    """Whether annotations of a workload request an object of the kind with the workload's name."""
    conditions: Callable[[Document], Iterator[SetCondition]] | None = None
    """Yields the conditions that the object sets in pods. If this field is None, objects of the kind set no conditions.
    """
    labels: Callable[[Document], Iterator[SetLabels]] | None = None
    """Yields the labels that the object sets in pods. If this field is None, objects of the kind set no labels."""
    supplies: Callable[[Document], Iterator[Supply]] | None = None
    """Yields the Secrets and ConfigMaps that the object creates in namespaces. If this field is None, objects of the
    kind create none there.
    """
    objects_of_nodes: Mapping[str, str] = {}
    """Code of a wait for a node -> kind of the node's object that may be its cause: the manager creates and changes
    this object, and the API server perhaps rejects these writes.
    """
    marks_pods: str = ""
    """Kind of the per-node objects (such as NodePodProbe) through which this object's results reach the pods that it
    selects; empty: results reach no pods.
    """
    marks_field: str = ""
    """Field of the object's spec that defines the labels and annotations of the pods that it selects."""
    has_observed_generation: bool = True
    """Whether the status has observedGeneration."""
    targets: Collection[GroupKind] | None = None
    """Kinds that spec.targetRef can reference without a white list; None if it can reference every workload."""


def find_children_at_work(insight: Insight | None) -> ChildrenOf | None:
    """Return the function that lists the children for which a parent waits, without failed children; None if the kind
    has no children.
    """
    children = None if insight is None else insight.children
    if children is None:
        return None
    return lambda snapshot: [
        ChildAtWork(child.resource, child.key, child.reason)
        for child in children(snapshot)
        if not child.has_failed
    ]


def is_owner(workload: Document, dependent: Document) -> bool:
    """Whether the workload is an owner of the object `dependent`."""
    uid = workload["metadata"]["uid"]
    return any(ref.get("uid") == uid for ref in dependent["metadata"].get("ownerReferences") or ())


class WorkloadInsight(Insight, frozen=True, kw_only=True):
    """Insight of a kind that owns pods. Snapshots of the kind have `pods` and `revisions`. Its settings have
    `in_place`, unless its strategy is always "never".
    """

    strategy: Callable[[Mapping[str, Any]], tuple[RolloutStrategy | None, str]]
    """Returns the strategy in a spec, or None and the problem."""
    counts: Callable[[Document, Mapping[str, Any], Plan], RolloutCounts]
    """Returns the counts from the document, the status (the stored or the planned one), and the plan."""
    has_claim: Callable[[Document, Document], bool] = is_owner
    """Returns whether a PersistentVolumeClaim of the workload's namespace belongs to one of its pods."""
    asks_budgets: Callable[[Any], bool] = lambda _: False
    """Returns whether, with these settings, the controller checks PodUnavailableBudgets before an update."""
    has_known_names: bool = False
    """Whether the names of new pods are known in advance."""
    replaces_stuck: Callable[[Mapping[str, Any]], bool] = lambda _: True
    """Returns whether, with this spec, a rollback of the template automatically replaces a pod that was never ready."""


class JobInsight(Insight, frozen=True, kw_only=True):
    """Insight of a kind whose pods run to completion on nodes. The command simulate adds and removes nodes
    meanwhile.
    """

    pod_label: str = ""
    """Label of the pods with the name of their job; empty if they have none."""
    waits_s: Callable[[Mapping[str, Any]], float] = lambda _: 0.0
    """Returns, for a spec, the maximum number of seconds for which a job waits only for its own deadline or time to
    live.
    """


class ClockInsight(Insight, frozen=True, kw_only=True):
    """Insight of a kind that creates objects on a schedule. The command simulate runs its plans for a simulated
    month.
    """

    ticks: Callable[[Any, Instant], Iterator[Instant]]
    """Yields the times of a snapshot's schedule after the snapshot's time, until the given instant."""
    tick_of: Callable[[Mapping[str, Any]], Instant | None]
    """Returns the scheduled time of a created object; None if it is unknown."""
    is_active: Callable[[Any], bool]
    """Returns whether a created object has not ended, from its view."""
    ended: Callable[[Document, Instant, Instant, bool], Document]
    """Returns a created object as if it had begun and ended at these times, with success (True) or with a failure."""
    zone: Callable[[Any], str]
    """Returns the IANA name of the schedule's time zone, from a snapshot; empty means UTC."""
