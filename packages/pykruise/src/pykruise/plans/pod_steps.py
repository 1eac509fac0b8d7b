"""A kind's part in the admission of pods, as a declaration; admission/pods makes a chain of the steps of all kinds.

KIND.pods ──▶ order, mutate, judge ──▶ the chain behind `/mutate-pod` and `/validate-pod`
          ──▶ reads                ──▶ readers: over caches in a manager, live in a sandbox
          ──▶ selects              ──▶ match conditions: which pods an API server asks about
          ──▶ rights               ──▶ roles

    pod    ──▶ PodStep.change(pod, request)  ──▶ the pod as the step wants it, or None
    request ──▶ JudgingStep.judge(request)   ──▶ None, or the refusal

A step's `wanted` is CEL over `object`, `oldObject` and `request`: the expressions of all steps together decide which
pods an API server asks about. `interests` are the stored objects that a step goes by (admission/match_conditions.py).
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
    """A step cannot do its work: the pod is refused with this text. `code`: 429 when another try soon is worth it."""

    def __init__(self, text: str, *, code: int = 500) -> None:
        super().__init__(text)
        self.code = code


class PodStep(Protocol):
    """One step of `/mutate-pod`. It sees only pods that are being created, and that can be read."""

    def wanted(self, interests: Interests) -> str:
        """CEL that holds for every pod the step may change. It may hold for more, never for less."""
        ...

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        """The pod as it should be, or None for a pod that stays as it is. The pod given is not changed.

        Raises StepError. A dry run must leave no trace outside the pod.
        """
        ...


class JudgingStep(Protocol):
    """One step of `/validate-pod`: updates, resizes, deletions and evictions of pods."""

    def wanted(self, interests: Interests) -> str:
        """CEL that holds for every request the step may refuse or must note."""
        ...

    async def judge(self, request: AdmissionRequest) -> ErrorStatus | None:
        """None, or why not: 403, and 429 for an eviction so that drain tools try again.

        Raises StepError, which is answered with 400, or 429 when that is its code.
        """
        ...


def is_dry(request: AdmissionRequest) -> bool:
    """A dry run by the request, by its options, or by the options inside an eviction."""
    body: Mapping[str, Any] = request.object or {}
    eviction = body.get("deleteOptions") if request.subresource == "eviction" else None
    return (
        request.dry_run
        or "All" in ((request.options or {}).get("dryRun") or ())
        or "All" in ((eviction or {}).get("dryRun") or ())
    )


# ── what steps report beside their answer ────────────────────────────────────


class StepEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A warning event about an object."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    reason: str
    message: str


class PreventedDisruption(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that an object protected from a disruption: for the counter and the protection log."""

    namespace: str
    pod: str
    kind: str
    name: str
    """Kind and name of the object that protected it: PodUnavailableBudget `web`."""
    uid: str
    """The pod's."""
    owner: OwnerReference | None
    username: str


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """Events and counts of a step about one review."""

    events: tuple[StepEvent, ...] = ()
    prevented: PreventedDisruption | None = None


class PreventionMetric(msgspec.Struct, frozen=True, kw_only=True):
    """How pods that a kind protected are counted and logged."""

    metric: str
    description: str
    log_field: str
    """The field of the protection log that names the object."""


# ── what steps read ──────────────────────────────────────────────────────────


class ReaderPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that readers read, and where the manager lives in it."""

    client: Callable[[], Client]
    namespace: str
    """The manager's own."""
    revision_namespace: str = ""
    """Where revisions of cluster-wide objects are; empty: in the manager's own."""
    clock: Clock
    rng: random.Random


class CachedReader(Protocol):
    """A reader over caches, which are kept while `run()` runs."""

    @property
    def objects(self) -> CachedObjects[Any]:
        """The kind's own objects."""
        ...

    def problems(self) -> Sequence[str]:
        """Why reviews would have to wait."""
        ...

    async def run(self) -> None:
        """Mirror until cancelled."""
        ...


