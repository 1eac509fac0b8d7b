"""The pods that API servers send for review while SidecarSets are created and deleted; no pod may be missed."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from pykruise.admission.certificates import Certificates
from pykruise.admission.configurations import (
    MUTATING,
    MUTATING_NAME,
    VALIDATING,
    VALIDATING_NAME,
    Endpoint,
    build_configurations,
    read_current_conditions,
)
from pykruise.admission.match_conditions import (
    OPENED_FOR,
    ConditionRemover,
    announce_selection,
    list_widest_conditions,
)
from pykruise.admission.reviewers import ReviewContext, build_reviewers
from pykruise.admission.settings import AdmissionSettings
from pykruise.admission.stores import SecretStore
from pykruise.admission.webhook_plan import CONFIRM_S, CrdView, WebhookTarget
from pykruise.admission.webhook_sync import WebhookSync, WebhookSyncError
from pykruise.kinds.gates import Gates
from pykruise.kinds.sidecarset.snapshot import SIDECAR_SET_VIEWS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest
from pykruise.kube.client.client import Client
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ApiError, ConflictError, ErrorStatus
from pykruise.kube.resources import Resource
from pykruise.kube.values.cel import Interests, LabelSelection
from pykruise.kube.values.selectors import parse_selector
from pykruise.kube.webhooks.reviews import index_rules_by_path
from pykruise.plans.pod_steps import PodSelection, Webhook
from pykruise.pods.probes.views import POD_PROBE_MARKERS
from pykruise.pods.workload.budgets import POD_UNAVAILABLE_BUDGETS
from support.reviews import request
from support.sandbox import small_cluster

ALL = build_reviewers()
SELECTION = PodSelection(views=SIDECAR_SET_VIEWS, announces=("selector", "namespaceSelector"))
RULES = index_rules_by_path(ALL)
QUIET_S, SETTLE_S = 120.0, 1.0
CRDS = [
    CrdView(name=kind, uid=kind, resource_version=1, group=group, kind=kind, versions=1, conversion=None)
    for group, kind in {rule.needs for rule in ALL if rule.needs is not None}
]


def meant(app: str) -> LabelSelection:
    return LabelSelection(selector=parse_selector({"matchLabels": {"app": app}}))


class World:
    """A webhook configuration, stored SidecarSets, and replicas that fit the configuration to them."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sets: dict[str, LabelSelection] = {}

    def interests(self) -> Interests:
        return {"SidecarSet": list(self.sets.values()), "WorkloadSpread": (), "PodUnavailableBudget": ()}

    def replica(
        self,
        known: Callable[[], Interests | None] | None = None,
        read: Callable[[], Awaitable[Interests]] | None = None,
    ) -> "Replica":
        async def list_all() -> Interests:
            return self.interests()

        return Replica(self.client, known or self.interests, read or list_all)

    async def live(self) -> Document:
        return decode(await self.client.get(MUTATING, "", MUTATING_NAME))

    async def asked_about(self) -> str:
        """The condition for the pods that API servers send for review; empty: all pods."""
        match_conditions = read_current_conditions(await self.live())["/mutate-pod"]
        return match_conditions[0].expression if match_conditions else ""


class Replica:
    """A manager: its passes over the configurations, and its reviews."""

    def __init__(
        self,
        client: Client,
        known: Callable[[], Interests | None],
        read: Callable[[], Awaitable[Interests]],
    ) -> None:
        self.remover = ConditionRemover(client, settle_s=SETTLE_S)
        self.again_s: float | None = None
        self._sync = WebhookSync(
            client,
            SecretStore(client, namespace="kruise-system", name="certs"),
            target=WebhookTarget(
                rules=RULES,
                converted=frozenset(),
                endpoint=Endpoint(),
                is_managed=True,
                quiet_s=QUIET_S,
            ),
            remover=self.remover,
            selectors=known,
            list_selectors=read,
            serve=unserved,
            renew_before_s=1.0,
            clock=read_system_clock,
        )

    async def keep_up(self) -> None:
        """Make one pass. Raises WebhookSyncError when a configuration changed in the meantime."""
        self.again_s = await self._sync.sync_configurations(b"", CRDS)

    async def settle(self) -> None:
        """Make passes until nothing is left to do."""
        await self.keep_up()
        await self.keep_up()
        while self.again_s is not None:
            await asyncio.sleep(self.again_s)
            await self.keep_up()
            await self.keep_up()


