"""Finds the SidecarSet that a field of a rejected pod comes from.

field, workload, SidecarSets ──▶ origin_of() ──▶ `spec.containers[0] of SidecarSet log`

Pure.
"""

import re
from collections.abc import Sequence
from typing import Final

from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.documents import Document, get_path
from pykruise.kube.values.selectors import SelectorError, selector_from
from pykruise.plans.pod_steps import PodOrigin

_INDEXED: Final = re.compile(r"spec\.(containers|initContainers|volumes)\[(\d+)\]")


def origin_of(field: str, workload: Document, sidecars: Sequence[Document]) -> PodOrigin | None:
    """The SidecarSet of a container or volume with an index beyond the template's list: injected ones follow the
    template's, in the order of the sets. None: the field comes from the template, or its origin is unknown.
    """
    match = _INDEXED.match(field)
    template = get_path(workload, "spec", "template") or {}
    if match is None:
        return None
    section = match[1]
    number = int(match[2]) - len((template.get("spec") or {}).get(section) or ())
    if number < 0:
        return None
    labels = (template.get("metadata") or {}).get("labels") or {}
    for sidecarset in sorted(sidecars, key=lambda document: str(document["metadata"]["name"])):
        try:
            is_selected = selector_from(get_path(sidecarset, "spec", "selector")).matches(labels)
        except SelectorError:
            continue
        own = (get_path(sidecarset, "spec", section) or ()) if is_selected else ()
        if number < len(own):
            return PodOrigin(SIDECAR_SETS.kind, sidecarset["metadata"]["name"], f"spec.{section}[{number}]")
        number -= len(own)
    return None
