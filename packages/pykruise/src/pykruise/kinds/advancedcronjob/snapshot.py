"""Everything that a decision about one AdvancedCronJob needs, as one value.

bytes of an AdvancedCronJob ──▶ CRON_JOB_VIEWS ──▶ AdvancedCronJobView (stored in the cache)
AdvancedCronJobView + Read ──▶ read_snapshot() ──▶ AdvancedCronJobSnapshot ──▶ plan.py

A tick is a time of the schedule. A tick is served when its job is created (due.py).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, TypeGuard

import msgspec

from pykruise.kinds.advancedcronjob.changes import SeenSchedule, read_scheduled_since
from pykruise.kinds.advancedcronjob.children import BY_STEM, CHILD_VIEWS, JOB, TEMPLATES, ChildView, Ending
from pykruise.kinds.advancedcronjob.types import (
    ADVANCED_CRON_JOBS,
    AdvancedCronJobSpec,
    AdvancedCronJobStatus,
)
from pykruise.kube.clock import Instant, parse_optional_time
from pykruise.kube.documents import get_path
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.schemas.types import Int32, Int64, IntOrString, Typed
from pykruise.plans.stored_values import Judged
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.images.api import CompletionPolicy, PullSpec
from pykruise.pods.settings import FromManager
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.template.typed_parts import POD_TEMPLATE, Parts
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.views import Projector, WorkloadView, make_spec_reader
from pykruise.runtime.objects import BY_UID
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views


class AdvancedCronJobSettings(DefaultingSettings, frozen=True, kw_only=True):
    """Settings for decisions about AdvancedCronJobs."""

    time_zone: Annotated[str, FromManager("time_zone")] = "UTC"
    """Time zone of schedules without `spec.timeZone`. Default: the time zone of the manager."""


class AdvancedCronJobView(WorkloadView, frozen=True, kw_only=True):
    """One AdvancedCronJob as stored in the cache."""

    spec: AdvancedCronJobSpec | None
    """The typed spec; None if it is unreadable: `problem` describes the error."""
    status: AdvancedCronJobStatus = AdvancedCronJobStatus()
    template: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """`spec.template` as it is stored."""

    @property
    def made(self) -> tuple[str, Resource] | None:
        """The template field that is set, and the resource of its children; None if no template is set."""
        return next(
            ((name, template) for name, template in TEMPLATES.items() if self.template.get(name) is not None),
            None,
        )

    @property
    def last_schedule_time(self) -> Instant | None:
        """The last served tick according to the status; None if no tick was served, or if the time is unreadable."""
        return parse_optional_time(self.status.last_schedule_time)


CLOCKS_DIFFER_S: Final = 300.0
"""Maximum number of seconds by which the clock of a webhook may be ahead of the manager's clock."""

PARTS: Final[Parts] = {
    "template.jobTemplate": "io.k8s.api.batch.v1.JobTemplateSpec",
    "template.broadcastJobTemplate.spec.template": POD_TEMPLATE,
}
_read_spec: Final = make_spec_reader(AdvancedCronJobSpec, parts=PARTS)


class _Pulls(PullSpec, frozen=True, kw_only=True):
    """Fields of an ImageListPullJob's spec that this module reads."""

    completion_policy: CompletionPolicy | None = None  # type: ignore[assignment]  # it may be left out here
    images: list[str] | None = None


class _BroadcastCompletion(Typed, frozen=True, kw_only=True):
    """Amounts of a BroadcastJob's completion policy."""

    active_deadline_seconds: Int64 | None = None
    ttl_seconds_after_finished: Int32 | None = None


class _BroadcastFailure(Typed, frozen=True, kw_only=True):
    """Amount of a BroadcastJob's failure policy."""

    restart_limit: Int32 | None = None


class _Broadcasts(Typed, frozen=True, kw_only=True):
    """Fields of a BroadcastJob's spec that validation.py and children.py read."""

    completion_policy: _BroadcastCompletion | None = None
    failure_policy: _BroadcastFailure | None = None
    parallelism: IntOrString | None = None


_CHILDREN: Final[Mapping[str, type[Typed]]] = {
    "imageListPullJobTemplate": _Pulls,
    "broadcastJobTemplate": _Broadcasts,
}


def read_spec(spec: Mapping[str, Any]) -> tuple[AdvancedCronJobSpec | None, str]:
    """Return the typed spec, or None and `<path>: <problem>`. The specs of the templates are checked too."""
    result, problem = _read_spec(spec)
    if result is None:
        return None, problem
    for name, kind in _CHILDREN.items():
        given = get_path(spec, "template", name, "spec", default={})
        child, problem = read(given, kind, path=f"spec.template.{name}.spec")
        if child is None:
            return None, problem
    return result, ""