async def unserved(_: Certificates) -> None:
    raise AssertionError("only configurations are kept here")


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with small_cluster(nodes=0) as place:
        for resource, doc in zip((MUTATING, VALIDATING), build_configurations(ALL, Endpoint()), strict=True):
            await place.client.create(resource, "", doc)
        yield World(place.client)


def now() -> float:
    return asyncio.get_running_loop().time()


def asked(name: str, uid: str = "review-1", *, of: Resource = SIDECAR_SETS) -> AdmissionRequest:
    return msgspec.structs.replace(request(of, {"metadata": {"name": name}}), uid=uid)


async def test_only_pods_of_own_workloads_are_reviewed_after_a_while_without_sidecarsets() -> None:
    async with world() as it:
        # given entries that were written twice
        replica = it.replica()
        for _ in range(2):
            await replica.keep_up()
            await replica.keep_up()
            await asyncio.sleep(CONFIRM_S)
        assert await it.asked_about() == ""
        await asyncio.sleep(QUIET_S - CONFIRM_S - 1)
        await replica.keep_up()
        assert await it.asked_about() == "", "not before it was quiet for so long"
        await asyncio.sleep(1)
        await replica.keep_up()
        assert "apps.kruise.io/" in await it.asked_about()
        assert "labels" not in await it.asked_about()
        await replica.settle()
        assert replica.again_s is None


async def test_api_servers_never_send_reviews_of_pod_updates_without_a_reviewer() -> None:
    async with world() as it:
        replica = it.replica(known=lambda: {"WorkloadSpread": [meant("web")], "PodUnavailableBudget": ()})
        await replica.keep_up()
        live = decode(await it.client.get(VALIDATING, "", VALIDATING_NAME))
        (condition,) = read_current_conditions(live)["/validate-pod"]
        assert condition.expression == list_widest_conditions(RULES)["/validate-pod"][0].expression
        assert '"UPDATE"' not in condition.expression
        assert 'request.operation == "DELETE"' in condition.expression
        assert 'request.operation == "CREATE"' in condition.expression, "evictions, while spreads change"
        await replica.keep_up()
        await asyncio.sleep(QUIET_S)
        assert replica.again_s is not None, "what is stored says less, later"


async def test_a_sidecarset_created_without_a_review_widens_the_conditions_immediately() -> None:
    """The object may have been restored from a backup."""
    async with world() as it:
        replica = it.replica()
        await replica.settle()
        it.sets["log"] = meant("web")
        await replica.keep_up()
        assert await it.asked_about() == ""
        await replica.settle()
        assert 'object.metadata.labels["app"] in ["web"]' in await it.asked_about()
        # and when the SidecarSet is deleted
        del it.sets["log"]
        await replica.settle()
        assert "labels" not in await it.asked_about()


async def test_a_sidecarset_is_allowed_when_api_servers_had_time_to_load_the_new_conditions() -> None:
    async with world() as it:
        replica = it.replica()
        await replica.settle()
        started = now()
        await replica.remover.remove(asked("log"), "mutating")
        assert now() - started == SETTLE_S
        assert await it.asked_about() == ""
        # the next one, a moment later, need not wait: API servers have been sending every pod since then
        started = now()
        await replica.remover.remove(asked("proxy", "review-2"), "mutating")
        assert now() == started
        # but another replica waits, because it does not know since when every pod is sent
        await it.replica().remover.remove(asked("dns", "review-3"), "mutating")
        assert now() - started == SETTLE_S


async def test_a_budget_is_allowed_when_api_servers_had_time_to_load_the_conditions_of_evictions() -> None:
    async with world() as it:
        # given no object for which evictions would be reviewed
        replica = it.replica()
        await replica.settle()

        async def judged() -> str:
            live = decode(await it.client.get(VALIDATING, "", VALIDATING_NAME))
            match_conditions = read_current_conditions(live)["/validate-pod"]
            return match_conditions[0].expression if match_conditions else ""

        assert 'request.operation == "CREATE"' not in await judged()
        of_new_pods, started = await it.asked_about(), now()
        # when
        await replica.remover.remove(asked("pub", of=POD_UNAVAILABLE_BUDGETS), "validating")
        # then evictions are reviewed, and new pods need not be: the controller assigns missed pods to the budget
        assert now() - started == SETTLE_S
        assert await judged() == ""
        assert await it.asked_about() == of_new_pods


