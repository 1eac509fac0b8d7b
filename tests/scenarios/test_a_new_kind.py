"""A kind is a folder: pykruise knows a folder beside those of the other kinds everywhere, without another change.

tests/support/new_kind/crew ──▶ pykruise.kinds.__path__ ──▶ definitions, roles, flags, admission, conversion,
                                                           manager, doctor, explain, plan, simulate
"""

import asyncio
import random
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grimp
import msgspec
import pytest
import yaml
from importlinter.contracts.independence import IndependenceContract
from prometheus_client import generate_latest
from prometheus_client.registry import CollectorRegistry

import pykruise.kinds
from pykruise.admission.configurations import Endpoint, build_configurations
from pykruise.admission.match_conditions import list_due_conditions
from pykruise.admission.reviewers import ReviewContext, build_reviewers, steps_of_pods
from pykruise.admission.selector_index import list_selecting_kinds, list_selectors
from pykruise.admission.settings import AdmissionSettings, make_admission_settings
from pykruise.cli.errors import CommandError
from pykruise.cli.explain import run_explain
from pykruise.cli.kubectl.entry import run_async
from pykruise.cli.kubectl.flags import CommandCall
from pykruise.cli.kubectl.session import Reached, Surroundings
from pykruise.cli.plan import run_plan
from pykruise.cli.playground import Playground, start_playground
from pykruise.cli.simulate import Conditions, run_simulate
from pykruise.dashboard.actions import actions_of as buttons_of
from pykruise.dashboard.rollouts import build_rollout_row, list_rollout_resources
from pykruise.kinds import build_crds, find_kind
from pykruise.kinds.gates import Gates
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Transport, WrappedTransport
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.documents import decode
from pykruise.kube.errors import ApiError, InvalidError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, PODS, Resource
from pykruise.kube.webhooks.reviews import index_rules_by_path
from pykruise.manager.argocd import build_config_map
from pykruise.manager.doctor.findings import FindingLevel
from pykruise.manager.doctor.kinds import check_crds
from pykruise.manager.doctor.live import Live
from pykruise.manager.flags import format_flag_help, parse
from pykruise.manager.install import Installation, build_manifests
from pykruise.manager.manager import Manager
from pykruise.manager.roles import list_needed_rights
from pykruise.manager.settings import ManagerSettings
from pykruise.manager.state_metrics import make_state_registry
from pykruise.manager.webhook_metrics import WebhookMetrics
from pykruise.manager.webhooks import Webhooks
from pykruise.plans.pod_steps import PreventedDisruption
from pykruise.sandbox.cluster import ClusterSettings
from support.lua import run_lua
from support.paper import START
from tools.api_reference import render_reference

pytestmark = pytest.mark.sandbox_only

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "support" / "new_kind"

CREWS = Resource("apps.kruise.io", "v1beta1", "crews", "Crew")
OLD_CREWS = Resource("apps.kruise.io", "v1alpha1", "crews", "Crew")

Object = dict[str, Any]


