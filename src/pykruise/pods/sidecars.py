"""Which SidecarSets put sidecars into a pod.

Pure, a leaf: what indexes, injection and upgrades all ask.
"""

from collections.abc import Mapping

from pykruise.pods import keys

__all__ = ["injected_sets"]


def injected_sets(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the SidecarSets that a pod lists, sorted, each once."""
    listed = annotations.get(keys.SIDECARSET_LIST_ANNOTATION, "")
    return tuple(sorted({name for name in listed.split(",") if name})) if listed else ()
