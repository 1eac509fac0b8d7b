"""Deletion protection: depending on the value of their protection label, objects cannot be deleted at all, or cannot be
deleted while they still contain something.

AdmissionRequest (DELETE) ──▶ Protection.review() ──▶ allowed, or 403 and a RefusedDeletion for logs and metrics
                              └──▶ ProtectionCounts (live reads: pods, claims, custom resources)

The label, the name and the namespace of the stored object are read: a request that deletes a collection contains no
name, and a request that deletes a Namespace contains its name as namespace. A deletion is always allowed if the object
is already terminating, or if the request does not contain the stored object. Same rules as OpenKruise's gate
ResourcesDeletionProtection.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from pykruise.kinds import list_kinds
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.documents import get_path, labels_of
from pykruise.kube.errors import ErrorStatus, KubeError
from pykruise.kube.resources import Resource

LABEL: Final = "policy.kruise.io/delete-protection"
ALWAYS: Final = "Always"
CASCADING: Final = "Cascading"

SELECTOR: Final[Mapping[str, Any]] = {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}
"""Selector of objects that have the label, with any value."""

CRD_CASCADING_GATE: Final = "DeletionProtectionForCRDCascadingGate"

_BUILT_IN: Final = frozenset({("apps", "deployments"), ("apps", "replicasets"), ("apps", "statefulsets")})

_WHOLE: Final = frozenset({("", "services"), ("networking.k8s.io", "ingresses")})
"""Resources for which the value `Cascading` has no effect."""

_NAMESPACES: Final = ("", "namespaces")
_CRDS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")


class ProtectionCounts(Protocol):
    """Counts that protection needs from the cluster. Each function raises KubeError if the API server does not
    respond.
    """

    async def count_active_pods(self, namespace: str) -> int:
        """Count the pods that are neither finished nor terminating."""
        ...

    async def count_bound_claims(self, namespace: str) -> int:
        """Count the claims that are bound to a volume and not terminating."""
        ...

    async def count_custom_resources(self, resource: Resource) -> int:
        """Count the objects of a custom resource, in all namespaces, that are not terminating."""
        ...


class RefusedDeletion(msgspec.Struct, frozen=True, kw_only=True):
    """A rejected deletion, for the log and the metrics."""

    kind: str
    namespace: str
    name: str
    username: str
    is_counted: bool
    """Whether this deletion is counted and logged. As in OpenKruise, those of Services and Ingresses are not."""


class Protection:
    """Decides about deletions. If `counts` is None, no objects can be counted, and the value `Cascading` rejects every
    deletion that depends on a count.

    `is_on`: whether the gate ResourcesDeletionProtection is on. `crd_cascading`: whether the gate
    DeletionProtectionForCRDCascadingGate is on. `on_refused` is called for each rejection.
    """

    def __init__(
        self,
        counts: ProtectionCounts | None = None,
        *,
        is_on: bool,
        crd_cascading: bool = False,
        on_refused: Callable[[RefusedDeletion], None] = lambda refused: None,
    ) -> None:
        self._counts = counts
        self._is_on = is_on
        self._crd_cascading = crd_cascading
        self._on_refused = on_refused
        self._workloads = _BUILT_IN | {
            (kind.resource.group, kind.resource.plural) for kind in list_kinds() if kind.reviews.is_protected
        }
        """Workloads that `Cascading` protects while spec.replicas is above 0, even if no pods exist."""

    async def review(self, request: AdmissionRequest) -> AdmissionAnswer:
        """Review a DELETE. Every other request is allowed."""
        old = request.old_object
        if not self._is_on or request.operation != "DELETE" or request.subresource or old is None:
            return ALLOWED
        if get_path(old, "metadata", "deletionTimestamp"):
            return ALLOWED
        value = labels_of(old).get(LABEL) if isinstance(labels_of(old), Mapping) else None
        why = await self._find_refusal(request, old, value)
        if why is None:
            return ALLOWED
        self._report_refusal(request, old)
        message = f"forbidden by ResourcesProtectionDeletion for {LABEL}={value}{why}"
        return AdmissionAnswer(
            refusal=ErrorStatus(status="Failure", message=message, reason="Forbidden", code=403)
        )

    async def _find_refusal(
        self, request: AdmissionRequest, old: Mapping[str, Any], value: str | None
    ) -> str | None:
        """Return the end of the message that rejects the deletion; None if the deletion is allowed."""
        which = (request.resource.group, request.resource.plural)
        if which not in self._workloads | _WHOLE | {_NAMESPACES, _CRDS}:
            return None
        if value == ALWAYS:
            return ""
        if value != CASCADING or which in _WHOLE:
            return None
        if which in self._workloads:
            replicas = get_path(old, "spec", "replicas")
            return f" and replicas {replicas}>0" if isinstance(replicas, int) and replicas > 0 else None
        if which == _NAMESPACES:
            return await self._find_namespace_refusal(_read_name(old))
        return await self._find_crd_refusal(old)

    async def _find_namespace_refusal(self, namespace: str) -> str | None:
        pods = await self._count_safely("pods", lambda counts: counts.count_active_pods(namespace))
        if isinstance(pods, str):
            return pods
        if pods:
            return f" and active pods {pods}>0"
        claims = await self._count_safely("claims", lambda counts: counts.count_bound_claims(namespace))
        if isinstance(claims, str):
            return claims
        return f' and "Bound" status pvc {claims}>0' if claims else None

    async def _find_crd_refusal(self, crd: Mapping[str, Any]) -> str | None:
        if not self._crd_cascading:
            return f": feature-gate {CRD_CASCADING_GATE} is not enabled"
        resource = find_crd_resource(crd)
        if resource is None:
            return None  # without a storage version there are no objects
        result = await self._count_safely(
            "custom resources", lambda counts: counts.count_custom_resources(resource)
        )
        if isinstance(result, str):
            return result
        return f" and active CRs {result}>0" if result else None

    async def _count_safely(
        self, what: str, count: Callable[[ProtectionCounts], Awaitable[int]]
    ) -> int | str:
        """Return the count. If it is not known, return the reason, with which the deletion is rejected."""
        if self._counts is None:
            return f", and this webhook cannot count {what}"
        try:
            return await count(self._counts)
        except KubeError as error:
            return f", and {what} cannot be counted: {error}"

    def _report_refusal(self, request: AdmissionRequest, old: Mapping[str, Any]) -> None:
        resource = request.resource
        self._on_refused(
            RefusedDeletion(
                kind=resource.kind,
                namespace=get_path(old, "metadata", "namespace") or "",
                name=_read_name(old),
                username=request.username,
                is_counted=(resource.group, resource.plural) not in _WHOLE,
            )
        )


def _read_name(old: Mapping[str, Any]) -> str:
    return get_path(old, "metadata", "name") or ""


def add_protection(protection: Protection, reviewer: Reviewer) -> Reviewer:
    """Return a reviewer that reviews deletions by `protection`, and all other requests by `reviewer`."""

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        return await (protection.review if request.operation == "DELETE" else reviewer)(request)

    return review


def find_crd_resource(crd: Mapping[str, Any]) -> Resource | None:
    """Return the resource that a CustomResourceDefinition defines, in its storage version; None if it has no storage
    version.
    """
    spec = crd.get("spec") or {}
    versions = spec.get("versions") or ()
    stored = next(
        (version.get("name") for version in versions if version.get("storage")), spec.get("version")
    )
    names = spec.get("names") or {}
    if not stored or not names.get("plural"):
        return None
    return Resource(
        spec.get("group", ""),
        stored,
        names["plural"],
        names.get("kind", ""),
        namespaced=spec.get("scope") != "Cluster",
    )
