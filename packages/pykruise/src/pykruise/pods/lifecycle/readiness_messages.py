"""The condition `KruisePodReady`: several writers hold a pod back, each with its own messages.

pod + Message ──▶ with_message() / without_message() ──▶ conditions for one patch of `pods/status`

Pure. The condition's own message is a JSON list of who holds the pod back and why; it is True only when the
list is empty. Because the list is read, changed and written, the patch must carry the resourceVersion of the
pod that was looked at. An empty answer means that nothing is to be written.
"""

from collections.abc import Iterable

import msgspec
import orjson

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.pods.lifecycle.ready_condition import Gated, ready_after
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import ConditionView


class Message(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """Reason that holds a pod back, and its source. Sorts by both."""

    user_agent: str
    key: str


def messages_of(pod: Gated) -> tuple[Message, ...]:
    """The messages in the pod's condition, sorted; a text that is no such list has none."""
    return _messages(_condition(pod))


def with_message(pod: Gated, message: Message, *, now: Instant) -> list[Document]:
    """Conditions that hold the pod back because of `message`; none for a pod without the readiness gate."""
    if keys.KRUISE_POD_READY not in pod.readiness_gates:
        return []
    condition = _condition(pod)
    messages = _messages(condition)
    # A True beside a listed message is a mistake of its writer, and is put right.
    if condition is not None and condition.status == "False" and message in messages:
        return []
    held = _entry({*messages, message}, now=now)
    return [held, *ready_after(pod, held, now=now)]


def without_message(pod: Gated, message: Message, *, now: Instant) -> list[Document]:
    """Conditions that take `message` back. Ready follows by the kubelet, who knows the containers best."""
    messages = messages_of(pod)
    if keys.KRUISE_POD_READY not in pod.readiness_gates or message not in messages:
        return []
    return [_entry((item for item in messages if item != message), now=now)]


def looked_at(pod: Gated, *, now: Instant) -> list[Document]:
    """The condition as it is, looked at now. With that the pod is another version: what was worked out from an older
    one, and is still on its way, is refused. None for a pod without the condition."""
    if keys.KRUISE_POD_READY not in pod.readiness_gates or _condition(pod) is None:
        return []
    return [{"type": keys.KRUISE_POD_READY, "lastProbeTime": format_time(now)}]


def _condition(pod: Gated) -> ConditionView | None:
    return next((condition for condition in pod.conditions if condition.type == keys.KRUISE_POD_READY), None)


def _messages(condition: ConditionView | None) -> tuple[Message, ...]:
    try:
        messages = msgspec.json.decode((condition and condition.message) or "[]", type=list[Message])
    except msgspec.DecodeError:
        return ()
    return tuple(sorted(set(messages)))


def _entry(messages: Iterable[Message], *, now: Instant) -> Document:
    listed = sorted(messages)
    return {
        "type": keys.KRUISE_POD_READY,
        "status": "False" if listed else "True",
        "message": orjson.dumps([msgspec.to_builtins(message) for message in listed]).decode(),
        "lastTransitionTime": format_time(now),
    }
