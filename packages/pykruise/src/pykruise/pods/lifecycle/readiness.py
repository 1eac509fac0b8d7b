"""The readiness gates that this project serves: `InPlaceUpdateReady` and `KruisePodReady`.

pod ──▶ missing_conditions() ──▶ conditions that let a pod become Ready
pod + who + why ──▶ hold_back() / let_go() ──▶ conditions for one patch of `pods/status`

Pure. What comes back are entries of `status.conditions` for a strategic merge patch (merged by type); an
empty list means nothing is to be written. A patch of `pods/status` may carry labels and annotations too: the
API server keeps spec, deletion time and owners of the stored pod and takes the rest. So a new pod needs one
write for its conditions and its lifecycle state together.
"""

from typing import Final

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.pods.lifecycle.readiness_messages import Message, with_message, without_message
from pykruise.pods.view.pod_view import ConditionView, PodView

USER_AGENT: Final = "Lifecycle"
PRE_DELETE_HOOK: Final = "preDeleteHook"
PRE_UPDATE_HOOK: Final = "preUpdateHook"


def missing_conditions(pod: PodView, *, now: Instant) -> list[Document]:
    """The conditions that the pod's `open_gates` wait for."""
    return [_true(gate, pod.condition(gate), now=now) for gate in pod.open_gates]


def hold_back(pod: PodView, key: str, *, now: Instant) -> list[Document]:
    """Conditions that take the pod out of service because of `key`; none for a pod without the gate."""
    return with_message(pod, Message(USER_AGENT, key), now=now)


def let_go(pod: PodView, key: str, *, now: Instant) -> list[Document]:
    """Conditions that take `key` back; True when no other writer has one. Ready follows by the kubelet."""
    return without_message(pod, Message(USER_AGENT, key), now=now)


def _true(kind: str, old: ConditionView | None, *, now: Instant) -> Document:
    true: Document = {"type": kind, "status": "True", "lastTransitionTime": format_time(now)}
    # Merged into the stored entry, so what must not stay is nulled.
    if old is not None and old.reason:
        true["reason"] = None
    if old is not None and old.message:
        true["message"] = None
    return true
