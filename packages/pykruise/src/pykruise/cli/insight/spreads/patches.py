"""Adds the patch of a WorkloadSpread's subset to the waits of pods that it has patched.

Wait, Pod ──its WorkloadSpread──▶ add_patch() ──▶ Wait
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.cli.insight.explaining import Wait
from pykruise.cli.insight.optional_reads import read_optional
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, annotations_of, get_path
from pykruise.kube.ids import Key
from pykruise.pods.reasons import Code
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION

_CONTAINERS: Final = ("containers", "initContainers")


async def add_patch(client: Client, wait: Wait, pod: Document) -> Wait:
    """Return the wait. If a subset of a WorkloadSpread patches the pod, the wait names the patch. An image in the patch
    overrides the image in the template.
    """
    matched = _read_matched(annotations_of(pod).get(MATCHED_SPREAD_ANNOTATION, ""))
    name, subset = str(matched.get("name") or ""), str(matched.get("subset") or "")
    spread = (
        await read_optional(client, WORKLOAD_SPREADS, Key(pod["metadata"]["namespace"], name))
        if name
        else None
    )
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
