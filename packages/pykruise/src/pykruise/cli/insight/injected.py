"""Whose fault it is that pods of a workload are refused: its own template's, or of what is put into them on their way.

a pod of the template ──dry run──▶ refused fields ──▶ origin_of() (pure) ──▶ `SidecarSet log, spec.containers[0]`

The dry run asks the API server as the manager's write does; it writes nothing, and who may not create pods learns
nothing from it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pykruise.cli.insight.look import Sight
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode, deep_copy, get_path
from pykruise.kube.errors import ApiError, InvalidError
from pykruise.kube.patches import PatchError, apply_strategic_merge, definition_for
from pykruise.kube.resources import PODS
from pykruise.kube.values.selectors import SelectorError, selector_from

__all__ = ["Origin", "origin_of", "refused_origin"]

_indexed = re.compile(r"spec\.(containers|initContainers|volumes)\[(\d+)\]")


class Origin(msgspec.Struct, frozen=True):
    """An object that puts something into pods, and its field."""

    kind: str
    name: str
    field: str

    def __str__(self) -> str:
        return f"{self.field} of {self.kind} {self.name}"


async def refused_origin(client: Client, sight: Sight) -> Origin | None:
    """What puts into new pods what the API server refuses; None: nothing does, or it cannot be found out."""
    template = get_path(sight.document, "spec", "template")
    namespace = sight.document["metadata"].get("namespace", "")
    if not isinstance(template, dict) or not namespace:
        return None
    pod = _pod_of(sight.document, template)
    try:
        spreads = [decode(raw) for raw in (await client.list(WORKLOAD_SPREADS, namespace)).items]
        sidecars = [decode(raw) for raw in (await client.list(SIDECAR_SETS)).items]
        if fields := await _refused_fields(client, namespace, pod):
            return _of_sidecars(fields, sight.document, sidecars)
        return await _of_spreads(client, sight.document, pod, spreads)
    except ApiError:
        return None


async def _refused_fields(client: Client, namespace: str, pod: Document) -> list[str]:
    """Paths of a pod that the API server refuses, with what webhooks put into it."""
    try:
        await client.create(PODS, namespace, pod, dry_run=True)
    except InvalidError as error:
        return [cause.field for cause in error.causes]
    return []


async def _of_spreads(
    client: Client, workload: Document, pod: Document, spreads: Sequence[Document]
) -> Origin | None:
    """The first patch of a WorkloadSpread of the workload with which the pod is refused. No webhook patches in a dry
    run, for that would take a place in a subset."""
    name, kind = workload["metadata"]["name"], workload["kind"]
    for spread in spreads:
        target = get_path(spread, "spec", "targetRef") or {}
        if (target.get("name"), target.get("kind")) != (name, kind):
            continue
        for number, subset in enumerate(get_path(spread, "spec", "subsets") or ()):
            if not (patch := subset.get("patch")):
                continue
            try:
                patched = apply_strategic_merge(pod, patch, definition=definition_for(PODS) or "")
            except PatchError:
                continue  # admission has said so
            if await _refused_fields(client, workload["metadata"]["namespace"], patched):
                return Origin("WorkloadSpread", spread["metadata"]["name"], f"spec.subsets[{number}].patch")
    return None


def _pod_of(owner: Document, template: Document) -> Document:
    meta = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{owner['metadata']['name']}-",
            "labels": dict(meta.get("labels") or {}),
            "annotations": dict(meta.get("annotations") or {}),
        },
        "spec": deep_copy(template.get("spec") or {}),
    }


def _of_sidecars(
    fields: Sequence[str], workload: Mapping[str, Any], sidecars: Sequence[Document]
) -> Origin | None:
    found = (origin_of(field, workload, sidecars) for field in fields)
    return next((one for one in found if one is not None), None)


def origin_of(field: str, workload: Mapping[str, Any], sidecars: Sequence[Document]) -> Origin | None:
    """What a field of a pod comes from, where it is of a container or volume beyond those of the template: they stand
    behind it, in the order of the sets. None: from the template, or unknown."""
    match = _indexed.match(field)
    template = get_path(workload, "spec", "template") or {}
    if match is None:
        return None
    kind = match[1]
    number = int(match[2]) - len((template.get("spec") or {}).get(kind) or ())
    if number < 0:
        return None
    labels = (template.get("metadata") or {}).get("labels") or {}
    for one in sorted(sidecars, key=lambda found: str(found["metadata"]["name"])):
        try:
            is_meant = selector_from(get_path(one, "spec", "selector")).matches(labels)
        except SelectorError:
            continue
        own = (get_path(one, "spec", kind) or ()) if is_meant else ()
        if number < len(own):
            return Origin("SidecarSet", one["metadata"]["name"], f"spec.{kind}[{number}]")
        number -= len(own)
    return None
