"""Which pods API servers ask about while SidecarSets come and go; no pod may slip past."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from pykruise.admission.configurations import (
    MUTATING,
    MUTATING_NAME,
    VALIDATING,
    VALIDATING_NAME,
    Endpoint,
    configurations,
    kept_webhooks,
    told_conditions,
)
from pykruise.admission.narrowing import OPENED_FOR, Narrowing, announced, widest_conditions
from pykruise.admission.reviewers import reviewers
from pykruise.admission.reviews import rules_by_path
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest
from pykruise.kube.cel import Interests, Meant
from pykruise.kube.client import Client
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ApiError, ConflictError, KubeError, Status
from pykruise.kube.patches import PatchType
from pykruise.kube.selectors import selector_from
from support.reviews import request
from support.sandbox import small_cluster

ALL = reviewers()
RULES = rules_by_path(ALL)
QUIET_S, SETTLE_S = 120.0, 1.0


def meant(app: str) -> Meant:
    return Meant(selector=selector_from({"matchLabels": {"app": app}}))


class World:
    """A webhook configuration, what is stored, and replicas that keep the one by the other."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sets: dict[str, Meant] = {}

    def interests(self) -> Interests:
        return {"SidecarSet": list(self.sets.values()), "WorkloadSpread": ()}

    def replica(self, known: Callable[[], Interests | None] | None = None) -> Narrowing:
        async def read() -> Interests:
            return self.interests()

        return Narrowing(
            self.client, known=known or self.interests, read=read, quiet_s=QUIET_S, settle_s=SETTLE_S
        )

    async def live(self) -> Document:
        return decode(await self.client.get(MUTATING, "", MUTATING_NAME))

    async def told(self) -> str:
        """What API servers ask about; empty: every pod."""
        found = told_conditions(await self.live())["/mutate-pod"]
        return found[0].expression if found else ""

    async def keep_up(self, replica: Narrowing) -> None:
        """One pass, as Upkeep makes it. Raises ApiError when the configuration changed meanwhile."""
        live = await self.live()
        rules = await replica.rules(live, RULES)
        wanted = kept_webhooks(live, rules, endpoint=Endpoint(), bundle=b"")
        if wanted["webhooks"] != live["webhooks"]:
            test = {
                "op": "test",
                "path": "/metadata/resourceVersion",
                "value": live["metadata"]["resourceVersion"],
            }
            body = [test, {"op": "replace", "path": "/webhooks", "value": wanted["webhooks"]}]
            await self.client.patch(MUTATING, "", MUTATING_NAME, body, patch_type=PatchType.JSON)

    async def settle(self, replica: Narrowing) -> None:
        """Passes, until nothing is left to narrow."""
        await self.keep_up(replica)
        while (wait_s := replica.wait_s()) is not None:
            await asyncio.sleep(wait_s)
            await self.keep_up(replica)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with small_cluster(nodes=0) as place:
        await place.client.create(MUTATING, "", configurations(ALL, Endpoint())[0])
        yield World(place.client)


def now() -> float:
    return asyncio.get_running_loop().time()


def asked(name: str, uid: str = "review-1") -> AdmissionRequest:
    return msgspec.structs.replace(request(SIDECAR_SETS, {"metadata": {"name": name}}), uid=uid)


async def test_without_sidecarsets_only_pods_of_own_workloads_are_asked_about_after_a_while() -> None:
    async with world() as it:
        replica = it.replica()
        await it.keep_up(replica)
        assert await it.told() == ""
        await asyncio.sleep(QUIET_S - 1)
        await it.keep_up(replica)
        assert await it.told() == "", "not before it was quiet for so long"
        await asyncio.sleep(1)
        await it.keep_up(replica)
        assert "apps.kruise.io/" in await it.told()
        assert "labels" not in await it.told()
        await it.keep_up(replica)
        assert replica.wait_s() is None


