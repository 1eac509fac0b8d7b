"""Events about pods that were refused for want of their sidecars (on the SidecarSet, and on the pod's owner), and
about pods that a budget kept (on the pod).

SidecarInjection ──Refusal──▶ RefusalEvents.tell() ──▶ EventRecorder (in the background)

The pod itself does not exist, so `kubectl describe` of what wanted it has to say why.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from pykruise.admission.pods.budget import PreventedDisruption
from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.kube.client.recorder import EventRecorder
from pykruise.kube.resources import PODS, Resource
from pykruise.kube.values.owners import OwnerReference, controller_of

__all__ = ["PUB_COMPONENT", "PreventionEvents", "Refusal", "RefusalEvents", "refusal_of"]

REASON = "FailedInjection"

PUB_COMPONENT = "pub-controller"
"""Who tells of kept pods, as the original has it."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was refused."""

    namespace: str
    pod: str
    """Its name, or what its name would have begun with."""
    message: str
    sidecarset: SidecarSetView | None = None
    """Who is to blame; None: the pod itself."""
    owner: OwnerReference | None = None


def refusal_of(
    pod: Mapping[str, Any], *, namespace: str, error: InjectionError, sidecarset: SidecarSetView | None
) -> Refusal:
    """What there is to tell of a pod that could not be injected."""
    metadata = pod.get("metadata") or {}
    return Refusal(
        namespace=namespace,
        pod=metadata.get("name") or metadata.get("generateName") or "",
        message=str(error),
        sidecarset=sidecarset,
        owner=controller_of(pod),
    )


class RefusalEvents:
    """Records refusals as events of `recorder`, which the caller runs."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def tell(self, refusal: Refusal) -> None:
        """Record both events. Returns at once and never raises."""
        one, owner = refusal.sidecarset, refusal.owner
        if one is not None:
            message = f"a pod of {refusal.namespace} is refused ({refusal.pod}): {refusal.message}"
            self._record(SIDECAR_SETS, "", one.name, one.uid, message)
        if owner is not None:
            group, _, version = owner.api_version.rpartition("/")
            # The plural is not known here and not needed: an event names kind and version.
            resource = Resource(group, version, owner.kind.lower(), owner.kind)
            message = f"pods cannot be created: {refusal.message}"
            self._record(resource, refusal.namespace, owner.name, owner.uid, message)

    def _record(self, resource: Resource, namespace: str, name: str, uid: str, message: str) -> None:
        self._recorder.record(
            resource, namespace=namespace, name=name, uid=uid, reason=REASON, message=message, warning=True
        )


class PreventionEvents:
    """Records pods that a budget kept, as events of `recorder`, which the caller runs."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def tell(self, prevented: PreventedDisruption) -> None:
        """Record the event on the pod. Returns at once and never raises."""
        self._recorder.record(
            PODS,
            namespace=prevented.namespace,
            name=prevented.pod,
            uid=prevented.uid,
            reason="PubPreventPodDeletion",
            message="openkruise pub prevents pod deletion",
            warning=True,
        )
