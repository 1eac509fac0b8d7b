"""An object has one phase, whoever shows it: explain, rollout status, the dashboard, Argo CD, the metrics, kstatus.

every kind × objects that its declaration tells apart ──▶ Shown.progress_of() = Lua = rows = explain = metrics
"""

from collections.abc import Iterator
from typing import Any

import pytest

from pykruise.cli.insight.explaining import phase_of
from pykruise.cli.kubectl.statuses import RolloutFailed, status_of
from pykruise.cli.kubectl.trees import phase_of as phase_of_tree
from pykruise.dashboard.jobs import job_row
from pykruise.dashboard.others import other_row
from pykruise.dashboard.rollouts import rollout_row
from pykruise.kinds import all_shown, kinds
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, deep_copy, encode, get_path
from pykruise.manager.known_causes import document_of
from pykruise.manager.lua_health import STATUSES, health_script
from pykruise.plans.kind import Kind
from pykruise.plans.progress import (
    Condition,
    Count,
    Difference,
    Differs,
    Has,
    Is,
    IsTrue,
    Items,
    Less,
    Number,
    Phase,
    PhaseRules,
    Positive,
    ProgressCounts,
    Rollout,
    Sum,
    Zero,
)
from pykruise.plans.shown import Shown
from pykruise.pods.reasons import AT_REST, DEADLINE_EXCEEDED, HELD, NEEDS_A_PERSON, NEVER_OBSERVED, Code
from pykruise.pods.workload.kstatus import standing_of
from pykruise.runtime.kstatus import with_kstatus
from pykruise.runtime.reasons import Reason
from pykruise.testing.contents import documents_of
from support.lua import run_lua
from support.sources import ROOT

NOW = parse_time("2026-01-01T00:00:00Z")
KINDS = {kind.name: kind for kind in kinds() if kind.versions}
EXAMPLES: dict[str, Document] = {
    document["kind"]: document
    for document in documents_of(sorted((ROOT / "examples").glob("**/*.yaml")))
    if document["apiVersion"].startswith(("apps.kruise.io", "policy.kruise.io"))
}

IN_KIND = {
    "deletionTimestamp": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    "no status": {},
    "of an older generation": {"status": {"observedGeneration": 1}},
    "observed": {"status": {"observedGeneration": 2}},
}


def shown_by(kind: Kind) -> Shown:
    assert kind.shown is not None, f"{kind.name} declares no display"
    return kind.shown


def bare(kind: Kind) -> Document:
    resource = kind.resource
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 2},
        "spec": {},
        "status": {"observedGeneration": 2},
    }


def put(document: Document, path: str, value: Any) -> None:
    names = path.split(".")
    for name in names[:-1]:
        document = document.setdefault(name, {})
    document[names[-1]] = value


def set_number(document: Document, number: Number, value: int) -> None:
    match number:
        case Count(path):
            put(document, path, value)
        case Items(path, field, wanted):
            listed = list(get_path(document, *path.split("."), default=()))
            made = ({field: wanted} if field else {"name": f"item-{n}"} for n in range(value))
            put(document, path, [*listed, *made])
        case Sum(path):
            put(document, path, {"a": value})
        case Difference(more, less):
            set_number(document, more, value)
            set_number(document, less, 0)


def make_true(document: Document, condition: Condition) -> None:
    match condition:
        case Is(path, values):
            put(document, path, values[-1])
        case IsTrue(path):
            put(document, path, True)
        case Has(path, is_there):
            if is_there:
                put(document, path, "2026-01-01T00:00:00Z")
        case Positive(number):
            set_number(document, number, 1)
        case Zero(number):
            set_number(document, number, 0)
        case Less(number, than):
            set_number(document, number, 1)
            set_number(document, than, 2)
        case Differs(path, other):
            put(document, path, "a")
            put(document, other, "b")


def by_rules(kind: Kind, rules: PhaseRules) -> Iterator[tuple[str, Document]]:
    """An object for each rule."""
    for number, rule in enumerate(rules.rules):
        document = bare(kind)
        for condition in rule.all:
            make_true(document, condition)
        yield f"rule {number}", document


def condition(kind: str, reason: str, status: str = "True") -> Document:
    return {"type": kind, "status": status, "reason": reason, "message": f"{kind}: {reason}"}


def by_conditions(kind: Kind) -> Iterator[tuple[str, Document]]:
    """An object for each sort of reason that a condition may have."""
    reasons = [
        "Converged",
        DEADLINE_EXCEEDED,
        *(min(codes) for codes in (HELD, NEEDS_A_PERSON, AT_REST, NEVER_OBSERVED)),
    ]
    reasons += [Code.UPDATING, Code.PAUSED, Code.IMAGE_PULL]
    for reason in dict.fromkeys(reasons):
        for listed in (
            [condition("Ready", reason)],
            [condition("Ready", reason, "False"), condition("Reconciling", reason)],
            [condition("Ready", reason, "False"), condition("Stalled", reason)],
            [condition("Waiting", reason)],
            [condition("Ready", "FailedUpdate", "False"), condition("Waiting", reason)],
            [condition("Progressing", reason, "False")],
        ):
            for seen in (1, 2):
                document = bare(kind)
                document["status"] = {"observedGeneration": seen, "conditions": listed}
                yield f"{'+'.join(entry['type'] for entry in listed)} {reason} seen {seen}", document


