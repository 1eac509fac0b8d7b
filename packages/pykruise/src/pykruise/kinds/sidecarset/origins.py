"""Finds the SidecarSet that a field of a rejected pod comes from.

field, workload, SidecarSets ──▶ origin_of() ──inject() a pod of the template──▶ `spec.containers[0] of SidecarSet log`

Pure.
"""

import re
from collections.abc import Sequence
from typing import Final

import orjson

from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.injection import InjectionSurroundings, inject
from pykruise.kinds.sidecarset.matching import select_matching_sets
from pykruise.kinds.sidecarset.sidecar_contents import name_hot_pair
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import project_sidecarset
from pykruise.kube.documents import Document, get_path, labels_of
from pykruise.plans.pod_steps import PodOrigin

_INDEXED: Final = re.compile(r"spec\.(containers|initContainers|volumes)\[(\d+)\]")


def origin_of(field: str, workload: Document, sidecars: Sequence[Document]) -> PodOrigin | None:
    """Find the SidecarSet that added the container or volume of a new pod to which `field` points. Sidecars can be
    before or after the template's own containers, so this function injects the sidecars into a pod of the template and
    looks up the index. None: the field comes from the template, or its origin is unknown.
    """
    match = _INDEXED.match(field)
    template = get_path(workload, "spec", "template") or {}
    if match is None or not isinstance(template, dict):
        return None
    section, index = match[1], int(match[2])
    around = InjectionSurroundings(
        sets=[project_sidecarset(orjson.dumps(sidecarset)) for sidecarset in sidecars],
        namespace=workload["metadata"].get("namespace", ""),
        now=0.0,
    )
    pod = {"metadata": template.get("metadata") or {}, "spec": template.get("spec") or {}}
    try:
        injected = inject(pod, around)
    except InjectionError:
        return None
    parts = get_path(injected or {}, "spec", section) or []
    own = pod["spec"].get(section) or []
    if index >= len(parts) or any(parts[index] is part for part in own):
        return None
    selected = select_matching_sets(
        around.sets, labels=labels_of(pod), namespace=around.namespace, namespace_labels=None
    )
    return _find_part(parts[index].get("name"), section, {view.name for view in selected}, sidecars)


def _find_part(
    name: str | None, section: str, selected: set[str], sidecars: Sequence[Document]
) -> PodOrigin | None:
    """Find the SidecarSet among `selected` that declares a container or volume with this name, or a hot sidecar with a
    container of this name.
    """
    for sidecarset in sorted(sidecars, key=lambda document: str(document["metadata"]["name"])):
        if sidecarset["metadata"]["name"] not in selected:
            continue
        for number, part in enumerate(get_path(sidecarset, "spec", section) or ()):
            if name in (part.get("name"), *name_hot_pair(str(part.get("name")))):
                return PodOrigin(
                    SIDECAR_SETS.kind, sidecarset["metadata"]["name"], f"spec.{section}[{number}]"
                )
    return None
