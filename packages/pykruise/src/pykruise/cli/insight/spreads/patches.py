"""Adds the patch of a WorkloadSpread's subset to the waits of pods that it has patched.

Wait, Pod ──its WorkloadSpread──▶ add_patch() ──▶ Wait
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from pykruise.cli.insight.cluster_reading import nodes_of
from pykruise.cli.insight.explanations import Wait
from pykruise.cli.insight.node_terms import LABEL_NODES, describe_unmatched_term, list_matching
from pykruise.cli.insight.optional_reads import read_optional
from pykruise.cli.insight.refusing_nodes import judge_nodes
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, annotations_of, get_path
from pykruise.kube.ids import Key
from pykruise.pods.corrections import KEEPS_OLD_ONE, Correction, join_remedies
from pykruise.pods.reasons import Code
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.view.nodes import NodeView

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
    entry: Mapping[str, Any] = next((item for item in subsets if item.get("name") == subset), {})
    patched: Mapping[str, Any] = get_path(entry.get("patch") or {}, "spec", default={})
    of_subset = f"of subset {subset} of WorkloadSpread {name}"
    if wait.code == Code.UNSCHEDULABLE:
        return _add_placement(
            wait, entry, patched, pod, of_subset=of_subset, nodes=(await nodes_of(client)).values()
        )
    if not patched:
        return wait
    what = f"the patch {of_subset}"
    correct = f"correct {what}{KEEPS_OLD_ONE}"
    if wait.code == Code.IMAGE_PULL and _has_patched_image(patched, pod):
        words, origin = f"{wait.words}; {what} sets the image", f"WorkloadSpread {name}"
        return msgspec.structs.replace(wait, words=words, remedy=correct, origin=origin)
    return msgspec.structs.replace(wait, remedy=join_remedies(wait.remedy, correct))


def _add_placement(
    wait: Wait,
    subset: Mapping[str, Any],
    patched: Mapping[str, Any],
    pod: Document,
    *,
    of_subset: str,
    nodes: Collection[NodeView],
) -> Wait:
    """Return the wait of a pod without a node, with the fields of its subset that choose nodes. When no node matches
    such a field, it is the cause.
    """
    required = subset.get("requiredNodeSelector")
    fields = [("requiredNodeSelector", required)] if required else []
    selector: Mapping[str, str] = patched.get("nodeSelector") or {}
    if selector:
        expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in selector.items()]
        fields.append(("the nodeSelector in the patch", {"matchExpressions": expressions}))
    correct = ""
    for field, term in fields:
        what = f"{field} {of_subset}"
        correct = f"correct {what}{KEEPS_OLD_ONE}"
        if missing := describe_unmatched_term(term, nodes):
            words = f"{wait.words}; no node matches {what} ({missing})"
            return msgspec.structs.replace(wait, words=words, remedy=f"{LABEL_NODES}; or {correct}")
    able = nodes
    for _, term in fields:
        able = list_matching(term, able)
    if fields and able:
        correction = Correction(where=of_subset.removeprefix("of "), then=KEEPS_OLD_ONE)
        state = judge_nodes(list(able), pod, correction=correction)
        if state.is_mismatch:
            state = judge_nodes(list(able), pod)  # the template of the workload selects other nodes
        if not state.is_full:
            words = f"{wait.words}; of the nodes {of_subset}, {state.words}"
            return msgspec.structs.replace(wait, words=words, remedy=f"{state.remedy}; or {correct}")
    if set(patched) & _PLACING:
        fields.append(("the patch", None))
    if not fields:
        return wait
    names = " and ".join(field for field, _ in fields)
    words = f"{wait.words}; {names} {of_subset} can exclude nodes"
    correct = f"correct {names} {of_subset}{KEEPS_OLD_ONE}"
    return msgspec.structs.replace(wait, words=words, remedy=join_remedies(wait.remedy, correct))


_PLACING: Final = frozenset(
    {"affinity", "tolerations", "topologySpreadConstraints", "containers", "schedulerName"}
)
"""Fields of a pod, besides nodeSelector, by which a patch limits its nodes."""


def _has_patched_image(patched: Mapping[str, Any], pod: Document) -> bool:
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
