"""Simulations of any operator: planted bugs are found, results are repeatable, and correct operators pass."""

from pathlib import Path
from typing import Any

import pytest

from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONFIG_MAPS, Resource
from pykruise.operators import Child, Desired, Observed, operator
from pykruise.runtime.actions import Create, delete_object, patch_object
from pykruise.runtime.control import Control
from pykruise.runtime.objects import DocumentView, build_owner_reference_to, make_object_views
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import Plan, Step, plan_of
from pykruise.runtime.read import Read
from pykruise.runtime.wakes import wake_itself, wake_owner
from pykruise.testing.simulation import (
    FAULTS,
    Fault,
    SimulatedOperation,
    SimulatedStore,
    Simulation,
    SimulationOutcome,
    SimulationScript,
    Violation,
    check,
    create,
    delete,
    hunt,
    load_script,
    patch,
    script_of,
    simulate,
)

SITES = Resource("example.com", "v1", "sites", "Site")
SITE_VIEWS, PAGE_VIEWS = make_object_views(SITES), make_object_views(CONFIG_MAPS)
CRD: Document = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "sites.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Site", "plural": "sites", "singular": "site"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


def site(name: str = "hello") -> Document:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Site",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"html": "<p>"},
    }


ACTIONS = {
    "create": create(site()),
    "write": patch(SITES, "hello", {"spec": {"html": "<b>"}}, {"spec": {"html": "<i>"}}),
    "delete": delete(SITES, "hello"),
}


def html_of(site: DocumentView) -> str:
    return str(site.spec["html"])


# ── a correct operator ───────────────────────────────────────────────────────


def plan_page(observed: Observed) -> Desired:
    site = observed.object
    page = Child(CONFIG_MAPS, f"{site.name}-page", {"data": {"index.html": html_of(site)}})
    return Desired(children=[page], status={"observedGeneration": site.generation})


RIGHT = operator(SITES, plan_page, owns=[CONFIG_MAPS], finalizer="example.com/page")


def each_site_has_its_page(store: SimulatedStore) -> str | None:
    for item in store.list_objects(SITES):
        pages = store.list_owned(item, CONFIG_MAPS)
        if [page["data"]["index.html"] for page in pages] != [item["spec"]["html"]]:
            return f"{item['metadata']['name']} has {len(pages)} pages"
    return None


def a_site_has_one_page(store: SimulatedStore) -> str | None:
    counts = {
        item["metadata"]["name"]: len(store.list_owned(item, CONFIG_MAPS))
        for item in store.list_objects(SITES)
    }
    return next((f"{name} has {count} pages" for name, count in counts.items() if count > 1), None)


def simulation_of(work: Work, **more: Any) -> Simulation:
    given: dict[str, Any] = {
        "actions": ACTIONS,
        "always": [a_site_has_one_page],
        "at_rest": [each_site_has_its_page],
        "controllers": (),
        "nodes": 1,
        **more,
    }
    return Simulation(work=[work], manifests=[CRD], **given)


def test_a_right_operator_breaks_no_rule() -> None:
    assert hunt(simulation_of(RIGHT), seeds=15) is None


@pytest.mark.parametrize("kind", FAULTS)
def test_a_right_operator_survives_every_kind_of_fault(kind: str) -> None:
    """The test runs for every kind of fault, so a new kind is included."""
    script = SimulationScript(
        seed=1,
        operations=(
            SimulatedOperation(1.0, "create"),
            SimulatedOperation(5.0, "write", {"chance": 1}),
            SimulatedOperation(9.0, "write"),
        ),
        faults=tuple(Fault(at, kind, count=2, seconds=3.0) for at in (0.0, 1.0, 5.0)),
    )
    outcome = simulate(simulation_of(RIGHT), script)
    assert not outcome.violations, outcome.violations[0]
    assert any("operator-" in line and "configmaps" in line for line in outcome.trace)


def test_a_script_has_the_same_outcome_each_time() -> None:
    script = script_of(simulation_of(RIGHT), 7)
    assert simulate(simulation_of(RIGHT), script) == simulate(simulation_of(RIGHT), script)


# ── planted bugs ─────────────────────────────────────────────────────────────


