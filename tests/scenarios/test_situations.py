"""Situations of every kind: `explain` names the cause, every place shows the same cause, and the remedies help.

support/situations/tables.py ──▶ each row is staged ──▶ cause, phase, exit code, row of the dashboard, condition, metric
each thing that its remedies say can be done ──▶ done as it is written ──▶ it helps, and availability never falls
"""

import asyncio
from typing import Any

import pytest

from pykruise.cli.explain import code_of
from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.dashboard.jobs import build_job_row
from pykruise.dashboard.others import build_other_row
from pykruise.dashboard.rollouts import build_rollout_row
from pykruise.kube.ids import Key
from pykruise.plans.kind import Kind
from pykruise.pods.reasons import NEEDS_A_PERSON, NOT_WRITTEN, Code
from pykruise.runtime.refusals import split_remedy
from pykruise.sandbox.cluster import ClusterSettings
from support.judged_rows import judged_rows
from support.named_fields import fields_in, forbidden, has_field
from support.remedies import followed, ways_of
from support.scenario import Object, Stage
from support.situations.tables import SITUATIONS
from support.situations.world import KINDS, SETTINGS, Situation, World, with_agents

pytestmark = pytest.mark.sandbox_only

SIX = 6
"""Minimum number of situations of every kind."""

ROWS = [
    pytest.param(KINDS[kind], row, place % row.ways if row.ways else None, id=f"{kind}-{row.stage.__name__}")
    for kind, rows in SITUATIONS.items()
    for place, row in enumerate(rows)
]
"""Each situation with the number of an alternative in its remedies, a different one for each situation; None: it has no
remedy. Staging a situation costs more than following its remedy, so one test does both.
"""
OTHER_WAYS = [
    pytest.param(KINDS[kind], row, number, id=f"{kind}-{row.stage.__name__}-{number}")
    for kind, rows in SITUATIONS.items()
    for place, row in enumerate(rows)
    for number in range(row.ways)
    if number != place % row.ways
]
_ROWS_OF: dict[str, Any] = {"rollouts": build_rollout_row, "jobs": build_job_row, "others": build_other_row}
_SAME: dict[str, set[str]] = {
    Code.REFUSED: {Code.INVALID_SPEC, Code.SELECTOR_CHANGED, Code.SELECTING_ALL},
    Code.POD_FAILED: {Code.JOB_FAILED, Code.PAUSED},
    Code.CONTAINER_FAILED: {Code.JOB_FAILED},
}
"""Code in `explain` of an object → codes with the same meaning in its condition."""


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    return with_agents(cluster_settings)


async def staged(stage: Stage, kind: Kind, row: Situation) -> tuple[World, Explanation]:
    """Stage the situation, and return the explanation after a while."""
    world = World(stage)
    await world.start()
    await row.stage(world)
    await world.wait()
    return world, await world.explained(kind, row.name)


def test_every_kind_has_situations() -> None:
    assert set(SITUATIONS) == set(KINDS)
    assert all(len({row.stage.__name__ for row in rows}) >= SIX for rows in SITUATIONS.values())


@pytest.mark.parametrize(("kind", "row", "number"), ROWS)
async def test_the_cause_is_reported_first_and_identically_everywhere_and_a_remedy_helps(
    stage: Stage, kind: Kind, row: Situation, number: int | None
) -> None:
    world, explanation = await staged(stage, kind, row)
    said = await world.text(explanation)
    assert (explanation.cause, explanation.phase) == (row.cause, row.phase), said
    assert row.says in said
    assert not [wait for wait in explanation.waits if says_its_remedy(wait, world.namespace)]
    assert code_of(explanation) == row.phase.exit_code
    assert len(list(ways_of(explanation))) == row.ways, said
    document = await world.get(f"{kind.name}/{row.name}")
    await assert_fields_of_remedies_can_be_changed(world, kind, document, explanation)
    if row.known_by != "explain":
        assert world.phase_in_metrics(kind, row.name) == row.phase, said
    chip, then = await chip_of(world, kind, row)
    assert chip == (then.phase, then.phase.needs_a_person, then.cause), said
    assert then.phase is row.phase
    if row.known_by == "status":
        assert row_phase(kind, document) is row.phase
        assert phase_shown(kind, document) is row.phase, said
        assert is_in_a_condition(kind, document, row), f"{said}\n{document.get('status')}"
    if number is not None:
        await assert_a_remedy_helps(world, kind, row, then, number)


