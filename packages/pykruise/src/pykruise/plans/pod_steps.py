"""Declaration of the steps of a kind in pod admission. admission/pods builds a chain from the steps of all kinds.

KIND.pods ──▶ order, mutate, judge ──▶ the chain behind `/mutate-pod` and `/validate-pod`
          ──▶ reads                ──▶ readers: with caches in a manager, without caches in a sandbox
          ──▶ selects              ──▶ match conditions: the pods for which API servers send reviews
          ──▶ rights               ──▶ roles

    pod    ──▶ PodStep.change(pod, request)  ──▶ the changed pod, or None
    request ──▶ JudgingStep.judge(request)   ──▶ None, or the rejection

The match condition of a step is a CEL expression about `object`, `oldObject` and `request`. API servers send a review
if the condition of at least one step is true. The argument `interests` of build_match_condition() contains the
selections by stored objects on which a step depends (admission/match_conditions.py).
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
from pykruise.kube.values.cel import Interests, LabelSelection
from pykruise.kube.values.owners import OwnerReference
from pykruise.kube.values.selectors import EVERYTHING
from pykruise.runtime.object_reader import CachedObjects
from pykruise.runtime.views import Views

Webhook = Literal["mutating", "validating"]


# ── steps ────────────────────────────────────────────────────────────────────


class StepError(Exception):
    """A step failed, so the pod is rejected with this message. `code` is 429 if the client should try again soon."""

    def __init__(self, text: str, *, code: int = 500) -> None:
        super().__init__(text)
        self.code = code


def build_retry_error(text: str, request: AdmissionRequest) -> StepError:
    """Build the error of a step that cannot decide now, for example because the API server does not respond. Evictions
    get 429: a client that drains a node stops at any other error code.
    """
    return StepError(text, code=429 if request.subresource == "eviction" else 500)


class PodStep(Protocol):
    """A step of the webhook `/mutate-pod`. It gets only new, readable pods."""

    def build_match_condition(self, interests: Interests) -> str:
        """Return a CEL expression. It must be true for every pod that the step would change, and may be true for
        others.
        """
        ...

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        """Return the changed pod; None if it does not change. The argument is not modified.

        Raises StepError. For a dry run, the step must not write any other object.
        """
        ...


class JudgingStep(Protocol):
    """A step of the webhook `/validate-pod`, for updates, resizes, deletions and evictions of pods."""

    def build_match_condition(self, interests: Interests) -> str:
        """Return a CEL expression that is true for every request that the step would reject or must record."""
        ...

    async def judge(self, request: AdmissionRequest) -> ErrorStatus | None:
        """Return the rejection, or None to allow the request. Its code is 403; for evictions it is 429, so that drain
        tools try again.

        Raises StepError. The response then has code 429 if the error has this code, and otherwise 400.
        """
        ...


def is_dry(request: AdmissionRequest) -> bool:
    """Whether the request is a dry run according to its own field, its options, or the options of an eviction."""
    body: Mapping[str, Any] = request.object or {}
    eviction = body.get("deleteOptions") if request.subresource == "eviction" else None
    return (
        request.dry_run
        or "All" in ((request.options or {}).get("dryRun") or ())
        or "All" in ((eviction or {}).get("dryRun") or ())
    )


# ── reports of steps in addition to their result ─────────────────────────────


class StepEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of type Warning about an object."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    reason: str
    message: str


class PreventedDisruption(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that an object protected from a disruption. For metrics and the log of deletion protection."""

    namespace: str
    pod: str
    kind: str
    name: str
    """`kind` and `name` are of the object that protected the pod, for example PodUnavailableBudget `web`."""
    uid: str
    """UID of the pod."""
    owner: OwnerReference | None
    username: str


class StepReport(msgspec.Struct, frozen=True, kw_only=True):
    """Events and counts that a step reports for one review."""

    events: tuple[StepEvent, ...] = ()
    prevented: PreventedDisruption | None = None


class PreventionMetric(msgspec.Struct, frozen=True, kw_only=True):
    """Metric and log field for pods that objects of a kind protected."""

    metric: str
    description: str
    log_field: str
    """Field of the log that contains the name of the protecting object."""


# ── reads of steps ───────────────────────────────────────────────────────────


class ReaderPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster that readers read from, and the namespaces of the manager in this cluster."""

    client: Callable[[], Client]
    namespace: str
    """The manager's own namespace."""
    revision_namespace: str = ""
    """Namespace for revisions of cluster-scoped objects; if empty, the manager's own namespace."""
    clock: Clock
    rng: random.Random


class CachedReader(Protocol):
    """A reader with caches, which `run()` keeps up to date."""

    @property
    def objects(self) -> CachedObjects[Any]:
        """The cached objects of the kind."""
        ...

    def list_problems(self) -> Sequence[str]:
        """Return the reasons why reviews would have to wait."""
        ...

    async def run(self) -> None:
        """Keep the caches up to date until this is cancelled."""
        ...


