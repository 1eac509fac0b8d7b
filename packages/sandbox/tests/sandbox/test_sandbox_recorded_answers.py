"""Built-in kinds, tables and custom resources, against recorded answers of a Kubernetes API server (see data/)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import deep_copy
from pykruise.kube.errors import Cause
from pykruise.kube.resources import Resource
from pykruise.sandbox.apiserver.builtin import BuiltinStrategy, DecodeError, find_strategy
from pykruise.sandbox.apiserver.builtin.pod_spec import add_default_tolerations
from pykruise.sandbox.apiserver.catalog import Catalog, CatalogEntry, list_builtin_entries
from pykruise.sandbox.apiserver.custom.schema import StructuralSchema
from pykruise.sandbox.apiserver.plugins.builtin import find_system_class, give_priority
from pykruise.sandbox.apiserver.printing.tables import build_table
from pykruise.sandbox.version import find_served_release

Case = dict[str, Any]
RECORDED = find_served_release("1.32")
"""The release whose answers are recorded."""
CATALOG = Catalog(list_builtin_entries(find_strategy))
ENTRIES = {(entry.resource.api_version, entry.resource.kind): entry for entry in CATALOG.list_entries()}


def cases(name: str) -> list[Case]:
    path = Path(__file__).parent / "data" / f"{name}_cases.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def entry_of(doc: Case) -> CatalogEntry:
    return ENTRIES[doc["apiVersion"], doc["kind"]]


def strategy_of(doc: Case) -> BuiltinStrategy:
    return find_strategy(entry_of(doc).resource, RECORDED)


def admitted(doc: Case) -> Case:
    """Add fields that admission adds, and that the recorded answers have."""
    if doc["kind"] == "Pod":
        give_priority(doc, find_system_class(doc["spec"].get("priorityClassName") or ""))
        add_default_tolerations(doc["spec"])
    return doc


def first_lines(causes: list[Cause]) -> list[list[str]]:
    return sorted([cause.reason, cause.field, cause.message.split("\n")[0]] for cause in causes)


def name_of(case: Case) -> str:
    doc = case.get("doc") or case.get("new") or {}
    return f"{doc.get('kind')}-{'accepted' if 'out' in case else 'refused'}"


@pytest.mark.parametrize("case", cases("create"), ids=name_of)
def test_a_new_object_is_stored_or_refused_as_kubernetes_does(case: Case) -> None:
    # given
    doc, before = case["doc"], deep_copy(case["doc"])
    strategy = strategy_of(doc)
    # when it cannot be decoded as its kind
    if "err" in case:
        with pytest.raises(DecodeError) as refused:
            strategy.decode(doc)
        # then
        assert str(refused.value) == case["err"]
        return
    # when it can be decoded
    made, unknown = strategy.decode(doc)
    made = admitted(strategy.default(made))
    made["metadata"] |= {"uid": "UID", "name": doc["metadata"].get("name", "x"), "namespace": "default"}
    if not entry_of(doc).resource.namespaced:
        del made["metadata"]["namespace"]
    made = strategy.prepare_create(made)
    causes = strategy.validate_create(made)
    # then
    assert doc == before, "the body was changed"
    if "causes" in case:
        assert first_lines(causes) == case["causes"]
        return
    assert causes == []
    assert unknown == case.get("unknown", [])
    if strategy.is_spec_changed(made, made) is not None:
        made["metadata"]["generation"] = 1
    for member in ("uid", "name", "namespace", "creationTimestamp"):
        made["metadata"].pop(member, None)
    if doc["kind"].startswith("PersistentVolume"):
        # An admission plugin adds this protection, and the recorded API server ran without the plugin.
        assert len(made["metadata"].pop("finalizers")) == 1
    assert made == case["out"]


@pytest.mark.parametrize("case", cases("create"), ids=name_of)
def test_defaulting_twice_changes_nothing(case: Case) -> None:
    # given
    strategy = strategy_of(case["doc"])
    try:
        doc, _ = strategy.decode(case["doc"])
    except DecodeError:
        return
    once = strategy.default(doc)
    # when
    twice = strategy.default(deep_copy(once))
    # then
    assert twice == once


@pytest.mark.parametrize("case", cases("update"), ids=name_of)
def test_an_update_is_stored_or_refused_as_kubernetes_does(case: Case) -> None:
    # given
    old, before = case["old"], deep_copy(case["old"])
    strategy = strategy_of(old)
    new, _ = strategy.decode(case["new"])
    new = admitted(strategy.default(new))
    # when
    if case["subresource"] == "status":
        new = strategy.prepare_status_update(new, old)
        causes = strategy.validate_status_update(new, old)
    else:
        new = strategy.prepare_update(new, old)
        causes = strategy.validate_update(new, old)
    # then
    assert old == before, "the stored object was changed"
    if "causes" in case:
        assert first_lines(causes) == case["causes"]
        return
    assert causes == []
    if case["subresource"] != "status" and strategy.is_spec_changed(new, old):
        new["metadata"]["generation"] = old["metadata"]["generation"] + 1
    new["metadata"].pop("resourceVersion", None)
    assert new == case["out"]


@pytest.mark.parametrize("case", cases("table"), ids=lambda case: str(case["doc"]["kind"]))
def test_a_row_of_a_table_has_the_cells_that_kubernetes_prints(case: Case) -> None:
    # given
    doc = case["doc"]
    now = parse_time("2027-06-01T00:00:00Z")
    # when
    table = build_table(entry_of(doc), [doc], now=now)
    # then
    names = [column["name"] for column in table["columnDefinitions"]]
    row = table["rows"][0]
    cells = [
        masked("<age>" if name in ("Age", "Last Seen", "First Seen") and cell != "<unknown>" else cell)
        for name, cell in zip(names, row["cells"], strict=True)
    ]
    assert cells == case["cells"]
    assert row.get("conditions") == case.get("conditions")


def masked(cell: Any) -> Any:
    return re.sub(r"\(\S+ ago\)", "(<age> ago)", cell) if isinstance(cell, str) else cell


def test_custom_resources_are_pruned_defaulted_and_checked_as_kubernetes_does() -> None:
    # given
    first, *others = cases("custom_resource")
    schema = StructuralSchema.from_crd_schema(first["schema"])
    assert len(others) > 40
    for case in others:
        # when
        doc, dropped = schema.prune(deep_copy(case["doc"]))
        doc = schema.default(doc)
        causes = schema.validate(doc)
        # then
        if "causes" in case:
            assert sorted([c.reason, c.field, c.message] for c in causes) == case["causes"], case["doc"]
            continue
        assert causes == [], case["doc"]
        del doc["metadata"]
        assert doc == case["out"]
        assert dropped == case.get("unknown", [])


def test_an_update_of_a_custom_resource_has_no_errors_for_unchanged_values() -> None:
    # given
    first, *others = cases("ratcheting")
    schema, old = StructuralSchema.from_crd_schema(first["schema"]), first["old"]
    for case in others:
        # when
        causes = schema.validate({**old, "spec": case["spec"]}, old)
        # then
        assert sorted([c.reason, c.field, c.message] for c in causes) == case["causes"], case["spec"]


def test_every_built_in_resource_has_a_strategy_that_can_read_its_documents() -> None:
    for entry in CATALOG.list_entries():
        # given
        doc = {"apiVersion": entry.resource.api_version, "kind": entry.resource.kind, "x": 1}
        # when
        read, unknown = find_strategy(entry.resource, RECORDED).decode(doc)
        # then
        assert unknown == ["x"], entry.resource
        assert read["kind"] == entry.resource.kind


def test_a_resource_without_its_own_rules_gets_the_generic_ones() -> None:
    # when
    strategy = find_strategy(Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False))
    # then
    assert type(strategy) is BuiltinStrategy
    assert strategy.is_spec_changed({"spec": 1}, {"spec": 2}) is None
    assert strategy.compute_grace_period({}, {}) is None
