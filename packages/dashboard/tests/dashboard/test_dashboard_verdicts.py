"""Verdicts of rows: the objects that are explained, how often, and how long a verdict is valid."""

from typing import Any

import orjson
import pytest

from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.dashboard.feeds import Feeds
from pykruise.dashboard.objects import DashboardObject, views_of_all
from pykruise.dashboard.verdicts import AGAIN_S, AT_LEAST_S, AT_ONCE, Known, Target, Verdicts, build_verdict
from pykruise.kinds import list_kinds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code


def target(name: str, *, namespace: str = "shop", resource: Any = CLONE_SETS) -> Target:
    return Target(resource, Key(namespace, name))


class Looks:
    """The objects that would be explained, without explaining them."""

    def __init__(self) -> None:
        client: Any = None
        self.verdicts = Verdicts(client, lambda _target, _known: None, clock=lambda: 0.0)

    def looked_at(self, now: float) -> list[str]:
        """Names of the objects that are explained at this time."""
        return [target.key.name for target in self.verdicts.take_next_targets(now)]


def test_a_round_explains_few_objects_and_those_in_progress_first() -> None:
    looks = Looks()
    for number in range(20):
        phase = "Progressing" if number >= 18 else "Healthy"
        looks.verdicts.put(target(f"web-{number}"), uid="u", status_phase=phase)
    first = looks.looked_at(0.0)
    assert len(first) == AT_ONCE
    assert first[:2] == ["web-18", "web-19"]
    seen = [*first, *looks.looked_at(0.1), *looks.looked_at(0.2)]
    assert len(set(seen)) == 20
    assert looks.looked_at(0.3) == []


def test_a_constantly_changing_object_is_explained_at_most_once_per_interval() -> None:
    looks = Looks()
    seen = 0
    for tick in range(100):  # ten seconds, with a change in each tenth of a second
        looks.verdicts.put(target("web"), uid="u", status_phase="Progressing")
        seen += len(looks.looked_at(tick / 10))
    assert seen == 10 / AT_LEAST_S


def test_a_change_nearby_explains_an_object_again_unless_its_status_is_healthy() -> None:
    looks = Looks()
    looks.verdicts.put(target("calm"), uid="u", status_phase="Healthy")
    looks.verdicts.put(target("moves"), uid="u", status_phase="Progressing")
    looks.verdicts.put(target("keep", resource=POD_UNAVAILABLE_BUDGETS), uid="u", status_phase="Healthy")
    looks.verdicts.put(target("far", namespace="other"), uid="u", status_phase="Progressing")
    looks.looked_at(0.0)
    looks.verdicts.touch("shop")
    assert set(looks.looked_at(5.0)) == {"moves", "keep"}
    looks.verdicts.touch("")
    assert set(looks.looked_at(10.0)) == {"moves", "keep", "far"}


def test_an_object_is_explained_again_after_a_while_and_a_deleted_one_never() -> None:
    looks = Looks()
    looks.verdicts.put(target("moves"), uid="u", status_phase="Progressing")
    assert looks.looked_at(0.0) == ["moves"]
    assert looks.looked_at(AGAIN_S - 1) == []
    assert looks.looked_at(AGAIN_S) == ["moves"]
    looks.verdicts.remove(target("moves"))
    assert looks.looked_at(10 * AGAIN_S) == []


# ── in rows ──────────────────────────────────────────────────────────────────


class Caches(dict[Any, Any]):
    """Caches that each have this one object."""

    def __init__(self, view: DashboardObject) -> None:
        class One:
            def subscribe(self, _handler: Any) -> None:
                """The object never changes, so no handler is called."""

            def get(self, _key: Key) -> DashboardObject:
                return view

            def list_by_index(self, _index: str, _value: str) -> list[DashboardObject]:
                return []

        super().__init__({resource: One() for resource in views_of_all()})


def view_of(document: Document, resource: Any) -> DashboardObject:
    return views_of_all()[resource].projector()(orjson.dumps(document))


def explanation(phase: Phase) -> Explanation:
    wait = Wait(code=Code.WRITE_FAILED, words="pod web-a is refused", pods=("web-a",), remedy="mend it")
    return Explanation(
        kind="X", namespace="shop", name="web", verdict="waiting", headline="…", phase=phase, waits=(wait,)
    )


WATCHED = [kind for kind in list_kinds() if kind.versions]


@pytest.mark.parametrize("kind", WATCHED, ids=lambda kind: kind.name)
def test_the_row_of_every_kind_takes_the_verdict_and_its_cause_needs_the_right_to_list_pods(
    kind: Any,
) -> None:
    meta = {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 1}
    document = {"metadata": meta, "spec": {}, "status": {"observedGeneration": 1}}
    feeds = Feeds(Caches(view_of(document, kind.resource)), clock=lambda: 0.0)
    own = kind.shown.progress_of({**document, "kind": kind.resource.kind}).phase
    known = Known(build_verdict(explanation(Phase.DEGRADED)), own, "u")
    feeds.take(Target(kind.resource, Key("shop", "web")), known)
    board = {"rollouts": feeds.rollouts, "jobs": feeds.jobs, "others": feeds.others}[kind.shown.board]
    rows = {row.id: row for row in board.list_rows()}
    key = f"{kind.resource}/shop/web"
    body = orjson.loads(rows[key].body)
    assert (body["phase"], body["needs_action"]) == ("Degraded", True)
    assert (rows[f"why/{key}"].resource, rows[f"why/{key}"].namespace) == ("pods", "shop")
    assert b"web-a" not in rows[key].body


def test_a_verdict_ends_when_the_status_phase_changes() -> None:
    meta = {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "1", "generation": 1}
    document = {"metadata": meta, "spec": {"replicas": 0}, "status": {"observedGeneration": 1}}
    feeds = Feeds(Caches(view_of(document, CLONE_SETS)), clock=lambda: 0.0)
    known = Known(build_verdict(explanation(Phase.DEGRADED)), "Progressing", "u")  # the status is Healthy now
    feeds.take(Target(CLONE_SETS, Key("shop", "web")), known)
    (row,) = (row for row in feeds.rollouts.list_rows() if not row.id.startswith("why/"))
    assert orjson.loads(row.body)["phase"] == "Healthy"


def test_the_verdict_of_a_deleted_object_does_not_apply_to_its_successor() -> None:
    meta = {"name": "web", "namespace": "shop", "uid": "new", "resourceVersion": "1", "generation": 1}
    feeds = Feeds(Caches(view_of({"metadata": meta, "spec": {}}, CLONE_SETS)), clock=lambda: 0.0)
    known = Known(build_verdict(explanation(Phase.DEGRADED)), "Progressing", "old")
    feeds.take(Target(CLONE_SETS, Key("shop", "web")), known)
    assert feeds.rollouts.list_rows() == []
