"""The condition `KruisePodReady`: several writers hold a pod back, each with its own messages.

pod + Message ──▶ add_message() / remove_message() ──▶ conditions for one patch of `pods/status`

Pure. The condition's own message is a JSON list of the writers that hold the pod back, with their reasons. The
condition is True only when the list is empty. The list is read, changed and written, so the patch must carry the
resourceVersion of the pod that was read. An empty result means that there is nothing to write.
"""

from collections.abc import Iterable

import msgspec
import orjson

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.pods.lifecycle.ready_condition import Gated, compute_ready_after
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import ConditionView


class Message(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """Writer that holds a pod back, and its reason. Messages are sorted by both fields."""

    user_agent: str
    key: str


def messages_of(pod: Gated) -> tuple[Message, ...]:
    """The messages in the pod's condition, sorted; empty when the text is not such a list."""
    return _parse_messages(_find_condition(pod))


def add_message(pod: Gated, message: Message, *, now: Instant) -> list[Document]:
    """Conditions that hold the pod back because of `message`; empty for a pod without the readiness gate."""
    if keys.KRUISE_POD_READY not in pod.readiness_gates:
        return []
    condition = _find_condition(pod)
    messages = _parse_messages(condition)
    # A condition that is True although it lists the message is a writer's mistake and is corrected.
    if condition is not None and condition.status == "False" and message in messages:
        return []
    held = _make_entry({*messages, message}, now=now)
    return [held, *compute_ready_after(pod, held, now=now)]


def remove_message(pod: Gated, message: Message, *, now: Instant) -> list[Document]:
    """Conditions that remove `message`. The kubelet updates Ready afterwards, because it knows the containers best."""
    messages = messages_of(pod)
    if keys.KRUISE_POD_READY not in pod.readiness_gates or message not in messages:
        return []
    return [_make_entry((item for item in messages if item != message), now=now)]


def update_probe_time(pod: Gated, *, now: Instant) -> list[Document]:
    """The unchanged condition with the current probe time; empty for a pod without the condition.

    The write gives the pod a new resourceVersion, so the API server rejects pending patches that were computed from
    an older one.
    """
    if keys.KRUISE_POD_READY not in pod.readiness_gates or _find_condition(pod) is None:
        return []
    return [{"type": keys.KRUISE_POD_READY, "lastProbeTime": format_time(now)}]


def _find_condition(pod: Gated) -> ConditionView | None:
    return next((condition for condition in pod.conditions if condition.type == keys.KRUISE_POD_READY), None)


def _parse_messages(condition: ConditionView | None) -> tuple[Message, ...]:
    try:
        messages = msgspec.json.decode((condition and condition.message) or "[]", type=list[Message])
    except msgspec.DecodeError:
        return ()
    return tuple(sorted(set(messages)))


def _make_entry(messages: Iterable[Message], *, now: Instant) -> Document:
    listed = sorted(messages)
    return {
        "type": keys.KRUISE_POD_READY,
        "status": "False" if listed else "True",
        "message": orjson.dumps([msgspec.to_builtins(message) for message in listed]).decode(),
        "lastTransitionTime": format_time(now),
    }
