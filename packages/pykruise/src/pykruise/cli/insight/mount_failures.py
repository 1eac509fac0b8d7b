"""Volumes that cannot be mounted: the missing ConfigMap or Secret with the command that creates it, and the kubelet's
message.

Explanation ──pod, its ConfigMaps and Secrets, events FailedMount──▶ add_mounts() ──▶ the Explanation with them

This module only reads. Objects and events that the user may not read add nothing.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.cli.insight.optional_reads import find_pod_key, read_optional
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode, encode
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.excerpts import excerpt
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONFIG_MAPS, EVENTS, PODS, SECRETS, Resource
from pykruise.pods.corrections import Correction
from pykruise.pods.mounts import list_mounts
from pykruise.pods.reasons import Code

_MOUNTING: Final = frozenset({Code.STARTING, Code.NOT_MOUNTED})
"""Codes of pods whose containers are not created; volumes that cannot be mounted may be the cause."""

_COMMANDS: Final[Mapping[str, tuple[Resource, str]]] = {
    "ConfigMap": (CONFIG_MAPS, "kubectl create configmap"),
    "Secret": (SECRETS, "kubectl create secret generic"),
}
"""Kind of a mounted object → its resource, and the command that creates one."""

MOST: Final = 10
"""Maximum number of waits of which a pod is examined."""


async def add_mounts(client: Client, explanation: Explanation, correction: Correction) -> Explanation:
    """Return the explanation with the objects that are missing, and with the kubelets' messages, which only events
    contain. `correction`: where a user corrects the pods' template.
    """
    if not any(wait.code in _MOUNTING and wait.pods for wait in explanation.waits):
        return explanation
    said = await _read_messages(client, explanation.namespace)
    waits = [
        await _with_mount(client, wait, explanation.namespace, said, correction)
        if wait.code in _MOUNTING and wait.pods and number < MOST
        else wait
        for number, wait in enumerate(explanation.waits)
    ]
    return msgspec.structs.replace(explanation, waits=tuple(waits))


async def _read_messages(client: Client, namespace: str) -> Mapping[str, str]:
    """Return the latest message about a mount by name of the pod, in both forms of the name."""
    try:
        listed = await client.list(
            EVENTS, namespace, field_selector="involvedObject.kind=Pod,reason=FailedMount"
        )
    except ApiError:
        return {}
    events = sorted(map(decode, listed.items), key=lambda event: str(event.get("lastTimestamp") or ""))
    return {name: text for event in events for name, text in _name_mount_failure(event)}


def _name_mount_failure(event: Document) -> Iterator[tuple[str, str]]:
    """Yield the message for both forms of the pod's name in explanations: without its namespace and with it."""
    pod, message = event["involvedObject"], excerpt(str(event.get("message") or ""))
    yield str(pod.get("name")), message
    yield f"{pod.get('namespace')}/{pod.get('name')}", message


async def _with_mount(
    client: Client, wait: Wait, namespace: str, said: Mapping[str, str], correction: Correction
) -> Wait:
    message = next((said[pod] for pod in wait.pods if pod in said), "")
    key = find_pod_key(wait.pods[0], namespace)
    missing = [] if key is None else await _list_missing(client, key)
    if not message and not missing:
        return wait
    words = [wait.words, *(f"there is no {kind} {name} in its namespace" for kind, name in missing)]
    if message:
        words.append(f"a volume cannot be mounted: {message}")
    correct = correction.describe_for("the volume")
    if missing:
        place = key.namespace if key is not None else namespace
        created = [f"{kind} {name} ({_format_command(kind, place, name)})" for kind, name in missing]
        remedy = f"create {' and '.join(created)}; or {wait.remedy or correct}"
    else:
        remedy = wait.remedy or f"create what is missing, or {correct}"
    return msgspec.structs.replace(wait, code=Code.NOT_MOUNTED, words="; ".join(words), remedy=remedy)


def _format_command(kind: str, namespace: str, name: str) -> str:
    return f"{_COMMANDS[kind][1]} -n {namespace} {name} --from-file=FILE"


async def _list_missing(client: Client, pod: Key) -> list[tuple[str, str]]:
    """Return kind and name of the ConfigMaps and Secrets that the pod's volumes need and that do not exist."""
    document = await read_optional(client, PODS, pod)
    volumes = ((document or {}).get("spec") or {}).get("volumes") or []
    needs = list_mounts(encode(volumes))
    return [
        (kind, name)
        for kind, name in needs
        if await _is_missing(client, _COMMANDS[kind][0], Key(pod.namespace, name))
    ]


async def _is_missing(client: Client, resource: Resource, key: Key) -> bool:
    try:
        await client.get(resource, key.namespace, key.name)
    except NotFoundError:
        return True
    except ApiError:
        pass
    return False