def by_counts(kind: Kind, shown: Shown, counts: ProgressCounts) -> Iterator[tuple[str, Document]]:
    """Objects at several points of a rollout, held in several ways."""
    points = [
        (0, 0, 0, 0),
        (3, 1, 1, 2),
        (3, 1, 1, 3),
        (3, 2, 2, 3),
        (3, 3, 2, 3),
        (3, 3, 3, 2),
        (3, 3, 3, 3),
    ]
    holds: list[dict[str, Any]] = [
        {},
        {"paused": True},
        {"partition": 1},
        {"partition": "50%"},
        {"partition": "100%"},
    ]
    for wanted, updated, ready, available in points:
        for hold in holds:
            for strategy in ("RollingUpdate", "OnDelete", "NotUpdate"):
                document = bare(kind)
                put(document, "spec.updateStrategy.type", strategy)
                values = (
                    (counts.available, available),
                    (counts.updated_ready, ready),
                    (counts.updated, updated),
                    (counts.wanted, wanted),
                )
                for number, value in values:
                    if number is not None:
                        set_number(document, number, value)
                for name, value in hold.items():
                    if name in shown.fields:
                        put(document, shown.fields[name].hub, value)
                yield f"{wanted} {updated} {ready} {available} {hold} {strategy}", document


def objects_of(kind: Kind) -> Iterator[tuple[str, Document]]:
    for name, more in IN_KIND.items():
        document = {key: value for key, value in bare(kind).items() if key != "status"}
        document |= {
            "metadata": {**document["metadata"], **more.get("metadata", {})},
            "status": more.get("status", {}),
        }
        yield name, document
    shown = shown_by(kind)
    if isinstance(shown.progress, PhaseRules):
        yield from by_rules(kind, shown.progress)
    if isinstance(shown.progress, Rollout):
        yield from by_conditions(kind)
        yield from by_counts(kind, shown, shown.progress.counts)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_place_shows_the_same_phase(kind: Kind) -> None:
    shown, script = shown_by(kind), health_script(shown_by(kind))
    row_of = {"rollouts": rollout_row, "jobs": job_row, "others": other_row}[shown.board]
    met = set()
    for name, document in objects_of(kind):
        progress = shown.progress_of(document)
        phase = progress.phase
        met.add(phase)
        assert run_lua(script, deep_copy(document))["status"] == STATUSES[phase], name
        row: Any = row_of(kind.resource, document)
        assert (row.phase, row.needs_action) == (phase, phase.needs_a_person), name
        assert phase_of(document, ()) is phase, name
        assert phase_of_tree(document) is phase, name
        try:
            status = status_of(document)
            assert status.is_done == (phase.exit_code == 0 and progress.reason != Code.PAUSED) or (
                phase is Phase.PAUSED
            ), name
            assert phase is not Phase.FAILED, name
        except RolloutFailed:
            assert phase.needs_a_person, name
    assert len(met) > 1 or shown.progress == PhaseRules(), "the objects do not tell its phases apart"


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS.values() if kind.control is not None], ids=lambda kind: kind.name
)
def test_the_metric_says_of_a_view_what_is_said_of_the_object(kind: Kind) -> None:
    assert kind.control is not None
    shown, project = shown_by(kind), kind.control.objects.projector()
    for name, document in objects_of(kind):
        whole = with_spec(document)
        view = project(encode(whole))
        if getattr(view, "spec", view) is None and document["kind"] in EXAMPLES:
            assert "%" in name, f"{name}: {view.problem}"  # a percentage where only a number may be
            continue
        assert shown.progress_of(document_of(view)).phase is shown.progress_of(whole).phase, name


def with_spec(document: Document) -> Document:
    """With what a spec of its kind must have to be read: that of its example."""
    example = EXAMPLES.get(document["kind"], {})  # none of kinds that managers make
    spec = deep_copy(example.get("spec") or {})
    for name in ("replicas", "updateStrategy", "paused"):
        spec.pop(name, None)
    return {**document, "spec": {**spec, **document["spec"]}}


@pytest.mark.parametrize("code", list(Code))
def test_the_conditions_of_every_reason_are_of_one_phase(code: Code) -> None:
    kind = KINDS["cloneset"]
    standing = standing_of({}, Reason(code, "…"))
    status = with_kstatus({"observedGeneration": 2}, (), standing=standing, now=NOW)
    phase = shown_by(kind).progress_of({**bare(kind), "status": status}).phase
    assert standing.is_ready == (phase in (Phase.HEALTHY, Phase.PAUSED))
    assert not standing.is_stalled or phase is Phase.DEGRADED
    assert (code in HELD) == (phase is Phase.PAUSED)
    assert code not in NEEDS_A_PERSON or phase is Phase.DEGRADED


def test_every_kind_shows_itself_and_names_itself_as_its_resource_does() -> None:
    for kind in KINDS.values():
        shown = shown_by(kind)
        assert (shown.group, shown.kind) == (kind.resource.group, kind.resource.kind)
        assert shown.progress is not None
        assert shown in all_shown()
    places = [shown.place for shown in all_shown() if shown.columns]
    assert len(set(places)) == len(places)


def test_every_exit_code_and_word_of_argo_cd_is_decided_for_every_phase() -> None:
    assert set(STATUSES) == set(Phase)
    assert {phase: phase.exit_code for phase in Phase} == {
        Phase.HEALTHY: 0,
        Phase.COMPLETED: 0,
        Phase.PAUSED: 0,
        Phase.PROGRESSING: 2,
        Phase.DEGRADED: 3,
        Phase.FAILED: 3,
    }