def twice_after_a_lost_answer() -> Work:
    """The API server generates the child's name, so a creation with a lost answer makes a second child."""

    async def snapshot(view: DocumentView, read: Read[Any]) -> Any:
        return Observed(
            object=view, owned={CONFIG_MAPS: read.list_owned(PAGE_VIEWS, view.uid)}, now=read.now()
        )

    def plan(observed: Observed) -> Plan:
        site = observed.object
        data = {"index.html": html_of(site)}
        pages = observed.children(CONFIG_MAPS)
        if site.is_deleting:
            return Plan()
        if not pages:
            metadata = {
                "generateName": f"{site.name}-",
                "namespace": site.namespace,
                "ownerReferences": [build_owner_reference_to(SITES, site)],
            }
            body = {"metadata": metadata, "data": data}
            key = Key(site.namespace, "")
            return plan_of(
                "page", Step(action=Create(resource=CONFIG_MAPS, key=key, body=body), because="page")
            )
        if pages[0].doc["data"] == data:
            return Plan()
        action = patch_object(CONFIG_MAPS, pages[0], {"data": data})
        return plan_of("page", Step(action=action, because="page"))

    control = Control(
        name="sites",
        component="sites",
        objects=SITE_VIEWS,
        reads=lambda _: (PAGE_VIEWS,),
        wakes=lambda _: (wake_itself(SITE_VIEWS), wake_owner(PAGE_VIEWS, SITES)),
        snapshot=snapshot,
        object_of=lambda observed: observed.object,
        plan=plan,
    )
    return Work(resource=SITES, control=control)


def test_simulation_finds_shrinks_and_keeps_a_duplicate_creation(tmp_path: Path) -> None:
    # given
    simulation = simulation_of(twice_after_a_lost_answer())
    # when
    with pytest.raises(AssertionError, match="a_site_has_one_page: hello has 2 pages"):
        check(simulation, seeds=1000, keep_in=tmp_path)
    # then
    path = next(tmp_path.glob("*.json"))
    script = load_script(path)
    assert len(script.operations) == 1
    assert len(script.faults) <= 2
    # ... the kept script is played first, and breaks no rule of an operator without the bug
    with pytest.raises(AssertionError, match="breaks a rule again"):
        check(simulation, seeds=0, keep_in=tmp_path)
    check(simulation_of(RIGHT), seeds=0, keep_in=tmp_path)


def test_the_outcome_of_a_failure_broke_the_rule_though_another_run_of_its_script_would_not() -> None:
    """A script that is played in real time can have another outcome each time."""
    played: list[SimulationScript] = []

    def play_once(_: Simulation, script: SimulationScript) -> SimulationOutcome:
        is_first = script not in played
        played.append(script)
        violations = (Violation("a_rule", f"run {len(played)}", 1.0),) if is_first else ()
        return SimulationOutcome(violations=violations, trace=(), seconds=1.0)

    failure = hunt(simulation_of(RIGHT), seeds=1, play=play_once)
    assert failure is not None
    assert failure.outcome.rule == "a_rule"
    assert played[int(failure.outcome.violations[0].what.removeprefix("run ")) - 1] == failure.script


def ports_from_a_stale_read() -> Work:
    """Each Site gets the lowest free port according to a slightly old cache."""

    async def snapshot(view: DocumentView, read: Read[Any]) -> Any:
        others = [item for item in read.list_all(SITE_VIEWS) if item.uid != view.uid]
        return Observed(object=view, owned={SITES: others}, now=read.now())

    def plan(observed: Observed) -> Plan:
        site = observed.object
        if site.is_deleting or site.status.get("port"):
            return Plan()
        used = {other.status.get("port") for other in observed.children(SITES)}
        return Plan(status={"port": next(port for port in range(8000, 9000) if port not in used)})

    control = Control(
        name="ports",
        component="ports",
        objects=SITE_VIEWS,
        wakes=lambda _: (wake_itself(SITE_VIEWS),),
        snapshot=snapshot,
        object_of=lambda observed: observed.object,
        plan=plan,
    )
    return Work(resource=SITES, control=control)


def no_port_is_given_twice(store: SimulatedStore) -> str | None:
    ports = [item.get("status", {}).get("port") for item in store.list_objects(SITES)]
    given = [port for port in ports if port]
    return f"ports {sorted(given)}" if len(set(given)) < len(given) else None


def test_a_decision_from_a_stale_read_is_found() -> None:
    actions = {name: create(site(name)) for name in ("a", "b", "c")}
    simulation = simulation_of(
        ports_from_a_stale_read(), actions=actions, always=[no_port_is_given_twice], at_rest=[]
    )
    failure = hunt(simulation, seeds=1000)
    assert failure is not None
    assert failure.outcome.rule == "no_port_is_given_twice"
    assert len(failure.script.operations) == 2


