"""Everything that a decision about one Crew needs, as one frozen value.

Crew's JSON text ──▶ project_crew() ──▶ CrewView      CrewView + Read ──▶ snapshot() ──▶ Snapshot

The functions are pure: what is read is in the caches already.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeGuard

import msgspec

from pykruise.kinds.crew.types import CREWS, CrewSpec
from pykruise.kube.clock import Instant
from pykruise.kube.documents import decode
from pykruise.kube.schemas.typed_documents import read as read_typed
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.settings import FromFlag
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView
from pykruise.pods.workload.views import WorkloadView, read_workload_fields
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views

__all__ = [
    "CREW_VIEWS",
    "CrewView",
    "Readable",
    "ReadableCrewView",
    "Settings",
    "Snapshot",
    "is_readable",
    "read_spec",
    "snapshot",
]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Flags that change decisions about Crews."""

    largest: Annotated[int, FromFlag("crew-largest", "Maximum number of pods of a Crew.")] = 10


class CrewView(WorkloadView, frozen=True, kw_only=True):
    """One Crew as the cache keeps it."""

    spec: CrewSpec | None
    """The typed spec; None if it is unreadable: `problem` contains the reason."""


class Snapshot(Judged, frozen=True, kw_only=True):
    """A Crew and its pods at one time."""

    crew: CrewView
    pods: Sequence[PodView]
    """All pods that it controls, terminating ones too."""
    revisions: tuple[RevisionView, ...] = ()
    """Empty: the pods of a Crew never get a new template."""
    now: Instant
    settings: Settings = Settings()


class ReadableCrewView(CrewView, frozen=True, kw_only=True):
    """A Crew whose spec can be read. It is only a type: `is_readable()` checks which snapshots have it."""

    spec: CrewSpec


class Readable(Snapshot, frozen=True, kw_only=True):
    """A snapshot that can be planned."""

    crew: ReadableCrewView


def is_readable(snapshot: Snapshot) -> TypeGuard[Readable]:
    """Whether the spec can be read, and breaks no rule of admission."""
    return snapshot.crew.spec is not None and not snapshot.refused


def read_spec(spec: Mapping[str, Any]) -> tuple[CrewSpec | None, str]:
    """The typed spec, or None and `<path>: <what is wrong>`."""
    return read_typed(spec, CrewSpec, path="spec", raw=("template",))


def project_crew(raw: bytes | msgspec.Raw) -> CrewView:
    """A Crew's view. Raises ValueError for what is no Kubernetes object."""
    document = decode(raw)
    spec, problem = read_spec(document.get("spec") or {})
    return CrewView(**read_workload_fields(document), spec=spec, problem=problem)


CREW_VIEWS: Final = Views[CrewView](resource=CREWS, projector=lambda: project_crew)


async def snapshot(view: CrewView, read: Read[Settings]) -> Snapshot:
    """The Crew with its pods, as they are known now."""
    pods = tuple(read.list_owned(POD_VIEWS, view.uid))
    return Snapshot(crew=view, pods=pods, now=read.now(), settings=read.settings)
