"""Missing ConfigMaps and Secrets of pods, with the command that creates each, and kubelets' messages about volumes.

Explanation ──pod, its ConfigMaps and Secrets, events FailedMount──▶ add_mounts() ──▶ the Explanation with them

This module only reads. Objects and events that the user may not read are ignored.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits
from pykruise.cli.insight.optional_reads import find_pod_key, read_optional
from pykruise.kube.client.client import Client
from pykruise.kube.client.object_events import last_time_of
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.excerpts import excerpt
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONFIG_MAPS, EVENTS, PODS, SECRETS, Resource
from pykruise.plans.progress import Phase, add_waits
from pykruise.pods.corrections import Correction
from pykruise.pods.mounts import list_mounts
from pykruise.pods.reasons import Code
from pykruise.pods.template.config_content import list_environment_uses

_MOUNTING: Final = frozenset({Code.STARTING, Code.NOT_MOUNTED})
"""Codes of pods whose containers are not created; volumes that cannot be mounted may be the cause."""

_COMMANDS: Final[Mapping[str, tuple[Resource, str]]] = {
    "ConfigMap": (CONFIG_MAPS, "kubectl create configmap"),
    "Secret": (SECRETS, "kubectl create secret generic"),
}
"""Kind of an object → its resource, and the command that creates one."""

MOST: Final = 10
"""Maximum number of waits for which a pod is examined."""


RETRIED_IN_S: Final = 180.0
"""Longest time between two attempts of a kubelet to mount a volume: an older message may be about a past failure."""


class _Report(msgspec.Struct, frozen=True):
    """Latest message of a kubelet about the volumes of a pod."""

    message: str
    is_recent: bool


async def add_mounts(
    client: Client, explanation: Explanation, correction: Correction, *, now: Instant
) -> Explanation:
    """Return the explanation with the objects that are missing, and with the kubelets' messages, which only events
    contain. Managers read neither these objects nor events, so only this function can show that a person must act.
    `correction`: where a user corrects the pods' template.
    """
    explanation = await _add_environment(client, explanation)
    if not any(wait.code in _MOUNTING and wait.pods for wait in explanation.waits):
        return explanation
    reports = await _read_reports(client, explanation.namespace, now)
    waits = [
        await _with_mount(client, wait, explanation.namespace, reports, correction)
        if wait.code in _MOUNTING and wait.pods and number < MOST
        else wait
        for number, wait in enumerate(explanation.waits)
    ]
    if not any(wait.code == Code.MOUNT_FAILS for wait in waits):
        return msgspec.structs.replace(explanation, waits=tuple(waits))
    phase = add_waits(explanation.phase, (Code.MOUNT_FAILS,))
    verdict = "waiting" if phase is Phase.DEGRADED else explanation.verdict
    return msgspec.structs.replace(explanation, waits=rank_waits(waits), phase=phase, verdict=verdict)


async def _add_environment(client: Client, explanation: Explanation) -> Explanation:
    """Return the explanation with ConfigMaps and Secrets that do not exist although environments of containers need
    them.
    """
    waits = [
        await _with_environment(client, wait, explanation.namespace)
        if wait.code == Code.CONTAINER_FAILS and wait.pods and number < MOST
        else wait
        for number, wait in enumerate(explanation.waits)
    ]
    return msgspec.structs.replace(explanation, waits=tuple(waits))


async def _with_environment(client: Client, wait: Wait, namespace: str) -> Wait:
    key = find_pod_key(wait.pods[0], namespace)
    pod = None if key is None else await read_optional(client, PODS, key)
    if pod is None or key is None:
        return wait
    spec = pod["spec"]
    containers = [*spec["containers"], *(spec.get("ephemeralContainers") or ())]
    uses = list_environment_uses({"spec": {**spec, "containers": containers}})
    missing = await _select_missing(client, key.namespace, ((use.kind, use.name) for use in uses))
    if not missing:
        return wait
    created = _format_creations(missing, key.namespace, "--from-literal=KEY=VALUE")
    return msgspec.structs.replace(wait, remedy="; or ".join(filter(None, (created, wait.remedy))))


async def _read_reports(client: Client, namespace: str, now: Instant) -> Mapping[str, _Report]:
    """Return the latest report by name of the pod, in both forms of the name."""
    try:
        listed = await client.list(
            EVENTS, namespace, field_selector="involvedObject.kind=Pod,reason=FailedMount"
        )
    except ApiError:
        return {}
    events = sorted(map(decode, listed.items), key=last_time_of)
    return {name: report for event in events for name, report in _name_report(event, now)}


def _name_report(event: Document, now: Instant) -> Iterator[tuple[str, _Report]]:
    """Yield the report for both forms of the pod's name in explanations: without its namespace and with it."""
    pod, last = event["involvedObject"], last_time_of(event)
    is_recent = bool(last) and now - parse_time(last) <= RETRIED_IN_S
    report = _Report(excerpt(str(event.get("message") or "")), is_recent)
    yield str(pod.get("name")), report
    yield f"{pod.get('namespace')}/{pod.get('name')}", report


async def _with_mount(
    client: Client, wait: Wait, namespace: str, reports: Mapping[str, _Report], correction: Correction
) -> Wait:
    report = next((reports[pod] for pod in wait.pods if pod in reports), None)
    key = find_pod_key(wait.pods[0], namespace)
    missing = [] if key is None else await _list_missing(client, key)
    if report is None and not missing:
        return wait
    words = [wait.words, *(f"there is no {kind} {name} in its namespace" for kind, name in missing)]
    if report is not None:
        words.append(f"a volume cannot be mounted: {report.message}")
    correct = correction.describe_for("the volume")
    if missing:
        place = key.namespace if key is not None else namespace
        created = _format_creations(missing, place, "--from-file=FILE")
        remedy = f"{created}; or {wait.remedy or correct}"
    else:
        remedy = wait.remedy or f"create what is missing, or {correct}"
    is_late = wait.code == Code.NOT_MOUNTED and report is not None and report.is_recent
    code = Code.MOUNT_FAILS if missing or is_late else Code.NOT_MOUNTED
    return msgspec.structs.replace(wait, code=code, words="; ".join(words), remedy=remedy)


def _format_creations(missing: Iterable[tuple[str, str]], namespace: str, content: str) -> str:
    """Return the instruction with the commands that create these objects. `content`: the command's option that sets
    their content.
    """
    created = (
        f"{kind} {name} ({_COMMANDS[kind][1]} -n {namespace} {name} {content})" for kind, name in missing
    )
    return f"create {' and '.join(created)}"


async def _list_missing(client: Client, pod: Key) -> list[tuple[str, str]]:
    """Return kind and name of the ConfigMaps and Secrets that the pod's volumes need and that do not exist."""
    document = await read_optional(client, PODS, pod)
    volumes = ((document or {}).get("spec") or {}).get("volumes") or []
    return await _select_missing(client, pod.namespace, list_mounts(msgspec.json.encode(volumes)))


async def _select_missing(
    client: Client, namespace: str, needs: Iterable[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Return those of the objects that do not exist."""
    return [
        (kind, name)
        for kind, name in needs
        if await _is_missing(client, _COMMANDS[kind][0], Key(namespace, name))
    ]


async def _is_missing(client: Client, resource: Resource, key: Key) -> bool:
    try:
        await client.get(resource, key.namespace, key.name)
    except NotFoundError:
        return True
    except ApiError:
        pass
    return False