def pages_without_an_owner(*, forgets: bool = True) -> Work:
    """Pages have no owner, so garbage collection keeps them; a finalizer deletes them, or the operator forgets to."""

    async def snapshot(view: DocumentView, read: Read[Any]) -> Any:
        page = read.get(PAGE_VIEWS, Key(view.namespace, f"{view.name}-page"))
        return Observed(object=view, owned={CONFIG_MAPS: [page] if page else []}, now=read.now())

    def plan(observed: Observed) -> Plan:
        site, pages = observed.object, observed.children(CONFIG_MAPS)
        if not site.is_deleting and not forgets and not site.finalizers:
            patch = patch_object(SITES, site, {"metadata": {"finalizers": ["example.com/page"]}})
            return plan_of("finalizer", Step(action=patch, because="the page has no owner"))
        if site.is_deleting and pages:
            return plan_of(
                "page", Step(action=delete_object(CONFIG_MAPS, pages[0]), because="its Site is deleted")
            )
        if site.is_deleting:
            patch = patch_object(SITES, site, {"metadata": {"finalizers": None}})
            return (
                plan_of("finalizer", Step(action=patch, because="the page is deleted"))
                if site.finalizers
                else Plan()
            )
        if pages:
            return Plan()
        key = Key(site.namespace, f"{site.name}-page")
        body = {
            "metadata": {"name": key.name, "namespace": key.namespace},
            "data": {"index.html": html_of(site)},
        }
        return plan_of("page", Step(action=Create(resource=CONFIG_MAPS, key=key, body=body), because="page"))

    control = Control(
        name="pages",
        component="pages",
        objects=SITE_VIEWS,
        reads=lambda _: (PAGE_VIEWS,),
        wakes=lambda _: (wake_itself(SITE_VIEWS),),
        snapshot=snapshot,
        object_of=lambda observed: observed.object,
        plan=plan,
    )
    return Work(resource=SITES, control=control)


def no_page_is_left_behind(store: SimulatedStore) -> str | None:
    sites = {f"{item['metadata']['name']}-page" for item in store.list_objects(SITES)}
    pages = [item["metadata"]["name"] for item in store.list_objects(CONFIG_MAPS)]
    return next((f"{name} is left" for name in pages if name.endswith("-page") and name not in sites), None)


def test_a_leak_at_deletion_is_found() -> None:
    failure = hunt(
        simulation_of(pages_without_an_owner(), always=[], at_rest=[no_page_is_left_behind]), seeds=1000
    )
    assert failure is not None
    assert failure.outcome.rule == "no_page_is_left_behind"
    assert [operation.do for operation in failure.script.operations] == ["create", "delete"]
    assert failure.script.faults == ()


def test_a_finalizer_that_is_not_forgotten_leaks_nothing() -> None:
    work = pages_without_an_owner(forgets=False)
    assert hunt(simulation_of(work, always=[], at_rest=[no_page_is_left_behind]), seeds=15) is None


# ── other problems that a simulation reports ─────────────────────────────────


async def end_at_once(client: Client, clock: Clock, rng: Any) -> None:
    raise ValueError("bug")


def test_an_operator_that_ends_breaks_a_rule() -> None:
    simulation = Simulation(start=end_at_once, manifests=[CRD], controllers=(), nodes=0)
    outcome = simulate(simulation, SimulationScript(seed=0))
    assert outcome.rule == "operator"
    assert "ValueError: bug" in outcome.violations[0].what


def test_an_operator_that_never_stops_writing_breaks_a_rule() -> None:
    def flip(observed: Observed) -> Desired:
        return Desired(status={"at": observed.now}, requeue_after_s=1.0)

    simulation = Simulation(
        work=[operator(SITES, flip)], manifests=[CRD, site()], controllers=(), nodes=0, patience_s=90.0
    )
    assert simulate(simulation, SimulationScript(seed=0)).rule == "rest"


def test_a_rule_that_fails_itself_is_a_broken_rule() -> None:
    def wrong(store: SimulatedStore) -> str | None:
        raise KeyError("spec")

    outcome = simulate(
        simulation_of(RIGHT, always=[wrong]),
        SimulationScript(seed=0, operations=(SimulatedOperation(0.0, "create"),)),
    )
    assert outcome.rule == "wrong"
    assert "KeyError" in outcome.violations[0].what
