"""Why a node that a job names cannot do the job's work. The job itself knows no more of the node than its name.

waits of a job, nodes ──▶ explain_named_nodes() ──▶ the waits with the reason and its remedy

Pure. Managers read no nodes for such jobs, so only the commands know these reasons.
"""

from collections.abc import Mapping, Sequence

import msgspec

from pykruise.cli.insight.explanations import Wait
from pykruise.plans.views import NodeView
from pykruise.pods.reasons import OF_A_NAMED_NODE, Code
from pykruise.pods.view.nodes import VIRTUAL_NODE


def explain_named_nodes(
    waits: Sequence[Wait], nodes: Mapping[str, NodeView], *, is_over: bool
) -> tuple[Wait, ...]:
    """Return the waits with the reasons why named nodes cannot pull images. If the job selects no node at all, its own
    wait contains the reasons. `is_over`: whether the job has ended, so that a person must create it again.
    """
    missing = [wait for wait in waits if wait.code in OF_A_NAMED_NODE and wait.pods]
    if not missing or not nodes:
        return tuple(waits)
    explained = [_explain(wait, nodes.get(wait.pods[0]), is_over=is_over) for wait in missing]
    others = [wait for wait in waits if wait not in missing]
    whole = next((wait for wait in others if wait.code == Code.NOTHING_SELECTED and not wait.pods), None)
    if whole is None:
        return tuple(_replaced(waits, missing, explained))
    words = "; ".join([whole.words, *(wait.words for wait in explained)])
    return tuple(
        msgspec.structs.replace(wait, words=words, remedy=explained[0].remedy) if wait is whole else wait
        for wait in others
    )


def _replaced(waits: Sequence[Wait], before: Sequence[Wait], after: Sequence[Wait]) -> list[Wait]:
    return [after[before.index(wait)] if wait in before else wait for wait in waits]


def _explain(wait: Wait, node: NodeView | None, *, is_over: bool) -> Wait:
    """Return the wait of one node with the reason."""
    name, field = wait.pods[0], "spec.selector.names"
    if node is None:
        remedy = f"create the job again with correct {field}" if is_over else f"correct {field}"
        return msgspec.structs.replace(wait, words=f"no node has the name {name}", remedy=remedy)
    then = ", then create the job again" if is_over else ""
    if node.is_virtual:
        key, value = VIRTUAL_NODE
        choose = f"create the job again with other {field}" if is_over else f"choose other {field}"
        return msgspec.structs.replace(
            wait,
            words=f"node {name} has the label {key}={value}: such nodes run no agent that pulls images",
            remedy=f"{choose}; or if {name} has a real kubelet, remove the label (kubectl label node {name} {key}-)"
            f"{then}",
        )
    if node.ready_since is None:
        return msgspec.structs.replace(
            wait,
            words=f"node {name} is not ready, and its agent pulls images only after it has been ready for a while",
            remedy=f"bring {name} back{then}",
        )
    return wait