async def assert_fields_of_remedies_can_be_changed(
    world: World, kind: Kind, document: Object, explanation: Explanation
) -> None:
    """Every field that a remedy names exists, and admission accepts a change of it."""
    key = Key(world.namespace if kind.resource.namespaced else "", document["metadata"]["name"])
    for wait in explanation.waits:
        for field in fields_in(wait.remedy):
            if f"{field} cannot be changed" in wait.remedy or any(text in wait.remedy for text in OF_OTHERS):
                continue
            assert has_field(kind, field), wait
            assert not await forbidden(world.stage, kind, key, document, field), wait


def says_its_remedy(wait: Wait, namespace: str) -> bool:
    """Whether the text about a cause contains the remedy, which should be only on its own line."""
    ways = [way for way in wait.remedy.split("; or ") if way]
    return any(way in wait.words for way in ways) or bool(split_remedy(wait.words, namespace=namespace)[1])


OF_OTHERS = (
    "kubectl annotate pod",
    "of PersistentPodState",
    "of SidecarSet",
    "of WorkloadSpread",
    "which creates the job",
    "with this change in its template",
)
"""Texts of remedies that name fields of another kind, or of a child that its parent creates."""


async def chip_of(world: World, kind: Kind, row: Situation) -> tuple[tuple[Any, ...], Explanation]:
    """Phase, whether it needs action, and the cause, as the page of the dashboard shows them after a moment; and
    the explanation at that time."""
    key = Key(world.namespace if kind.resource.namespaced else "", row.name)
    async with judged_rows(world.stage, SETTINGS) as rows:
        await asyncio.sleep(10)
        shown, why = rows.of(kind.resource, key), rows.why(kind.resource, key)
        chip = (shown["phase"], shown.get("needs_action", False), why.get("code", ""))
        return chip, await world.explained(kind, row.name)


def phase_shown(kind: Kind, document: Object) -> Any:
    """The phase that the product shows for the object."""
    assert kind.shown is not None
    return kind.shown.progress_of(document).phase


def row_phase(kind: Kind, document: Object) -> Any:
    """The phase in the object's row of the dashboard."""
    assert kind.shown is not None
    row = _ROWS_OF[kind.shown.board](kind.resource, document)
    assert row.needs_action == row.phase.needs_a_person
    return row.phase


def is_in_a_condition(kind: Kind, document: Object, row: Situation) -> bool:
    """Whether a condition names the cause; true if the kind has no such conditions, or the cause needs no person."""
    assert kind.control is not None
    if kind.control.standing is None or row.cause not in NEEDS_A_PERSON | NOT_WRITTEN:
        return True
    conditions = (document.get("status") or {}).get("conditions") or ()
    reasons = {condition.get("reason") for condition in conditions}
    return bool(reasons & {row.cause, *_SAME.get(row.cause, ())})


@pytest.mark.exhaustive
@pytest.mark.parametrize(("kind", "row", "number"), OTHER_WAYS)
async def test_the_other_remedies_help_too(stage: Stage, kind: Kind, row: Situation, number: int) -> None:
    world, explanation = await staged(stage, kind, row)
    await assert_a_remedy_helps(world, kind, row, explanation, number)


async def assert_a_remedy_helps(
    world: World, kind: Kind, row: Situation, explanation: Explanation, number: int
) -> None:
    """An alternative of the remedies helps, unless the table lists it as useless, and makes no pods unavailable."""
    ways = list(ways_of(explanation))
    assert len(ways) == row.ways, await world.text(explanation)
    key = Key(world.namespace if kind.resource.namespaced else "", row.name)
    await followed(world.stage, kind, key, explanation, ways[number], helps=number not in row.useless)
