"""The log of a simulated container, derived from the pod's status.

GET pods/<name>/log              ──▶ read_log()   ──▶ text
GET pods/<name>/log?follow=true  ──▶ follow_log() ──▶ LogStream, fed by the changes of the pod

A container writes a line when it starts and one when it ends. If its pod has the annotation
`sandbox.pykruise.io/log-every` (an interval in seconds), it also writes a line after each interval. The log of a
container that waits for its next run (CrashLoopBackOff) is that of its last run. A followed log ends when the run of
the container that it shows ends, or when the pod is deleted. `container`, `previous`, `sinceSeconds`, `sinceTime`,
`tailLines`, `limitBytes` and `timestamps` are supported.
"""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Clock, Instant, format_time, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.kube.values.field_selectors import parse_field_selector
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.requests.call import Call, CallAnswer, parse_flag, parse_whole_number
from pykruise.sandbox.apiserver.requests.selection import Selection
from pykruise.sandbox.apiserver.requests.statuses import make_bad_request, make_invalid, make_not_found
from pykruise.sandbox.apiserver.requests.watches import WatchStream

LOG_EVERY: Final = "sandbox.pykruise.io/log-every"
"""Annotation of a pod with the interval in seconds at which its containers write a line."""

_TEXT: Final = "text/plain"
_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
_SHORTEST_S: Final = 0.1
_FOREVER_S: Final = 1e9
_DELETED: Final = b"DELETED"
_PULL_PROBLEMS: Final = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
"""The kubelet's texts for two reasons of a waiting container. For any other reason, the text is the reason."""


class _Wanted(msgspec.Struct, frozen=True):
    """Requested part of a log."""

    container: str
    since: Instant
    stamps: bool
    tail: int | None
    size: int | None
    """Limit in bytes; None means no limit."""


