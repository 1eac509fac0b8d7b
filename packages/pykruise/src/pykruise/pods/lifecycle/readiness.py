"""Readiness gates that this project sets: `InPlaceUpdateReady` and `KruisePodReady`.

pod ──▶ list_missing_conditions() ──▶ conditions that let a pod become Ready
pod + key ──▶ hold_back() / remove_hold() ──▶ conditions for one patch of `pods/status`

Pure. The functions return entries of `status.conditions` for a strategic merge patch (merged by type); an empty list
means that there is nothing to write. A patch of `pods/status` may carry labels and annotations too: the API server
keeps spec, deletion time and owners of the stored pod, and accepts all other changes. So one write gives a new pod its
conditions and its lifecycle state.
"""

from typing import Final

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.pods.lifecycle.readiness_messages import Message, add_message, remove_message
from pykruise.pods.view.pod_view import ConditionView, PodView

USER_AGENT: Final = "Lifecycle"
PRE_DELETE_HOOK: Final = "preDeleteHook"
PRE_UPDATE_HOOK: Final = "preUpdateHook"


def list_missing_conditions(pod: PodView, *, now: Instant) -> list[Document]:
    """Conditions with status True for the pod's `open_gates`."""
    return [_make_true_condition(gate, pod.find_condition(gate), now=now) for gate in pod.open_gates]


def hold_back(pod: PodView, key: str, *, now: Instant) -> list[Document]:
    """Conditions that take the pod out of service because of `key`; empty for a pod without the gate."""
    return add_message(pod, Message(USER_AGENT, key), now=now)


def remove_hold(pod: PodView, key: str, *, now: Instant) -> list[Document]:
    """Conditions without the hold because of `key`. If nothing else holds the pod back, their status is True, and the
    kubelet then updates Ready.
    """
    return remove_message(pod, Message(USER_AGENT, key), now=now)


def _make_true_condition(kind: str, old: ConditionView | None, *, now: Instant) -> Document:
    true: Document = {"type": kind, "status": "True", "lastTransitionTime": format_time(now)}
    # The entry is merged into the stored one: a field that must be removed is set to null.
    if old is not None and old.reason:
        true["reason"] = None
    if old is not None and old.message:
        true["message"] = None
    return true
