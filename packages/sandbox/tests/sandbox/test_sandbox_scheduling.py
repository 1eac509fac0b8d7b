"""The node that a pod gets: pure choices over a ledger."""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from pykruise.kube.documents import encode
from pykruise.sandbox.nodes.ledger import NodeLedger
from pykruise.sandbox.nodes.specs import NodeSpec, SandboxNodeView, Taint, build_node_document, project_node
from pykruise.sandbox.scheduling.filters import ChosenNode, NoPlace, choose
from support.paper import START, pod_document, view

Object = dict[str, Any]


def node(name: str, *, unschedulable: bool = False, **fields: Any) -> SandboxNodeView:
    """A node as the scheduler sees it; fields are those of NodeSpec."""
    doc = build_node_document(NodeSpec(name=name, **fields), now=START)
    doc["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1"}
    doc["spec"]["unschedulable"] = unschedulable
    return project_node(encode(doc))


def ledger(*nodes: SandboxNodeView) -> NodeLedger:
    """A ledger with these nodes and no pods."""
    made = NodeLedger()
    for node in nodes:
        made.set_node(node)
    return made


def pending(name: str = "new", **fields: Any) -> Object:
    """A pod without a node; fields are those of `build_pod_document`."""
    return pod_document(name, node="", **fields)


def send(book: NodeLedger, doc: Object, *, seed: int = 1) -> ChosenNode | NoPlace:
    """Choose a node and place the pod there; the answer contains no nodes for preemption."""
    pod = view(doc)
    answer = choose(pod, book, rng=random.Random(seed))
    if isinstance(answer, ChosenNode):
        book.place(pod, answer.node)
        return answer
    return NoPlace(answer.message)


def affinity(kind: str, *terms: Mapping[str, Any]) -> Object:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def near(labels: Mapping[str, str], *, key: str = "kubernetes.io/hostname") -> Object:
    return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": key}


# ── no node ──────────────────────────────────────────────────────────────────


def test_a_cluster_without_nodes_schedules_no_pod() -> None:
    assert send(ledger(), pending()) == NoPlace("no nodes available to schedule pods")


def test_the_message_counts_the_reasons_as_the_real_scheduler_does() -> None:
    # given
    book = ledger(
        node("a", unschedulable=True),
        node("b", taints=(Taint("dedicated", "NoSchedule", "db"),)),
        node("c", cpu="1", memory="1Mi"),
        node("d", cpu="1"),
        node("e", pods=0),
    )
    # when
    answer = send(book, pending(requests={"cpu": "2", "memory": "1Gi"}))
    # then
    assert answer == NoPlace(
        "0/5 nodes are available: 1 Insufficient memory, 1 Too many pods, 1 node(s) had untolerated taint "
        "{dedicated: db}, 1 node(s) were unschedulable, 2 Insufficient cpu."
    )


def test_a_node_is_full_when_requests_or_pods_are_used_up_and_free_after_deletions() -> None:
    # given
    book = ledger(node("a", cpu="1", pods=3))
    small, large = {"cpu": "400m"}, {"cpu": "600m"}
    # when, then
    assert send(book, pending("one", requests=small)) == ChosenNode("a")
    assert send(book, pending("two", requests=large)) == ChosenNode("a")
    assert send(book, pending("three", requests=small)) == NoPlace(
        "0/1 nodes are available: 1 Insufficient cpu."
    )
    assert send(book, pending("three")) == ChosenNode("a")
    assert send(book, pending("four")) == NoPlace("0/1 nodes are available: 1 Too many pods.")
    book.unplace(view(pending("two")).key)
    assert send(book, pending("four", requests=large)) == ChosenNode("a")


# ── requests of the pod ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"kubernetes.io/hostname": "b"}},
        *(
            {"affinity": affinity_of}
            for affinity_of in (
                {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}
                    }
                }
                for term in (
                    {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]},
                    {"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]},
                    {"matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["4"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]},
                )
            )
        ),
    ],
)
def test_a_pod_is_scheduled_only_to_nodes_that_match_it(spec: Object) -> None:
    # given
    book = ledger(
        node("a", labels={"disk": "hdd", "old": "", "rank": "4"}),
        node("b", labels={"disk": "ssd", "rank": "5"}),
        node("c", labels={"disk": "hdd", "old": "yes"}),
    )
    # then
    assert {send(book, pending(f"p{n}", **spec), seed=n) for n in range(5)} == {ChosenNode("b")}


def test_a_selector_term_without_requirements_matches_no_node() -> None:
    # given
    terms = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}
    # when
    answer = send(ledger(node("a")), pending(affinity=terms))
    # then
    assert answer == NoPlace("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")