class PodReaders(msgspec.Struct, frozen=True, kw_only=True):
    """The two readers of a kind. They read objects of the kind and related objects. Its reviews can use them too
    (Lookups.readers).
    """

    live: Callable[[ReaderPlace], Any]
    """Builds a reader that reads the objects of the kind from the API server each time. Reviews that run in the same
    process as a sandbox use it.
    """
    cached: Callable[[ReaderPlace], CachedReader]


class StepContext(msgspec.Struct, frozen=True, kw_only=True):
    """Settings and reader for the steps of one kind, and functions that the steps use."""

    settings: Any
    """Settings of the kind."""
    reader: Any | None
    """Reader of the kind. If it is None, steps that need it do not change pods."""
    clock: Clock
    rng: random.Random
    most_waiting: int | None = None
    """Maximum number of reviews that wait for writes of the step at the same time; None if it is not limited."""
    report: Callable[[StepReport], None] = lambda report: None


# ── origin of a rejected field of a pod ──────────────────────────────────────


class PodOrigin(msgspec.Struct, frozen=True):
    """An object that adds something to pods, and the field that defines it."""

    kind: str
    name: str
    field: str

    def __str__(self) -> str:
        return f"{self.field} of {self.kind} {self.name}"


Labels = Mapping[str, str] | None
"""Labels of a namespace; None if they cannot be read."""


class PodOrigins(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that find out which object of the kind added a part of a rejected pod. Pure."""

    of_field: Callable[[str, Document, Sequence[Document], Labels], PodOrigin | None] | None = None
    """Returns the object that added the rejected field. The arguments are the field, the workload, objects of the kind,
    and the labels of the workload's namespace.
    """
    of_part: Callable[[tuple[str, str], Document, Sequence[Document], Labels], PodOrigin | None] | None = None
    """Returns the object that added a part of the pod. The first argument is the kind of the part (`container` or
    `volume`) and its name. The other arguments are the same.
    """
    untraced: (
        Callable[[Document, Document, Sequence[Document]], Iterator[tuple[PodOrigin, Document]]] | None
    ) = None
    """Yields pods of a workload, each with one addition that is not made in a dry run, and the object that makes it."""


# ── the declaration ──────────────────────────────────────────────────────────


def select_whole_namespaces(objects: Iterable[Any]) -> list[LabelSelection]:
    """Return the selection of all pods in every namespace that contains at least one of the objects."""
    namespaces = sorted({item.namespace for item in objects})
    return [LabelSelection(selector=EVERYTHING, namespaces=(namespace,)) for namespace in namespaces]


class PodSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Rules by which the stored objects of a kind select the pods that its steps need."""

    views: Views[Any]
    pods: Callable[[Iterable[Any]], list[LabelSelection]] = select_whole_namespaces
    """Returns the selections of pods, from the views of all objects of the kind."""
    decides: Callable[[Any], Any] = lambda _: True
    """Returns the part of a view on which match conditions depend. They are updated when this part changes. By default
    they depend only on the existence of the object: for kinds whose selector is immutable or irrelevant.
    """
    announces: tuple[str, ...] | None = None
    """Fields of the spec that select pods. Before a new object or a change of these fields is allowed, a webhook
    configuration is written, so that API servers send reviews of all pods. If empty, this is done only for new objects;
    if None, never.
    """
    opens: Webhook = "mutating"
    """The webhook whose configuration is written."""


class PodSteps(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of one kind in pod admission."""

    name: str
    """Name of the steps in logs."""
    order: int
    """Steps run in ascending order. The order is the same as in OpenKruise."""
    gates: tuple[str, ...] | None = None
    """Feature gates that must all be on; if None, the gates of the kind."""
    shares: Callable[[StepContext], Any] = lambda context: context
    """Builds the argument of `mutate` and `judge`. It is built once for both."""
    mutate: Callable[[Any], PodStep] | None = None
    judge: Callable[[Any], JudgingStep] | None = None
    reads: PodReaders | None = None
    selects: PodSelection | None = None
    """Selection of pods by objects of the kind; None if only the pod determines whether a step needs it."""
    rights: tuple[Right, ...] = ()
    """Permissions that the readers and steps need."""
    component: str = ""
    """The component that records the events; empty if the steps report no events."""
    prevention: PreventionMetric | None = None
    """Metric for protected pods; None if the steps do not protect pods."""
    origins: PodOrigins | None = None
    """Finds the origin of additions to pods; None if the steps add nothing that an API server could reject."""
    carries: Webhook | None = None
    """The pod webhook that is registered only if the CustomResourceDefinition of this kind is installed."""
    serves_template: Callable[[Document], bool] | None = None
    """A function that returns whether the kind's controller must act on pods of a template. If this field is None, it
    does not depend on the template.
    """
