"""A stored value that admission would have rejected changes nothing, and is reported with its field, in all kinds.

Objects are stored while webhooks are off, by an older version, and by `kubectl scale`. A cluster has an example of
each kind. Its plan is computed with each field of its spec, one at a time, set to a value that the reviews of a
creation reject (support/refused_values.py).
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pytest

from pykruise.cli.insight.known_kinds import is_of, list_known_kinds
from pykruise.kube.admission import ReviewRule
from pykruise.manager.switch_over import OWN_PREFIX
from pykruise.plans.kind import Kind
from pykruise.runtime.actions import Patch
from pykruise.runtime.plan import Plan
from pykruise.sandbox.virtual_time import VirtualLoop
from support.refused_values import Spoilt, refused_fields, sparse_specs, spoilt_specs
from support.sources import ROOT
from support.stored_worlds import World, examples_of, stored_world
from support.wrong_objects import Cluster, rules_around, view_of
from support.wrong_values import Document, Whole, objects

REVIEWED: Final = {
    kind.name: kind
    for kind in list_known_kinds()
    if kind.reviews.validating is not None or kind.reviews.mutating
}
"""Kinds whose reviews can reject a spec."""

RELATIVE: Final[Mapping[str, Mapping[str, str]]] = {
    "sidecarset": {"spec.injectionStrategy.revision": "which revisions there are is asked at each injection"},
    "workloadspread": {"spec.targetRef": "which kinds may be spread is on a white list"},
}
"""Fields that a review compares with other objects, which may change: a stored value may be valid later."""

MADE_BY_OTHERS: Final = ("nodeimage", "persistentpodstate")
"""Kinds whose objects are created by controllers, so there is no fresh world."""

LET_GO: Final = ("containerrecreaterequest",)
"""Kinds whose finished objects always release their pod, which would otherwise stay out of service."""

SETTLED: Final = [name for name in REVIEWED if name not in LET_GO]
FRESH: Final = [name for name in REVIEWED if name not in MADE_BY_OTHERS]
ALL_MEANT: Final = ("ephemeraljob",)
"""Kinds in which every rejected value keeps its meaning."""

MENDED: Final = ("persistentpodstate",)
"""Kinds whose spec is corrected according to the annotations of a workload."""

IDLE: Final = {"advancedcronjob", "containerrecreaterequest", "workloadspread"}
"""Kinds whose example plans no write in a fresh world: for these only the report is tested."""


def whole_of(kind: Kind) -> Whole:
    return next(whole for whole in objects().values() if whole.is_stored and whole.resource == kind.resource)


def rules_of(kind: Kind) -> Sequence[ReviewRule]:
    plural = kind.resource.plural
    return [
        review_rule
        for review_rule in rules_around(Cluster())
        if any(plural in rule.resources for rule in review_rule.rules)
    ]


def writes_of(plan: Plan, kind: Kind) -> Iterator[str]:
    """All writes of a plan, except the status of the object itself."""
    for step in plan.steps:
        action = step.action
        is_own = action.resource.kind == kind.resource.kind
        is_harmless = (
            action.subresource == "status" or kind.name in MENDED if isinstance(action, Patch) else False
        )
        if not (is_own and is_harmless):
            yield f"{type(action).__name__} {action.resource.kind} {action.key.name}"


def reports_of(plan: Plan) -> Iterator[str]:
    yield from (note.message for note in plan.notes)
    yield from (condition.get("message", "") for condition in (plan.status or {}).get("conditions") or ())


def is_left_to_its_meaning(kind: Kind, field: str) -> bool:
    relative = RELATIVE.get(kind.name, {})
    return (kind.stored is not None and kind.stored.is_kept(field)) or any(
        field == text or field.startswith(f"{text}.") for text in relative
    )


def problem_of(kind: Kind, spoilt: Spoilt, fields: Sequence[str], plan: Plan | None) -> str:
    """The problem of a plan for a document with these rejected fields; empty: none."""
    if plan is None:
        return ""
    if writes := list(writes_of(plan, kind)):
        return f"{spoilt.field} is {spoilt.value!r}: {', '.join(writes[:3])}"
    named = {spoilt.field, *(field.partition(",")[0] for field in fields)}
    if not any(field in text for field in named for text in reports_of(plan)):
        return f"{spoilt.field} is {spoilt.value!r}: not reported"
    return ""


async def problems_in(world: World) -> list[str]:
    kind, rules = world.kind, rules_of(world.kind)
    assert refused_fields(rules, kind.resource, world.document) == ()
    problems = []
    for spoilt in (*spoilt_specs(whole_of(kind), world.document), *spoilt_options(kind, world.document)):
        fields = refused_fields(rules, kind.resource, spoilt.document)
        if not fields or all(is_left_to_its_meaning(kind, field) for field in fields):
            continue
        problems.append(problem_of(kind, spoilt, fields, await world.plan_of(spoilt.document)))
    assert problems or kind.name in ALL_MEANT, "nothing was refused"
    return [text for text in problems if text]


def spoilt_options(kind: Kind, base: Document) -> Iterator[Spoilt]:
    """`base` with each annotation that is an option of the kind, set to texts that no option accepts."""
    metadata = base["metadata"]
    for option in kind.stored.options if kind.stored is not None else ():
        for text in ("", "W A T", "-1", "é☃"):
            annotations = {**(metadata.get("annotations") or {}), option.annotation: text}
            document = {**base, "metadata": {**metadata, "annotations": annotations}}
            yield Spoilt(("metadata", f"annotations[{option.annotation}]"), text, document)


def test_invalid_options_are_refused_by_admission_and_have_the_own_prefix() -> None:
    kinds = [kind for kind in REVIEWED.values() if kind.stored and kind.stored.options]
    assert kinds
    for kind in kinds:
        assert all(option.annotation.startswith(OWN_PREFIX) for option in kind.stored.options)
        example = next(example for example in examples_of(kind) if is_of(kind, example))
        for spoilt in spoilt_options(kind, example):
            field = ".".join(spoilt.path)
            assert field in refused_fields(rules_of(kind), kind.resource, spoilt.document), kind.name


def played(kind: Kind, *, is_settled: bool) -> tuple[list[str], Plan | None]:
    """All problems, and the plan of the unchanged example."""

    async def play() -> tuple[list[str], Plan | None]:
        async with stored_world(kind, is_settled=is_settled) as world:
            return await problems_in(world), await world.plan_of(world.document)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(play())


@pytest.mark.parametrize("name", FRESH)
def test_a_value_that_admission_refuses_creates_nothing(name: str) -> None:
    problems, plan = played(REVIEWED[name], is_settled=False)
    assert problems == []
    # The plan of the example has writes; without any, the test above would prove nothing.
    assert plan is not None
    assert bool(list(writes_of(plan, REVIEWED[name]))) is (name not in IDLE)


@pytest.mark.parametrize("name", SETTLED)
def test_a_value_that_admission_refuses_changes_nothing(name: str) -> None:
    problems, _ = played(REVIEWED[name], is_settled=True)
    assert problems == []


def test_every_kind_with_reviews_declares_how_it_judges_stored_specs() -> None:
    assert [name for name, kind in REVIEWED.items() if kind.stored is None] == []


def test_the_values_that_keep_a_meaning_are_documented() -> None:
    text = (ROOT / "docs" / "admission.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    missing = [
        f"{kind.resource.kind} {field}: {why}"
        for kind in REVIEWED.values()
        for field, why in (kind.stored.kept if kind.stored is not None else {}).items()
        if not any(kind.resource.kind in row and f"`{field}`" in row and why in row for row in rows)
    ]
    assert missing == []


WRITTEN: Final = [name for name in FRESH if REVIEWED[name].stored is not None]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_missing_field_that_admission_defaults_is_not_a_flaw(name: str) -> None:
    kind, seen = REVIEWED[name], 0
    rules = rules_of(kind)
    assert kind.stored is not None
    problems: list[str] = []
    for base in (example for example in examples_of(kind) if is_of(kind, example)):
        for document in sparse_specs(whole_of(kind), base):
            if refused_fields(rules, kind.resource, document):
                continue
            seen += 1
            view = view_of(kind.resource.kind, {**document, "metadata": {**document["metadata"], "uid": "u"}})
            spec = getattr(view, "spec", view)
            flaws = kind.stored.flaws_of(spec) if spec is not None else ()
            problems += [str(flaw) for flaw in flaws if not is_left_to_its_meaning(kind, flaw.field)]
    assert seen
    assert sorted(set(problems)) == []
