"""What a step of pod admission is: the seam at which kinds take part in the life of other people's pods.

PodRequest ──▶ step.change(pod, request) ──▶ the pod as the step wants it, or None
           ──▶ step.judge(request)       ──▶ None, or the refusal

A kind adds a step to the tables in chain.py, whose order is OpenKruise's contract. `wanted` is CEL over
`object`, `oldObject` and `request`: all steps' expressions together decide which pods an API server asks about.
`interests` are what is stored that a step goes by (SidecarSets, WorkloadSpreads); see admission/match_conditions.py.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document
from pykruise.kube.errors import Status
from pykruise.kube.schemas.zero_values import filled
from pykruise.kube.values.cel import Interests
from pykruise.pods.template.typed_parts import why_unreadable

__all__ = ["JudgingStep", "PodStep", "StepError", "is_dry", "read_pods"]

_POD: Final = "io.k8s.api.core.v1.Pod"


class StepError(Exception):
    """A step cannot do its work: the pod is refused with this text. `code`: 429 when it is worth another try soon."""

    def __init__(self, text: str, *, code: int = 500) -> None:
        super().__init__(text)
        self.code = code


class PodStep(Protocol):
    """One step of `/mutate-pod`. It sees only pods that are being created, and that can be read."""

    @property
    def name(self) -> str:
        """As logs name it."""
        ...

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

    @property
    def name(self) -> str:
        """As logs name it."""
        ...

    def wanted(self, interests: Interests) -> str:
        """CEL that holds for every request the step may refuse or has to know of."""
        ...

    async def judge(self, request: AdmissionRequest) -> Status | None:
        """None, or why not: 403, and 429 for an eviction so that drain tools try again.

        Raises StepError, which is answered with 400, or 429 when that is its code.
        """
        ...


def read_pods(request: AdmissionRequest) -> AdmissionRequest:
    """The request with its pods as Go reads them. Raises ValueError, which says where, for what is no pod."""
    return msgspec.structs.replace(
        request, object=_read_pod(request.object), old_object=_read_pod(request.old_object)
    )


def _read_pod(doc: Document | None) -> Document | None:
    if problem := why_unreadable(doc, _POD):
        raise ValueError(f"not a Pod{problem}")
    found: Document | None = filled(doc, _POD)
    return found


def is_dry(request: AdmissionRequest) -> bool:
    """A dry run by the request, by its options, or by the options inside an eviction."""
    found: Mapping[str, Any] = request.object or {}
    eviction = found.get("deleteOptions") if request.subresource == "eviction" else None
    return (
        request.dry_run
        or "All" in ((request.options or {}).get("dryRun") or ())
        or "All" in ((eviction or {}).get("dryRun") or ())
    )