async def test_nobody_judges_updates_of_pods_so_no_api_server_ever_asks_about_one() -> None:
    async with small_cluster(nodes=0) as place:
        await place.client.create(VALIDATING, "", configurations(ALL, Endpoint())[1])
        replica = Narrowing(place.client, known=lambda: {"WorkloadSpread": [meant("web")]}, read=nothing)
        live = decode(await place.client.get(VALIDATING, "", VALIDATING_NAME))
        rules = await replica.rules(live, RULES)
        (condition,) = rules["/validate-pod"].conditions
        assert condition.expression == widest_conditions(RULES)["/validate-pod"][0].expression
        assert '"UPDATE"' not in condition.expression
        assert 'request.operation == "DELETE"' in condition.expression
        assert 'request.operation == "CREATE"' in condition.expression, "evictions, while spreads change"
        assert replica.wait_s() is not None, "what is stored says less, later"


async def nothing() -> Interests:
    return {}


async def test_a_sidecarset_that_appears_without_a_review_opens_at_once_and_is_named_later() -> None:
    """Restored from a backup, say"""
    async with world() as it:
        replica = it.replica()
        await it.settle(replica)
        it.sets["log"] = meant("web")
        await it.keep_up(replica)
        assert await it.told() == ""
        await it.settle(replica)
        assert 'object.metadata.labels["app"] in ["web"]' in await it.told()
        # and when it goes
        del it.sets["log"]
        await it.settle(replica)
        assert "labels" not in await it.told()


async def test_a_sidecarset_is_allowed_when_api_servers_had_a_moment_to_hear_that_they_are_to_ask() -> None:
    async with world() as it:
        replica = it.replica()
        await it.settle(replica)
        started = now()
        await replica.opened(asked("log"))
        assert now() - started == SETTLE_S
        assert await it.told() == ""
        # the next one, a moment later, need not wait: they have been asking about every pod since then
        started = now()
        await replica.opened(asked("proxy", "review-2"))
        assert now() == started
        # but at another replica, which has not seen how long that has been so
        await it.replica().opened(asked("dns", "review-3"))
        assert now() - started == SETTLE_S


async def test_every_review_is_written_down_so_that_nobody_narrows_across_it() -> None:
    async with world() as it:
        # given a replica that is about to narrow: it has read all that it goes by
        replica, other = it.replica(), it.replica()
        await it.keep_up(replica)
        await asyncio.sleep(QUIET_S)
        live = await it.live()
        rules = await replica.rules(live, RULES)
        assert rules["/mutate-pod"].conditions
        # when another one reviews a SidecarSet although nothing has to be opened
        before = await it.live()
        await other.opened(asked("log"))
        # then the first one's write meets a conflict
        after = await it.live()
        assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
        assert after["metadata"]["annotations"][OPENED_FOR] == "log review-1"
        # and its wait begins anew
        await it.keep_up(replica)
        await asyncio.sleep(QUIET_S - 1)
        await it.keep_up(replica)
        assert await it.told() == ""


async def test_what_a_cache_does_not_know_yet_is_not_narrowed_away() -> None:
    async with world() as it:
        # given a SidecarSet that this replica's cache has not seen
        blind = it.replica(known=lambda: {"SidecarSet": (), "WorkloadSpread": ()})
        await it.keep_up(blind)
        it.sets["log"] = meant("web")
        await asyncio.sleep(QUIET_S)
        # then it asks before it narrows
        await it.keep_up(blind)
        assert await it.told() == ""


async def test_a_replica_that_has_read_nothing_yet_leaves_conditions_as_they_are() -> None:
    async with world() as it:
        await it.settle(it.replica())
        narrow = await it.told()
        await it.keep_up(it.replica(known=lambda: None))
        assert await it.told() == narrow


async def test_an_api_server_that_does_not_know_conditions_is_not_asked_all_the_time() -> None:
    async with world() as it:
        replica = it.replica()
        live = await it.live()
        await replica.rules(live, RULES)
        await asyncio.sleep(QUIET_S)
        # given that the write changes nothing
        assert (await replica.rules(live, RULES))["/mutate-pod"].conditions
        # then the next try is as far away again
        assert replica.wait_s() == QUIET_S


