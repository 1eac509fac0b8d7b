"""Adds the waits of an object's children to the object's explanation, and orders all waits with the cause first.

Sight, list of the children ──▶ add_children() ──▶ the Explanation with the waits of the children

This module only reads. A kind lists the objects that it has created (`Insight.children`). A child of a known kind is
explained as `explain` explains it on the command line. For a Job, the pods are examined; for another workload of
Kubernetes, the rejections of its pods. The text of each wait names its child. At most `MOST` children are examined:
the first and the last ones in the order in which their kind lists them.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.causes import cause_of
from pykruise.cli.insight.cluster_reading import GateProblem, Sight
from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits, wait_of
from pykruise.cli.insight.injection_check import find_refused_origin
from pykruise.cli.insight.known_kinds import list_known_kinds
from pykruise.cli.insight.readiness_gates import find_gate_problems
from pykruise.cli.insight.refused_writes import code_of_refusal, make_origin_wait, make_refusal_wait
from pykruise.kube.client.client import Client
from pykruise.kube.client.object_events import last_time_of, list_events_about
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.excerpts import excerpt
from pykruise.kube.ids import Key
from pykruise.kube.resources import EVENTS, JOBS, PODS, Resource
from pykruise.kube.values.counts import format_count, format_first
from pykruise.plans.insight import InsightChild
from pykruise.plans.kind import Kind
from pykruise.plans.progress import Phase, with_waits_of_children
from pykruise.pods.corrections import OF_A_JOB, Correction, read_events
from pykruise.pods.lifecycle.blockers import explain_failure
from pykruise.pods.reasons import NOT_WRITTEN, OF_A_SPEC, REPEATED, Code
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.amounts import limit_is_zero
from pykruise.runtime.reasons import WriteFault
from pykruise.runtime.refusals import explain_refusal

MOST: Final = 10
"""Maximum number of children that are examined."""

LAST: Final = 4
"""Number of the last children that are examined if there are more than `MOST`."""

MOST_NAMED: Final = 6
"""Maximum number of pods or nodes that are named in the words about a failed child."""

_VERDICTS: Final = {Phase.FAILED: "failed", Phase.PAUSED: "paused"}

_CAUSES: Final = REPEATED | NOT_WRITTEN | {Code.PAUSED}
"""Codes of a child's waits that also explain why the parent waits."""

_DETAILED: Final = frozenset({Code.IMAGE_PULLING})
"""Codes of waits that children explain in more detail than their parent."""

Explain = Callable[[Client, Kind, InsightChild], Awaitable[Explanation]]


async def add_children(
    client: Client, explanation: Explanation, sight: Sight, explain: Explain, *, creator: str = ""
) -> Explanation:
    """Return the explanation with the waits of the children. `explain` explains one object of a known kind. `creator`:
    the object that created the explained object, or empty. With a creator, no remedy asks the user to create the
    explained object again.
    """
    insight = sight.kind.insight
    if insight is None or insight.children is None:
        return explanation
    is_deleting = "deletionTimestamp" in sight.document["metadata"]
    waits: list[Wait] = [] if is_deleting else list(await _read_deleted_failure(client, sight))
    own = {wait.code for wait in explanation.waits} & _DETAILED
    # A limit of the parent is also the limit of its children: it is raised in the parent.
    limits = {wait.code for wait in explanation.waits if not wait.pods} & {Code.LIMIT_IS_ZERO}
    stuck: list[tuple[InsightChild, Wait]] = []
    free: list[InsightChild] = []
    children = list(insight.children(sight.snapshot))
    for child in _choose(children):
        if creator:
            child = msgspec.structs.replace(child, correction=None)
        inner = await _read_waits(client, child, explain, sight.snapshot.now)
        causes = [wait for wait in inner if wait.code in (_CAUSES | own) - limits]
        if child.has_failed:
            waits.append(_explain_failed_child(child, causes))
        else:
            stuck += ((child, wait) for wait in causes)
            if not any(wait.code in _CAUSES for wait in causes):
                free.append(child)
    active = [child for child in children if not child.has_failed]
    waits += (_blame_earlier(wait, active, free, insight.one_child_at_a_time) for wait in _name_causes(stuck))
    if not waits:
        return explanation
    said = {wait.code for wait in waits}
    phase = with_waits_of_children(explanation.phase, said)
    explained = said | _DETAILED if stuck and not free else said
    own_waits = [wait for wait in explanation.waits if wait.code not in explained]
    merged = rank_waits([*waits, *(_put_remedy_after_cause(wait) if stuck else wait for wait in own_waits)])
    verdict = "terminating" if is_deleting else _VERDICTS.get(phase, "waiting")
    return msgspec.structs.replace(explanation, waits=merged, phase=phase, verdict=verdict)


