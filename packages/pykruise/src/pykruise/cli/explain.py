"""`pykruise explain clonesets/web`: what a rollout does, and why it does not go on; `pod/web-x`: what holds a pod.

kind/name ──▶ look() (reads only) ──▶ the kind's plan ──▶ explain() ──▶ text or JSON
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pykruise.cli.errors import CommandError
from pykruise.cli.insight.cluster_reading import Sight, look
from pykruise.cli.insight.explaining import Explanation, Wait, explain, text
from pykruise.cli.insight.gates import given_settings, manager_settings
from pykruise.cli.insight.injection_check import refused_origin
from pykruise.cli.insight.kind_insights import ATTACHED
from pykruise.cli.insight.known_kinds import kind_named, named, workloads
from pykruise.cli.insight.pods import NAMES as POD_NAMES
from pykruise.cli.insight.pods import explain_pod, look_at_pod
from pykruise.cli.insight.traced_requests import Reach, reached
from pykruise.cli.outputs import check_output, rendered
from pykruise.kube.client.answers import metadata_of
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant, format_time, parse_time
from pykruise.kube.control.queue import BASE_DELAY_S, MAX_DELAY_S
from pykruise.kube.documents import decode
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.excerpts import excerpt
from pykruise.kube.ids import Key
from pykruise.kube.resources import EVENTS, PODS
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.kind import Kind
from pykruise.pods.reasons import NOT_WRITTEN, Code


async def explained(
    client: Client,
    key: Key,
    *,
    now: Instant,
    kind: Kind,
    settings: ManagerSettings | None = None,
) -> Explanation:
    """Look and explain. Raises CommandError when it is not there, KubeError when it cannot be read."""
    try:
        if (attached := ATTACHED.get(kind.name)) is not None:
            return await attached.explain(client, key, now, settings)
        sight = await look(client, kind, key, now=now, settings=settings)
    except NotFoundError as error:
        raise CommandError(f"there is no {kind.resource.kind} {key}: {error}") from error
    explanation = await with_tries(client, explain(sight, sight.plan()), uid=sight.uid)
    return await with_mounts(client, await with_origin(client, explanation, sight))


async def with_mounts(client: Client, explanation: Explanation) -> Explanation:
    """The same, and of pods whose volumes cannot be mounted what their kubelets say: only events have it.

    Where events may not be read, nothing is said.
    """
    if not any(wait.code == Code.STARTING and wait.pods for wait in explanation.waits):
        return explanation
    try:
        listed = await client.list(
            EVENTS, explanation.namespace, field_selector="involvedObject.kind=Pod,reason=FailedMount"
        )
    except ApiError:
        return explanation
    events = sorted(map(decode, listed.items), key=lambda event: str(event.get("lastTimestamp") or ""))
    said = {event["involvedObject"].get("name"): excerpt(str(event.get("message") or "")) for event in events}
    waits = tuple(
        _with_mount(wait, said) if wait.code == Code.STARTING else wait for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


def _with_mount(wait: Wait, said: Mapping[str, str]) -> Wait:
    message = next((said[pod] for pod in wait.pods if pod in said), "")
    if not message:
        return wait
    return msgspec.structs.replace(
        wait,
        words=f"{wait.words}; a volume cannot be mounted: {message}",
        remedy="create what is missing, or correct the volume in spec.template",
    )


async def with_origin(client: Client, explanation: Explanation, sight: Sight) -> Explanation:
    """The same, and where refused pods are not the template's fault, what puts into them what is refused."""
    if not any(wait.code == Code.WRITE_FAILED for wait in explanation.waits):
        return explanation
    origin = await refused_origin(client, sight)
    if origin is None:
        return explanation
    waits = tuple(
        msgspec.structs.replace(
            wait, words=f"{wait.words}; the field comes from {origin}", remedy=f"correct {origin}"
        )
        if wait.code == Code.WRITE_FAILED
        else wait
        for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


async def with_tries(client: Client, explanation: Explanation, *, uid: str) -> Explanation:
    """The same, and of writes that are refused when they were last tried, and when they will be: from their events.

    Each failure waits twice as long as the one before, so the next wait is about as long as all before it; where
    events may not be read, nothing is said.
    """
    if not uid or not any(wait.code in REFUSED_WRITES for wait in explanation.waits):
        return explanation
    try:
        listed = await client.list(
            EVENTS, explanation.namespace or "default", field_selector=f"involvedObject.uid={uid}"
        )
    except ApiError:
        return explanation
    events = [decode(raw) for raw in listed.items]
    failed = [
        event
        for event in events
        if event.get("type") == "Warning" and str(event.get("reason")).startswith("Failed")
    ]
    times = [(entry.get("firstTimestamp"), entry.get("lastTimestamp")) for entry in failed]
    known = [(parse_time(first), parse_time(last)) for first, last in times if first and last]
    if not known:
        return explanation
    first, last = max(known, key=lambda pair: pair[1])
    again = last + min(max(last - first, BASE_DELAY_S), MAX_DELAY_S)
    waits = tuple(
        msgspec.structs.replace(wait, tried=format_time(last), again=format_time(again))
        if wait.code in REFUSED_WRITES
        else wait
        for wait in explanation.waits
    )
    return msgspec.structs.replace(explanation, waits=waits)


REFUSED_WRITES: Final = NOT_WRITTEN - {Code.NO_MANAGER}


async def explained_pod(
    client: Client, key: Key, *, now: Instant, settings: ManagerSettings | None = None
) -> Explanation:
    """The same of a pod: which budgets hold it."""
    try:
        return explain_pod(await look_at_pod(client, key, now=now, settings=settings))
    except NotFoundError as error:
        raise CommandError(f"there is no Pod {key}: {error}") from error


DONE, FAILED, WAITING, BROKEN = 0, 1, 2, 3
"""Exit codes: as it was asked for; nothing could be said; it goes on by itself; it needs a person."""


class ExplainRequest(msgspec.Struct, frozen=True):
    """One object to explain. `kind` None: a pod."""

    kind: Kind | None
    namespace: str
    name: str


async def run_explain(
    *targets: str,
    namespace: str | None,
    kubeconfig: Path | None,
    context: str | None,
    watch: bool,
    output: str,
    say: Callable[[str], None],
    every_s: float = 2.0,
    timeout_s: float = 0.0,
    feature_gates: str = "",
    everywhere: bool = False,
    selector: str = "",
    reach: Reach = reached,
) -> int:
    """Print the explanations; with `watch`, again whenever they change, until all are done or `timeout_s` is over.

    `targets` as kubectl takes them: `clonesets/web`, `clone web db`, `clonesets`, `all`. Returns the exit code: that of
    what is worst off.
    """
    check_output(output)
    words = read_targets(targets)
    given = given_settings(feature_gates) if feature_gates else None
    ends = time.monotonic() + timeout_s if timeout_s else None
    async with reach(kubeconfig, context) as (client, default_namespace):
        settings = given or await manager_settings(client, time.time)
        where = "" if everywhere else namespace or default_namespace
        asked = await _listed(client, words, where, selector)
        shown: list[Explanation] | None = None
        while True:
            now = time.time()
            explanations = await asyncio.gather(*(_one(client, item, now, settings) for item in asked))
            if explanations != shown:
                text_now = _rendered(explanations, output, now, is_single=bool(words.single))
                say(text_now if shown is None else f"\n{text_now}")
                shown = explanations
            is_late = ends is not None and time.monotonic() + every_s > ends
            if (
                not watch
                or is_late
                or all(
                    explanation.verdict == "done" and not explanation.phase.exit_code
                    for explanation in explanations
                )
            ):
                return max((code_of(explanation) for explanation in explanations), default=DONE)
            await asyncio.sleep(every_s)


def code_of(explanation: Explanation) -> int:
    """0: as it was asked for; 2: it goes on by itself; 3: it needs a person."""
    return explanation.phase.exit_code


class ExplainTargets(msgspec.Struct, frozen=True):
    """Targets that the arguments name: single objects, and kinds all of whose objects are selected."""

    single: tuple[tuple[Kind | None, str], ...] = ()
    kinds: tuple[Kind | None, ...] = ()


def read_targets(targets: Sequence[str]) -> ExplainTargets:
    """`clonesets/web asts/db`, `clone web db`, `clonesets`, `clone,asts`, `all`. Raises CommandError."""
    if not targets:
        raise CommandError("say what to explain: clonesets/web, clone web, clonesets or all")
    if any("/" in target for target in targets):
        if not all("/" in target for target in targets):
            raise CommandError(f"{' '.join(targets)}: say TYPE/NAME for each, or TYPE NAME…")
        return ExplainTargets(single=tuple(_named(target) for target in targets))
    kinds = _kinds_of(targets[0])
    if len(targets) == 1:
        return ExplainTargets(kinds=kinds)
    return ExplainTargets(single=tuple((kind, name) for kind in kinds for name in targets[1:]))


def _kinds_of(words: str) -> tuple[Kind | None, ...]:
    if words == "all":
        return tuple(workloads())
    return tuple(None if word.lower() in POD_NAMES else kind_named(word) for word in words.split(",") if word)


def _named(target: str) -> tuple[Kind | None, str]:
    said, _, pod = target.partition("/")
    if said.lower() in POD_NAMES and pod and "/" not in pod:
        return None, pod
    return named(target)


async def _listed(
    client: Client, words: ExplainTargets, namespace: str, selector: str
) -> list[ExplainRequest]:
    if words.single:
        if not namespace and any(kind is None or kind.resource.namespaced for kind, _ in words.single):
            raise CommandError("a resource cannot be retrieved by name across all namespaces")
        return [
            ExplainRequest(kind, namespace if kind is None or kind.resource.namespaced else "", name)
            for kind, name in words.single
        ]
    askeds: list[ExplainRequest] = []
    for kind in words.kinds:
        resource = PODS if kind is None else kind.resource
        try:
            listed = await client.list(
                resource,
                namespace if resource.namespaced else "",
                label_selector=selector,
                metadata_only=True,
            )
        except NotFoundError:
            if len(words.kinds) == 1:
                raise
            continue  # of all kinds, those that the cluster does not have are left out
        for raw in listed.items:
            metadata = metadata_of(raw)
            askeds.append(ExplainRequest(kind, metadata.namespace, metadata.name))
    return askeds


async def _one(client: Client, asked: ExplainRequest, now: Instant, settings: ManagerSettings) -> Explanation:
    key = Key(asked.namespace, asked.name)
    if asked.kind is None:
        return await explained_pod(client, key, now=now, settings=settings)
    return await explained(client, key, now=now, kind=asked.kind, settings=settings)


def _rendered(explanations: Sequence[Explanation], output: str, now: Instant, *, is_single: bool) -> str:
    if output == "text":
        if not explanations:
            return "Nothing is there to be explained."
        return "\n\n".join(text(explanation, now=now).rstrip("\n") for explanation in explanations)
    documents = [
        {"cause": explanation.cause, **msgspec.to_builtins(explanation)} for explanation in explanations
    ]
    document = documents[0] if is_single and len(documents) == 1 else documents
    return rendered(document, output)