def test_a_preferred_node_is_taken_even_when_it_is_the_fuller_one() -> None:
    # given
    preferred = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
            ]
        }
    }
    book = ledger(node("a"), node("b", labels={"disk": "ssd"}))
    # then
    assert [send(book, pending(f"p{n}", affinity=preferred)) for n in range(3)] == [ChosenNode("b")] * 3


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "value": "db"}, True),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "dedicated", "value": "web"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_a_taint_keeps_away_pods_that_do_not_tolerate_it(toleration: Object, tolerated: bool) -> None:
    # given
    book = ledger(node("a", taints=(Taint("dedicated", "NoSchedule", "db"),)))
    # when
    answer = send(book, pending(tolerations=[toleration]))
    # then
    assert isinstance(answer, ChosenNode) is tolerated


def test_a_soft_taint_is_avoided_while_there_is_another_node() -> None:
    # given
    book = ledger(node("a", taints=(Taint("slow", "PreferNoSchedule"),)), node("b", pods=2))
    # then
    assert [send(book, pending(f"p{n}")) for n in range(3)] == [
        ChosenNode("b"),
        ChosenNode("b"),
        ChosenNode("a"),
    ]


def test_a_host_port_is_taken_once_on_each_node() -> None:
    # given
    def with_port(name: str, **port: Any) -> Object:
        doc = pending(name)
        doc["spec"]["containers"][0]["ports"] = [
            {"containerPort": 80, "hostPort": 80, "protocol": "TCP"} | port
        ]
        return doc

    book = ledger(node("a"), node("b"))
    # when
    answers = {send(book, with_port(name)) for name in ("one", "two")}
    # then
    assert answers == {ChosenNode("a"), ChosenNode("b")}
    assert send(book, with_port("three", hostIP="127.0.0.1")) == NoPlace(
        "0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports."
    )
    assert isinstance(send(book, with_port("four", protocol="UDP")), ChosenNode)


# ── spreading ────────────────────────────────────────────────────────────────


def test_pods_of_one_owner_are_spread_evenly_over_nodes_and_then_over_zones() -> None:
    # given 2 nodes in z1, 1 in z2, and pods of other owners
    book = ledger(node("a", zone="z1"), node("b", zone="z1"), node("c", zone="z2"))
    for number in range(7):
        book.place(view(pod_document(f"other-{number}")), "a")
    # when
    chosen = [send(book, pending(f"web-{n}", owner="web"), seed=n) for n in range(9)]
    # then
    assert set(Counter(chosen).values()) == {3}
    assert ChosenNode("c") in chosen[:2]


def test_pods_without_an_owner_are_scheduled_to_the_emptiest_node() -> None:
    # given
    book = ledger(node("a", pods=10), node("b", pods=100))
    # when
    chosen = Counter(send(book, pending(f"p{n}"), seed=n) for n in range(55))
    # then
    assert chosen[ChosenNode("a")] == 5


def test_equals_are_decided_by_the_seed_alone() -> None:
    # given
    nodes = [node(f"n{number}") for number in range(20)]

    def course(seed: int) -> list[ChosenNode | NoPlace]:
        rng = random.Random(seed)
        book = ledger(*nodes)
        answers = []
        for number in range(20):
            pod = view(pending(f"p{number}"))
            answers.append(choose(pod, book, rng=rng))
        return answers

    # then
    assert course(1) == course(1)
    assert course(1) != course(2)


