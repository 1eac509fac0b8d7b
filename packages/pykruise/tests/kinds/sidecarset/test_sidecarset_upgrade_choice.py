"""Pods that get new sidecars now, their order, and the reasons of the other pods."""

from typing import Any

import pytest

from pykruise.kinds.sidecarset.managed_pod import ManagedPod
from pykruise.kinds.sidecarset.upgrade_choice import choose
from pykruise.kinds.sidecarset.view import SidecarSetView, project_sidecarset
from pykruise.kube.documents import encode
from pykruise.kube.values.selectors import SelectorError
from pykruise.pods.reasons import Code
from pykruise.pods.view.decoding import project_pod
from pykruise.pods.workload.options import UPDATED_PODS
from support.sidecarsets import container, pod, sidecarset, view


def managed(
    name: str = "web-0", *, namespace: str = "shop", labels: Any = None, created: str = "", **facts: Any
) -> ManagedPod:
    """A ready pod with older sidecars."""
    metadata = {
        "namespace": namespace,
        "uid": f"{namespace}/{name}",
        "resourceVersion": "5",
        "labels": {"app": "web", **(labels or {})},
        "creationTimestamp": created or "2026-01-31T12:00:00Z",
    }
    fields: dict[str, Any] = {
        "is_updated": False,
        "is_consistent": True,
        "is_ready": True,
        "upgradable": "yes",
        **facts,
    }
    seen = project_pod(encode(pod(name=name, metadata=metadata)))
    return ManagedPod(pod=seen, record=None, imageless=None, states={}, state=None, **fields)


def strategy(**fields: Any) -> SidecarSetView:
    return view(sidecarset("log", container("log"), updateStrategy=fields))


def order(pods: list[ManagedPod], **fields: Any) -> list[str]:
    """Namespaces and names of the pods, in the order of their upgrade."""
    return [pod.label for pod in choose(strategy(maxUnavailable=100, **fields), pods).pods]


def test_a_skipped_pod_has_its_reason_and_an_upgraded_one_has_none() -> None:
    # given
    pods = [
        *(managed(f"waiting-{number}", labels={"canary": "yes"}) for number in range(4)),
        managed("updated", is_updated=True),
        managed("other"),
        managed("stuck", labels={"canary": "yes"}, upgradable="no"),
        managed("in-flight", labels={"canary": "yes"}, upgradable="in flight"),
    ]
    # when
    sidecar_set = strategy(selector={"matchLabels": {"canary": "yes"}}, partition=1, maxUnavailable=2)
    chosen = choose(sidecar_set, pods)
    # then
    assert [pod.pod.name for pod in chosen.pods] == ["waiting-0", "waiting-1"]
    assert [pod.pod.name for pod in chosen.stuck] == ["stuck"]
    assert {name.partition("/")[2]: reason.code for name, reason in chosen.skipped.items()} == {
        "waiting-2": Code.BUDGET,
        "waiting-3": Code.PARTITION,
        "other": Code.NOT_SELECTED,
        "stuck": Code.NOT_IN_PLACE,
        "in-flight": Code.UPDATING_IN_PLACE,
    }


def test_a_partition_of_more_than_wait_keeps_them_all() -> None:
    """section 6.11"""
    pods = [managed("a"), managed("b"), *(managed(f"updated-{n}", is_updated=True) for n in range(3))]
    assert order(pods, partition=5) == []


def test_one_pod_is_upgraded_at_a_time_without_a_strategy() -> None:
    """The SidecarSet was stored without defaults, while no webhook was called."""
    doc = sidecarset("log", container("log"))
    given = project_sidecarset(
        encode({**doc, "metadata": {**doc["metadata"], "uid": "u", "resourceVersion": "1"}})
    )
    assert len(choose(given, [managed("a"), managed("b")]).pods) == 1


# ── order ────────────────────────────────────────────────────────────────────


def test_newer_pods_are_upgraded_first_and_then_in_order_of_namespace_and_name() -> None:
    """section 6.11, step 2"""
    pods = [
        managed("a", namespace="z"),
        managed("b", namespace="shop"),
        managed("c", namespace="shop"),
        managed("d", namespace="z", created="2026-01-31T12:00:01Z"),
    ]
    assert order(pods) == ["z/d", "shop/b", "shop/c", "z/a"]


def test_a_weight_whose_selector_cannot_be_read_stops_the_upgrade() -> None:
    """Admission refuses it. Without the requested order, no other order is used."""
    selector = {"matchExpressions": [{"key": "a", "operator": "Nope"}]}
    priority = {"weightPriority": [{"weight": 1, "matchSelector": selector}]}
    with pytest.raises(SelectorError):
        order([managed()], priorityStrategy=priority)


def zoned(*zones: str) -> list[ManagedPod]:
    return [managed(f"web-{number:02}", labels={"zone": zone}) for number, zone in enumerate(zones)]


def by_zone(*values: str) -> dict[str, Any]:
    return {"scatterStrategy": [{"key": "zone", "value": value} for value in values]}


def test_an_asterisk_scatters_every_value_once_in_sorted_order() -> None:
    pods = zoned(*"hhhgggfffeeedddcccbbbaaa")
    assert order(pods, **by_zone("*")) == order(pods, **by_zone(*"abcdefgh"))
    assert order(pods, **by_zone("c", "*")) == order(pods, **by_zone(*"cabdefgh"))
    assert order(pods, **by_zone("*")) != order(pods)


def test_a_scatter_value_scatters_only_itself() -> None:
    """sidecarset case 79"""
    pods = zoned(*"aaabbbbbbb")
    places = [place for place, name in enumerate(order(pods, **by_zone("a")), 1) if name < "shop/web-03"]
    assert places == [1, 6, 10]
    assert order(pods, **by_zone("none")) == order(pods)


# ── a fixed number of updated pods ───────────────────────────────────────────

NUMBERS = """
updated-pods | updated | waiting | partition | maxUnavailable | are upgraded
             | 0       | 5       | 0         | 100            | 5
3            | 0       | 5       | 0         | 100            | 3
3            | 2       | 5       | 0         | 100            | 1
3            | 3       | 5       | 0         | 100            | 0
3            | 4       | 5       | 0         | 100            | 0
0            | 0       | 5       | 0         | 100            | 0
3            | 0       | 2       | 0         | 100            | 2
3            | 0       | 5       | 4         | 100            | 1
3            | 0       | 5       | 0         | 1              | 1
"""


@pytest.mark.parametrize("row", NUMBERS.strip().splitlines()[1:])
def test_the_number_of_updated_pods_follows_the_table(row: str) -> None:
    """sidecarset case 93"""
    most, updated, waiting, partition, budget, expected = (part.strip() for part in row.split("|"))
    # given
    doc = sidecarset("log", container("log"))
    doc["spec"]["updateStrategy"] = {"partition": int(partition), "maxUnavailable": int(budget)}
    if most:
        doc["metadata"]["annotations"] = {UPDATED_PODS.annotation: most}
    pods = [managed(f"updated-{n}", is_updated=True) for n in range(int(updated))]
    pods += [managed(f"waiting-{n}") for n in range(int(waiting))]
    # when
    chosen = choose(view(doc), pods)
    # then
    assert len(chosen.pods) == int(expected)
    held = [reason for reason in chosen.skipped.values() if UPDATED_PODS.annotation in reason.message]
    assert {reason.code for reason in held} <= {Code.PARTITION}
    assert bool(held) == (bool(most) and int(updated) + int(waiting) > int(most) and partition == "0")
