"""The Crew kind in both versions: v1alpha1 has another name for its size.

JSON of the API server ──▶ Crew ──▶ snapshot, plan; and by the same types ──▶ its schema
"""

from typing import Final

from pykruise.kube.resources import Resource
from pykruise.kube.schemas.types import ApiObject, Count, Int32, Int64, Status, Typed
from pykruise.pods.api import PodTemplate

__all__ = ["CREWS", "Crew", "CrewSpec", "CrewStatus", "CrewV1Alpha1"]

CREWS: Final = Resource("apps.kruise.io", "v1beta1", "crews", "Crew")


class CrewSpec(Typed, frozen=True, kw_only=True):
    """Desired state."""

    size: Int32 = 1
    """Number of wanted pods."""
    paused: bool = False
    """Whether no pod is created or deleted."""
    template: PodTemplate
    """The pods."""


class CrewStatus(Status, frozen=True, kw_only=True):
    """Observed state."""

    ready: Count = 0
    """Pods that are ready."""
    size: Count = 0
    """Number of existing pods."""
    observed_generation: Int64 = 0
    """The metadata.generation for which this status was computed."""


class Crew(ApiObject, frozen=True, kw_only=True):
    """A controller that keeps a number of pods."""

    spec: CrewSpec
    status: CrewStatus | None = None


class CrewSpecV1Alpha1(Typed, frozen=True, kw_only=True):
    """Desired state."""

    members: Int32 = 1
    """Number of wanted pods."""
    paused: bool = False
    """Whether no pod is created or deleted."""
    template: PodTemplate
    """The pods."""


class CrewV1Alpha1(ApiObject, frozen=True, kw_only=True):
    """A controller that keeps a number of pods."""

    spec: CrewSpecV1Alpha1
    status: CrewStatus | None = None
