"""Explains why a node that a job names or selects cannot do the job's work. The job itself reads only
NodeImages. It knows a node without a NodeImage only if the job's spec names the node.

waits of a job, nodes ──▶ explain_named_nodes(), explain_matching_nodes() ──▶ the waits with the reason and its remedy
waits for agents, Sight ──▶ explain_unready_nodes() ──▶ the waits that name the node that is not ready

Pure. Managers read no nodes for such objects, so only the commands know these reasons.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.cluster_reading import Sight, find_unready_nodes
from pykruise.cli.insight.explanations import Wait
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.selectors import Selector
from pykruise.plans.views import NODE_VIEWS, NodeView
from pykruise.pods.reasons import OF_A_NAMED_NODE, Code
from pykruise.pods.view.nodes import VIRTUAL_NODE


def explain_named_nodes(
    waits: Sequence[Wait], nodes: Mapping[str, NodeView], *, is_over: bool
) -> tuple[Wait, ...]:
    """Return the waits with the reasons why named nodes cannot pull images. If the job selects no node at all, its own
    wait contains the reasons. `is_over`: whether the job has ended, so that a person must create it again.
    """
    explained = {
        wait: _explain(wait, nodes.get(wait.pods[0]), is_over=is_over)
        for wait in waits
        if wait.code in OF_A_NAMED_NODE and wait.pods
    }
    if not explained or not nodes:
        return tuple(waits)
    whole = _find_wait_of_job(waits)
    if whole is None:
        return tuple(explained.get(wait, wait) for wait in waits)
    reasons = list(explained.values())
    words = "; ".join([whole.words, *(reason.words for reason in reasons)])
    named = msgspec.structs.replace(whole, words=words, remedy=reasons[0].remedy)
    return tuple(named if wait is whole else wait for wait in waits if wait not in explained)


def explain_matching_nodes(
    waits: Sequence[Wait], nodes: Mapping[str, NodeView], selector: Selector | None, *, is_over: bool
) -> tuple[Wait, ...]:
    """Return the waits with the reason why nodes that match a job's selector were not selected: they had no NodeImage.
    `selector`: see `Insight.selector_of_nodes`.
    """
    whole = _find_wait_of_job(waits)
    if whole is None or selector is None:
        return tuple(waits)
    matching = sorted((node for node in nodes.values() if selector.matches(node.labels)), key=_by_use)
    if not matching:
        return tuple(waits)
    words, remedy = _explain_match(matching[0], is_over=is_over)
    more = (
        f" ({format_count(len(matching) - 1, 'more node matches', 'more nodes match')} it)"
        if len(matching) > 1
        else ""
    )
    named = msgspec.structs.replace(whole, words=f"{whole.words}; {words}{more}", remedy=remedy)
    return tuple(named if wait is whole else wait for wait in waits)


def explain_unready_nodes(waits: Sequence[Wait], sight: Sight, *, is_over: bool) -> tuple[Wait, ...]:
    """Return the waits for agents with the reason why an agent does not answer: its node is not ready."""
    insight, listed = sight.kind.insight, sight.listed.get(NODE_VIEWS)
    find = insight.node_of if insight is not None else None
    if find is None or listed is None or not any(wait.code in _OF_AGENTS for wait in waits):
        return tuple(waits)
    unready = dict(find_unready_nodes(listed.list_documents()))
    then = f"; then create the {sight.kind.resource.kind} again" if is_over else ""
    return tuple(_with_node(wait, find, sight.snapshot, unready, then) for wait in waits)


_OF_AGENTS: Final = frozenset({Code.NO_AGENT, Code.IMAGE_PULLING, Code.IMAGE_PULL})


def _with_node(
    wait: Wait, find: Callable[[Any, str], str], snapshot: Any, unready: Mapping[str, str], then: str
) -> Wait:
    """Return the wait of an agent. `unready`: name of each node that is not ready → since which time."""
    names = {find(snapshot, name) for name in (wait.pods or ("",))}
    if wait.code not in _OF_AGENTS or len(names) != 1 or not names <= set(unready):
        return wait
    [name] = names
    remedy = f"bring node {name} back (kubectl describe node {name}){then}"
    if wait.code != Code.NO_AGENT:
        remedy = f"{remedy}; or {wait.remedy}" if wait.code == Code.IMAGE_PULL else remedy
        return msgspec.structs.replace(wait, words=f"{wait.words}; node {name} is not ready", remedy=remedy)
    words = f"node {name} is not ready, so its agent does not answer"
    return msgspec.structs.replace(wait, words=words, since=unready[name], remedy=remedy)


def _find_wait_of_job(waits: Sequence[Wait]) -> Wait | None:
    """Return the wait of a job that selects no node."""
    return next((wait for wait in waits if wait.code == Code.NOTHING_SELECTED and not wait.pods), None)


def _by_use(node: NodeView) -> tuple[bool, bool, str]:
    """Sort nodes that will have a NodeImage first."""
    return node.is_virtual, node.ready_since is None, node.name


def _explain_match(node: NodeView, *, is_over: bool) -> tuple[str, str]:
    """Return why a node that matches the selector has no NodeImage, and the remedy."""
    name = node.name
    if node.is_virtual:
        return _explain_virtual(name, "another spec.selector", is_over=is_over)
    if node.ready_since is not None:
        words = f"node {name} matches it now"
        if is_over:
            return words, "create the job again: a job that has ended selects no further nodes"
        return (
            f"{words}, and gets its NodeImage a while after it became ready",
            "wait until it has its NodeImage",
        )
    words = f"node {name} matches it, but is not ready, and gets its NodeImage a while after it becomes ready"
    remedy = f"find out why {name} is not ready (kubectl describe node {name})"
    if not is_over:
        return words, remedy
    never = (
        "create the job again with completionPolicy.type Never, which includes nodes that become ready later"
    )
    return words, f"{remedy}, and when it has a NodeImage, create the job again; or {never}"


def _explain_virtual(name: str, choice: str, *, is_over: bool) -> tuple[str, str]:
    """Return the words and the remedy for a virtual node. `choice`: what a person chooses instead, with the field."""
    key, value = VIRTUAL_NODE
    choose = f"create the job again with {choice}" if is_over else f"choose {choice}"
    then = ", then create the job again" if is_over else ""
    return (
        f"node {name} has the label {key}={value}: nodes with this label run no agent that pulls images",
        f"{choose}; or if {name} has a real kubelet, remove the label (kubectl label node {name} {key}-){then}",
    )


def _explain(wait: Wait, node: NodeView | None, *, is_over: bool) -> Wait:
    """Return the wait of one node with the reason."""
    name, field = wait.pods[0], "spec.selector.names"
    if node is None:
        remedy = f"create the job again with correct {field}" if is_over else f"correct {field}"
        return msgspec.structs.replace(wait, words=f"no node has the name {name}", remedy=remedy)
    then = ", then create the job again" if is_over else ""
    if node.is_virtual:
        words, remedy = _explain_virtual(name, f"other {field}", is_over=is_over)
        return msgspec.structs.replace(wait, words=words, remedy=remedy)
    if node.ready_since is None:
        return msgspec.structs.replace(
            wait,
            words=f"node {name} is not ready, and its agent pulls images only after it has been ready for a while",
            remedy=f"bring {name} back{then}",
        )
    return wait
