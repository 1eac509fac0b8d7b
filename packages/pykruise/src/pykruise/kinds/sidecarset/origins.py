"""Finds the SidecarSet that a field of a rejected pod comes from.

field, workload, SidecarSets ──▶ origin_of() ──inject() a pod of the template──▶ `spec.containers[0] of SidecarSet log`

Pure.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final

import msgspec
import orjson

from pykruise.kinds.sidecarset.errors import InjectionError
from pykruise.kinds.sidecarset.injection import InjectionSurroundings, inject
from pykruise.kinds.sidecarset.matching import select_matching_sets
from pykruise.kinds.sidecarset.sidecar_contents import name_hot_pair
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import project_sidecarset
from pykruise.kube.documents import Document, get_path, labels_of
from pykruise.plans.pod_steps import Labels, PodOrigin

_INDEXED: Final = re.compile(r"spec\.(containers|initContainers|volumes)\[(\d+)\]")


def origin_of(
    field: str, workload: Document, sidecars: Sequence[Document], namespace_labels: Labels = None
) -> PodOrigin | None:
    """Find the SidecarSet that added the container or volume that `field` of a new pod points to. Sidecars can be
    before or after the template's own containers, so this function injects the sidecars into a pod of the template and
    looks up the index. None: the field comes from the template, or its origin is unknown.
    """
    match = _INDEXED.match(field)
    if match is None:
        return None
    section, index = match[1], int(match[2])
    added = _inject(workload, sidecars, namespace_labels)
    parts = get_path(added.pod, "spec", section) or []
    return added.find_origin(parts[index], section) if index < len(parts) else None


def origin_of_part(
    part: tuple[str, str],
    workload: Document,
    sidecars: Sequence[Document],
    namespace_labels: Labels = None,
) -> PodOrigin | None:
    """Find the SidecarSet that added a container or volume to a new pod. `part`: its kind and its name. None: the part
    is in the template, or its origin is unknown.
    """
    what, name = part
    added = _inject(workload, sidecars, namespace_labels)
    for section in _SECTIONS.get(what, ()):
        for item in get_path(added.pod, "spec", section) or ():
            if item.get("name") == name:
                return added.find_origin(item, section)
    return None


_SECTIONS: Final = {"container": ("containers", "initContainers"), "volume": ("volumes",)}
"""Fields of a pod's spec that contain the parts of a kind."""


class _Injected(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a workload's template with its sidecars; an empty pod if it gets none."""

    pod: Document = {}
    template: Document = {}
    selected: frozenset[str] = frozenset()
    """Names of the SidecarSets that inject into the pod."""
    sidecars: Sequence[Document] = ()

    def find_origin(self, part: Document, section: str) -> PodOrigin | None:
        """Find the SidecarSet of a container or volume of the pod; None: it is a part of the template."""
        own = get_path(self.template, "spec", section) or []
        if any(part is item for item in own):
            return None
        return _find_part(part.get("name"), section, self.selected, self.sidecars)


def _inject(workload: Document, sidecars: Sequence[Document], namespace_labels: Labels) -> _Injected:
    template = get_path(workload, "spec", "template") or {}
    if not isinstance(template, dict):
        return _Injected()
    around = InjectionSurroundings(
        sets=[project_sidecarset(orjson.dumps(sidecarset)) for sidecarset in sidecars],
        namespace=workload["metadata"].get("namespace", ""),
        namespace_labels=namespace_labels,
        now=0.0,
    )
    pod = {"metadata": template.get("metadata") or {}, "spec": template.get("spec") or {}}
    try:
        injected = inject(pod, around)
    except InjectionError:
        return _Injected()
    selected = select_matching_sets(
        around.sets, labels=labels_of(pod), namespace=around.namespace, namespace_labels=namespace_labels
    )
    names = frozenset(view.name for view in selected)
    return _Injected(pod=injected or {}, template=pod, selected=names, sidecars=sidecars)


def _find_part(
    name: str | None, section: str, selected: Collection[str], sidecars: Sequence[Document]
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