CRON_JOB_VIEWS: Final = Views[AdvancedCronJobView](
    resource=ADVANCED_CRON_JOBS,
    projector=lambda: Projector(
        AdvancedCronJobView,
        read_spec=read_spec,
        status=AdvancedCronJobStatus,
        derived=lambda _, given: {"template": given.get("template") or {}},
    ),
    indexes={BY_UID: lambda cron: (cron.uid,)},
)


class AdvancedCronJobSnapshot(Judged, frozen=True, kw_only=True):
    """All that is known about one AdvancedCronJob at one instant."""

    cron: AdvancedCronJobView
    children: Sequence[ChildView]
    """Objects of the children's kind that the AdvancedCronJob controls, sorted by name."""
    others: frozenset[str] = frozenset()
    """Names of objects of the children's kind that the AdvancedCronJob does not control, although their names look like
    those of its children.
    """
    latest_made: Instant | None = None
    """The latest tick for which a child was ever observed, even if the child is deleted; None if no child was
    observed.
    """
    job_pods: Mapping[str, Sequence[PodView]] = {}
    """Uid of each active batch/v1 Job → its pods. Children of other kinds report in their own status why they wait."""
    changed_at: Instant | None = None
    """Time of the last change of schedule, time zone, pause or deadline; None if no change after the creation
    is known.
    """
    now: Instant
    settings: AdvancedCronJobSettings = AdvancedCronJobSettings()


class ReadableAdvancedCronJobView(AdvancedCronJobView, frozen=True, kw_only=True):
    """An AdvancedCronJobView with a readable spec. Only a type: no object is created from this class."""

    spec: AdvancedCronJobSpec


class ReadableAdvancedCronJob(AdvancedCronJobSnapshot, frozen=True, kw_only=True):
    """A snapshot for which `is_readable()` is True. Only a type: no object is created from this class."""

    cron: ReadableAdvancedCronJobView


def is_readable(snapshot: AdvancedCronJobSnapshot) -> TypeGuard[ReadableAdvancedCronJob]:
    """Whether the spec is readable and the stored object passes admission. Only this function decides it."""
    return snapshot.cron.spec is not None and not snapshot.refused


class ServedTimes:
    """Remembers the latest tick for which a child was observed, because the child may be deleted before the status
    contains the tick.
    """

    def __init__(self) -> None:
        self._latest: Instant | None = None

    def find_latest(self, children: Sequence[ChildView]) -> Instant | None:
        """Return the latest tick of all children that were observed until now, including these."""
        ticks = (self._latest, *(child.scheduled_at for child in children))
        self._latest = max((tick for tick in ticks if tick is not None), default=None)
        return self._latest


async def read_snapshot(
    view: AdvancedCronJobView, read: Read[AdvancedCronJobSettings]
) -> AdvancedCronJobSnapshot:
    """Read the AdvancedCronJob and its children from the cache. Wait until the children were listed for the
    first time.
    """
    made = view.made
    children: list[ChildView] = []
    others: frozenset[str] = frozenset()
    if made is not None:
        views = CHILD_VIEWS[made[1].kind]
        await read.wait_served(views)
        children = sorted(read.list_owned(views, view.uid), key=lambda child: child.name)
        others = frozenset(
            child.name
            for child in read.list_by_index(views, BY_STEM, view.key)
            if child.controller_uid != view.uid
        )
    return AdvancedCronJobSnapshot(
        cron=view,
        children=children,
        others=others,
        latest_made=read.find_memory(ServedTimes).find_latest(children),
        job_pods={
            child.uid: read.list_owned(POD_VIEWS, child.uid)
            for child in children
            if child.kind == JOB.kind and child.ending is Ending.ACTIVE
        },
        changed_at=_find_change(view, read),
        now=read.now(),
        settings=read.settings,
    )


def _find_change(view: AdvancedCronJobView, read: Read[AdvancedCronJobSettings]) -> Instant | None:
    """Return the time of the last change, from the annotation or from observation, whichever is later. The webhook's
    clock may be a little ahead: a time slightly in the future means now, and a time far in the future is ignored.
    """
    now, spec, noted = read.now(), view.spec, read_scheduled_since(view.annotations)
    noted = None if noted is not None and noted > now + CLOCKS_DIFFER_S else noted
    seen = None
    if spec is not None:
        shape = (spec.schedule, spec.time_zone, spec.paused or None, spec.starting_deadline_seconds)
        seen = read.find_memory(SeenSchedule).find_seen_since(shape, noted=noted, now=now)
    return max((min(time, now) for time in (noted, seen) if time is not None), default=None)


def key_of(child: ChildView) -> Key:
    """Return the key of the child."""
    return Key(child.namespace, child.name)