async def test_every_review_is_written_down_so_that_no_replica_narrows_across_it() -> None:
    async with world() as it:
        # given a replica that is about to narrow the conditions, while another replica reviews a SidecarSet
        other, before = it.replica(), await it.live()

        async def read() -> Interests:
            await other.remover.remove(asked("log"), "mutating")
            return it.interests()

        replica = it.replica(read=read)
        await replica.keep_up()
        await replica.keep_up()
        await asyncio.sleep(QUIET_S)
        # when the review has no condition to remove
        with pytest.raises(WebhookSyncError):
            await replica.keep_up()
        # then the review is recorded nevertheless, and the write of the first replica meets a conflict
        after = await it.live()
        assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
        assert after["metadata"]["annotations"][OPENED_FOR] == "log review-1"
        # and the first replica waits again from the beginning
        await replica.keep_up()
        await asyncio.sleep(QUIET_S - 1)
        await replica.keep_up()
        assert await it.asked_about() == ""


async def test_a_sidecarset_missing_in_the_cache_keeps_the_conditions_wide() -> None:
    async with world() as it:
        # given a SidecarSet that this replica's cache has not seen
        blind = it.replica(known=lambda: {"SidecarSet": (), "WorkloadSpread": (), "PodUnavailableBudget": ()})
        await blind.keep_up()
        it.sets["log"] = meant("web")
        await asyncio.sleep(QUIET_S)
        # then it reads the SidecarSets from the API server before it narrows the conditions
        await blind.keep_up()
        assert await it.asked_about() == ""


async def test_a_replica_that_has_read_nothing_keeps_the_stored_conditions() -> None:
    async with world() as it:
        await it.replica().settle()
        narrow = await it.asked_about()
        await it.replica(known=lambda: None).keep_up()
        assert await it.asked_about() == narrow


async def test_nothing_can_be_opened_without_a_configuration() -> None:
    async with small_cluster(nodes=0) as place:
        await World(place.client).replica().remover.remove(asked("log"), "mutating")


async def test_a_configuration_that_never_stops_changing_refuses_the_sidecarset() -> None:
    class Busy(Client):
        async def patch(self, *_: Any, **__: Any) -> bytes:
            raise ConflictError(ErrorStatus(code=409, reason="Conflict"))

    async with world() as it:
        with pytest.raises(ConflictError):
            await ConditionRemover(Busy(it.client.transport)).remove(asked("log"), "mutating")


# ── reviews that announce ────────────────────────────────────────────────────

SPEC = {"selector": {"matchLabels": {"app": "web"}}, "containers": []}


def doc(**spec: Any) -> Document:
    return {"metadata": {"name": "log"}, "spec": {**SPEC, **spec}}


@pytest.mark.parametrize(
    ("review", "is_announced"),
    [
        (request(SIDECAR_SETS, doc()), True),
        (request(SIDECAR_SETS, doc(), dry_run=True), False),
        (request(SIDECAR_SETS, doc(), old=doc()), False),
        (request(SIDECAR_SETS, doc(containers=[{"name": "x"}]), old=doc()), False),
        (request(SIDECAR_SETS, doc(selector={"matchLabels": {"app": "db"}}), old=doc()), True),
        (request(SIDECAR_SETS, doc(namespaceSelector={}), old=doc()), True),
        (request(SIDECAR_SETS, doc(selector={}), old=doc(), dry_run=True), False),
    ],
)
async def test_a_change_that_selects_other_pods_is_announced_before_it_is_allowed(
    review: AdmissionRequest, is_announced: bool
) -> None:
    heard: list[AdmissionRequest] = []

    async def announce(request: AdmissionRequest, webhook: Webhook) -> None:
        assert webhook == "mutating"
        heard.append(request)

    async def allow(_: AdmissionRequest) -> AdmissionAnswer:
        return ALLOWED

    reviewer = announce_selection(allow, announce, SELECTION)
    assert await reviewer(review) == ALLOWED
    assert heard == ([review] if is_announced else [])