def spread(*, max_skew: int = 1, key: str = "topology.kubernetes.io/zone", **fields: Any) -> Object:
    constraint = {
        "maxSkew": max_skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return {"labels": {"app": "web"}, "topologySpreadConstraints": [constraint | fields]}


def test_a_topology_spread_constraint_holds_although_the_nodes_differ_in_size() -> None:
    # given z2 has room for 2 pods only
    book = ledger(node("a", zone="z1"), node("b", zone="z2", pods=2))
    # when
    answers = [send(book, pending(f"web-{n}", **spread())) for n in range(6)]
    # then
    assert Counter(answers[:5]) == {ChosenNode("a"): 3, ChosenNode("b"): 2}
    assert answers[5] == NoPlace(
        "0/2 nodes are available: 1 Too many pods, 1 node(s) didn't match pod topology spread constraints."
    )


def test_nodes_without_the_topology_label_are_excluded_for_a_spread_pod() -> None:
    # given
    book = ledger(node("a", zone=""))
    # then
    assert send(book, pending(**spread())) == NoPlace(
        "0/1 nodes are available: 1 node(s) didn't match pod topology spread constraints "
        "(missing required label)."
    )


def test_terminating_pods_do_not_count_for_the_spread() -> None:
    # given one pod in z1 that is deleted later
    book = ledger(node("a", zone="z1"), node("b", zone="z2", unschedulable=True))
    doc = pod_document("web-0", node="a", labels={"app": "web"})
    book.place(view(doc), "a")
    assert isinstance(send(book, pending("web-1", **spread())), NoPlace)
    # when
    doc["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    book.place(view(doc), "a")
    # then
    assert send(book, pending("web-1", **spread())) == ChosenNode("a")


def test_only_pods_of_the_same_revision_count_with_match_label_keys() -> None:
    # given
    book = ledger(node("a", zone="z1"), node("b", zone="z2", unschedulable=True))
    book.place(view(pod_document("old", labels={"app": "web", "rev": "1"})), "a")
    asked_for = spread(matchLabelKeys=["rev"]) | {"labels": {"app": "web", "rev": "2"}}
    # then
    assert send(book, pending("new", **asked_for)) == ChosenNode("a")


def test_pods_that_keep_apart_get_a_node_each() -> None:
    # given
    book = ledger(node("a"), node("b"))
    apart = {"labels": {"app": "web"}, "affinity": affinity("podAntiAffinity", near({"app": "web"}))}
    # when
    answers = [send(book, pending(f"web-{n}", **apart)) for n in range(3)]
    # then
    assert set(answers[:2]) == {ChosenNode("a"), ChosenNode("b")}
    assert answers[2] == NoPlace("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.")


def test_a_pod_that_keeps_others_away_does_so_also_with_pods_that_do_not_mind() -> None:
    # given
    book = ledger(node("a", zone="z1"), node("b", zone="z2"))
    zone = "topology.kubernetes.io/zone"
    loner = {"affinity": affinity("podAntiAffinity", near({"app": "noisy"}, key=zone))}
    first = send(book, pending("loner", **loner))
    assert isinstance(first, ChosenNode)
    # when
    answers = {send(book, pending(f"noisy-{n}", labels={"app": "noisy"}), seed=n) for n in range(4)}
    # then
    assert answers == {ChosenNode("b" if first.node == "a" else "a")}
    book.unplace(view(pending("loner")).key)
    assert not book.aversions


def test_pods_that_want_to_be_together_begin_anywhere_and_stay_together() -> None:
    # given
    book = ledger(node("a"), node("b"), node("c"))
    together = {"labels": {"app": "web"}, "affinity": affinity("podAffinity", near({"app": "web"}))}
    # when
    answers = {send(book, pending(f"web-{n}", **together), seed=n) for n in range(6)}
    # then
    assert len(answers) == 1


def test_a_pod_with_affinity_waits_until_the_others_exist() -> None:
    # given
    book = ledger(node("a"), node("b"))
    asked_for = {"affinity": affinity("podAffinity", near({"app": "db"}))}
    assert send(book, pending("web", **asked_for)) == NoPlace(
        "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
    )
    # when
    book.place(view(pod_document("db", labels={"app": "db"})), "b")
    # then
    assert send(book, pending("web", **asked_for)) == ChosenNode("b")


# ── the ledger ───────────────────────────────────────────────────────────────


def test_a_ledger_is_empty_after_all_pods_are_removed() -> None:
    # given
    book = ledger(node("a", zone="z1"), node("b", zone="z2"))
    docs = [pending(f"web-{n}", owner="web", requests={"cpu": "1"}, **spread()) for n in range(10)]
    for doc in docs:
        send(book, doc)
    # when
    book.remove_node("a")
    for doc in docs:
        book.unplace(view(doc).key)
        book.unplace(view(doc).key)
    # then
    assert list(book.nodes) == ["b"]
    load = book.nodes["b"]
    assert (
        load.pods,
        load.used,
        +load.owners,
        book.count_in_zone("web", "z1"),
        book.count_in_zone("web", "z2"),
    ) == (
        0,
        {"cpu": 0},
        Counter(),
        0,
        0,
    )


def test_pods_known_before_their_node_count_when_it_is_added() -> None:
    # given
    book = ledger()
    book.place(view(pod_document("early", owner="web", requests={"cpu": "1"})), "a")
    # when
    book.set_node(node("a", cpu="1"))
    # then
    assert book.count_in_zone("web", "z1") == 1
    assert isinstance(send(book, pending(requests={"cpu": "1"})), NoPlace)


def test_a_node_that_moves_to_another_zone_moves_its_pods() -> None:
    # given
    book = ledger(node("a", zone="z1"))
    book.place(view(pod_document("web", owner="web")), "a")
    # when
    book.set_node(node("a", zone="z2"))
    # then
    assert (book.count_in_zone("web", "z1"), book.count_in_zone("web", "z2")) == (0, 1)
