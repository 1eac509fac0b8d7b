"""Nodes with failing pods that a DaemonSet remembers between reconciles."""

import pytest

from pykruise.kinds.daemonset.kind import KIND
from pykruise.kinds.daemonset.plan import plan_daemonset
from pykruise.kinds.daemonset.snapshot import DaemonSetSettings, read_snapshot
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS, REVISION_VIEWS
from pykruise.runtime.plan import Plan
from pykruise.runtime.read import Memories
from support.daemonset_builder import DaemonSetBuilder, daemonset
from support.plan_views import deleted
from support.snapshots import OnPaper, control_of, read_of, taken


class Reconciled:
    """A DaemonSet that is reconciled repeatedly. Only the test changes its pods."""

    def __init__(self, builder: DaemonSetBuilder) -> None:
        self.builder = builder
        self._memories = Memories()

    def at(self, seconds_later: float) -> Plan:
        """The plan of that instant. The DaemonSet remembers it as carried out."""
        builder = self.builder.at(seconds_later)
        view = builder.view()
        objects: OnPaper = {
            NODE_VIEWS: builder.node_views(),
            POD_VIEWS: builder.pod_views(),
            REVISION_VIEWS: builder.revision_views(),
        }
        read = read_of(
            KIND, view, objects, settings=DaemonSetSettings(), now=builder.now, memories=self._memories
        )
        result = taken(read_snapshot(view, read))
        plan = plan_daemonset(result)
        remember = control_of(KIND).remember
        assert remember is not None
        remember(read, result, plan)
        return plan


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_the_wait_of_a_repeatedly_ending_pod_doubles_each_time(phase: str) -> None:
    """daemonset case 26"""
    # given a node whose pods end immediately
    reconciled = Reconciled(daemonset(3).phase(phase, "n2"))
    # then the first is replaced immediately, the second after one second, the third two seconds later
    replaced = [seconds for seconds in range(5) if deleted(reconciled.at(seconds)) == {"n2"}]
    assert replaced == [0, 1, 3]
    # and other nodes do not wait for that
    reconciled.builder.phase("Failed", "n3")
    assert deleted(reconciled.at(4.5)) == {"n3"}


def test_another_spec_is_another_try() -> None:
    reconciled = Reconciled(daemonset(3).phase("Failed", "n2"))
    assert deleted(reconciled.at(0)) == {"n2"}
    assert deleted(reconciled.at(0.5)) == set()
    reconciled.builder.document["metadata"]["generation"] += 1
    assert deleted(reconciled.at(0.5)) == {"n2"}


def test_a_running_pod_deleted_for_a_taint_adds_no_wait_for_its_node() -> None:
    # given a pod that is deleted for a taint, and one that has failed
    reconciled = Reconciled(daemonset(3).taint("n1", "x:NoExecute").phase("Failed", "n2"))
    assert deleted(reconciled.at(0)) == {"n1", "n2"}
    # when the next pod of the first node fails
    reconciled.builder.taint("n1").phase("Failed", "n1")
    # then it is replaced immediately
    assert deleted(reconciled.at(0.5)) == {"n1"}


def test_a_pod_that_a_hook_holds_has_not_been_replaced_yet() -> None:
    reconciled = Reconciled(daemonset(3).with_hook().hooked("n2").phase("Failed", "n2"))
    assert deleted(reconciled.at(0)) == set()
    # when the hook is removed
    reconciled.builder.pods["n2"]["metadata"]["finalizers"].clear()
    assert deleted(reconciled.at(0.5)) == {"n2"}
