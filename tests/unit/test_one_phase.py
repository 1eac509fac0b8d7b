"""An object has the same phase in all outputs: explain, rollout status, the dashboard, Argo CD, the metrics, kstatus.

every kind × objects that its declaration tells apart ──▶ Shown.progress_of() = Lua = rows = explain = metrics
"""

from typing import Any

import pytest

from pykruise.cli.insight.explaining import phase_of
from pykruise.cli.kubectl.statuses import RolloutFailed, status_of
from pykruise.cli.kubectl.trees import phase_of as phase_of_tree
from pykruise.dashboard.jobs import build_job_row
from pykruise.dashboard.others import build_other_row
from pykruise.dashboard.rollouts import build_rollout_row
from pykruise.kinds import list_all_shown
from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document, deep_copy, encode
from pykruise.manager.known_causes import document_of
from pykruise.manager.lua_health import STATUSES, build_health_script
from pykruise.plans.kind import Kind
from pykruise.plans.progress import (
    Phase,
    PhaseRules,
)
from pykruise.pods.reasons import HELD, NEEDS_A_PERSON, Code
from pykruise.pods.workload.kstatus import standing_of
from pykruise.runtime.kstatus import add_kstatus
from pykruise.runtime.reasons import Reason
from pykruise.testing.contents import documents_of
from support.lua import run_lua
from support.phase_objects import KINDS, bare, objects_of, shown_by
from support.sources import ROOT

NOW = parse_time("2026-01-01T00:00:00Z")
EXAMPLES: dict[str, Document] = {
    document["kind"]: document
    for document in documents_of(sorted((ROOT / "examples").glob("**/*.yaml")))
    if document["apiVersion"].startswith(("apps.kruise.io", "policy.kruise.io"))
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_place_shows_the_same_phase(kind: Kind) -> None:
    shown, script = shown_by(kind), build_health_script(shown_by(kind))
    row_of = {"rollouts": build_rollout_row, "jobs": build_job_row, "others": build_other_row}[shown.board]
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
def test_the_metric_of_a_view_equals_the_phase_of_the_object(kind: Kind) -> None:
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
    """The document with the fields that a readable spec must have, from the example of its kind."""
    example = EXAMPLES.get(document["kind"], {})  # objects that managers create have none
    spec = deep_copy(example.get("spec") or {})
    for name in ("replicas", "updateStrategy", "paused"):
        spec.pop(name, None)
    return {**document, "spec": {**spec, **document["spec"]}}


@pytest.mark.parametrize("code", list(Code))
def test_the_conditions_of_every_reason_are_of_one_phase(code: Code) -> None:
    kind = KINDS["cloneset"]
    standing = standing_of({}, Reason(code, "…"))
    status = add_kstatus({"observedGeneration": 2}, (), standing=standing, now=NOW)
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
        assert shown in list_all_shown()
    places = [shown.place for shown in list_all_shown() if shown.columns]
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
