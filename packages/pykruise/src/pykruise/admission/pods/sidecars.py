"""SidecarSet injection: the step that puts sidecars into new pods.

pod ──▶ SidecarSets that select it (reader) ──▶ Surroundings ──▶ kinds/sidecarset inject() ──▶ the pod with them

The decision is pure and elsewhere; here is what it has to know. A pod that cannot get its sidecars is refused.
"""

import random
from collections.abc import Callable, Mapping, Sequence

from pykruise.admission.pods.refusals import Refusal, refusal_of
from pykruise.admission.pods.steps import StepError
from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.facts import SidecarReader
from pykruise.kinds.sidecarset.injection import Surroundings, inject
from pykruise.kinds.sidecarset.matching import candidates
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, labels_of
from pykruise.kube.errors import KubeError
from pykruise.kube.values.cel import Interests, meant_by
from pykruise.pods.workload.revisions import RevisionView

__all__ = ["Refused", "SidecarInjection"]

Refused = Callable[[Refusal], None]
"""Hears of a pod that was refused for want of its sidecars."""


class SidecarInjection:
    """The step; without a reader it does nothing. `sort_by_name`: gate EnableSortSidecarContainerByName."""

    name = "sidecarset"

    def __init__(
        self,
        reader: SidecarReader | None,
        *,
        clock: Clock,
        rng: random.Random,
        sort_by_name: bool = False,
        on_refused: Refused = lambda refusal: None,
    ) -> None:
        self._reader = reader
        self._clock = clock
        self._rng = rng
        self._sort_by_name = sort_by_name
        self._on_refused = on_refused

    def wanted(self, interests: Interests) -> str:
        """Those that SidecarSets mean, paused ones too: they may go on at any moment."""
        return meant_by(interests, SIDECAR_SETS.kind)

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        reader = self._reader
        if reader is None:
            return None
        try:
            sets = candidates(await reader.sidecar_sets(), labels=labels_of(pod))
            if not sets:
                return None
            around = await self._surroundings(pod, request, sets, reader)
        except KubeError as error:
            raise StepError(f"sidecars cannot be looked up: {error}") from error
        try:
            return inject(pod, around)
        except InjectionError as error:
            if not request.dry_run:
                self._tell(pod, around, error)
            raise StepError(str(error)) from error

    def _tell(self, pod: Document, around: Surroundings, error: InjectionError) -> None:
        blamed = next((one for one in around.sets if one.name == error.sidecarset), None)
        self._on_refused(refusal_of(pod, namespace=around.namespace, error=error, sidecarset=blamed))

    async def _surroundings(
        self,
        pod: Document,
        request: AdmissionRequest,
        sets: Sequence[SidecarSetView],
        reader: SidecarReader,
    ) -> Surroundings:
        namespace = (pod.get("metadata") or {}).get("namespace") or request.namespace or "default"
        labels: Mapping[str, str] | None = None
        if any(one.namespace_selector is not None for one in sets):
            labels = await _namespace_labels(reader, namespace)
        revisions: dict[str, Sequence[RevisionView]] = {}
        for one in sets:
            assert one.spec is not None
            strategy = one.spec.injection_strategy
            if strategy is not None and strategy.revision is not None:
                revisions[one.name] = await reader.revisions(one.name)
        return Surroundings(
            sets=sets,
            namespace=namespace,
            namespace_labels=labels,
            revisions=revisions,
            now=self._clock(),
            seed=self._rng.getrandbits(64),
            sort_by_name=self._sort_by_name,
        )


async def _namespace_labels(reader: SidecarReader, name: str) -> Mapping[str, str] | None:
    """A namespace that cannot be read is one that no selector selects: the pod is not held up."""
    try:
        return await reader.namespace_labels(name)
    except KubeError:
        return None
