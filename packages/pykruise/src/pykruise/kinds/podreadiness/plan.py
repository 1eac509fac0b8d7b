"""Sets the condition KruisePodReady to True in new pods whose controller does not do this itself.

pod ──▶ lacks_condition() ──▶ plan_readiness() ──▶ Plan: one patch of the pod's status

Pure. The controllers of CloneSets, DaemonSets and Advanced StatefulSets set the condition of their own pods, in the
same write as everything else that a new pod needs. This controller sets the condition of all other pods with the
readiness gate: pods of OpenKruise's other kinds, such as BroadcastJob, and, with the feature gate
KruisePodReadinessGate, pods of every other owner.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.plans.pod_writes import make_pod_chain, pod_patch
from pykruise.plans.purposes import Purpose
from pykruise.pods.lifecycle.readiness import list_missing_conditions
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.plan import Plan, Stage, Step

GROUP: Final = "apps.kruise.io"
SELF_SERVING: Sequence[str] = ("CloneSet", "DaemonSet", "StatefulSet")
"""Kinds of this API group whose controllers set the condition of their own pods."""


class PodReadinessSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One pod at one instant."""

    pod: PodView
    now: Instant


def lacks_condition(pod: PodView) -> bool:
    """Whether the pod has the gate, its condition is not set, and the pod's controller does not set the condition."""
    if pod.is_deleting or keys.KRUISE_POD_READY not in pod.open_gates:
        return False
    owner = pod.controller
    return owner is None or owner.group != GROUP or owner.kind not in SELF_SERVING


def plan_readiness(snapshot: PodReadinessSnapshot) -> Plan:
    """Plan the patch that sets the condition."""
    pod = snapshot.pod
    if not lacks_condition(pod):
        return Plan()
    conditions = [
        condition
        for condition in list_missing_conditions(pod, now=snapshot.now)
        if condition["type"] == keys.KRUISE_POD_READY
    ]
    step = Step(
        action=pod_patch(pod, {"status": {"conditions": conditions}}, subresource="status"),
        because="nothing keeps the pod out of service",
    )
    return Plan(stages=(Stage(purpose=Purpose.SET_READINESS, chains=(make_pod_chain(pod, step),)),))
