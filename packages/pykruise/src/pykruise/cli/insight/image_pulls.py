"""Images that nodes still pull for pods that start.

Explanation ──pods, kubelets' events Pulling and Pulled──▶ add_pulls() ──▶ the Explanation with images and nodes

This module only reads. The status of a pod does not show that its node pulls an image: only events do. Objects and
events that the user may not read are ignored.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits
from pykruise.cli.insight.optional_reads import find_pod_key, list_pod_events, read_optional
from pykruise.kube.client.client import Client
from pykruise.kube.client.object_events import last_time_of
from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import PODS
from pykruise.pods.reasons import Code

_CREATING: Final = frozenset({Code.STARTING, Code.NOT_MOUNTED})
"""Codes of pods whose containers are not created. Kubelets pull images after they have mounted the volumes."""

MOST: Final = 10
"""Maximum number of waits for which a pod is examined."""

_SLOW_S: Final = 30.0
"""Seconds of a pull after which the explanation recommends pulling images in advance."""

_IN_ADVANCE: Final = (
    "wait until the node has pulled the image; to have an image on the nodes before later rollouts, pull it with an"
    " ImagePullJob"
)


async def add_pulls(client: Client, explanation: Explanation, *, now: Instant) -> Explanation:
    """Return the explanation with the images that nodes pull for pods that start."""
    if not any(wait.code in _CREATING and wait.pods for wait in explanation.waits):
        return explanation
    began = await _read_times(client, explanation.namespace, "Pulling")
    if not began:
        return explanation
    ended = await _read_times(client, explanation.namespace, "Pulled")
    pulling = {pod: time for pod, time in began.items() if time > ended.get(pod, "")}
    waits = [
        await _with_pull(client, wait, explanation.namespace, pulling, now)
        if wait.code in _CREATING and wait.pods and number < MOST
        else wait
        for number, wait in enumerate(explanation.waits)
    ]
    return msgspec.structs.replace(explanation, waits=rank_waits(waits))


async def _read_times(client: Client, namespace: str, reason: str) -> Mapping[str, str]:
    """Return the time of the latest event with this reason, by UID of the pod."""
    events = await list_pod_events(client, namespace, reason)
    return {str(event["involvedObject"].get("uid")): last_time_of(event) for event in events}


async def _with_pull(
    client: Client, wait: Wait, namespace: str, pulling: Mapping[str, str], now: Instant
) -> Wait:
    key = find_pod_key(wait.pods[0], namespace)
    pod = None if key is None or not pulling else await read_optional(client, PODS, key)
    since = "" if pod is None else pulling.get(str(pod["metadata"].get("uid")), "")
    container = None if pod is None or not since else _find_created_container(pod)
    if pod is None or container is None:
        return wait
    is_slow = now - parse_time(since) >= _SLOW_S
    node = get_path(pod, "spec", "nodeName")
    return msgspec.structs.replace(
        wait,
        code=Code.STARTING,
        words=f"its node {node} pulls image {container.get('image')} of container {container['name']}",
        since=since,
        remedy=_IN_ADVANCE if is_slow else "",
    )


def _find_created_container(pod: Document) -> Mapping[str, Any] | None:
    """Return the container that the kubelet creates now; None if it creates none. The kubelet creates init containers
    first, and the other containers in their order.
    """
    specs = {item["name"]: item for item in _list_containers(pod["spec"], "initContainers", "containers")}
    statuses = _list_containers(pod.get("status") or {}, "initContainerStatuses", "containerStatuses")
    waiting = (item.get("name") for item in statuses if (item.get("state") or {}).get("waiting"))
    return next((specs[name] for name in waiting if name in specs), None)


def _list_containers(owner: Mapping[str, Any], *fields: str) -> Iterator[Mapping[str, Any]]:
    for field in fields:
        yield from owner.get(field) or ()
