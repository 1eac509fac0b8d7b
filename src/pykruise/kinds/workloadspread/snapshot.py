"""Everything a decision about one WorkloadSpread needs, as one value.

bytes of a workload ──▶ project_target() ──▶ TargetView (what caches keep of workloads)
views + what was read for this turn ──▶ Snapshot ──▶ plan.py

Pure. The snapshot carries time and settings, so that the same snapshot always gives the same plan.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.workloadspread.versions import DEFAULT_VERSIONED, UNVERSIONED
from pykruise.kinds.workloadspread.view import SpreadView
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, canonical
from pykruise.kube.selectors import EVERYTHING, Selector, SelectorError, selector_from
from pykruise.plans.views import NodeView
from pykruise.pods.keys import TEMPLATE_HASH_LABEL
from pykruise.pods.names import short_hash
from pykruise.pods.views import PodView
from pykruise.pods.white_list import GroupKind

__all__ = ["Snapshot", "TargetView", "latest_version", "project_target"]

REVISION_ANNOTATION: Final = "deployment.kubernetes.io/revision"


class TargetView(msgspec.Struct, frozen=True, kw_only=True):
    """A workload, of whichever kind, as far as spreading its pods needs it."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    observed_generation: int = 0
    is_deleting: bool = False
    is_paused: bool = False
    replicas: int = 1
    """spec.replicas; of a Job spec.parallelism."""
    labels: Mapping[str, str] = {}
    controller_uid: str = ""
    selector: Selector = EVERYTHING
    template_hash: str = ""
    """The label pod-template-hash, of a ReplicaSet."""
    update_revision: str = ""
    revision: str = ""
    """Annotation of a Deployment that changes with its template."""
    template_digest: str = ""
    """Of spec.template without that label: equal for a Deployment and its ReplicaSet."""

    def is_spread_as(self, other: "TargetView") -> bool:
        """Whether nothing differs that the spread of its pods depends on."""
        return (
            self.uid == other.uid
            and self.replicas == other.replicas
            and self.is_deleting == other.is_deleting
            and self.revision == other.revision
            and self.update_revision == other.update_revision
            and self.template_digest == other.template_digest
        )


class _Owner(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    replicas: int | None = None
    parallelism: int | None = None
    paused: bool | None = None
    selector: dict[str, Any] | None = None
    template: dict[str, Any] | None = None


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int | None = None
    update_revision: str | None = None


class _Workload(msgspec.Struct):
    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Workload).decode


def project_target(raw: bytes | msgspec.Raw) -> TargetView:
    """A workload's view. Raises msgspec.DecodeError for what is no workload."""
    found = _decode(raw)
    meta, spec, status = found.metadata, found.spec or _Spec(), found.status or _Status()
    wanted = spec.parallelism if spec.parallelism is not None else spec.replicas
    return TargetView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        generation=meta.generation,
        observed_generation=status.observed_generation or 0,
        is_deleting=meta.deletion_timestamp is not None,
        is_paused=spec.paused or False,
        replicas=1 if wanted is None else wanted,
        labels=meta.labels or {},
        controller_uid=next((one.uid for one in meta.owner_references or () if one.controller), ""),
        selector=_selector(spec.selector),
        template_hash=(meta.labels or {}).get(TEMPLATE_HASH_LABEL, ""),
        update_revision=status.update_revision or "",
        revision=(meta.annotations or {}).get(REVISION_ANNOTATION, ""),
        template_digest=_digest(spec.template) if spec.template else "",
    )


def _selector(document: Mapping[str, Any] | None) -> Selector:
    try:
        return selector_from(document) if document is not None else EVERYTHING
    except SelectorError:
        return EVERYTHING


def _digest(template: Document) -> str:
    metadata = dict(template.get("metadata") or {})
    metadata["labels"] = {
        key: value for key, value in (metadata.get("labels") or {}).items() if key != TEMPLATE_HASH_LABEL
    }
    metadata = {key: value for key, value in metadata.items() if value}
    return hashlib.sha256(canonical({**template, "metadata": metadata})).hexdigest()


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The world of one WorkloadSpread at one instant."""

    spread: SpreadView
    is_there: bool = True
    """Whether the workload is, and is not on its way out."""
    replicas: int = 0
    """Pods that the workload wants."""
    pods: Sequence[PodView] = ()
    """Of the workload, selected by the filter; finished and terminating ones too."""
    latest: str | None = UNVERSIONED
    """Version of the workload's template; None: not known now."""
    latest_is_coming: bool = False
    """It will be known soon by itself."""
    nodes: Mapping[str, NodeView] = {}
    """Those that pods without a subset are on, by name."""
    documents: Mapping[str, Document] = {}
    """Pods without a subset that are on a node, by uid, as they are stored."""
    has_more: bool = False
    """There are further such pods, for the next plan."""
    versioned: frozenset[str] = DEFAULT_VERSIONED
    now: Instant
    polls_after: float | None = None
    """Seconds after which the workload must be looked at, since nobody tells when it changes."""


def latest_version(
    kind: GroupKind,
    target: TargetView | None,
    *,
    replica_sets: Sequence[TargetView] = (),
    versioned: frozenset[str] = DEFAULT_VERSIONED,
) -> str | None:
    """The version of pods that the workload makes now; None: not known, empty: there is no workload.

    `replica_sets`: those that a Deployment controls.
    """
    if kind.kind.lower() not in versioned:
        return UNVERSIONED
    if target is None:
        return ""
    match kind.kind:
        case "ReplicaSet":
            return target.template_hash or UNVERSIONED
        case "Deployment":
            for one in replica_sets:
                if not one.is_deleting and one.template_digest == target.template_digest:
                    return one.template_hash
            return None
    if target.generation > target.observed_generation:
        return None
    return short_hash(target.update_revision) or None