def _choose(children: Sequence[InsightChild]) -> Sequence[InsightChild]:
    """Return the children that are examined: the most important ones, and the last ones, which explain why the others
    wait.
    """
    return children if len(children) <= MOST else [*children[: MOST - LAST], *children[-LAST:]]


def _blame_earlier(
    wait: Wait, active: Sequence[InsightChild], free: Sequence[InsightChild], one_at_a_time: str
) -> Wait:
    """Return the wait of children that a quota stops. If other children run and do not end, and the kind can create one
    child at a time, the wait names them: every higher quota would be used up too. `free`: the children that run.
    """
    if wait.code != Code.QUOTA or not free or not one_at_a_time:
        return wait
    kind, first = free[0].resource.kind, free[0]
    running = format_first(sorted(child.key.name for child in free), MOST_NAMED)
    names = " ".join(sorted(child.key.name for child in active))
    words = (
        f"{format_count(len(active), f'{kind} is', f'{kind}s are')} active at the same time, because earlier ones"
        f" ({running}) have not ended and use up the quota: {wait.words}"
    )
    command = f"kubectl delete {first.resource} -n {first.key.namespace} {names}"
    end = f"{one_at_a_time}, and delete the active ones ({command})"
    return msgspec.structs.replace(wait, words=words, remedy=f"{end}; or {wait.remedy}")


async def _read_deleted_failure(client: Client, sight: Sight) -> Sequence[Wait]:
    """Return the wait of the last child, if it failed and was deleted immediately. Without permission to read events,
    nothing is known about it.
    """
    insight = sight.kind.insight
    find = insight.deleted_failure if insight is not None else None
    known = find(sight.snapshot) if find is not None else None
    if known is None:
        return ()
    namespace = str(sight.document["metadata"].get("namespace", ""))
    try:
        events = await list_events_about(client, sight.uid, namespace=namespace)
    except (ForbiddenError, NotFoundError):
        return ()
    about = [event for event in events if event.get("reason") == Code.RUN_FAILED and last_time_of(event)]
    if not about or parse_time(last_time_of(about[-1])) < known.since:
        return ()
    return [
        Wait(
            code=Code.RUN_FAILED,
            words=f"the last run {about[-1].get('message')}",
            since=last_time_of(about[-1]),
            remedy=known.remedy,
        )
    ]


def _put_remedy_after_cause(wait: Wait) -> Wait:
    """Return a parent's own wait, to be shown after the cause of a child that does not work. If children use up a limit
    of the parent, the new remedy is to correct this cause: a higher limit would not help.
    """
    if wait.code not in _LIMITS:
        return wait
    remedy = "first correct the cause above: another run would have the same problem"
    return msgspec.structs.replace(wait, remedy=remedy)


_LIMITS: Final = frozenset({Code.CHILD_ACTIVE, Code.PARALLELISM, Code.PODS_ACTIVE})
"""Codes of limits of a parent that children use up."""


def _explain_failed_child(child: InsightChild, causes: Sequence[Wait]) -> Wait:
    """Return the wait of a failed child, with its first cause."""
    what = f"{child.resource.kind} {child.key.name} has failed"
    if not causes:
        return Wait(
            code=Code.RUN_FAILED,
            words=what,
            remedy=read_events(child.key.namespace, child.key.name, str(child.resource)),
        )
    first = causes[0]
    more = f", and {len(first.pods) - MOST_NAMED} more" if len(first.pods) > MOST_NAMED else ""
    pods = f"{', '.join(first.pods[:MOST_NAMED])}{more}: " if first.pods else ""
    return Wait(
        code=Code.RUN_FAILED,
        words=f"{what}: {pods}{first.words}",
        since=first.since,
        remedy=redirect_remedy(child, first),
    )


def redirect_remedy(child: InsightChild, wait: Wait) -> str:
    """Return the remedy of a child's wait. If a child with a wrong image must be created again, the remedy also names
    its parent, because the next child would be created from the same template. Remedies of pods name the parent
    already.
    """
    again = child.correction.again if child.correction is not None else ""
    if not again or not wait.remedy or wait.code not in OF_A_SPEC:
        return wait.remedy
    if _runs_pods(child) and (wait.code != Code.JOB_FAILED or _find_kind(child) is None):
        return wait.remedy
    return f"{wait.remedy}; instead of the job, create {again} again, which creates the job"


