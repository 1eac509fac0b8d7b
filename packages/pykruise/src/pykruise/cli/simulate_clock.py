"""Simulation of kinds that create objects on a schedule, for `pykruise simulate`.

manifest, or a live object with the objects it created ──▶ ClockPlay ──▶ play_clock() ──▶ text or JSON

A manifest passes admission first. A live object continues from its current state.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import groupby
from typing import Any, Final
from zoneinfo import ZoneInfo

from pykruise.admission.advice import add_advice
from pykruise.cli.insight.cluster_reading import look
from pykruise.cli.insight.simulating.schedules import ClockPlay, ClockPlayed, TickFate
from pykruise.kinds import list_conversions
from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.schemas.conversion import ConversionError, convert
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.durations import format_short_duration
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.kind import Kind
from pykruise.plans.review import Lookups
from pykruise.runtime.assemble import views_of

_LINES: Final = 40


async def build_manifest_play(
    kind: Kind, document: Document, *, start: Instant, settings: ManagerSettings, **more: Any
) -> ClockPlay | tuple[str, ...]:
    """Simulation of a manifest that is created at `start`, or the reasons why admission rejects it. `more`: fields of
    ClockPlay.
    """
    namespace = document["metadata"].get("namespace") or "default"
    name = document["metadata"]["name"]
    try:
        hub = convert(document, kind.resource.api_version, list_conversions())
    except ConversionError as error:
        return (str(error),)
    own = settings.read_kind_settings(kind)
    reviews = kind.reviews
    reviewers = [make(own, Lookups()) for make in (reviews.mutating, reviews.validating) if make is not None]
    warnings: list[str] = []
    for review in (*reviewers[:-1], add_advice(reviewers[-1], kind, own)):
        request = AdmissionRequest(
            uid="simulated",
            operation="CREATE",
            resource=kind.resource,
            namespace=namespace,
            name=name,
            object=hub,
        )
        answer = await review(request)
        warnings += answer.warnings
        if answer.refusal is not None:
            details = answer.refusal.details
            causes = [f"{cause.field}: {cause.message}" for cause in (details.causes if details else ())]
            return tuple(causes) or (answer.refusal.message,)
        hub = answer.object if answer.object is not None else hub
    kept = {part: hub["metadata"][part] for part in ("labels", "annotations") if part in hub["metadata"]}
    metadata = {
        **kept,
        "name": name,
        "namespace": namespace,
        "uid": "simulated",
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": format_time(start),
    }
    hub = {name: value for name, value in hub.items() if name != "status"} | {"metadata": metadata}
    return ClockPlay(
        kind=kind, document=hub, start=start, settings=settings, warnings=tuple(warnings), **more
    )


async def build_live_play(
    client: Client, kind: Kind, key: Key, *, start: Instant, settings: ManagerSettings, **more: Any
) -> ClockPlay:
    """Simulation of a live object with the objects that it created. Raises NotFoundError, and the error of a
    forbidden read.
    """
    sight = await look(client, kind, key, now=start, settings=settings)
    assert kind.control is not None
    made: list[Document] = []
    for views in views_of(kind.control, settings.read_kind_settings(kind)):
        if views is not kind.control.objects:
            typed = {"apiVersion": views.resource.api_version, "kind": views.resource.kind}
            made += [
                {**document, **typed} for document in sight.listed[views].list_owned_documents(sight.uid)
            ]
    return ClockPlay(kind=kind, document=sight.document, made=made, start=start, settings=settings, **more)


def format_clock_report(name: str, given: ClockPlay, played: ClockPlayed) -> list[str]:
    """Return lines about the scheduled times, with one line for equal results, and lines about the whole schedule."""
    zone: tzinfo = ZoneInfo(played.zone) if played.zone else UTC
    starts = [fate for fate in played.fates if fate.do == "start"]
    skips = Counter(fate.code for fate in played.fates if fate.do == "skip")
    endings = Counter(start.ending for start in starts)
    shown = [_group_line(group, zone) for group in _group_fates(played.fates)]
    rest = len(shown) - _LINES
    if rest > 0:
        shown[_LINES:] = [f"  … {format_count(rest, 'more line')} (-o json has every time)"]
    ends = ", ".join(f"{count} {word}" for word, count in sorted(endings.items()) if word)
    why = ", ".join(f"{code} {count}" for code, count in sorted(skips.items()))
    late = sum(start.late_s > 0 for start in starts)
    return [
        f"{name}: {format_short_days(given.for_s)} from {_format_time_in_zone(played.begin, zone)}: "
        f"{format_count(len(played.fates), 'time')}, {format_count(len(starts), 'starts', 'start')}, "
        f"{format_count(skips.total(), 'is', 'are')} skipped",
        "",
        *shown,
        *([""] if shown else []),
        f"started             {len(starts)}{f' ({ends})' if ends else ''}{f', {late} of them late' if late else ''}",
        f"skipped             {skips.total()}{f' ({why})' if why else ''}",
        f"at the same time    {played.most_active} at most",
        f"history             {played.tidied} deleted because of the history limits",
        *([f"in the end          {played.waiting}"] if played.waiting else []),
    ]


def format_short_days(seconds: float) -> str:
    """Duration as text: `30 days` or `1 day` for whole days, otherwise hours and minutes such as `36h`."""
    days, rest = divmod(seconds, 86_400)
    if rest or not days:
        return format_short_duration(seconds)
    return format_count(round(days), "day")


def _group_fates(fates: Sequence[TickFate]) -> Iterator[list[TickFate]]:
    for _, group in groupby(
        fates, key=lambda fate: (fate.do, fate.code, fate.ending, bool(fate.replaces), fate.late_s > 0)
    ):
        yield list(group)


def _group_line(group: Sequence[TickFate], zone: tzinfo) -> str:
    first, last = group[0], group[-1]
    if len(group) == 1:
        return f"  {_format_time_in_zone(first.tick, zone)}  {_format_fate(first, zone)}"
    words = _format_fate(first, zone, many=True)
    return (
        f"  {_format_time_in_zone(first.tick, zone)} … {_format_time_in_zone(last.tick, zone)}  "
        f"{format_count(len(group), 'time')}: {words}"
    )


def _format_fate(fate: TickFate, zone: tzinfo, *, many: bool = False) -> str:
    if fate.do == "skip":
        return f"skipped: {fate.code}" if many else f"skipped: {fate.code}: {fate.why}"
    words = "start" if many else f"starts {fate.name}"
    if fate.late_s > 0:
        words += " late" if many else f" {format_short_duration(fate.late_s)} late"
    if fate.replaces:
        words += ", replacing what still runs" if many else f", replacing {', '.join(fate.replaces)}"
    ends = {
        "succeeded": "succeeds",
        "failed": "fails",
        "replaced": "is replaced",
        "active": "still runs at the end",
    }
    return f"{words}; {ends[fate.ending]}" + (
        f" {_format_clock(fate.ended, zone)}" if fate.ended and not many else ""
    )


def _format_clock(time: str, zone: tzinfo) -> str:
    return f"at {datetime.fromtimestamp(parse_time(time), zone):%H:%M:%S}"


def _format_time_in_zone(time: str, zone: tzinfo) -> str:
    moment = datetime.fromtimestamp(parse_time(time), zone)
    return time if zone is UTC else moment.isoformat()