class PodReaders(msgspec.Struct, frozen=True, kw_only=True):
    """The two readers of a kind's objects and what belongs to them. Its reviews get the same (Lookups.readers)."""

    live: Callable[[ReaderPlace], Any]
    """Asks the API server each time: for reviews in the process of a sandbox."""
    cached: Callable[[ReaderPlace], CachedReader]


class StepContext(msgspec.Struct, frozen=True, kw_only=True):
    """Settings, reader and surroundings that the steps of one kind work with."""

    settings: Any
    """The kind's own."""
    reader: Any | None
    """None: nothing can be read, and steps that would have to leave pods as they are."""
    clock: Clock
    rng: random.Random
    most_waiting: int | None = None
    """How many reviews may wait for writes of the step at once; None: any number."""
    report: Callable[[StepReport], None] = lambda report: None


# ── whose fault it is that a pod is refused ──────────────────────────────────


class PodOrigin(msgspec.Struct, frozen=True):
    """An object that puts something into pods, and its field."""

    kind: str
    name: str
    field: str

    def __str__(self) -> str:
        return f"{self.field} of {self.kind} {self.name}"


class PodOrigins(msgspec.Struct, frozen=True, kw_only=True):
    """How to know what the objects of a kind put into a pod that an API server refuses. Pure."""

    of_field: Callable[[str, Document, Sequence[Document]], PodOrigin | None] | None = None
    """Finds the object that a refused field comes from, among the kind's objects and by the workload."""
    untraced: (
        Callable[[Document, Document, Sequence[Document]], Iterator[tuple[PodOrigin, Document]]] | None
    ) = None
    """Makes, of the workload, a pod of it and the kind's objects, the pod with each thing that a dry run leaves out."""


# ── the declaration ──────────────────────────────────────────────────────────


def whole_namespaces(objects: Iterable[Any]) -> list[Meant]:
    """All pods of each namespace with an object."""
    namespaces = sorted({item.namespace for item in objects})
    return [Meant(selector=EVERYTHING, namespaces=(namespace,)) for namespace in namespaces]


class PodSelection(msgspec.Struct, frozen=True, kw_only=True):
    """How the stored objects of a kind select the pods that its steps want."""

    views: Views[Any]
    pods: Callable[[Iterable[Any]], list[Meant]] = whole_namespaces
    """Gives the selected pods, of all views of the kind's objects."""
    decides: Callable[[Any], Any] = lambda _: True
    """The part of a view that decides: match conditions follow when it changes. The default: that the object exists,
    for kinds whose selector cannot be changed or does not count."""
    announces: tuple[str, ...] | None = None
    """Webhook configurations are written before a new object is allowed, or a change of these fields of its spec
    (none: of any), since it selects other pods, which API servers must ask about. None: never."""
    opens: Webhook = "mutating"
    """The webhook whose configuration is written then."""


class PodSteps(msgspec.Struct, frozen=True, kw_only=True):
    """The part of one kind in the admission of pods."""

    name: str
    """As logs name its steps."""
    order: int
    """Steps run in ascending order, which is OpenKruise's contract."""
    gates: tuple[str, ...] | None = None
    """Feature gates that all must be on; None: those of the kind."""
    shares: Callable[[StepContext], Any] = lambda context: context
    """Makes what `mutate` and `judge` are made from, once for both."""
    mutate: Callable[[Any], PodStep] | None = None
    judge: Callable[[Any], JudgingStep] | None = None
    reads: PodReaders | None = None
    selects: PodSelection | None = None
    """None: whether a step wants a pod depends on the pod alone."""
    rights: tuple[Right, ...] = ()
    """Rights that its readers and steps need."""
    component: str = ""
    """The component that writes its events; empty: there are none."""
    prevention: PreventionMetric | None = None
    """None: its steps protect no pods."""
    origins: PodOrigins | None = None
    """None: it puts nothing into pods that an API server could refuse."""
    carries: Webhook | None = None
    """API servers get this webhook of pods only where the kind's CustomResourceDefinition is installed."""
    serves_template: Callable[[Document], bool] | None = None
    """Whether the kind's controller has work with pods of a template; None: it does not go by what pods ask for."""
