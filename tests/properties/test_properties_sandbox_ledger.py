"""The scheduler's ledger counts correctly, for any order of events."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.documents import encode
from pykruise.sandbox.nodes.ledger import NodeLedger
from pykruise.sandbox.nodes.specs import NodeSpec, build_node_document, project_node
from support.paper import START, pod_document, view

NODES = ("a", "b", "c")
ZONES = ("z1", "z2")

placements = st.tuples(
    st.just("place"),
    st.integers(0, 5),
    st.sampled_from(NODES),
    st.sampled_from(("", "red", "blue")),
    st.sampled_from(("100m", "1")),
)
removals = st.tuples(st.just("unplace"), st.integers(0, 5))
node_changes = st.tuples(st.just("node"), st.sampled_from(NODES), st.sampled_from(ZONES))
node_removals = st.tuples(st.just("no node"), st.sampled_from(NODES))


@given(st.lists(st.one_of(placements, removals, node_changes, node_removals), max_size=40))
def test_the_counts_of_a_ledger_equal_those_of_the_existing_pods(steps: list[tuple[Any, ...]]) -> None:
    # given
    ledger = NodeLedger()
    there: dict[int, tuple[str, str, int]] = {}
    zones: dict[str, str] = {}
    # when
    for step in steps:
        match step:
            case "place", number, node, owner, cpu:
                doc = pod_document(f"p{number}", owner=owner, requests={"cpu": cpu}, node=node)
                doc["metadata"]["uid"] = f"{number}-{owner}-{cpu}"
                ledger.place(view(doc), node)
                there[number] = (node, owner, 100 if cpu == "100m" else 1000)
            case "unplace", number:
                ledger.unplace(view(pod_document(f"p{number}")).key)
                there.pop(number, None)
            case "node", name, zone:
                made = build_node_document(NodeSpec(name=name, zone=zone), now=START)
                ledger.set_node(project_node(encode(made)))
                zones[name] = zone
            case "no node", name:
                ledger.remove_node(name)
                zones.pop(name, None)
    # then
    assert {view.name for _, view in ledger.list_candidates()} == set(zones)
    assert set(ledger.nodes) == set(zones) | {node for node, _, _ in there.values()}
    for name, load in ledger.nodes.items():
        here = [(owner, cpu) for node, owner, cpu in there.values() if node == name]
        assert load.pods == len(here)
        assert load.used.get("cpu", 0) == sum(cpu for _, cpu in here)
        assert dict(load.owners) == Counter(owner for owner, _ in here if owner)
    expected = Counter((owner, zones[node]) for node, owner, _ in there.values() if owner and node in zones)
    assert {
        (owner, zone): ledger.count_in_zone(owner, zone) for owner in ("red", "blue") for zone in ZONES
    } == {(owner, zone): expected[owner, zone] for owner in ("red", "blue") for zone in ZONES}