def _name_causes(causes: Sequence[tuple[InsightChild, Wait]]) -> Iterator[Wait]:
    """Yield the waits of the children, each with the name of its child. A wait that several children share, and whose
    remedy names none of them, is yielded once. Rejections with the same remedy are the same wait, although their
    messages contain the names of different pods.
    """
    shared: dict[Any, list[tuple[InsightChild, Wait]]] = {}
    for child, wait in causes:
        same = (wait.code, wait.remedy) if wait.code in NOT_WRITTEN else wait
        shared.setdefault(same, []).append((child, wait))
    for pairs in shared.values():
        children, wait = [child for child, _ in pairs], pairs[0][1]
        named = [_name_child_in_wait(child, wait) for child in children]
        if len(named) > 1 and len({item.remedy for item in named}) == 1:
            what = f"{children[0].resource.kind} {children[0].key.name} and {len(named) - 1} more"
            yield msgspec.structs.replace(named[0], words=f"{wait.words} ({what})")
        else:
            yield from named


def _name_child_in_wait(child: InsightChild, wait: Wait) -> Wait:
    name = f"{child.resource.kind} {child.key.name}"
    remedy = redirect_remedy(child, wait)
    if wait.code == Code.PAUSED:
        field = "suspend" if child.resource == JOBS else "paused"
        again = (
            f"; then create {child.correction.again} again without {field} in its template"
            if child.correction is not None
            else ""
        )
        remedy = f"set {field} of {name} to false{again}"
    elif wait.code == Code.LIMIT_IS_ZERO:
        remedy = f"{wait.remedy} of {name} ({_raise_parallelism(child)}){_create_again(child)}"
    return msgspec.structs.replace(wait, words=f"{wait.words} ({name})", remedy=remedy)


def _raise_parallelism(child: InsightChild) -> str:
    """Return the command for a job that starts nothing: its parallelism is the only limit of jobs that can be 0."""
    body = '{"spec":{"parallelism":1}}'
    return (
        f"kubectl patch {child.resource} -n {child.key.namespace} {child.key.name} --type=merge -p '{body}'"
    )


def _create_again(child: InsightChild) -> str:
    """Return the rest of a remedy for a field of the child that its parent's template contains; empty if the parent
    changes its children itself.
    """
    again = child.correction.again if child.correction is not None else ""
    return f"; then create {again} again with this change in its template" if again else ""


def _find_kind(child: InsightChild) -> Kind | None:
    return next((kind for kind in list_known_kinds() if kind.resource == child.resource), None)


def _runs_pods(child: InsightChild) -> bool:
    kind = _find_kind(child)
    return kind is None or kind.insight is None or bool(kind.insight.containers)


async def _read_waits(client: Client, child: InsightChild, explain: Explain, now: Instant) -> Sequence[Wait]:
    kind = _find_kind(child)
    try:
        if kind is not None:
            return (await explain(client, kind, child)).waits
        if child.resource == JOBS:
            return await _waits_of_job(client, child, now)
        return await _waits_of_workload(client, child.resource, child.key)
    except (NotFoundError, ForbiddenError):
        return ()


async def _waits_of_workload(client: Client, resource: Resource, key: Key) -> Sequence[Wait]:
    """Return the wait of a workload of Kubernetes whose pods are rejected, from its condition or its events, with the
    object that adds the rejected field to its pods.
    """
    workload = decode(await client.get(resource, key.namespace, key.name))
    conditions: Sequence[Document] = get_path(workload, "status", "conditions", default=())
    waits: list[Wait] = [
        make_refusal_wait(
            code,
            str(condition.get("message") or ""),
            namespace=key.namespace,
            since=condition.get("lastTransitionTime") or "",
        )
        for condition in conditions
        if condition.get("status") == "True"
        and (code := code_of_refusal(condition, key.namespace)) is not None
    ]
    if not waits:
        uid = str(workload["metadata"]["uid"])
        waits += await read_refused_creations(client, uid, key.namespace)
    origin = await find_refused_origin(client, workload) if waits else None
    if origin is None:
        return waits
    return [make_origin_wait(wait, str(origin), namespace=key.namespace) for wait in waits]


