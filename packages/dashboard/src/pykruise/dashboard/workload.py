"""The page of one object: the result of `explain`, revisions and pods, conditions, events, history, commands.

object, pods, revisions, events, Explanation ──▶ head(), build_pods_part(), build_history_part(), …
    ──▶ parts, each its own row

Pure. Each part names the permission that a user needs to see it: a user who may list the object but not pods sees the
head and the history.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.causes import WaitCause, cause_of
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.kubectl.getting import build_image_rows
from pykruise.cli.kubectl.pods import format_ready_count, restarts_of, state_of
from pykruise.cli.kubectl.revisions import Revision, list_revision_differences
from pykruise.cli.kubectl.trees import RevisionGroup, describe_pod_wait, groups_of
from pykruise.cli.outputs import format_document
from pykruise.dashboard.actions import DashboardAction, actions_of
from pykruise.dashboard.rows import ObjectRow, row_of
from pykruise.dashboard.verdicts import find_explained_kind
from pykruise.kinds import find, find_shown, shown_of
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, encode, get_path
from pykruise.kube.resources import Resource
from pykruise.pods.reasons import NEEDS_A_PERSON
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION

MOST_PODS: Final = 1_000
"""Maximum number of pods that are shown."""
MOST_EVENTS: Final = 100
MOST_REVISIONS: Final = 20
MOST_LINES: Final = 50
"""Maximum lines of a revision's diff."""
MOST_WORDS: Final = 2_000


class PagePart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the page. Users who may list `resource` in `namespace` see it."""

    id: str
    resource: str
    namespace: str
    body: Mapping[str, Any]


class ShownCondition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A condition of the object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: str = ""


class PodLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pod."""

    name: str
    namespace: str = ""
    state: str
    ready: str
    node: str = ""
    subset: str = ""
    created: str = ""
    restarts: int = 0
    look: str
    """Colour of the pod's square: ready, starting, failing, leaving or ended."""
    code: str = ""
    """Code in docs/reasons.md for the reason that the pod is unavailable."""
    why: str = ""
    """Text of that reason."""
    container: str = ""
    """Container with the most useful log: the container that ended last; if none has ended, the first container."""
    ended: str = ""
    """End of a container: `exit code 1, Error`."""
    last: str = ""
    """End of that container's termination message: text that the container wrote, or, with the terminationMessagePolicy
    FallbackToLogsOnError, the end of its log. Empty if its status has no message.
    """


class PodsOfRevision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Pods of one revision."""

    revision: str
    number: int = 0
    is_newest: bool = False
    pods: tuple[PodLine, ...]
    more: int = 0
    """Number of pods that are not shown."""


class Past(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One revision of the history, and its differences from the previous revision."""

    number: int
    name: str
    cause: str = ""
    created: str = ""
    changes: tuple[str, ...] = ()
    is_newest: bool = False


class EventLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event."""

    type: str
    reason: str
    message: str
    count: int = 1
    last: str = ""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Status and available actions of the object."""

    row: ObjectRow
    conditions: tuple[ShownCondition, ...]
    actions: tuple[DashboardAction, ...]
    yaml: str = ""
    """The output of `kubectl get -o yaml` without managedFields; empty if it is too long."""
    what_if: tuple[tuple[str, str, str], ...]
    """Fields that the what-if box can change: name for `plan --set`, label and current value."""
    is_per_node: bool
    has_pods: bool
    """Whether objects of the kind create pods or select them."""
    is_explained: bool
    """Whether explain and plan support the kind."""


def head(resource: Resource, document: Document, *, current: Document | None) -> PagePart:
    """Return the head. Users who may list the kind see it."""
    shown = find_shown(resource.group, resource.kind)
    body = Head(
        row=row_of(resource, document, current=current),
        conditions=_list_conditions(document),
        actions=actions_of(resource, document),
        what_if=_list_what_if_fields(resource, document),
        is_per_node=shown is not None and shown.is_per_node,
        has_pods=shown is None or bool(shown.templates) or shown.pods != "owned",
        is_explained=find_explained_kind(resource) is not None,
        yaml=_format_yaml(document),
    )
    return _build_part("head", resource, document, body)


def _build_part(name: str, resource: Resource, document: Document, body: msgspec.Struct) -> PagePart:
    return PagePart(
        id=name,
        resource=str(resource),
        namespace=document["metadata"].get("namespace", ""),
        body=msgspec.to_builtins(body),
    )


