"""`plan` and `simulate` print the warnings that `kubectl apply` prints for a manifest, for every kind that has any.

The kinds declare what they warn of: limits of 0 and below (`amounts`) and names that other names are made of
(`derived`). All of them are tried.
"""

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.cli.insight.known_kinds import list_clocks, list_workloads
from pykruise.cli.plan import run_plan
from pykruise.cli.simulate import Conditions, run_simulate
from pykruise.kinds import list_kinds
from pykruise.kube.client.client import Client
from pykruise.plans.kind import Kind
from pykruise.pods.workload.amounts import EACH
from support.reviews import after_both
from support.scenario import Object, Stage
from support.sources import ROOT
from support.webhooks import GATES
from support.yaml_documents import yaml_documents

RULES = build_reviewers(AdmissionSettings(gates=GATES))
LENGTHS = (48, 60, 200)
"""Lengths of names; admission of some kinds refuses the longer ones."""


def example_of(kind: Kind) -> Object:
    text = (ROOT / "examples" / f"{kind.resource.kind.lower()}.yaml").read_text("utf-8")
    return next(doc for doc in yaml_documents(text) if doc["kind"] == kind.resource.kind)


def manifests_with_warnings(kind: Kind) -> Iterator[Object]:
    """Examples of the kind with one cause of a warning each."""
    for amount in kind.amounts:
        if amount.takes_zero and amount.stops:
            yield with_amount(example_of(kind), amount.path, 0)
        if amount.takes_negative:
            yield with_amount(example_of(kind), amount.path, -1)
    if kind.derived:
        for length in LENGTHS:
            doc = example_of(kind)
            doc["metadata"]["name"] = length * "n"
            yield doc


def with_amount(doc: Object, path: Sequence[str], value: int) -> Object:
    node: Any = doc
    for step in path[:-1]:
        node = node[0] if step == EACH else node.setdefault(step, {})
    node[path[-1]] = value
    return doc


def has_warnings(kind: Kind) -> bool:
    """Whether the kind declares causes of warnings."""
    amounts = (amount for amount in kind.amounts if amount.is_used)
    return bool(kind.derived) or any(
        (amount.takes_zero and amount.stops) or amount.takes_negative for amount in amounts
    )


def warnings_of(kind: Kind, doc: Object) -> tuple[str, ...]:
    answer = after_both(RULES, kind.resource, doc)
    return () if answer.refusal is not None else answer.warnings


CASES = {
    kind.resource.kind: [
        (doc, said) for doc in manifests_with_warnings(kind) if (said := warnings_of(kind, doc))
    ]
    for kind in list_kinds()
    if has_warnings(kind)
}


def test_every_kind_that_declares_causes_of_warnings_is_tried() -> None:
    assert {kind for kind, cases in CASES.items() if not cases} == set()


def reaching(client: Client, namespace: str) -> Any:
    @asynccontextmanager
    async def reach(_kubeconfig: Path | None, _context: str | None) -> AsyncIterator[tuple[Client, str]]:
        yield client, namespace

    return reach


def said_once(lines: Sequence[str], warnings: Sequence[str]) -> bool:
    """Whether the lines contain each warning exactly once."""
    return all(lines.count(f"Warning: {text}") == 1 for text in warnings)


@pytest.mark.sandbox_only
@pytest.mark.parametrize("kind", CASES)
async def test_plan_prints_the_warnings_of_a_manifest_once_each(
    stage: Stage, kind: str, tmp_path: Path
) -> None:
    for number, (doc, warnings) in enumerate(CASES[kind]):
        # given the same manifest twice
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump_all([doc, doc]), "utf-8")
        lines: list[str] = []
        said: list[str] = []
        # when
        await run_plan(
            file=file,
            target=None,
            sets=(),
            namespace=stage.namespace,
            kubeconfig=None,
            context=None,
            output="json",
            say=said.append,
            reach=reaching(stage.client, stage.namespace),
            note=lines.append,
        )
        # then
        assert said_once(lines, warnings), (lines, warnings)
        (text,) = said
        assert [item["warnings"] for item in json.loads(text)] == [list(warnings)] * 2


SIMULATED = [
    kind.resource.kind for kind in (*list_workloads(), *list_clocks()) if CASES.get(kind.resource.kind)
]


@pytest.mark.parametrize("kind", SIMULATED)
async def test_simulate_prints_the_warnings_of_a_manifest_once_each(kind: str, tmp_path: Path) -> None:
    for number, (doc, warnings) in enumerate(CASES[kind]):
        # given
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump(doc), "utf-8")
        is_schedule = kind in {clock.resource.kind for clock in list_clocks()}
        changes = () if is_schedule else (file,)
        lines: list[str] = []
        said: list[str] = []
        # when
        await run_simulate(
            file,
            changes=changes,
            conditions=Conditions(lasts="1d"),
            svg=None,
            output="json",
            say=said.append,
            note=lines.append,
        )
        # then
        assert said_once(lines, warnings), (lines, warnings)
        (text,) = said
        assert set(warnings) <= set(json.loads(text)[0]["warnings"])
