"""ValidatingAdmissionPolicies: rules in CEL that the API server itself enforces.

policies, bindings ──▶ reading.py ──▶ AdmissionPolicy, PolicyBinding ──▶ verdicts.py ──▶ Denial, …

admission.py reads changed policies and bindings again, and calls verdicts.py for each write that a policy matches.
Most clusters have no policy, so the modules are imported only when the first binding exists.
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
    """The Admission of a server whose cluster may have policies. It calls `rest` after the policies."""

    def __init__(self, rest: Admission) -> None:
        self._rest = rest
        self._asked: Admission = rest
        self._core: Core | None = None

    def bind(self, core: Core) -> None:
        """Use the policies that this server stores."""
        self._core = core
        core.on_change(BINDINGS, self._on_binding_changed)
        if core.storage.scan(BINDINGS, limit=1).items:
            self._load(core)

    def _on_binding_changed(self, _: StorageChange) -> None:
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