def _list_conditions(document: Document) -> tuple[ShownCondition, ...]:
    return tuple(
        ShownCondition(
            type=str(condition.get("type")),
            status=str(condition.get("status")),
            reason=str(condition.get("reason") or ""),
            message=str(condition.get("message") or "")[:MOST_WORDS],
            since=str(condition.get("lastTransitionTime") or ""),
        )
        for condition in (document.get("status") or {}).get("conditions") or ()
    )


MOST_YAML: Final = 60_000


def _format_yaml(document: Document) -> str:
    text = format_document(document, "yaml")
    return text if len(text) <= MOST_YAML else ""


def _list_what_if_fields(resource: Resource, document: Document) -> tuple[tuple[str, str, str], ...]:
    kind = find(resource.kind.lower())
    if kind is None or kind.resource != resource or kind.insight is None or kind.shown is None:
        return ()
    containers = get_path(document, *kind.insight.containers) if kind.insight.containers else ()
    images = [
        (f"image={container['name']}", f"image of {container['name']}", str(container.get("image") or ""))
        for container in containers or ()
        if isinstance(container, Mapping) and "name" in container
    ]
    fields = [
        (name, name, _format_value(field.read_value(document))) for name, field in kind.shown.fields.items()
    ]
    return (*images, *fields)


_ALL: Final = 2**31 - 1
"""Default of some number fields, where it means "no limit"."""


def _format_value(value: Any) -> str:
    if value is None or value == _ALL:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)[:MOST_WORDS]


def build_explained_part(
    explanation: Explanation, *, namespace: str, remark: str = "", words: str = ""
) -> PagePart:
    """Return the explanation. Users who may list pods in the namespace see it, because its text names pods.

    `remark` tells why there is no explanation. `words` is the full output of the command.
    """
    body = {"remark": remark, "text": words[:MOST_YAML], **msgspec.to_builtins(explanation)}
    for wait in body["waits"]:
        wait["words"] = wait["words"][:MOST_WORDS]
        wait["count"] = len(wait["pods"])
        wait["pods"] = wait["pods"][:50]
    return PagePart(id="explained", resource="pods", namespace=namespace, body=body)


def build_pods_part(
    pods: Sequence[Document],
    revisions: Sequence[Revision],
    document: Document,
    *,
    namespace: str,
    now: Instant,
) -> PagePart:
    """Return revisions and their pods, newest first. Pods that the object does not own are one group, because their
    revisions are those of their owners. `now` is for durations.
    """
    groups = []
    left = MOST_PODS
    for group in _group_pods(document, revisions, pods):
        shown = [_build_pod_line(pod, now) for pod in group.pods[:left]]
        left -= len(shown)
        groups.append(
            PodsOfRevision(
                revision=group.hash,
                number=group.number,
                is_newest=group.is_newest,
                pods=tuple(shown),
                more=len(group.pods) - len(shown),
            )
        )
    body = {"groups": msgspec.to_builtins(groups), "count": len(pods)}
    return PagePart(id="pods", resource="pods", namespace=namespace, body=body)


def _group_pods(
    document: Document, revisions: Sequence[Revision], pods: Sequence[Document]
) -> list[RevisionGroup]:
    shown = shown_of(document)
    if shown is None or shown.pods == "owned":
        return groups_of(revisions, pods, document.get("status") or {})
    return [RevisionGroup(hash="", number=0, is_newest=False, pods=list(pods))] if pods else []


def is_named_in_mark(pod: Document, mark: str, name: str) -> bool:
    """Whether the pod has an annotation that names the object, with a key that begins with `mark`."""
    annotations: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return any(_is_named_in(text, name) for key, text in annotations.items() if key.startswith(mark))


def _is_named_in(text: str, name: str) -> bool:
    """Whether the name is in the annotation's value: `{"name": …}`, an object whose keys are names, or names
    separated by commas.
    """
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return name in text.split(",")
    if not isinstance(value, dict):
        return False
    return bool(value["name"] == name) if isinstance(value.get("name"), str) else name in value


_SUBSET_LABEL: Final = "apps.kruise.io/subset-name"


def _build_pod_line(pod: Document, now: Instant) -> PodLine:
    meta = pod["metadata"]
    cause = find_cause_if_down(pod, encode(pod), now)
    container, ended, last = _find_last_end(pod)
    return PodLine(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        state=state_of(pod),
        ready=format_ready_count(pod),
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        subset=_find_subset_name(meta),
        created=str(meta.get("creationTimestamp") or ""),
        restarts=restarts_of(pod),
        look=look_of(pod, needs_a_person=cause is not None and cause.code in NEEDS_A_PERSON),
        code=str(cause.code) if cause is not None else "",
        why=cause.words[:MOST_WORDS] if cause is not None else describe_pod_wait(pod),
        container=container,
        ended=ended,
        last=last,
    )


