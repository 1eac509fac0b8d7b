"""What a step of pod admission is: the seam at which kinds take part in the life of other people's pods.

PodRequest ──▶ step.change(pod, request) ──▶ the pod as the step wants it, or None
           ──▶ step.judge(request)       ──▶ None, or the refusal

A kind adds a step to the tables in chain.py, whose order is OpenKruise's contract. `wanted` is CEL over
`object`, `oldObject` and `request`: all steps' expressions together decide which pods an API server asks about.
`interests` are what is stored that a step goes by (SidecarSets, WorkloadSpreads); see admission/match_conditions.py.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.cel import Interests
from pykruise.kube.documents import Document
from pykruise.kube.errors import Status

__all__ = ["JudgingStep", "PodShape", "PodStep", "StepError", "is_dry", "read_pod"]


class StepError(Exception):
    """A step cannot do its work: the pod is refused with this text. `code`: 429 when it is worth another try soon."""

    def __init__(self, text: str, *, code: int = 500) -> None:
        super().__init__(text)
        self.code = code


class PodStep(Protocol):
    """One step of `/mutate-pod`. It sees only pods that are being created, in their right shape (PodShape)."""

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


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct, rename="camel"):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Env(msgspec.Struct):
    name: str
    value: str | None = None


class _Container(msgspec.Struct, rename="camel"):
    name: str = ""
    env: list[_Env] | None = None
    liveness_probe: dict[str, Any] | None = None


class _Gate(msgspec.Struct, rename="camel"):
    condition_type: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    containers: list[_Container] | None = None
    readiness_gates: list[_Gate] | None = None


class PodShape(msgspec.Struct):
    """The fields of a pod that steps touch, with their types. An API server sends no pod of another shape."""

    metadata: _Metadata | None = None
    spec: _Spec | None = None


def read_pod(doc: Mapping[str, Any] | None) -> PodShape:
    """The fields that steps touch. Raises ValueError, which says where, for a document of another shape, or none."""
    return msgspec.convert(doc, PodShape)


def is_dry(request: AdmissionRequest) -> bool:
    """A dry run by the request, by its options, or by the options inside an eviction."""
    found: Mapping[str, Any] = request.object or {}
    eviction = found.get("deleteOptions") if request.subresource == "eviction" else None
    return (
        request.dry_run
        or "All" in ((request.options or {}).get("dryRun") or ())
        or "All" in ((eviction or {}).get("dryRun") or ())
    )