@pytest.mark.parametrize(
    ("gates", "is_announced"),
    [({}, False), ({"EnablePodProbeMarkerOnServerless": True}, True)],
    ids=["off", "on"],
)
async def test_a_new_marker_is_announced_if_new_pods_get_its_probes(
    gates: dict[str, bool], is_announced: bool
) -> None:
    heard: list[str] = []

    async def announce(request: AdmissionRequest, webhook: Webhook) -> None:
        heard.append(f"{webhook} {request.name}")

    rules = build_reviewers(AdmissionSettings(gates=Gates.of(**gates)), ReviewContext(announce=announce))
    rule = next(rule for rule in rules if rule.name == "vpodprobemarker.kb.io")
    probe = {
        "name": "idle",
        "containerName": "main",
        "probe": {"exec": {"command": ["true"]}},
        "podConditionType": "game.io/idle",
    }
    spec = {"selector": {"matchLabels": {"app": "web"}}, "probes": [probe]}
    # when
    answer = await rule.reviewer(request(POD_PROBE_MARKERS, {"metadata": {"name": "game"}, "spec": spec}))
    # then
    assert answer.refusal is None
    assert heard == (["mutating game"] if is_announced else [])


async def test_an_unannounceable_object_is_refused_and_a_refused_one_is_not_announced() -> None:
    async def fail(_: AdmissionRequest, __: Webhook) -> None:
        raise ApiError(ErrorStatus(code=503, message="the API server is away"))

    async def allow(_: AdmissionRequest) -> AdmissionAnswer:
        return ALLOWED

    async def refuse(_: AdmissionRequest) -> AdmissionAnswer:
        return AdmissionAnswer(refusal=ErrorStatus(code=422))

    refusal = (await announce_selection(allow, fail, SELECTION)(request(SIDECAR_SETS, doc()))).refusal
    assert refusal is not None
    assert refusal.code == 500
    assert "the API server is away" in refusal.message
    refusal = (await announce_selection(refuse, fail, SELECTION)(request(SIDECAR_SETS, doc()))).refusal
    assert refusal is not None
    assert refusal.code == 422


# ── any order of events ─────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(3))
async def test_no_pod_misses_a_sidecarset_in_any_order_of_reviews_and_narrowing(seed: int) -> None:
    """Two replicas with caches that lag; objects are stored up to a minute after their review"""
    rng = random.Random(seed)
    async with world() as it:
        past: list[tuple[float, Interests]] = [(0.0, it.interests())]
        due: dict[str, LabelSelection] = {}  # reviewed or stored: their pods must be reviewed

        def lagging() -> Interests:
            then = now() - rng.uniform(0, 20)
            return next((seen for at, seen in reversed(past) if at <= then), past[0][1])

        both = [it.replica(lagging), it.replica(lagging)]

        async def passes(replica: Replica) -> None:
            while True:
                with suppress(WebhookSyncError):  # a conflict: the next pass looks again
                    await replica.keep_up()
                await asyncio.sleep(rng.uniform(0.5, 40))

        async def life(name: str) -> None:
            await asyncio.sleep(rng.uniform(0, 1000))
            await rng.choice(both).remover.remove(asked(name, name), "mutating")
            due[name] = meant(name)
            await asyncio.sleep(rng.uniform(0, 60))
            it.sets[name] = due[name]
            past.append((now(), it.interests()))
            await asyncio.sleep(rng.uniform(0, 900))
            del due[name], it.sets[name]
            past.append((now(), it.interests()))

        narrow = 0
        tasks = [asyncio.create_task(passes(replica)) for replica in both]
        lives = [asyncio.create_task(life(f"s{n}")) for n in range(3)]
        while now() < 2400:
            expression = await it.asked_about()
            narrow += bool(expression)
            for name in due:
                assert expression == "" or f'["{name}"]' in expression, f"{name} is missed at {now()}"
            await asyncio.sleep(rng.uniform(0, 4))
        await asyncio.gather(*lives)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert narrow > 100, "and often only those that are meant are asked about"