class _Log(msgspec.Struct, frozen=True):
    """One run of a container, from its pod's status. The number of its log lines, and each line, can be computed."""

    image: str
    restarts: int
    started_at: Instant
    every_s: float = 0.0
    """Seconds between two lines while the container runs; 0 if it writes no such lines."""
    exit_code: int = 0
    ended_at: Instant | None = None

    def count(self, now: Instant) -> int:
        """Number of lines until now."""
        return 1 + self._count_intervals(now) + (self.ended_at is not None)

    def _count_intervals(self, now: Instant) -> int:
        until = now if self.ended_at is None else self.ended_at
        return max(0, int((until - self.started_at) // self.every_s)) if self.every_s else 0

    def build_line(self, number: int, now: Instant) -> tuple[Instant, str]:
        """Time and text of a line; the first line has number 0."""
        if number == 0:
            return self.started_at, f"{self.image} started (restarts: {self.restarts})"
        if self.ended_at is not None and number == self.count(now) - 1:
            return self.ended_at, f"ended with exit code {self.exit_code}"
        passed_s = number * self.every_s
        return self.started_at + passed_s, f"running for {passed_s:g} s"

    def find_next_time(self, now: Instant) -> Instant | None:
        """Time of the next line that the interval causes; None if there is no such line."""
        if not self.every_s or self.ended_at is not None:
            return None
        return self.started_at + (self._count_intervals(now) + 1) * self.every_s


async def read_log(core: Core, call: Call) -> CallAnswer:
    """Respond with the current log. Raises Refusal: 400, 404, 422."""
    pod, wanted = _parse_request(core, call)
    if not pod["spec"].get("nodeName"):
        return CallAnswer(204, b"", is_object=False)
    log = _find_log(pod, wanted.container, call)
    text = b"".join(line + b"\n" for line in _Reader(wanted, log, core.clock()).read_first())
    return CallAnswer(200, text[: wanted.size], is_object=False, content_type=_TEXT)


async def follow_log(core: Core, call: Call) -> "LogStream | CallAnswer":
    """Stream the log and its future lines. Respond with 204 if the pod is not assigned to a node.

    Raises Refusal: 400, 404, 422.
    """
    pod, wanted = _parse_request(core, call)
    if not pod["spec"].get("nodeName"):
        return CallAnswer(204, b"", is_object=False)
    log = _find_log(pod, wanted.container, call)
    return LogStream(_open_pod_watch(core, call), _Reader(wanted, log, core.clock()), clock=core.clock)


class _Reader:
    """Position of a client in a log."""

    def __init__(self, wanted: _Wanted, log: _Log, now: Instant) -> None:
        self.wanted = wanted
        self.log = log
        self._now = now
        self._read = 0
        self._left = wanted.size

    def read_first(self) -> Iterator[bytes]:
        """Existing lines, without those that `tailLines` leaves out."""
        if self.wanted.tail is not None:
            self._read = max(0, self.log.count(self._now) - max(0, self.wanted.tail))
        return self.read_more(self._now)

    def read_more(self, now: Instant) -> Iterator[bytes]:
        """Lines that were written since the last call."""
        for number in range(self._read, self.log.count(now)):
            self._read = number + 1
            at, text = self.log.build_line(number, now)
            if at >= self.wanted.since:
                when = format_time(at)
                yield (f"{when} {text}" if self.wanted.stamps else f"{text} at {when}").encode()

    def cut(self, line: bytes) -> bytes:
        """The part of the line within `limitBytes`. The line end counts, too."""
        if self._left is None:
            return line
        line, self._left = line[: self._left], self._left - len(line) - 1
        return line

    @property
    def is_full(self) -> bool:
        """Whether the client has read `limitBytes`."""
        return self._left is not None and self._left <= 0


class LogStream:
    """The lines of a followed log, without line ends. Read it with `read_batch()`, and close it afterwards.

    The sender adds a line end to each line, also to one that `limitBytes` has cut.
    """

    content_type = _TEXT

    def __init__(self, changes: WatchStream, reader: _Reader, *, clock: Clock) -> None:
        self._changes = changes
        self._reader = reader
        self._clock = clock
        self._lines: list[bytes] = list(reader.read_first())
        self._is_over = reader.log.ended_at is not None

    async def read_batch(self, *, most: int = 256) -> list[bytes]:
        """The next lines: at least one, at most `most`; empty at the end."""
        while not self._lines:
            if self._is_over or self._reader.is_full:
                await self.aclose()
                return []
            await self._wait()
            self._lines.extend(self._reader.read_more(self._clock()))
        taken, self._lines = self._lines[:most], self._lines[most:]
        lines: list[bytes] = []
        for line in taken:
            if self._reader.is_full:
                break
            lines.append(self._reader.cut(line))
        return lines

    async def _wait(self) -> None:
        """Wait until the pod changes or the container writes a line."""
        due = self._reader.log.find_next_time(self._clock())
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - self._clock())):
                events = await self._changes.read_batch()
        except TimeoutError:
            return
        for event in events:
            kind, _, raw = event.partition(b" ")
            if kind == _DELETED or self._is_over:
                self._is_over = True
            else:
                self._on_pod_changed(decode(raw))
        self._is_over = self._is_over or not events

    def _on_pod_changed(self, pod: Document) -> None:
        log = self._reader.log
        status = _find_container_status(pod, self._reader.wanted.container)
        ended, is_over = _find_end(status, log.restarts)
        self._is_over = is_over
        if ended is not None:
            self._reader.log = msgspec.structs.replace(
                log,
                exit_code=ended.get("exitCode") or 0,
                ended_at=_parse_instant(ended.get("finishedAt"), default=self._clock()),
            )

    async def aclose(self) -> None:
        """Stop immediately and release a waiting reader. Safe to call twice."""
        self._is_over = True
        self._lines = []
        await self._changes.aclose()


def _open_pod_watch(core: Core, call: Call) -> WatchStream:
    """Watch the pod from now on. A line has the type of the event, a space, and the pod."""
    entry = call.entry
    positions = {field: position for position, field in enumerate(entry.selectable)}
    return WatchStream(
        core.hub,
        shelf=entry.shelf,
        trigger=("metadata.name", call.name),
        namespace=call.namespace,
        selection=Selection(None, parse_field_selector(f"metadata.name={call.name}"), positions),
        form="log",
        encode=lambda kind, stored, _: b"%s %s" % (kind.encode(), stored.raw),
        after=core.storage.revision,
        initial=iter(()),
        bookmark=None,
        timeout_s=_FOREVER_S,
        revision=lambda: core.storage.revision,
    )


# ── requests ─────────────────────────────────────────────────────────────────


def _parse_request(core: Core, call: Call) -> tuple[Document, _Wanted]:
    """Return the pod and the requested part of its log. Raises Refusal: 400, 404, 422."""
    stored = core.get(call.entry, call.namespace, call.name)
    if stored is None:
        raise make_not_found(call.entry.resource, call.name)
    pod = decode(stored.raw)
    container = _select_container(pod, call)
    tail, size = parse_whole_number(call.query, "tailLines"), parse_whole_number(call.query, "limitBytes")
    wanted = _Wanted(
        container,
        _parse_earliest_time(core, call),
        parse_flag(call.query, "timestamps"),
        tail,
        size if size is not None and size > 0 else None,
    )
    return pod, wanted


