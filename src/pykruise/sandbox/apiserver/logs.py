"""The log of a container that runs on paper: a line for each start that its pod's status still tells of.

GET pods/<name>/log ──▶ read_log() ──▶ text

`container`, `previous`, `sinceSeconds`, `sinceTime`, `tailLines`, `limitBytes` and `timestamps` are honoured;
`follow` gives what there is and ends, because nothing more is ever written.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kube import field_errors as causes
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import Cause
from pykruise.sandbox.apiserver.calls import Answer, Call, flag, whole_number
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.statuses import bad_request, invalid, not_found

__all__ = ["read_log"]

_TEXT: Final = "text/plain"
_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")


async def read_log(core: Core, call: Call) -> Answer:
    """The log. 204 while the pod is on no node. Raises Refusal: 400, 404."""
    stored = core.get(call.entry, call.namespace, call.name)
    if stored is None:
        raise not_found(call.entry.resource, call.name)
    pod = decode(stored.raw)
    name = _container(pod, call)
    limit, size = whole_number(call.query, "tailLines"), whole_number(call.query, "limitBytes")
    if not pod["spec"].get("nodeName"):
        return Answer(204, b"", is_object=False)
    since = _since(core, call)
    lines = [
        line
        for when, line in _lines(pod, name, call, previous=flag(call.query, "previous"))
        if when is None or parse_time(when) >= since
    ]
    if limit is not None:
        lines = lines[-limit:] if limit > 0 else []
    text = "".join(f"{line}\n" for line in lines).encode()
    return Answer(200, text[:size] if size and size > 0 else text, is_object=False, content_type=_TEXT)


def _since(core: Core, call: Call) -> Instant:
    """The earliest time of lines that are wanted. Raises Refusal (400, 422)."""
    seconds, time = whole_number(call.query, "sinceSeconds"), call.query.get("sinceTime", "")
    found: list[Cause] = []
    if seconds is not None and time:
        found.append(causes.forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if seconds is not None and seconds < 1:
        found.append(causes.invalid("sinceSeconds", seconds, "must be greater than 0"))
    if found:
        raise invalid("PodLogOptions", "", call.name, found)
    if seconds is not None:
        return core.clock() - seconds
    try:
        return parse_time(time) if time else float("-inf")
    except ValueError as err:
        raise bad_request(str(err)) from err


def _container(pod: Document, call: Call) -> str:
    spec, pod_name = pod["spec"], call.name
    names = [each["name"] for member in _LISTS for each in spec.get(member) or ()]
    asked = call.query.get("container", "")
    if asked:
        if asked not in names:
            raise bad_request(f"container {asked} is not valid for pod {pod_name}")
        return asked
    own = [each["name"] for each in spec.get("containers") or ()]
    if len(own) > 1:
        listed = " ".join(own)
        raise bad_request(f"a container name must be specified for pod {pod_name}, choose one of: [{listed}]")
    return str(own[0])


def _lines(pod: Document, name: str, call: Call, *, previous: bool) -> Iterator[tuple[str | None, str]]:
    """The lines, each with its time."""
    status = _status_of(pod, name)
    state, last = status.get("state") or {}, status.get("lastState") or {}
    stamps = flag(call.query, "timestamps")
    if previous:
        if not last.get("terminated"):
            raise bad_request(f'previous terminated container "{name}" in pod "{call.name}" not found')
        yield from _told(last["terminated"], status, stamps=stamps)
        return
    found = state.get("running") or state.get("terminated")
    if not found:
        reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        raise bad_request(f'container "{name}" in pod "{call.name}" is waiting to start: {reason}')
    yield from _told(found, status, stamps=stamps)


def _status_of(pod: Document, name: str) -> Mapping[str, Any]:
    status = pod.get("status") or {}
    for member in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for each in status.get(member) or ():
            if each.get("name") == name:
                found: Mapping[str, Any] = each
                return found
    return {}


def _told(
    state: Mapping[str, Any], status: Mapping[str, Any], *, stamps: bool
) -> Iterator[tuple[str | None, str]]:
    """What a container would have written."""
    lines = [
        (
            state.get("startedAt"),
            f"{status.get('image')} started (restarts: {status.get('restartCount') or 0})",
        )
    ]
    if "exitCode" in state:
        lines.append((state.get("finishedAt"), f"ended with exit code {state['exitCode']}"))
    for when, text in lines:
        yield when, f"{when} {text}" if stamps else f"{text} at {when}"