def find_cause_if_down(pod: Document, raw: bytes, now: Instant) -> WaitCause | None:
    """Return the reason why a pod is unavailable; None if it is available or has completed."""
    is_done = (pod.get("status") or {}).get("phase") == "Succeeded"
    return None if is_done or _serves(pod) else cause_of(pod, project_pod(raw), now=now)


def _serves(pod: Document) -> bool:
    """Whether the pod is ready and not terminating."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)
    return is_ready and not pod["metadata"].get("deletionTimestamp")


def look_of(pod: Document, *, needs_a_person: bool) -> str:
    """Return the colour of the pod's square: see PodLine."""
    if pod["metadata"].get("deletionTimestamp"):
        return "leaving"
    phase = (pod.get("status") or {}).get("phase")
    if phase == "Succeeded":
        return "ended"
    if phase == "Failed" or needs_a_person:
        return "failing"
    return "ready" if _serves(pod) else "starting"


def _find_last_end(pod: Document) -> tuple[str, str, str]:
    """Return the container that ended last, how it ended, and the end of its termination message. If no container has
    ended, return the first one, and empty texts.
    """
    status = pod.get("status") or {}
    ends = []
    for item in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for state in (item.get("state") or {}, item.get("lastState") or {}):
            if ended := state.get("terminated"):
                ends.append((str(ended.get("finishedAt") or ""), str(item.get("name") or ""), ended))
    if not ends:
        containers = (pod.get("spec") or {}).get("containers") or ()
        return next((str(item.get("name") or "") for item in containers), ""), "", ""
    _, name, ended = max(ends, key=lambda end: end[:2])
    said = f"exit code {ended.get('exitCode')}, {ended.get('reason') or 'no reason'}"
    return name, said, str(ended.get("message") or "")[-MOST_WORDS:]


def _find_subset_name(meta: Mapping[str, Any]) -> str:
    if result := (meta.get("labels") or {}).get(_SUBSET_LABEL):
        return str(result)
    text = (meta.get("annotations") or {}).get(MATCHED_SPREAD_ANNOTATION)
    if not text:
        return ""
    try:
        return str(msgspec.json.decode(text).get("subset") or "")
    except (msgspec.DecodeError, AttributeError):
        return ""


def build_history_part(revisions: Sequence[Revision], *, namespace: str, resource: str) -> PagePart:
    """Return the history, newest first. `resource` stores the revisions (controllerrevisions.apps)."""
    changes = {new.number: list_revision_differences(old, new) for old, new in itertools.pairwise(revisions)}
    pasts = [
        Past(
            number=revision.number,
            name=revision.name,
            cause=revision.cause[:MOST_WORDS],
            created=str(revision.info.document["metadata"].get("creationTimestamp") or ""),
            changes=tuple(line[:MOST_WORDS] for line in changes.get(revision.number, ())[:MOST_LINES]),
            is_newest=revision is revisions[-1],
        )
        for revision in reversed(revisions[-MOST_REVISIONS:])
    ]
    return PagePart(
        id="history", resource=resource, namespace=namespace, body={"revisions": msgspec.to_builtins(pasts)}
    )


def build_events_part(events: Sequence[Document], *, namespace: str, problem: str = "") -> PagePart:
    """Return events, newest first. Users who may list events in the namespace see them. `problem` is the read error."""
    event_lines = [
        EventLine(
            type=str(event.get("type") or ""),
            reason=str(event.get("reason") or ""),
            message=str(event.get("message") or "")[:MOST_WORDS],
            count=event.get("count") or 1,
            last=str(
                event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp") or ""
            ),
        )
        for event in events
    ]
    event_lines.sort(key=lambda event_line: event_line.last, reverse=True)
    body = {
        "events": msgspec.to_builtins(event_lines[:MOST_EVENTS]),
        "more": max(len(event_lines) - MOST_EVENTS, 0),
        "problem": problem[:MOST_WORDS],
    }
    return PagePart(id="events", resource="events", namespace=namespace, body=body)


def build_nodes_part(job: Document, resource: Resource, node_images: Sequence[Document]) -> PagePart:
    """Return the progress of each node, for a job that pulls images. Users who may list `resource`, which stores the
    images, see it.
    """
    rows = [
        {"node": node, "phase": phase, "progress": progress, "message": message[:MOST_WORDS]}
        for node, phase, progress, message in build_image_rows(job, node_images)
    ]
    return PagePart(id="nodes", resource=str(resource), namespace="", body={"nodes": rows})


def has_history(document: Document) -> bool:
    """Whether the object's kind keeps revisions."""
    shown = shown_of(document)
    return shown is not None and bool(shown.verbs.history)
