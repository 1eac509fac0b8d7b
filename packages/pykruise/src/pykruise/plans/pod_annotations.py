"""Annotations of pods that no view keeps: read from the API server, once for every version of a pod.

pods + Read ──▶ annotations_of() ──▶ by pod: all its annotations

A view of a pod has only the annotations that many decisions use (pods/view/decoding.py).
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
    """Annotations by version of the pods that an object selects."""

    def __init__(self) -> None:
        self.of: dict[Key, tuple[_Version, Mapping[str, str]]] = {}


async def annotations_of(read: Read[Any], pods: Iterable[PodView]) -> Mapping[Key, Mapping[str, str]]:
    """Return all annotations of these pods; empty for a deleted pod. Raises KubeError."""
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
