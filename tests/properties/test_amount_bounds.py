"""Every int-or-percent field of every kind: rejected values, values that count as another number, and the effect of 0.

The fields are those of the CRDs; the test fails for a new field until its kind's table (`amounts`) lists it.
"""

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import pytest

from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.kinds import list_kinds
from pykruise.kinds.gates import GATES, Gates
from pykruise.kube.admission import AdmissionAnswer, ReviewRule
from pykruise.kube.documents import deep_copy
from pykruise.plans.kind import Kind
from pykruise.pods.workload.amounts import EACH, Amount
from support.open_definitions import open_crds
from support.reviews import after_both
from support.sources import ROOT
from support.yaml_documents import yaml_documents

Document = dict[str, Any]
PathOf = tuple[str, ...]

NO_AMOUNTS: Final = frozenset({"port", "reserveOrdinals"})
"""Int-or-string fields that are no amounts: the name of a field, or of the list that contains it."""

COUNTS: Final = frozenset({"parallelism"})
"""Fields that are plain numbers in some kinds and int-or-percent amounts in others."""

PARTS: Final = frozenset({"template", "containers", "initContainers"})
"""Parts of a spec whose fields belong to another definition."""

WITH_AMOUNTS: Final = [(kind, amount) for kind in list_kinds() for amount in kind.amounts]

OTHER: Final = "one of the two is 0, and only one"

BESIDE: Final[Mapping[str, Document]] = {
    "CloneSet.maxUnavailable": {"maxSurge": 1},
    "DaemonSet.maxUnavailable": {"maxSurge": OTHER, "rollingUpdateType": "Standard"},
    "DaemonSet.maxSurge": {"maxUnavailable": OTHER, "rollingUpdateType": "Standard"},
    "PodUnavailableBudget.minAvailable": {"maxUnavailable": None},
    "UnitedDeployment.replicas": {"minReplicas": None, "maxReplicas": None},
    "UnitedDeployment.minReplicas": {"maxReplicas": None},
}
"""Values of other fields that the example needs, because its own values do not fit an amount."""


def test_every_int_or_percent_field_of_a_definition_is_in_the_table_of_its_kind() -> None:
    tables = {kind.resource.kind: {amount.path for amount in kind.amounts} for kind in list_kinds()}
    for crd in open_crds():
        name = crd["spec"]["names"]["kind"]
        stored = next(version for version in crd["spec"]["versions"] if version["storage"])
        assert tables[name] == set(_amounts(stored["schema"]["openAPIV3Schema"], ())), name


def _amounts(schema: Document, path: PathOf) -> Iterator[PathOf]:
    is_amount = schema.get("x-kubernetes-int-or-string") or (path and path[-1] in COUNTS)
    if is_amount and not NO_AMOUNTS.intersection(path):
        yield path
    for name, field in (schema.get("properties") or {}).items():
        if name not in PARTS and name != "status":
            yield from _amounts(field, (*path, name))
    if isinstance(schema.get("items"), dict):
        yield from _amounts(schema["items"], (*path, EACH))


@cache
def rules() -> tuple[ReviewRule, ...]:
    gates = Gates.of(**dict.fromkeys(GATES, True))
    return build_reviewers(AdmissionSettings(gates=gates), ReviewContext(rng=random.Random(1)))


def reviewed(kind: Kind, doc: Document) -> AdmissionAnswer:
    """The response of both reviews to the creation of the document."""
    return after_both(rules(), kind.resource, doc)


def example(kind: Kind) -> Document:
    """A manifest of the kind that admission accepts."""
    text = (ROOT / "examples" / f"{kind.resource.kind.lower()}.yaml").read_text("utf-8")
    doc = next(document for document in yaml_documents(text) if document["kind"] == kind.resource.kind)
    api_version = kind.resource.api_version
    return {**doc, "apiVersion": api_version, "metadata": {"namespace": "shop", **doc["metadata"]}}


def with_amount(kind: Kind, amount: Amount, value: Any) -> Document:
    doc = deep_copy(example(kind))
    node = doc
    for step in amount.path[:-1]:
        node = node[0] if step == EACH else node.setdefault(step, [{"name": "a"}] if step == EACH else {})
    doc["spec"].get("topology", {}).pop("scheduleStrategy", None)  # it allows other amounts
    beside = BESIDE.get(f"{kind.resource.kind}.{amount.path[-1]}", {})
    for name, given in beside.items():
        node.pop(name, None)
        if given is not None:
            node[name] = int(value in (0, "0%")) if given == OTHER else given
    node[amount.path[-1]] = value
    return doc


def ids(value: Any) -> str:
    return value.resource.kind if isinstance(value, Kind) else getattr(value, "field", "") or str(value)


@pytest.mark.parametrize(("kind", "amount"), WITH_AMOUNTS, ids=ids)
@pytest.mark.parametrize("value", [-1, "-1%", "-50%", "-100%"])
def test_a_negative_amount_is_refused_or_a_warning_names_its_effective_value(
    kind: Kind, amount: Amount, value: Any
) -> None:
    answer = reviewed(kind, with_amount(kind, amount, value))
    if answer.refusal is not None:
        assert amount.path[-1] in answer.refusal.message
        return
    if not amount.is_used:
        return
    assert amount.takes_negative or amount.least > 0
    assert any(
        f"{amount.path[-1]}: {value} is treated as {amount.least}" in warning for warning in answer.warnings
    )


@pytest.mark.parametrize(("kind", "amount"), WITH_AMOUNTS, ids=ids)
@pytest.mark.parametrize("value", [0, "0%"])
def test_a_zero_amount_is_refused_or_valid_or_a_warning_names_what_it_stops(
    kind: Kind, amount: Amount, value: Any
) -> None:
    answer = reviewed(kind, with_amount(kind, amount, value))
    if isinstance(value, str) and answer.refusal is not None and amount.takes_zero:
        return  # the field allows no percentages
    assert (answer.refusal is None) is amount.takes_zero
    said = [warning for warning in answer.warnings if f"{amount.path[-1]}: {value}" in warning]
    assert bool(said) is bool(amount.takes_zero and (amount.stops or amount.least))
    assert all(amount.stops in text for text in said)


@pytest.mark.parametrize(("kind", "amount"), WITH_AMOUNTS, ids=ids)
@pytest.mark.parametrize("value", [1, "50%"])
def test_other_amounts_have_no_warning(kind: Kind, amount: Amount, value: Any) -> None:
    answer = reviewed(kind, with_amount(kind, amount, value))
    if answer.refusal is None:
        assert [warning for warning in answer.warnings if amount.path[-1] in warning] == []
    else:
        assert isinstance(value, str)
