"""Declaration of a kind's part in pod admission; admission/pods builds a chain from the steps of all kinds.

KIND.pods ──▶ order, mutate, judge ──▶ the chain behind `/mutate-pod` and `/validate-pod`
          ──▶ reads                ──▶ readers: with caches in a manager, live in a sandbox
          ──▶ selects              ──▶ match conditions: the pods for which API servers send reviews
          ──▶ rights               ──▶ roles

    pod    ──▶ PodStep.change(pod, request)  ──▶ the changed pod, or None
    request ──▶ JudgingStep.judge(request)   ──▶ None, or the rejection

A step's match condition is CEL over `object`, `oldObject` and `request`: API servers send reviews of the pods for which
the condition of any step is true. `interests` are the stored objects that a step depends on
(admission/match_conditions.py).
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document
from pykruise.kube.errors import ErrorStatus
from pykruise.kube.rbac import Right
from pykruise.kube.resources import Resource
from pykruise.kube.values.cel import Interests, Meant
from pykruise.kube.values.owners import OwnerReference
from pykruise.kube.values.selectors import EVERYTHING
from pykruise.runtime.object_reader import CachedObjects
from pykruise.runtime.views import Views

Webhook = Literal["mutating", "validating"]


# ── steps ────────────────────────────────────────────────────────────────────


class StepError(Exception):
    """A step cannot do its work: the pod is rejected with this text. `code`: 429 when the client should try again
    soon.
    """

    def __init__(self, text: str, *, code: int = 500) -> None:
        super().__init__(text)
        self.code = code


class PodStep(Protocol):
    """A step of `/mutate-pod`. It gets only new pods that are readable."""

    def build_match_condition(self, interests: Interests) -> str:
        """Return CEL that is true for every pod that the step may change. It may be true for further pods."""
        ...

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        """Return the changed pod, or None when there is no change. The input is not modified.

        Raises StepError. A dry run must have no effect outside the pod.
        """
        ...


class JudgingStep(Protocol):
    """A step of `/validate-pod`: updates, resizes, deletions and evictions of pods."""

    def build_match_condition(self, interests: Interests) -> str:
        """Return CEL that is true for every request that the step may reject or must record."""
        ...

    async def judge(self, request: AdmissionRequest) -> ErrorStatus | None:
        """Return the rejection, or None: 403, or 429 for an eviction, so that drain tools try again.

        Raises StepError, for which the response is 400, or 429 if that is its code.
        """
        ...


def is_dry(request: AdmissionRequest) -> bool:
    """Whether the request, its options, or the options inside an eviction define a dry run."""
    body: Mapping[str, Any] = request.object or {}
    eviction = body.get("deleteOptions") if request.subresource == "eviction" else None
    return (
        request.dry_run
        or "All" in ((request.options or {}).get("dryRun") or ())
        or "All" in ((eviction or {}).get("dryRun") or ())
    )


# ── reports of steps in addition to their result ─────────────────────────────


class StepEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A warning event about an object."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    reason: str
    message: str


class PreventedDisruption(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that an object protected from a disruption, for metrics and the protection log."""

    namespace: str
    pod: str
    kind: str
    name: str
    """Kind and name of the protecting object: PodUnavailableBudget `web`."""
    uid: str
    """UID of the pod."""
    owner: OwnerReference | None
    username: str


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """Events and counts of a step about one review."""

    events: tuple[StepEvent, ...] = ()
    prevented: PreventedDisruption | None = None


class PreventionMetric(msgspec.Struct, frozen=True, kw_only=True):
    """Metric and log field for the pods that a kind protected."""

    metric: str
    description: str
    log_field: str
    """Field of the protection log with the object's name."""


# ── reads of steps ───────────────────────────────────────────────────────────


class ReaderPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that readers read, and the manager's namespaces in it."""

    client: Callable[[], Client]
    namespace: str
    """The manager's own namespace."""
    revision_namespace: str = ""
    """Namespace for revisions of cluster-scoped objects; empty: the manager's own."""
    clock: Clock
    rng: random.Random


class CachedReader(Protocol):
    """A reader with caches, which `run()` maintains."""

    @property
    def objects(self) -> CachedObjects[Any]:
        """The kind's own objects."""
        ...

    def list_problems(self) -> Sequence[str]:
        """Reasons why reviews would have to wait."""
        ...

    async def run(self) -> None:
        """Maintain the caches until cancelled."""
        ...


