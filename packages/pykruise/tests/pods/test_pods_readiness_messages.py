"""Several writers can keep a pod unready through one condition."""

import orjson
import pytest

from pykruise.kube.documents import Document
from pykruise.pods.in_place import PodPatch
from pykruise.pods.lifecycle.readiness_messages import (
    Message,
    add_message,
    messages_of,
    remove_message,
    update_probe_time,
)
from pykruise.pods.view import keys
from support.updatable_pod import NOW, PaperPod, pod_document

HOOK = Message("Lifecycle", "preUpdateHook")
RECREATE = Message("ContainerRecreateRequest", "shop/crr")


def pod(condition: Document | None = None, *, gated: bool = True) -> PaperPod:
    paper_pod = PaperPod(pod_document("c1", gated=False))
    if gated:
        paper_pod.document["spec"]["readinessGates"] = [{"conditionType": keys.KRUISE_POD_READY}]
    if condition is not None:
        paper_pod.conditions().append({"type": keys.KRUISE_POD_READY, **condition})
    return paper_pod


def write(paper_pod: PaperPod, conditions: list[Document]) -> None:
    paper_pod.write(PodPatch(body={"status": {"conditions": conditions}}, because="", subresource="status"))


def shown(paper_pod: PaperPod) -> tuple[str, list[tuple[str, str]]]:
    condition = paper_pod.condition(keys.KRUISE_POD_READY)
    entries = orjson.loads(condition["message"])
    return condition["status"], [(entry["userAgent"], entry["key"]) for entry in entries]


def test_a_pod_is_released_when_its_last_holder_removes_its_message() -> None:
    """inplace-update case 53"""
    # given
    paper_pod = pod({"status": "True"})
    write(paper_pod, add_message(paper_pod.view(), HOOK, now=NOW))
    write(paper_pod, add_message(paper_pod.view(), RECREATE, now=NOW))
    assert shown(paper_pod) == (
        "False",
        [("ContainerRecreateRequest", "shop/crr"), ("Lifecycle", "preUpdateHook")],
    )
    # when
    write(paper_pod, remove_message(paper_pod.view(), HOOK, now=NOW))
    assert shown(paper_pod) == ("False", [("ContainerRecreateRequest", "shop/crr")])
    write(paper_pod, remove_message(paper_pod.view(), RECREATE, now=NOW))
    # then
    assert paper_pod.condition(keys.KRUISE_POD_READY)["message"] == "[]"
    assert shown(paper_pod) == ("True", [])
    assert paper_pod.condition("Ready")["status"] == "False"


def test_holding_a_pod_sets_ready_to_false_immediately() -> None:
    """inplace-update 6.9"""
    paper_pod = pod({"status": "True"})
    write(paper_pod, add_message(paper_pod.view(), HOOK, now=NOW))
    ready = paper_pod.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "ReadinessGatesNotReady")
    assert keys.KRUISE_POD_READY in ready["message"]


def test_the_ready_condition_is_not_written_while_containers_are_unready() -> None:
    """inplace-update 6.9"""
    paper_pod = pod({"status": "True"})
    paper_pod.condition("ContainersReady")["status"] = "False"
    assert [entry["type"] for entry in add_message(paper_pod.view(), HOOK, now=NOW)] == [
        keys.KRUISE_POD_READY
    ]


def test_every_closed_gate_is_named_with_its_status() -> None:
    """inplace-update 6.9"""
    paper_pod = pod({"status": "True"})
    paper_pod.document["spec"]["readinessGates"].append({"conditionType": "example.com/gate"})
    _, ready = add_message(paper_pod.view(), HOOK, now=NOW)
    assert "'example.com/gate' does not exist" in ready["message"]
    assert f"'{keys.KRUISE_POD_READY}' is 'False'" in ready["message"]


def test_a_pod_without_the_gate_is_never_held_back() -> None:
    """inplace-update case 54"""
    paper_pod = pod(gated=False)
    assert add_message(paper_pod.view(), HOOK, now=NOW) == []
    assert remove_message(paper_pod.view(), HOOK, now=NOW) == []


def test_holding_twice_or_removing_a_missing_hold_writes_nothing() -> None:
    """inplace-update 6.12"""
    paper_pod = pod({"status": "True"})
    assert remove_message(paper_pod.view(), HOOK, now=NOW) == []
    write(paper_pod, add_message(paper_pod.view(), HOOK, now=NOW))
    assert add_message(paper_pod.view(), HOOK, now=NOW) == []
    assert remove_message(paper_pod.view(), RECREATE, now=NOW) == []


def test_a_missing_readiness_condition_is_set_to_false() -> None:
    """inplace-update pitfall 9"""
    paper_pod = pod()
    entry = add_message(paper_pod.view(), HOOK, now=NOW)[0]
    assert (entry["status"], entry["message"]) == (
        "False",
        '[{"userAgent":"Lifecycle","key":"preUpdateHook"}]',
    )


def test_a_true_condition_with_a_message_is_corrected() -> None:
    """inplace-update pitfall 9"""
    message = '[{"userAgent":"Lifecycle","key":"preUpdateHook"}]'
    paper_pod = pod({"status": "True", "message": message})
    assert add_message(paper_pod.view(), HOOK, now=NOW)[0]["status"] == "False"


@pytest.mark.parametrize("message", ["", "nonsense", "{}", '[{"userAgent":5}]', "null"])
def test_a_message_that_is_not_a_list_has_no_holders(message: str) -> None:
    """inplace-update 6.12"""
    paper_pod = pod({"status": "False", "message": message})
    assert messages_of(paper_pod.view()) == ()
    assert add_message(paper_pod.view(), HOOK, now=NOW)[0]["message"].startswith('[{"userAgent":"Lifecycle"')


def test_a_pod_without_the_gate_is_not_written_for_any_condition() -> None:
    paper_pod = pod({"status": "False", "message": '[{"userAgent":"Lifecycle","key":"preUpdateHook"}]'})
    paper_pod.document["spec"]["readinessGates"] = []
    assert remove_message(paper_pod.view(), HOOK, now=NOW) == []


def test_holders_are_listed_in_order_each_once() -> None:
    # given a list that another client wrote in its own order
    names = ["e", "b", "d", "a", "c", "f", "g"]
    entries = [{"userAgent": name, "key": "k"} for name in (*names, "b")]
    paper_pod = pod({"status": "False", "message": orjson.dumps(entries).decode()})
    # then
    assert [message.user_agent for message in messages_of(paper_pod.view())] == sorted(names)
    write(paper_pod, add_message(paper_pod.view(), Message("bb", "k"), now=NOW))
    assert [name for name, _ in shown(paper_pod)[1]] == sorted([*names, "bb"])


def test_updating_the_probe_time_changes_only_the_version_of_the_condition() -> None:
    paper_pod = pod({"status": "False", "message": "[]"})
    (condition,) = update_probe_time(paper_pod.view(), now=NOW)
    assert condition.keys() == {"type", "lastProbeTime"}
    # nothing is written to a pod without the gate, or without the condition
    assert update_probe_time(pod({"status": "False"}, gated=False).view(), now=NOW) == []
    assert update_probe_time(pod().view(), now=NOW) == []
