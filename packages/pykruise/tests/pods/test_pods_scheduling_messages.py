"""The remedy for a pod without a node names only what the scheduler complains about."""

import pytest

from pykruise.pods.corrections import IN_TEMPLATE, Correction
from pykruise.pods.lifecycle.scheduling_messages import describe_obstacles, describe_remedy

START = "0/6 nodes are available: "
MISMATCH = "5 node(s) didn't match Pod's node affinity/selector"
PREEMPTION = ". preemption: 0/6 nodes are available: 6 Insufficient cpu."


@pytest.mark.parametrize(
    ("said", "node", "remedy", "obstacles"),
    [
        (
            "3 Insufficient memory, 3 Insufficient nvidia.com/gpu",
            "",
            "free memory on nodes, or free nvidia.com/gpu on nodes, or add nodes, or change the memory requests or"
            " nvidia.com/gpu requests of spec.template",
            "Insufficient memory, Insufficient nvidia.com/gpu",
        ),
        (
            f"1 Insufficient memory, {MISMATCH}{PREEMPTION}",
            "node node-3",
            "free memory on node node-3, or change the memory requests or node affinity of spec.template",
            "Insufficient memory",
        ),
        (
            "2 node(s) had untolerated taint {rented: true}, 1 node(s) were unschedulable, 1 node(s) didn't have free"
            " ports for the requested pod ports, 2 node(s) didn't match Pod's node affinity/selector",
            "node node-3",
            "free the host ports on node node-3, or change the host ports or node affinity of spec.template",
            "didn't have free ports",
        ),
        (
            f"1 node(s) had untolerated taint {{rented: true}}, {MISMATCH}",
            "node node-3",
            "take the taint {rented: true} off node node-3, or change the tolerations or node affinity of"
            " spec.template",
            "untolerated taint {rented: true}",
        ),
        (
            "2 node(s) had untolerated taint {rented: true}, 4 node(s) were unschedulable.",
            "",
            "take the taint {rented: true} off nodes, or uncordon nodes, or add nodes, or change the tolerations"
            " of spec.template",
            "untolerated taint {rented: true}, node(s) were unschedulable",
        ),
        (
            "1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }, 5 node(s) had volume node affinity"
            f" conflict.{PREEMPTION}",
            "",
            "make nodes ready again, or add nodes that can mount the volumes of the pod, or delete the PVCs whose data"
            " is not needed, then the pod",
            "untolerated taint {node.kubernetes.io/unreachable: }, had volume node affinity conflict",
        ),
        (
            "6 node(s) didn't match pod topology spread constraints.",
            "",
            "add nodes, or change the spread constraints of spec.template",
            "didn't match pod topology spread constraints",
        ),
    ],
)
def test_the_reasons_of_the_scheduler_choose_the_remedy(
    said: str, node: str, remedy: str, obstacles: str
) -> None:
    assert describe_remedy(f"{START}{said}", node, IN_TEMPLATE) == remedy
    assert describe_obstacles(f"{START}{said}", node) == obstacles


def test_unknown_reasons_have_the_general_remedy() -> None:
    remedy = describe_remedy("no reason given", "", Correction(again="pod web"))
    assert remedy.startswith(
        "add nodes or capacity (uncordon or label nodes, or take their taints off), or create pod"
    )
    assert describe_obstacles(f"{START}{MISMATCH}", "node ghost") == ""
