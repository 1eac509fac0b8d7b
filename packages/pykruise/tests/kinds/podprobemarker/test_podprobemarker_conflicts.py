"""Two markers that set one condition of a pod: the first one sets it, and the other one reports it."""

import pytest

from pykruise.kinds.podprobemarker.conflicts import (
    OverwrittenMark,
    ProbeConflict,
    find_conflicts,
    find_overwritten_marks,
)
from pykruise.kinds.podprobemarker.snapshot import PodProbeMarkerSettings
from pykruise.kinds.podprobemarker.wakes import list_wakes
from pykruise.kube.cache.store import Change
from pykruise.kube.ids import Key
from pykruise.plans.views import MARKER_VIEWS
from pykruise.pods.probes.api import PodProbeStatus, ProbeState
from pykruise.pods.probes.marks import marks_of
from pykruise.pods.probes.views import MarkerView
from pykruise.runtime.read import Around, Memories
from support.probe_objects import entry, marker, node_probes, pod, probe
from support.snapshots import listed

GAME, OTHER = marker("game"), marker("other")
OWN_TYPE = marker("own", probe(podConditionType="game.io/own"))


def conflicts(view: MarkerView, *names: str, namespace: str = "shop") -> dict[str, ProbeConflict]:
    entries = node_probes("n1", entry(pod(), *names, namespace=namespace)).pods
    others = {other.name: other for other in (GAME, OTHER, OWN_TYPE) if other is not view}
    return find_conflicts(view, entries, others)


def test_the_marker_of_the_later_probe_has_the_conflict() -> None:
    names = ("game#idle", "other#idle")
    assert conflicts(OTHER, *names) == {"uid-web-0": ProbeConflict("game.io/idle", "idle", "game")}
    assert conflicts(GAME, *names) == {}


def test_the_probe_whose_result_is_reported_first_sets_the_condition() -> None:
    # given the probe of `game` is requested first, and the agent reports the one of `other` first
    entries = node_probes("n1", entry(pod(), "game#idle", "other#idle")).pods
    states = [ProbeState(name=name, state="Succeeded") for name in ("other#idle", "game#idle")]
    results = [PodProbeStatus(name="web-0", namespace="shop", uid="uid-web-0", probe_states=states)]
    # when
    of_game = find_conflicts(GAME, entries, {"other": OTHER}, results=results)
    of_other = find_conflicts(OTHER, entries, {"game": GAME}, results=results)
    # then the order of the report decides, as for the written conditions
    assert of_game == {"uid-web-0": ProbeConflict("game.io/idle", "idle", "other")}
    assert of_other == {}


@pytest.mark.parametrize(
    ("names", "namespace"),
    [
        (("own#idle", "other#idle"), "shop"),
        (("other#idle",), "shop"),
        (("game#unknown", "other#idle"), "shop"),
        (("game#idle", "other#idle"), "elsewhere"),
    ],
    ids=["other types", "alone", "a probe that is no longer in the spec", "pods of another namespace"],
)
def test_there_is_no_conflict_without_a_shared_condition_of_one_pod(
    names: tuple[str, ...], namespace: str
) -> None:
    assert conflicts(OTHER, *names, namespace=namespace) == {}


@pytest.mark.parametrize(
    ("old", "new", "enqueued"),
    [
        (None, OTHER, {GAME.key}),
        (OTHER, None, {GAME.key}),
        (marker("other", probe(podConditionType="game.io/own")), OTHER, {GAME.key, OWN_TYPE.key}),
        (OTHER, OTHER, set()),
        (None, marker("other", probe(podConditionType="game.io/none")), set()),
    ],
    ids=["created", "deleted", "another type", "unchanged", "a type of its own"],
)
def test_markers_that_share_a_changed_type_are_reconciled(
    old: MarkerView | None, new: MarkerView | None, enqueued: set[Key]
) -> None:
    change = Change(key=OTHER.key, old=old, new=new)
    assert woken(change, GAME, OTHER, OWN_TYPE) - {OTHER.key} == enqueued


def woken(change: Change[MarkerView], *markers: MarkerView) -> set[Key]:
    there = {MARKER_VIEWS: markers}
    around = Around(
        listed(there, there),
        settings=PodProbeMarkerSettings(),
        memories=Memories(),
        is_making=lambda _resource, _key: False,
        now=lambda: 0.0,
    )
    wakes = [wake for wake in list_wakes(PodProbeMarkerSettings()) if wake.on is MARKER_VIEWS]
    return {key for wake in wakes for key in wake.keys(change, around)}


# ── labels and annotations ───────────────────────────────────────────────────


def marking(name: str, value: str, *, field: str = "labels", state: str = "Succeeded") -> MarkerView:
    policy = {"state": state, field: {"traffic": value}}
    return marker(name, probe(podConditionType=f"game.io/{name}", markerPolicy=[policy]))


def reported(*names: str, namespace: str = "shop") -> list[PodProbeStatus]:
    states = [ProbeState(name=name, state="Succeeded") for name in names]
    return [PodProbeStatus(name="web-0", namespace=namespace, uid="uid-web-0", probe_states=states)]


@pytest.mark.parametrize(("field", "what"), [("labels", "label"), ("annotations", "annotation")])
def test_the_marker_of_the_earlier_result_loses_its_mark(field: str, what: str) -> None:
    on, off = marking("game", "on", field=field), marking("ops", "off", field=field)
    results = reported("game#idle", "ops#idle")
    # then the later result decides, as for the written labels and annotations
    lost = OverwrittenMark(what, "traffic", "on", "off", "ops", "idle")
    assert find_overwritten_marks(on, {"ops": off}, results=results) == {"uid-web-0": lost}
    assert find_overwritten_marks(off, {"game": on}, results=results) == {}
    policies = [(view.spec.probes[0].marker_policy or (), "Succeeded") for view in (on, off) if view.spec]
    marks = marks_of(policies)
    assert {**marks.labels, **marks.annotations} == {"traffic": lost.shown}


@pytest.mark.parametrize(
    ("other", "namespace"),
    [
        (marking("ops", "on"), "shop"),
        (marking("ops", "off", state="Failed"), "shop"),
        (marking("ops", "off", field="annotations"), "shop"),
        (marking("ops", "off"), "elsewhere"),
    ],
    ids=["the same value", "another state", "an annotation", "pods of another namespace"],
)
def test_no_mark_is_lost_without_another_value(other: MarkerView, namespace: str) -> None:
    results = reported("game#idle", "ops#idle", namespace=namespace)
    assert find_overwritten_marks(marking("game", "on"), {"ops": other}, results=results) == {}


def test_a_marker_that_sets_the_same_label_enqueues_the_other_one() -> None:
    on, off = marking("game", "on"), marking("ops", "off")
    change = Change(key=off.key, old=None, new=off)
    assert woken(change, on, off, OWN_TYPE) == {on.key, off.key}