class PodReaders(msgspec.Struct, frozen=True, kw_only=True):
    """The two readers of a kind's objects and of related objects, also for its reviews (Lookups.readers)."""

    live: Callable[[ReaderPlace], Any]
    """Builds a reader that asks the API server each time: for reviews in the process of a sandbox."""
    cached: Callable[[ReaderPlace], CachedReader]


class StepContext(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, reader and collaborators of one kind's steps."""

    settings: Any
    """Settings of the kind."""
    reader: Any | None
    """Reader of the kind's objects; None: steps that need it do not change pods."""
    clock: Clock
    rng: random.Random
    most_waiting: int | None = None
    """Maximum number of reviews that wait for writes of the step at the same time; None: unlimited."""
    report: Callable[[StepReport], None] = lambda report: None


# ── origin of a rejected field of a pod ──────────────────────────────────────


class PodOrigin(msgspec.Struct, frozen=True):
    """An object that adds something to pods, and its field."""

    kind: str
    name: str
    field: str

    def __str__(self) -> str:
        return f"{self.field} of {self.kind} {self.name}"


class PodOrigins(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that find the parts of a rejected pod which the kind's objects added. Pure."""

    of_field: Callable[[str, Document, Sequence[Document]], PodOrigin | None] | None = None
    """Finds the object that a rejected field comes from, with the kind's objects and the workload."""
    untraced: (
        Callable[[Document, Document, Sequence[Document]], Iterator[tuple[PodOrigin, Document]]] | None
    ) = None
    """Yields the pod of a workload with each addition of the kind's objects that a dry run leaves out."""


# ── the declaration ──────────────────────────────────────────────────────────


def select_whole_namespaces(objects: Iterable[Any]) -> list[Meant]:
    """Return selections of all pods in each namespace that has an object."""
    namespaces = sorted({item.namespace for item in objects})
    return [Meant(selector=EVERYTHING, namespaces=(namespace,)) for namespace in namespaces]


class PodSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Definition of how the stored objects of a kind select the pods that its steps want."""

    views: Views[Any]
    pods: Callable[[Iterable[Any]], list[Meant]] = select_whole_namespaces
    """Returns the selected pods for all views of the kind's objects."""
    decides: Callable[[Any], Any] = lambda _: True
    """Returns the part of a view that decides: when it changes, match conditions are updated. Default: only the
    object's existence decides, for kinds whose selector is immutable or irrelevant.
    """
    announces: tuple[str, ...] | None = None
    """Fields of the spec. Before a new object or a change of these fields is allowed, webhook configurations are
    written, since other pods are selected and API servers must send reviews of them. Empty: only new objects; None:
    never.
    """
    opens: Webhook = "mutating"
    """The webhook whose configuration is then written."""


class PodSteps(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one kind in pod admission."""

    name: str
    """Name of its steps in logs."""
    order: int
    """Steps run in ascending order, which is OpenKruise's contract."""
    gates: tuple[str, ...] | None = None
    """Feature gates that must all be on; None: those of the kind."""
    shares: Callable[[StepContext], Any] = lambda context: context
    """Builds the input of `mutate` and `judge`, once for both."""
    mutate: Callable[[Any], PodStep] | None = None
    judge: Callable[[Any], JudgingStep] | None = None
    reads: PodReaders | None = None
    selects: PodSelection | None = None
    """Selection by the kind's objects; None: whether a step wants a pod depends on the pod alone."""
    rights: tuple[Right, ...] = ()
    """Permissions that its readers and steps need."""
    component: str = ""
    """The component that records its events; empty: it has none."""
    prevention: PreventionMetric | None = None
    """Metric of its protected pods; None: its steps protect none."""
    origins: PodOrigins | None = None
    """Origins of its additions to pods; None: it adds nothing that an API server could reject."""
    carries: Webhook | None = None
    """The pod webhook that API servers get only if the kind's CustomResourceDefinition is installed."""
    serves_template: Callable[[Document], bool] | None = None
    """Whether the kind's controller has work with pods of a template; None: it does not depend on the pods' content."""