def _parse_earliest_time(core: Core, call: Call) -> Instant:
    """Earliest time of requested lines. Raises Refusal (400, 422)."""
    seconds, time = parse_whole_number(call.query, "sinceSeconds"), call.query.get("sinceTime", "")
    result: list[Cause] = []
    if seconds is not None and time:
        result.append(
            causes.make_forbidden_error("", "at most one of `sinceTime` or `sinceSeconds` may be specified")
        )
    if seconds is not None and seconds < 1:
        result.append(causes.make_invalid_error("sinceSeconds", seconds, "must be greater than 0"))
    if result:
        raise make_invalid("PodLogOptions", "", call.name, result)
    if seconds is not None:
        return core.clock() - seconds
    try:
        return parse_time(time) if time else float("-inf")
    except ValueError as err:
        raise make_bad_request(str(err)) from err


def _select_container(pod: Document, call: Call) -> str:
    spec, pod_name = pod["spec"], call.name
    names = [each["name"] for member in _LISTS for each in spec.get(member) or ()]
    asked = call.query.get("container", "")
    if asked:
        if asked not in names:
            raise make_bad_request(f"container {asked} is not valid for pod {pod_name}")
        return asked
    own = [each["name"] for each in spec.get("containers") or ()]
    if len(own) > 1:
        listed = " ".join(own)
        raise make_bad_request(
            f"a container name must be specified for pod {pod_name}, choose one of: [{listed}]"
        )
    return str(own[0])


# ── logs from a status ───────────────────────────────────────────────────────


def _find_log(pod: Document, name: str, call: Call) -> _Log:
    """Return the log of the container's current run, or of its previous run. Raises Refusal (400).

    While a container waits, it has no current run, and its last run is used in both cases. This is the rule of the
    kubelet's `validateContainerLogStatus`.
    """
    status = _find_container_status(pod, name)
    state = status.get("state") or {}
    last: Mapping[str, Any] = (status.get("lastState") or {}).get("terminated") or {}
    every_s = _read_interval_s(pod)
    current: Mapping[str, Any] = state.get("running") or state.get("terminated") or {}
    if parse_flag(call.query, "previous"):
        if not last:
            raise make_bad_request(f'previous terminated container "{name}" in pod "{call.name}" not found')
        restarts = (status.get("restartCount") or 0) - (1 if current else 0)
        return _build_log(last, {**status, "restartCount": max(0, restarts)}, every_s)
    if not current and not last:
        reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        why = _PULL_PROBLEMS.get(reason, reason)
        raise make_bad_request(f'container "{name}" in pod "{call.name}" is waiting to start: {why}')
    return _build_log(current or last, status, every_s)


def _build_log(state: Mapping[str, Any], status: Mapping[str, Any], every_s: float) -> _Log:
    started_at = _parse_instant(state.get("startedAt"), default=0.0)
    has_ended = "exitCode" in state
    return _Log(
        image=status.get("image") or "",
        restarts=status.get("restartCount") or 0,
        started_at=started_at,
        every_s=every_s,
        exit_code=state.get("exitCode") or 0,
        ended_at=_parse_instant(state.get("finishedAt"), default=started_at) if has_ended else None,
    )


def _find_end(status: Mapping[str, Any], restarts: int) -> tuple[Mapping[str, Any] | None, bool]:
    """Return the end of the run with this number of earlier restarts, if it is known, and whether the run has ended."""
    state, last = status.get("state") or {}, status.get("lastState") or {}
    later = (status.get("restartCount") or 0) - restarts
    if later == 0 and "running" in state:
        return None, False
    if later == 0 and "terminated" in state:
        return state["terminated"], True
    ended = last.get("terminated") if later in (0, 1) else None
    return ended, True


def _find_container_status(pod: Document, name: str) -> Mapping[str, Any]:
    status = pod.get("status") or {}
    for member in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for each in status.get(member) or ():
            if each.get("name") == name:
                result: Mapping[str, Any] = each
                return result
    return {}


def _read_interval_s(pod: Document) -> float:
    """Interval in the annotation; 0 without an annotation, or with an invalid one."""
    text = (pod["metadata"].get("annotations") or {}).get(LOG_EVERY, "")
    try:
        seconds = float(text) if text else 0.0
    except ValueError:
        return 0.0
    return seconds if _SHORTEST_S <= seconds < _FOREVER_S else 0.0


def _parse_instant(text: Any, *, default: Instant) -> Instant:
    try:
        return parse_time(text) if isinstance(text, str) else default
    except ValueError:
        return default
