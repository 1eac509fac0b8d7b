"""Crew's part in the admission of other people's pods.

new pod that names a Crew (label `crew.example.com/mate-of`) ──▶ CrewMates.change() ──▶ an annotation with its size
eviction of the only pod of a Crew                           ──▶ LastMate.judge()   ──▶ 429, an event and a count
"""

import random
from collections.abc import Callable
from typing import Final

from pykruise.kinds.crew.snapshot import CREW_VIEWS, CrewView
from pykruise.kinds.crew.types import CREWS
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, annotations_of, decode, labels_of
from pykruise.kube.errors import ErrorStatus, KubeError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.resources import PODS
from pykruise.kube.values.cel import Interests, build_selection, join_terms
from pykruise.kube.values.owners import controller_of
from pykruise.plans.pod_steps import (
    PodReaders,
    PodSelection,
    PodSteps,
    PreventedDisruption,
    PreventionMetric,
    StepContext,
    StepError,
    StepEvent,
    StepReport,
)
from pykruise.runtime.object_reader import CachedObjects, LiveObjects

__all__ = ["STEPS"]

MATE_OF: Final = "crew.example.com/mate-of"
SIZE: Final = "crew.example.com/size"

_NAMES_ONE: Final = f'has(object.metadata.labels) && "{MATE_OF}" in object.metadata.labels'
_IS_EVICTED: Final = 'request.operation == "CREATE"'


class _Pods:
    """Reads pods that are evicted."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._of_cluster = client

    async def pod(self, namespace: str, name: str) -> Document | None:
        try:
            return decode(await self._of_cluster().get(PODS, namespace, name))
        except NotFoundError:
            return None


class LiveCrews(_Pods, LiveObjects[CrewView]):
    """Reads Crews and pods from the API server."""

    def __init__(self, client: Callable[[], Client]) -> None:
        _Pods.__init__(self, client)
        LiveObjects.__init__(self, client, CREW_VIEWS)


class CachedCrews(_Pods, CachedObjects[CrewView]):
    """Reads Crews from a cache."""

    def __init__(self, client: Client, *, clock: Clock, rng: random.Random) -> None:
        _Pods.__init__(self, lambda: client)
        CachedObjects.__init__(self, client, CREW_VIEWS, clock=clock, rng=rng)


class CrewMates:
    """The step of `/mutate-pod`."""

    def __init__(self, context: StepContext) -> None:
        self._reader: LiveCrews | None = context.reader

    def build_match_condition(self, interests: Interests) -> str:
        return join_terms(build_selection(interests, CREWS.kind), _NAMES_ONE)

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        name = labels_of(pod).get(MATE_OF)
        if self._reader is None or not name:
            return None
        try:
            crew = await self._reader.find_newest(Key(request.namespace, name))
        except KubeError as error:
            raise StepError(str(error)) from error
        if crew is None or crew.spec is None:
            return None
        annotations = {**annotations_of(pod), SIZE: str(crew.spec.size)}
        return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


class LastMate:
    """The step of `/validate-pod`."""

    def __init__(self, context: StepContext) -> None:
        self._reader: LiveCrews | None = context.reader
        self._report = context.report

    def build_match_condition(self, interests: Interests) -> str:
        return join_terms(build_selection(interests, CREWS.kind), _IS_EVICTED)

    async def judge(self, request: AdmissionRequest) -> ErrorStatus | None:
        if self._reader is None or request.subresource != "eviction":
            return None
        pod = await self._reader.pod(request.namespace, request.name)
        owner = controller_of(pod) if pod is not None else None
        if pod is None or owner is None or owner.kind != CREWS.kind:
            return None
        crew = await self._reader.find_newest(Key(request.namespace, owner.name))
        if crew is None or crew.spec is None or crew.spec.size > 1:
            return None
        uid = pod["metadata"]["uid"]
        where = {"namespace": request.namespace, "uid": uid}
        event = StepEvent(
            resource=PODS, name=request.name, reason="LastMate", message="it is the last of its Crew", **where
        )
        prevented = PreventedDisruption(
            pod=request.name, kind=CREWS.kind, name=crew.name, owner=owner, username=request.username, **where
        )
        self._report(StepReport(events=(event,), prevented=prevented))
        return ErrorStatus(
            status="Failure", code=429, reason="TooManyRequests", message=f"the last of Crew {crew.name}"
        )


STEPS: Final = PodSteps(
    name="crew",
    order=90,
    mutate=CrewMates,
    judge=LastMate,
    reads=PodReaders(
        live=lambda place: LiveCrews(place.client),
        cached=lambda place: CachedCrews(place.client(), clock=place.clock, rng=place.rng),
    ),
    selects=PodSelection(views=CREW_VIEWS, announces=()),
    rights=(
        make_right(CREWS, *READ, why="Crew: to watch its objects"),
        make_right(PODS, "get", why="Crew: which pod is evicted"),
    ),
    component="crew-controller",
    prevention=PreventionMetric(
        metric="crew_last_mate", description="Evictions that a Crew refused.", log_field="Crew"
    ),
)
