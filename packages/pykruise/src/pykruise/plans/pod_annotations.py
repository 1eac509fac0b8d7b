"""All annotations of pods. Views do not contain all of them, so they are read from the API server, once per pod
version.

pods + Read ──▶ annotations_of() ──▶ key of each pod → all its annotations

The view of a pod contains only annotations that many decisions use (pods/view/decoding.py).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pykruise.kube.documents import annotations_of as stored_annotations
from pykruise.kube.documents import decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.read import Read

_Version = tuple[str, int]
"""A pod's uid and resourceVersion."""


class _Known:
    """Key of each pod that one object needs → version of the pod, and its annotations."""

    def __init__(self) -> None:
        self.of: dict[Key, tuple[_Version, Mapping[str, str]]] = {}


async def annotations_of(read: Read[Any], pods: Iterable[PodView]) -> Mapping[Key, Mapping[str, str]]:
    """Return the key of each pod with all its annotations; no annotations if the pod was deleted. Raises KubeError."""
    memory = read.find_memory(_Known)
    result: dict[Key, tuple[_Version, Mapping[str, str]]] = {}
    for pod in pods:
        key, version = Key(pod.namespace, pod.name), (pod.uid, pod.resource_version)
        known = memory.of.get(key)
        if known is None or known[0] != version:
            known = version, await _read_annotations(read, key, pod.uid)
        result[key] = known
    memory.of = result
    return {key: annotations for key, (_, annotations) in result.items()}


async def _read_annotations(read: Read[Any], key: Key, uid: str) -> Mapping[str, str]:
    try:
        stored = decode(await read.live.get(PODS, key.namespace, key.name))
    except NotFoundError:
        return {}
    return stored_annotations(stored) if stored["metadata"]["uid"] == uid else {}
