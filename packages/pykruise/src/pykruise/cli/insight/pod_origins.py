"""Objects besides the owner that decide about pods: the patch of a WorkloadSpread, the strategy of a SidecarSet.

Explanation ──first pod of each wait, its WorkloadSpread or SidecarSet──▶ add_pod_origins()

This module only reads, and only when pods wait. Objects that the user may not read add nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.cli.insight.explaining import Explanation, Wait
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, annotations_of, decode, get_path
from pykruise.kube.errors import ApiError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS, Resource
from pykruise.pods.reasons import Code
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION

MOST: Final = 10
"""Maximum number of waits that are examined."""

_CONTAINERS: Final = ("containers", "initContainers")
_OF_A_CONTAINER: Final = frozenset({Code.IMAGE_PULL, Code.CONTAINER_FAILS, Code.NOT_READY})
_OF_THE_POD: Final = frozenset({Code.UNSCHEDULABLE, Code.UNBOUND_CLAIMS, Code.NOT_MOUNTED})


async def add_pod_origins(client: Client, explanation: Explanation) -> Explanation:
    """Return the explanation with the patches and sidecars that may be the cause of its waits."""
    waits = [
        await _with_origin(client, wait, explanation.namespace) if number < MOST else wait
        for number, wait in enumerate(explanation.waits)
    ]
    return msgspec.structs.replace(explanation, waits=tuple(waits))


async def _with_origin(client: Client, wait: Wait, namespace: str) -> Wait:
    if wait.code not in _OF_A_CONTAINER | _OF_THE_POD or not wait.pods:
        return wait
    if wait.origin:
        return await _with_strategy(client, wait)
    given, _, name = wait.pods[0].rpartition("/")
    pod = await _read(client, PODS, Key(given or namespace, name))
    return wait if pod is None else await _with_patch(client, wait, pod)


async def _with_strategy(client: Client, wait: Wait) -> Wait:
    """Return the wait of a sidecar; where its SidecarSet leaves existing pods alone, with what to do about them."""
    sidecar_set = await _read(client, SIDECAR_SETS, Key("", wait.origin.rpartition(" ")[2]))
    if get_path(sidecar_set or {}, "spec", "updateStrategy", "type") != "NotUpdate":
        return wait
    words = f"{wait.words}; {wait.origin} leaves existing pods alone (updateStrategy.type is NotUpdate)"
    remedy = f"{wait.remedy}; recreate the pods after a change of {wait.origin}"
    return msgspec.structs.replace(wait, words=words, remedy=remedy)


async def _with_patch(client: Client, wait: Wait, pod: Document) -> Wait:
    """Return the wait; where a subset of a WorkloadSpread patches new pods, with that patch. An image of the patch
    wins over the template.
    """
    matched = _read_matched(annotations_of(pod).get(MATCHED_SPREAD_ANNOTATION, ""))
    name, subset = str(matched.get("name") or ""), str(matched.get("subset") or "")
    spread = await _read(client, WORKLOAD_SPREADS, Key(pod["metadata"]["namespace"], name)) if name else None
    subsets = get_path(spread or {}, "spec", "subsets", default=())
    patch = next((item.get("patch") for item in subsets if item.get("name") == subset), None)
    patched: Mapping[str, Any] = get_path(patch, "spec", default={})
    if not patched:
        return wait
    what = f"the patch of subset {subset} of WorkloadSpread {name}"
    correct = f"correct {what}, then delete the pod, which keeps the old one"
    if wait.code == Code.IMAGE_PULL and _sets_images(patched, pod):
        words, origin = f"{wait.words}; {what} sets the image", f"WorkloadSpread {name}"
        return msgspec.structs.replace(wait, words=words, remedy=correct, origin=origin)
    return msgspec.structs.replace(wait, remedy="; or ".join(filter(None, (wait.remedy, correct))))


def _sets_images(patched: Mapping[str, Any], pod: Document) -> bool:
    """Whether a container of the pod has the image of the patch."""
    images = {
        (item.get("name"), item.get("image"))
        for field in _CONTAINERS
        for item in get_path(pod, "spec", field, default=())
    }
    return any(
        item.get("image") and (item.get("name"), item["image"]) in images
        for field in _CONTAINERS
        for item in patched.get(field) or ()
    )


def _read_matched(text: str) -> Mapping[str, Any]:
    try:
        result = msgspec.json.decode(text) if text else {}
    except msgspec.DecodeError:
        return {}
    return result if isinstance(result, dict) else {}


async def _read(client: Client, resource: Resource, key: Key) -> Document | None:
    try:
        return decode(await client.get(resource, key.namespace, key.name))
    except ApiError:
        return None
