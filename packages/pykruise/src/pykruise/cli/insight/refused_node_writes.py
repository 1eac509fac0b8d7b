"""Adds rejected writes of per-node objects (NodePodProbe, NodeImage) to the explanation of the PodProbeMarker or
ImagePullJob that needs these objects.

Explanation ──waits for a per-node object─────▶ add_refusals_of_nodes() ──▶ the waits with the rejected write
Explanation + pods of the object ──────────────▶ add_refused_marks() ────▶ the Explanation with rejected changes of pods

This module only reads. Only events about the per-node objects report the rejections; without permission to read
events, nothing is added.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pykruise.cli.insight.cluster_reading import Sight
from pykruise.cli.insight.explanations import Explanation, Wait, rank_waits
from pykruise.cli.insight.known_kinds import insight_of
from pykruise.cli.insight.optional_reads import find_pod_key, list_optional, read_optional
from pykruise.cli.insight.refused_writes import RefusedWrite, make_refusal_wait, refusal_of
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import get_path
from pykruise.kube.resources import EVENTS, PODS
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.plans.insight import Insight
from pykruise.plans.progress import Phase, add_waits
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.reasons import OF_A_NAMED_NODE, Code
from pykruise.pods.view.pod_view import PodView

_MOST_READ: Final = 10
"""Maximum number of nodes whose events are read."""


async def add_refusals_of_nodes(
    client: Client, explanation: Explanation, kinds: Mapping[str, str], now: Instant
) -> Explanation:
    """Return the explanation, in which each wait for a per-node object contains the rejected write of this object.
    `kinds`: code of a wait -> kind of the object.
    """
    waits: list[Wait] = []
    for number, wait in enumerate(explanation.waits):
        kind = kinds.get(wait.code) if wait.pods and number < _MOST_READ else None
        refused = None if kind is None else await _find_refusal_of_node(client, kind, wait, explanation, now)
        waits.append(wait if refused is None else refused)
    return msgspec.structs.replace(explanation, waits=rank_waits(waits))


async def _find_refusal_of_node(
    client: Client, kind: str, wait: Wait, explanation: Explanation, now: Instant
) -> Wait | None:
    """Return the wait for the first node, with the rejected write of that node's object; None if no write is rejected
    now.
    """
    node = wait.pods[0]
    key = find_pod_key(node, explanation.namespace)
    is_node = wait.code in OF_A_NAMED_NODE
    pod = None if key is None or is_node else await read_optional(client, PODS, key)
    node = node if pod is None else str(get_path(pod, "spec", "nodeName", default=""))
    latest = max(await _list_refused(client, kind, node, now), key=lambda event: event.last, default=None)
    if latest is None:
        return None
    refused = _make_wait(latest)
    return msgspec.structs.replace(refused, pods=wait.pods, words=f"{wait.words}: {refused.words}")


async def add_refused_marks(
    client: Client, explanation: Explanation, sight: Sight, *, now: Instant
) -> Explanation:
    """Return the explanation of an object whose results are written to the pods that it selects
    (`Insight.marks_pods`), with the changes of these pods that the API server rejects.
    """
    insight = insight_of(sight.kind)
    if not insight.marks_pods or explanation.verdict == "refused":
        return explanation
    waits: list[Wait] = []
    for node, pods in _group_by_node(_list_selected(sight, insight.pod_selector)).items():
        for refused in await _list_refused(client, insight.marks_pods, node, now):
            marked = [pod.name for pod in pods if f'"{pod.name}"' in refused.message]
            if marked:
                waits.append(_explain_mark(refused, insight, marked))
    if not waits:
        return explanation
    phase = add_waits(explanation.phase, (wait.code for wait in waits))
    return msgspec.structs.replace(
        explanation,
        waits=rank_waits([*waits, *explanation.waits]),
        phase=phase,
        verdict="waiting" if phase is Phase.DEGRADED else explanation.verdict,
    )


def _list_selected(sight: Sight, path: Sequence[str]) -> Sequence[PodView]:
    listed = sight.listed.get(POD_VIEWS)
    try:
        selector = parse_selector(get_path(sight.document, *path, default=None))
    except SelectorError:
        return ()
    pods = () if listed is None else listed.values()
    return [pod for pod in pods if pod.is_active and pod.node_name and selector.matches(pod.labels)]


def _group_by_node(pods: Sequence[PodView]) -> Mapping[str, Sequence[PodView]]:
    """Return the pods of a bounded number of nodes, by node."""
    groups: dict[str, list[PodView]] = {}
    for pod in pods:
        if pod.node_name in groups or len(groups) < _MOST_READ:
            groups.setdefault(pod.node_name, []).append(pod)
    return groups


def _explain_mark(refused: RefusedWrite, insight: Insight, pods: Sequence[str]) -> Wait:
    wait = _make_wait(refused)
    remedy = wait.remedy
    if wait.code == Code.POLICY:
        remedy = (
            f"change the labels and annotations in {insight.marks_field} so that the policy allows them, or exempt"
            " the manager in the policy"
        )
    words = f"its {insight.marks_pods} cannot change the pod: {wait.words}"
    return msgspec.structs.replace(wait, words=words, pods=tuple(pods), remedy=remedy)


def _make_wait(refused: RefusedWrite) -> Wait:
    since = format_time(refused.first)
    return make_refusal_wait(Code(refused.code), refused.message, namespace="default", since=since)


async def _list_refused(client: Client, kind: str, node: str, now: Instant) -> Sequence[RefusedWrite]:
    """Return the writes of a node's object that are rejected now."""
    selector = f"involvedObject.kind={kind},involvedObject.name={node},type=Warning"
    events = await list_optional(client, EVENTS, "default", field_selector=selector)
    known = [event for event in map(refusal_of, events) if event is not None]
    return [event for event in known if event.is_current(now)]