async def test_without_a_configuration_there_is_nothing_to_open() -> None:
    async with small_cluster(nodes=0) as place:
        await World(place.client).replica().opened(asked("log"))


async def test_a_configuration_that_never_stands_still_refuses_the_sidecarset() -> None:
    class Busy(Client):
        async def patch(self, *_: Any, **__: Any) -> bytes:
            raise ConflictError(Status(code=409, reason="Conflict"))

    async with world() as it:
        busy = Busy(it.client.transport)
        narrowing = Narrowing(busy, known=it.interests, read=it.replica()._read)
        with pytest.raises(ConflictError):
            await narrowing.opened(asked("log"))


# ── who announces ────────────────────────────────────────────────────────────

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
async def test_what_means_other_pods_is_announced_before_it_is_allowed(
    review: AdmissionRequest, is_announced: bool
) -> None:
    heard: list[AdmissionRequest] = []

    async def announce(request: AdmissionRequest) -> None:
        heard.append(request)

    async def allow(_: AdmissionRequest) -> AdmissionAnswer:
        return ALLOWED

    reviewer = announced(allow, announce, "selector", "namespaceSelector")
    assert await reviewer(review) == ALLOWED
    assert heard == ([review] if is_announced else [])


async def test_what_cannot_be_announced_is_refused_and_what_is_refused_is_not_announced() -> None:
    async def fail(_: AdmissionRequest) -> None:
        raise ApiError(Status(code=503, message="the API server is away"))

    async def allow(_: AdmissionRequest) -> AdmissionAnswer:
        return ALLOWED

    async def refuse(_: AdmissionRequest) -> AdmissionAnswer:
        return AdmissionAnswer(refusal=Status(code=422))

    refusal = (await announced(allow, fail)(request(SIDECAR_SETS, doc()))).refusal
    assert refusal is not None
    assert refusal.code == 500
    assert "the API server is away" in refusal.message
    refusal = (await announced(refuse, fail)(request(SIDECAR_SETS, doc()))).refusal
    assert refusal is not None
    assert refusal.code == 422


# ── whatever happens when ────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(3))
async def test_no_pod_slips_past_a_sidecarset_however_reviews_and_passes_fall(seed: int) -> None:
    """Two replicas with caches that lag; objects are stored up to a minute after their review"""
    rng = random.Random(seed)
    async with world() as it:
        past: list[tuple[float, Interests]] = [(0.0, it.interests())]
        due: dict[str, Meant] = {}  # reviewed or stored: their pods must be asked about

        def lagging() -> Interests:
            then = now() - rng.uniform(0, 20)
            return next((seen for at, seen in reversed(past) if at <= then), past[0][1])

        both = [it.replica(lagging), it.replica(lagging)]

        async def passes(replica: Narrowing) -> None:
            while True:
                with suppress(KubeError):  # a conflict: the next pass looks again
                    await it.keep_up(replica)
                await asyncio.sleep(rng.uniform(0.5, 40))

        async def life(name: str) -> None:
            await asyncio.sleep(rng.uniform(0, 1000))
            await rng.choice(both).opened(asked(name, name))
            due[name] = meant(name)
            await asyncio.sleep(rng.uniform(0, 60))
            it.sets[name] = due[name]
            past.append((now(), it.interests()))
            await asyncio.sleep(rng.uniform(0, 900))
            del due[name], it.sets[name]
            past.append((now(), it.interests()))

        narrow = 0
        tasks = [asyncio.create_task(passes(one)) for one in both]
        lives = [asyncio.create_task(life(f"s{n}")) for n in range(3)]
        while now() < 2400:
            told = await it.told()
            narrow += bool(told)
            for name in due:
                assert told == "" or f'["{name}"]' in told, f"{name} is missed at {now()}"
            await asyncio.sleep(rng.uniform(0, 4))
        await asyncio.gather(*lives)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert narrow > 100, "and often only those that are meant are asked about"
