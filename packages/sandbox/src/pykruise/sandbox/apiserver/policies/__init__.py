"""ValidatingAdmissionPolicies: rules in CEL that the API server itself keeps.

policies, bindings ──▶ reading.py ──▶ Policy, PolicyBinding ──▶ verdicts.py ──▶ Denial, …
                              admission.py follows what is configured, and asks ──┘

Most clusters have no policy: what is needed for them is loaded when the first binding is there.
"""

from typing import Final

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.resources import Resource
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.objects.storage import StorageChange
from pykruise.sandbox.apiserver.plugins.reviewers import Admission, ReviewVerdict

__all__ = ["Policies"]

_GROUP: Final = "admissionregistration.k8s.io"
POLICIES: Final = f"validatingadmissionpolicies.{_GROUP}"
BINDINGS: Final = f"validatingadmissionpolicybindings.{_GROUP}"


class Policies:
    """The Admission of a server whose cluster may have policies; `rest` is asked after them."""

    def __init__(self, rest: Admission) -> None:
        self._rest = rest
        self._asked: Admission = rest
        self._core: Core | None = None

    def bind(self, core: Core) -> None:
        """Follow the policies of this server."""
        self._core = core
        core.on_change(BINDINGS, self._first)
        if core.storage.scan(BINDINGS, limit=1).items:
            self._load(core)

    def _first(self, _: StorageChange) -> None:
        if self._asked is self._rest and self._core is not None:
            self._load(self._core)

    def _load(self, core: Core) -> None:
        from pykruise.sandbox.apiserver.policies.admission import PolicyAdmission

        self._asked = PolicyAdmission(self._rest, core)

    def concerns(self, resource: Resource, subresource: str, operation: str) -> bool:
        return self._asked.concerns(resource, subresource, operation)

    async def mutate(self, request: AdmissionRequest) -> ReviewVerdict:
        return await self._asked.mutate(request)

    async def validate(self, request: AdmissionRequest) -> ReviewVerdict:
        return await self._asked.validate(request)
