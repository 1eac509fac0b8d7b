"""The admission step that injects sidecars of SidecarSets into new pods.

pod ──▶ SidecarSets that select it (reader) ──▶ InjectionSurroundings ──▶ inject() ──▶ the pod with its sidecars

injection.py decides; this module reads the facts for the decision. A pod that cannot get its sidecars is rejected.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.sidecarset.admission_facts import SidecarReader
from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.injection import InjectionSurroundings, inject
from pykruise.kinds.sidecarset.matching import select_candidates
from pykruise.kinds.sidecarset.origins import origin_of, origin_of_part
from pykruise.kinds.sidecarset.readers import RIGHTS, CachedSidecars, LiveSidecars
from pykruise.kinds.sidecarset.snapshot import SIDECAR_SET_VIEWS, SidecarSetSettings
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import ReadableSidecarSetView, SidecarSetView
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document, labels_of
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import Resource
from pykruise.kube.values.cel import Interests, build_selection
from pykruise.kube.values.owners import controller_of
from pykruise.plans.pod_steps import (
    PodOrigins,
    PodReaders,
    PodSelection,
    PodSteps,
    StepContext,
    StepError,
    StepEvent,
    StepReport,
)
from pykruise.pods.workload.revisions import RevisionView

COMPONENT: Final = "sidecarset-controller"
"""Component that records the events of the controller and of admission."""


class SidecarInjection:
    """The step of `/mutate-pod`; without a reader it does nothing. It reports pods that it rejects."""

    def __init__(self, context: StepContext) -> None:
        settings: SidecarSetSettings = context.settings
        self._reader: SidecarReader | None = context.reader
        self._clock = context.clock
        self._rng = context.rng
        self._sort_by_name = settings.sort_by_name
        self._report = context.report

    def build_match_condition(self, interests: Interests) -> str:
        """CEL expression that matches pods that SidecarSets select. Paused SidecarSets are included, because they may
        be resumed at any time.
        """
        return build_selection(interests, SIDECAR_SETS.kind)

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        reader = self._reader
        if reader is None:
            return None
        try:
            sets = select_candidates(await reader.list_sidecar_sets(), labels=labels_of(pod))
            if not sets:
                return None
            around = await self._read_surroundings(pod, request, sets, reader)
        except KubeError as error:
            raise StepError(f"sidecars cannot be looked up: {error}") from error
        try:
            return inject(pod, around)
        except InjectionError as error:
            if not request.dry_run:
                blamed = next((item for item in around.sets if item.name == error.sidecarset), None)
                self._report(
                    make_refusal_report(pod, namespace=around.namespace, error=error, sidecarset=blamed)
                )
            raise StepError(str(error)) from error

    async def _read_surroundings(
        self,
        pod: Document,
        request: AdmissionRequest,
        sets: Sequence[ReadableSidecarSetView],
        reader: SidecarReader,
    ) -> InjectionSurroundings:
        namespace = (pod.get("metadata") or {}).get("namespace") or request.namespace or "default"
        labels: Mapping[str, str] | None = None
        if any(item.namespace_selector is not None for item in sets):
            labels = await _read_namespace_labels(reader, namespace)
        revisions: dict[str, Sequence[RevisionView]] = {}
        for sidecar_set in sets:
            strategy = sidecar_set.spec.injection_strategy
            if strategy is not None and strategy.revision is not None:
                revisions[sidecar_set.name] = await reader.list_revisions(sidecar_set.name)
        return InjectionSurroundings(
            sets=sets,
            namespace=namespace,
            namespace_labels=labels,
            revisions=revisions,
            now=self._clock(),
            seed=self._rng.getrandbits(64),
            sort_by_name=self._sort_by_name,
        )


async def _read_namespace_labels(reader: SidecarReader, name: str) -> Mapping[str, str] | None:
    """Labels of a namespace; None: it cannot be read. Then no namespaceSelector selects it, and the pod is admitted."""
    try:
        return await reader.read_namespace_labels(name)
    except KubeError:
        return None


def make_refusal_report(
    pod: Mapping[str, Any], *, namespace: str, error: InjectionError, sidecarset: SidecarSetView | None
) -> StepReport:
    """Build the events about a rejected pod: on the SidecarSet that caused the rejection (None: the pod itself did),
    and on the pod's controller. The pod does not exist, so `kubectl describe` of its controller must show the reason.
    """
    metadata = pod.get("metadata") or {}
    events: list[StepEvent] = []
    if sidecarset is not None:
        pod_name = metadata.get("name") or metadata.get("generateName") or ""
        message = f"pod {pod_name} of namespace {namespace} was rejected: {error}"
        events.append(_make_refusal_event(SIDECAR_SETS, "", sidecarset.name, sidecarset.uid, message))
    owner = controller_of(pod)
    if owner is not None:
        group, _, version = owner.api_version.rpartition("/")
        # The plural of the resource is unknown here and not needed: an event contains only kind and version.
        resource = Resource(group, version, owner.kind.lower(), owner.kind)
        events.append(
            _make_refusal_event(
                resource, namespace, owner.name, owner.uid, f"pods cannot be created: {error}"
            )
        )
    return StepReport(events=tuple(events))


def _make_refusal_event(resource: Resource, namespace: str, name: str, uid: str, message: str) -> StepEvent:
    return StepEvent(
        resource=resource, namespace=namespace, name=name, uid=uid, reason="FailedInjection", message=message
    )


STEPS: Final = PodSteps(
    name="sidecarset",
    order=30,
    mutate=SidecarInjection,
    reads=PodReaders(
        live=lambda place: LiveSidecars(place.client, namespace=place.namespace),
        cached=lambda place: CachedSidecars(
            place.client(),
            namespace=place.namespace,
            revision_namespace=place.revision_namespace,
            clock=place.clock,
            rng=place.rng,
        ),
    ),
    selects=PodSelection(
        views=SIDECAR_SET_VIEWS,
        pods=lambda views: [view.meant for view in views],
        decides=lambda view: view.meant,
        announces=("selector", "namespaceSelector"),
    ),
    rights=RIGHTS,
    component=COMPONENT,
    origins=PodOrigins(of_field=origin_of, of_part=origin_of_part),
    carries="mutating",
)