@pytest.fixture(autouse=True)
def new_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the folder of the new kind to those of the other kinds."""
    monkeypatch.setattr(pykruise.kinds, "__path__", [*pykruise.kinds.__path__, str(FOLDER)])


def crew(**spec: Any) -> Object:
    template = {
        "metadata": {"labels": {"app": "deck"}},
        "spec": {"containers": [{"name": "a", "image": "a:1"}]},
    }
    return {
        "apiVersion": CREWS.api_version,
        "kind": "Crew",
        "metadata": {"name": "deck", "namespace": "default"},
        "spec": {"template": template, **spec},
    }


@asynccontextmanager
async def place() -> AsyncIterator[Playground]:
    """A playground with the parts that `pykruise up` starts."""
    async with start_playground(ClusterSettings(nodes=2), clock=make_loop_clock(start=START)) as result:
        yield result


def reaching(client: Client) -> Any:
    @asynccontextmanager
    async def reach(_kubeconfig: Path | None, _context: str | None) -> AsyncIterator[tuple[Client, str]]:
        yield client, "default"

    return reach


async def until(claim: Callable[[], Awaitable[bool]]) -> None:
    """Wait in virtual time until the claim is true."""
    async with asyncio.timeout(60):
        while not await claim():
            await asyncio.sleep(0.1)


async def pods_of(client: Client) -> list[str]:
    return sorted(decode(raw)["metadata"]["name"] for raw in (await client.list(PODS, "default")).items)


# ── what is printed ──────────────────────────────────────────────────────────


def test_a_new_kind_is_among_all_definitions_and_on_the_page_of_fields() -> None:
    (crd,) = [crd for crd in build_crds() if crd["metadata"]["name"] == "crews.apps.kruise.io"]
    assert [version["name"] for version in crd["spec"]["versions"]] == ["v1alpha1", "v1beta1"]
    assert "\n## Crew\n" in render_reference()


def test_an_installation_has_its_roles_and_webhooks() -> None:
    documents = build_manifests(Installation())
    rules = [
        rule for doc in documents if doc["metadata"]["name"] == "kruise-manager-role" for rule in doc["rules"]
    ]
    allowed = {(verb, name) for rule in rules for name in rule["resources"] for verb in rule["verbs"]}
    assert {("list", "crews"), ("watch", "crews"), ("patch", "crews/status")} <= allowed
    asked = {hook["name"] for doc in documents for hook in doc.get("webhooks") or ()}
    assert "vcrew.kb.io" in asked


def test_the_kind_needs_no_permissions_and_has_no_controller_without_its_gate() -> None:
    # given
    gates = Gates.of(CrewGate=False)
    # when
    documents = build_manifests(Installation(gates=gates))
    manager = Manager(_no_client(), settings=ManagerSettings(gates=gates))
    # then
    roles = [doc for doc in documents if doc["metadata"]["name"] == "kruise-manager-role"]
    assert "crews" not in str(roles)
    assert find_kind("Crew") not in manager.kinds
    assert find_kind("Crew") in Manager(_no_client(), settings=ManagerSettings()).kinds


def _no_client() -> Client:
    class Nowhere:
        """A transport that is never asked."""

    return Client(Nowhere())  # type: ignore[arg-type]


def test_a_new_kind_adds_its_gate_workers_and_settings_as_flags() -> None:
    parsed = parse(["--feature-gates=CrewGate=false", "--crew-workers=7", "--crew-largest=3"], environ={})
    assert not parsed.settings.gates["CrewGate"]
    assert parsed.settings.tuning.workers["crew"] == 7
    assert parsed.settings.read_kind_settings(find_kind("Crew")).largest == 3
    assert "--crew-largest" in format_flag_help()


def test_api_servers_are_configured_with_the_kinds_webhook() -> None:
    rules = build_reviewers(AdmissionSettings())
    validating = [
        doc for doc in build_configurations(rules, Endpoint()) if doc["kind"].startswith("Validating")
    ]
    (hook,) = [
        webhook for doc in validating for webhook in doc["webhooks"] if webhook["name"] == "vcrew.kb.io"
    ]
    assert hook["clientConfig"]["service"]["path"] == "/validate-apps-kruise-io-crew"
    (rule,) = hook["rules"]
    assert (rule["apiVersions"], rule["resources"]) == (["v1alpha1", "v1beta1"], ["crews"])


# ── a cluster ────────────────────────────────────────────────────────────────


async def test_the_manager_reconciles_it() -> None:
    async with place() as result:
        # when
        await result.client.create(CREWS, "default", crew(size=3))
        # then
        await until(lambda: _has_pods(result.client, 3))
        await result.client.patch(CREWS, "default", "deck", {"spec": {"size": 1}}, patch_type=PatchType.MERGE)
        await until(lambda: _has_pods(result.client, 1))
        await until(lambda: _is_ready(result.client, 1))


async def _has_pods(client: Client, count: int) -> bool:
    return len(await pods_of(client)) == count


async def _is_ready(client: Client, size: int) -> bool:
    status = decode(await client.get(CREWS, "default", "deck")).get("status") or {}
    return bool(status.get("ready") == size)


async def test_admission_refuses_an_invalid_object_in_both_versions() -> None:
    async with place() as result:
        with pytest.raises(InvalidError, match=r"spec\.size: Invalid value: 11: must be from 0 to 10"):
            await result.client.create(CREWS, "default", crew(size=11))
        old = {**crew(members=11), "apiVersion": OLD_CREWS.api_version}
        with pytest.raises(InvalidError, match="must be from 0 to 10"):
            await result.client.create(OLD_CREWS, "default", old)


async def test_versions_of_a_new_kind_are_converted() -> None:
    async with place() as result:
        old = {**crew(members=2), "apiVersion": OLD_CREWS.api_version}
        await result.client.create(OLD_CREWS, "default", old)
        stored = decode(await result.client.get(CREWS, "default", "deck"))
        assert stored["spec"]["size"] == 2
        assert "members" not in stored["spec"]


async def test_doctor_misses_its_definition() -> None:
    async with place() as result:
        live = Live(result.client, clock=result.cluster.clock)
        assert [crd.level for crd in await check_crds(live)] == [FindingLevel.OK]
        # when
        await result.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "", "crews.apps.kruise.io")
        # then
        (fault,) = await check_crds(Live(result.client, clock=result.cluster.clock))
        assert fault.level is FindingLevel.FAULT
        assert "crews.apps.kruise.io is not installed" in fault.format_line()


async def test_explain_and_plan_support_a_new_kind() -> None:
    async with place() as result:
        await result.client.create(CREWS, "default", crew(size=2))
        await until(lambda: _is_ready(result.client, 2))
        printed: list[str] = []
        common: Object = {
            "namespace": None,
            "kubeconfig": None,
            "context": None,
            "output": "text",
            "say": printed.append,
            "reach": reaching(result.client),
        }
        # when
        await run_explain("crews/deck", watch=False, **common)
        # then
        assert "Crew default/deck" in printed[0]
        assert "2 of 2 available" in printed[0]
        # when
        code = await run_plan(file=None, target="crew/deck", sets=["size=4"], **common)
        # then
        assert code == 2
        assert "Crew default/deck: would change" in printed[1]
        assert "deck-2" in printed[1]
        assert "deck-3" in printed[1]
        # when the size exceeds the maximum of a Crew
        assert await run_plan(file=None, target="crew/deck", sets=["size=12"], **common) == 1
        assert "must be from 0 to 10" in printed[2]
        with pytest.raises(CommandError, match="crews"):
            await run_explain("ships/deck", watch=False, **common)


async def test_simulate_plays_it(tmp_path: Path) -> None:
    # given
    file = tmp_path / "crew.yaml"
    file.write_text(yaml.safe_dump(crew(size=3)))
    printed: list[str] = []
    # when
    await run_simulate(file, changes=(), conditions=Conditions(), svg=None, output="text", say=printed.append)
    # then
    assert "complete" in printed[0]
    assert "create: deck-0, deck-1, deck-2" in printed[0]


# ── how it shows itself ──────────────────────────────────────────────────────


async def run_kubectl(value: Playground, *argv: str) -> tuple[int, str]:
    """The exit code of `kubectl kruise`, and what it printed."""

    class Here(msgspec.Struct, frozen=True):
        """The cluster of the test."""

        transport: Transport
        namespace: str

    async def connect(_: CommandCall) -> Reached:
        return Here(_StaysOpen(value.client.transport), "default")

    said: list[str] = []
    around = Surroundings(out=said.append, err=said.append, connect=connect, clock=value.cluster.clock)
    return await run_async(argv, around), "".join(said)


class _StaysOpen(WrappedTransport):
    async def close(self) -> None:
        """Leave it open, because others use it too."""


async def test_the_verbs_of_kubectl_kruise_support_a_new_kind() -> None:
    async with place() as result:
        await result.client.create(CREWS, "default", crew(size=2))
        # when its rollout is waited for
        code, said = await run_kubectl(result, "rollout", "status", "crew/deck", "--timeout=60s")
        # then
        assert (code, said.splitlines()[-1]) == (0, 'Crew "deck" is healthy: 2 of 2 are on deck')
        # and it has a table
        _, said = await run_kubectl(result, "get", "all")
        assert "crews.apps.kruise.io:\nNAME   SIZE   READY   AGE\ndeck   2      2" in said
        # when it is paused, a new size has no effect yet
        assert (await run_kubectl(result, "rollout", "pause", "crew/deck"))[0] == 0
        await result.client.patch(CREWS, "default", "deck", {"spec": {"size": 3}}, patch_type=PatchType.MERGE)
        await until(lambda: _is_observed(result.client))
        stored = decode(await result.client.get(CREWS, "default", "deck"))
        assert stored["spec"]["paused"] is True
        # and a restart changes its template
        assert (await run_kubectl(result, "rollout", "restart", "crew/deck"))[0] == 0
        stored = decode(await result.client.get(CREWS, "default", "deck"))
        (variable,) = stored["spec"]["template"]["spec"]["containers"][0]["env"]
        assert variable["name"] == "RESTARTED_AT"


async def _is_observed(client: Client) -> bool:
    result = decode(await client.get(CREWS, "default", "deck"))
    return bool(result["status"]["observedGeneration"] == result["metadata"]["generation"])


def crew_with(generation: int = 1, **status: Any) -> Object:
    made = crew(size=2)
    made["metadata"] |= {"generation": generation, "uid": "u", "resourceVersion": "1"}
    return {**made, "status": {"observedGeneration": 1, **status}}


STATES = [
    (crew_with(size=2, ready=2), "Healthy", "Healthy"),
    (crew_with(size=1, ready=1), "Progressing", "Progressing"),
    (crew_with(generation=2, size=2, ready=2), "Progressing", "Progressing"),
]


@pytest.mark.parametrize(("document", "phase", "health"), STATES)
def test_a_new_kind_has_a_dashboard_row_and_a_health_in_argo_cd(
    document: Object, phase: str, health: str
) -> None:
    # the dashboard
    assert CREWS in list_rollout_resources()
    row = build_rollout_row(CREWS, document)
    assert (row.phase, row.needs_action, row.images) == (phase, False, ("a:1",))
    assert {action.id for action in buttons_of(CREWS, document)} == {"pause", "restart", "image-0"}
    # Argo CD
    data = build_config_map()["data"]
    said = run_lua(data["resource.customizations.health.apps.kruise.io_Crew"], document)
    assert said["status"] == health
    actions = yaml.safe_load(data["resource.customizations.actions.apps.kruise.io_Crew"])
    assert [definition["name"] for definition in actions["definitions"]] == ["restart", "pause", "resume"]


async def test_a_new_kind_has_metrics() -> None:
    async with place() as result:
        await result.client.create(CREWS, "default", crew(size=2))
        await until(lambda: _is_ready(result.client, 2))
        series = generate_latest(make_state_registry(result.manager)).decode()
    assert 'pykruise_phase{kind="Crew",name="deck",namespace="default",phase="Healthy"} 1.0' in series
    assert 'kruise_crew_status_ready{crew="deck",namespace="default"} 2.0' in series


# ── admission of pods ──────────────────────────────────────────────────────────


def mate(name: str = "mate") -> Object:
    return {
        "metadata": {"name": name, "labels": {"crew.example.com/mate-of": "deck"}},
        "spec": {"containers": [{"name": "a", "image": "a:1"}]},
    }


async def evict(client: Client, name: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    await client.create(PODS, "default", eviction, name=name, subresource="eviction")


async def test_the_pod_step_of_a_new_kind_changes_a_new_pod_of_others() -> None:
    async with place() as result:
        await result.client.create(CREWS, "default", crew(size=2))
        # when
        created = decode(await result.client.create(PODS, "default", mate()))
        # then
        assert created["metadata"]["annotations"] == {"crew.example.com/size": "2"}


async def test_the_pod_step_of_the_kind_refuses_an_eviction_with_an_event_on_the_pod() -> None:
    async with place() as result:
        await result.client.create(CREWS, "default", crew(size=1))
        await until(lambda: _is_ready(result.client, 1))
        # when
        with pytest.raises(ApiError, match="the last of Crew deck") as refused:
            await evict(result.client, "deck-0")
        # then
        assert refused.value.status.code == 429
        await until(lambda: _has_event(result.client, "LastMate"))
        # when the pod is not the last one
        await result.client.patch(CREWS, "default", "deck", {"spec": {"size": 2}}, patch_type=PatchType.MERGE)
        await until(lambda: _is_ready(result.client, 2))
        await evict(result.client, "deck-0")


async def _has_event(client: Client, reason: str) -> bool:
    events = [decode(raw) for raw in (await client.list(EVENTS, "default")).items]
    return any(event["reason"] == reason for event in events)


async def test_the_managers_webhooks_read_the_kind_from_a_cache_and_narrow_their_conditions() -> None:
    async with place() as result:
        webhooks = Webhooks(result.client, clock=result.cluster.clock, rng=random.Random(1))
        reader = webhooks.reviews.readers["crew"]
        running = asyncio.create_task(reader.run())
        try:
            await until(lambda: _is_read(reader))
            assert len(reader.objects.find_known()) == 0
            without = list_due_conditions(
                index_rules_by_path(build_reviewers()), await _selectors(result.client)
            )
            # when
            await result.client.create(CREWS, "default", crew(size=1))
            await until(lambda: _knows_one(reader))
            # then API servers ask about pods of its namespace
            due = list_due_conditions(index_rules_by_path(build_reviewers()), await _selectors(result.client))
            for path in ("/mutate-pod", "/validate-pod"):
                (before,), (after,) = without[path], due[path]
                assert '"default"' in after.expression
                assert '"default"' not in before.expression
        finally:
            running.cancel()


async def _is_read(reader: Any) -> bool:
    return not reader.list_problems()


async def _knows_one(reader: Any) -> bool:
    return len(reader.objects.find_known() or ()) == 1


async def _selectors(client: Client) -> Any:
    return await list_selectors(client, list_selecting_kinds(AdmissionSettings()))


def test_evictions_that_it_refused_are_counted_under_its_own_name() -> None:
    registry, metrics = CollectorRegistry(), WebhookMetrics()
    metrics.register(registry, paths=(), shed=lambda: 0)
    metrics.prevent(
        PreventedDisruption(
            namespace="default", pod="deck-0", kind="Crew", name="deck", uid="u", owner=None, username="alice"
        )
    )
    labels = {"kind_namespace_name": "unknown_default_deck-0", "username": "alice"}
    assert registry.get_sample_value("crew_last_mate", labels) == 1


def test_the_kind_takes_no_part_and_webhooks_get_no_permission_for_it_without_its_gate() -> None:
    def names(gates: Gates) -> list[str]:
        steps = steps_of_pods(make_admission_settings(gates), ReviewContext())
        return [step.name for step in (*steps.changing, *steps.judging)]

    assert names(Gates()).count("crew") == 2
    assert "crew" not in names(Gates.of(CrewGate=False))
    assert any(right.why == "Crew: which pod is evicted" for right in list_needed_rights(Gates()))
    assert not any(right.why.startswith("Crew") for right in list_needed_rights(Gates.of(CrewGate=False)))


# ── imports ──────────────────────────────────────────────────────────────────


def test_a_new_kind_must_not_import_another_kind() -> None:
    # given the contract in pyproject.toml, and a new kind that imports another kind
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    (options,) = [contract for contract in settings["contracts"] if contract["type"] == "independence"]
    contract = IndependenceContract(options["name"], settings, options)
    graph = grimp.build_graph("pykruise", include_external_packages=True)
    assert contract.check(graph, verbose=False).kept
    # when
    graph.add_module("pykruise.kinds.crew")
    graph.add_module("pykruise.kinds.crew.plan")
    graph.add_import(importer="pykruise.kinds.crew.plan", imported="pykruise.kinds.cloneset.plan")
    # then
    assert not contract.check(graph, verbose=False).kept
