"""Node selector and node affinity of a new pod, so that it runs in the same topology as the previous pod of this name.

pod, StateView ──▶ inject() ──▶ the pod with nodeSelector and preferred node affinity; None if it does not change

Pure. Recorded annotations are not written into pods; they are only for programs that read the status.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kinds.persistentpodstate.validation import is_valid_weight
from pykruise.kinds.persistentpodstate.view import StateView
from pykruise.kube.documents import Document, deep_copy, get_path
from pykruise.pods.template.node_placement import PREFERRED
from pykruise.pods.view.keys import INJECTED_STATE_ANNOTATION


def inject(pod: Document, state: StateView) -> Document | None:
    """Return the changed pod; None if it needs no change. The argument is not changed."""
    record = state.records.get(get_path(pod, "metadata", "name", default=""))
    labels = (record.node_topology_labels if record is not None else None) or {}
    required = {key: labels[key] for key in state.required_keys if key in labels}
    preferred = _build_preferred_terms(state, labels)
    if not required and not preferred:
        return None
    inject: Document = deep_copy(pod)
    annotations = _ensure_section(inject, "metadata", "annotations")
    annotations[INJECTED_STATE_ANNOTATION] = state.name
    if required:
        _ensure_section(inject, "spec", "nodeSelector").update(required)
    if preferred:
        affinity = _ensure_section(inject, "spec", "affinity", "nodeAffinity")
        affinity[PREFERRED] = [*(affinity.get(PREFERRED) or ()), *preferred]
    return inject


def _build_preferred_terms(state: StateView, labels: Mapping[str, str]) -> list[Document]:
    """Return a term for each preference with recorded labels. Empty terms are left out, because they have no effect.
    Terms with an invalid weight are left out too, because the API server would reject the pod.
    """
    terms: list[Document] = []
    for preferred_topology in (
        state.spec.preferred_persistent_topology if state.spec is not None else None
    ) or ():
        expressions = [
            {"key": key, "operator": "In", "values": [labels[key]]}
            for key in preferred_topology.preference.keys
            if key in labels
        ]
        if expressions and is_valid_weight(preferred_topology.weight):
            terms.append(
                {"weight": preferred_topology.weight, "preference": {"matchExpressions": expressions}}
            )
    return terms


def _ensure_section(document: Document, *path: str) -> dict[str, Any]:
    """Return the object at the path. If it is missing or null, create it."""
    section: dict[str, Any] = document
    for name in path:
        if section.get(name) is None:
            section[name] = {}
        section = section[name]
    return section