async def _waits_of_job(client: Client, child: InsightChild, now: Instant) -> Sequence[Wait]:
    """Return the waits of the pods of a Kubernetes Job, and the reasons why its pods failed."""
    key = child.key
    job = decode(await client.get(JOBS, key.namespace, key.name))
    uid = str(job["metadata"]["uid"])
    if get_path(job, "spec", "suspend"):
        return [Wait(code=Code.PAUSED, words="it is suspended")]
    if get_path(job, "spec", "parallelism") == 0:
        zero = limit_is_zero("spec.parallelism", "no pod is started")
        return [Wait(code=zero.code, words=zero.message, remedy=zero.remedy)]
    listed = await client.list(
        PODS, key.namespace, label_selector=f"batch.kubernetes.io/controller-uid={uid}"
    )
    if not listed.items:
        again = child.correction.again if child.correction is not None else ""
        refused = await read_refused_creations(client, uid, key.namespace, again=again)
        late = _find_deadline(job)
        if refused or late is None:
            return refused
        return [await _explain_deadline(client, key, late, again=again)]
    pods = [project_pod(raw) for raw in listed.items]
    gates = await find_gate_problems(client, pods, now=now, settings=None)
    correction = child.correction or OF_A_JOB
    return rank_waits(
        wait
        for pod, raw in zip(pods, listed.items, strict=True)
        for wait in _waits_of_pod(decode(raw), pod, now, correction, gates)
    )


def _find_deadline(job: Document) -> Document | None:
    """Return the condition of a Job that exceeded its deadline; None if it did not exceed the deadline."""
    conditions: Sequence[Document] = get_path(job, "status", "conditions", default=())
    return next(
        (item for item in conditions if item["status"] == "True" and item.get("reason") == _LATE), None
    )


_LATE: Final = "DeadlineExceeded"
"""Reason in the condition Failed of a Job that exceeded its deadline. Kubernetes deletes the pods, so only their events
remain.
"""


async def _explain_deadline(client: Client, job: Key, late: Document, *, again: str) -> Wait:
    """Return the wait of a Job that exceeded its deadline, with the last warning about one of its pods."""
    listed = await client.list(EVENTS, job.namespace, field_selector="involvedObject.kind=Pod,type=Warning")
    events = sorted(map(decode, listed.items), key=last_time_of)
    about = [event for event in events if str(event["involvedObject"].get("name")).startswith(f"{job.name}-")]
    words = str(late.get("message") or "it was active longer than its deadline")
    if about:
        pod, message = about[-1]["involvedObject"]["name"], excerpt(str(about[-1].get("message") or ""))
        words = f"{words}; the last warning about its pod {pod}: {message}"
    remedy = "correct what prevented its pods from completing"
    if again:
        remedy = f"{remedy}; to raise activeDeadlineSeconds, create {again} again"
    return Wait(code=Code.JOB_FAILED, words=words, remedy=remedy)


async def read_refused_creations(
    client: Client, uid: str, namespace: str, *, again: str = ""
) -> Sequence[Wait]:
    """Return the wait of a Job or a workload of Kubernetes whose pods are rejected, from its latest FailedCreate event;
    empty without an event. `again`: see `Correction.again`.
    """
    events = [
        event
        for event in await list_events_about(client, uid, namespace=namespace)
        if event.get("type") == "Warning" and event.get("reason") == "FailedCreate"
    ]
    if not events:
        return ()
    latest = events[-1]
    message = str(latest.get("message") or "")
    known = explain_refusal(message, namespace=namespace)
    remedy = known[1] if known is not None else _REFUSED
    if again:
        remedy = (
            f"{remedy}; to change the template, create {again} again: the stored template cannot be changed"
        )
    first = str(latest.get("firstTimestamp") or "")
    code = Code.QUOTA if known is not None and known[0] is WriteFault.QUOTA else Code.WRITE_FAILED
    return [Wait(code=code, words=message, since=first, remedy=remedy)]


_REFUSED: Final = (
    "correct what prevents the creation of its pods: the object that the message names, or the pod template"
)


def _waits_of_pod(
    document: Document, pod: PodView, now: Instant, correction: Correction, gates: Mapping[str, GateProblem]
) -> Iterator[Wait]:
    if pod.phase == "Failed" and not pod.is_deleting:
        failed = explain_failure(pod)
        yield Wait(code=failed.code, words=failed.message, pods=(pod.name,), remedy=failed.remedy)
    elif pod.is_active or pod.is_deleting:
        cause = cause_of(document, pod, now=now, gates=gates, correction=correction)
        if cause is not None:
            yield wait_of(cause, pod.name)
