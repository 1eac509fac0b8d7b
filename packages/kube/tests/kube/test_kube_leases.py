"""Leader election: one candidate leads, the next takes over in time, and no candidate writes outside its term."""

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Request
from pykruise.kube.clock import Clock
from pykruise.kube.election.leases import (
    FencedTransport,
    LeaderElector,
    LeaseLostError,
    LeaseTerm,
    NotLeadingError,
)
from pykruise.kube.resources import CONFIG_MAPS, LEASES
from support.faults import Answer, Delay, DropAnswer, FaultyTransport, Refuse, TimeOut, requests, writes
from support.sandbox import Place, config_map, small_cluster

LEASE_S, RENEW_S, RETRY_S = 15.0, 10.0, 2.0


class Candidate:
    """A candidate: an elector with a transport of its own."""

    def __init__(self, place: Place, identity: str, *, clock: Clock | None = None, **options: Any) -> None:
        self.faulty = FaultyTransport(place.cluster.make_transport(identity))
        rng = random.Random(identity)
        self.elector = LeaderElector(
            Client(self.faulty, clock=place.cluster.clock, rng=rng),
            namespace="default",
            name="kruise-manager",
            identity=identity,
            lease_s=LEASE_S,
            renew_s=RENEW_S,
            retry_s=RETRY_S,
            clock=clock or place.cluster.clock,
            rng=rng,
            **options,
        )
        self.task = asyncio.create_task(self.elector.run())

    @property
    def leads(self) -> bool:
        return self.elector.is_leading

    async def kill(self) -> None:
        """Stop like kill -9, without a release of the Lease."""
        self.task.cancel()
        with suppress(asyncio.CancelledError, LeaseLostError):
            await self.task


@asynccontextmanager
async def stand(**options: Any) -> AsyncIterator[tuple[Place, Callable[..., Candidate]]]:
    """A cluster, and a function that starts candidates; all are killed at the end."""
    async with small_cluster() as place:
        candidates: list[Candidate] = []

        def candidate(identity: str, **more: Any) -> Candidate:
            candidates.append(Candidate(place, identity, **{**options, **more}))
            return candidates[-1]

        try:
            yield place, candidate
        finally:
            for item in candidates:
                await item.kill()


async def spec(place: Place) -> dict[str, Any]:
    spec: dict[str, Any] = (await place.get(LEASES, "kruise-manager"))["spec"]
    return spec


async def test_the_first_candidate_leads_and_writes_the_lease_in_gos_format() -> None:
    async with stand() as (place, candidate):
        # when
        a = candidate("a_1")
        await a.elector.wait_leading()
        # then
        result = await spec(place)
        assert result["holderIdentity"] == "a_1"
        assert result["leaseDurationSeconds"] == 15
        assert result["leaseTransitions"] == 0
        assert all(
            re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", result[field])
            for field in ("acquireTime", "renewTime")
        )


async def test_the_leader_renews_and_the_others_wait() -> None:
    async with stand() as (place, candidate):
        a = candidate("a")
        await a.elector.wait_leading()
        b = candidate("b")
        acquired = (await spec(place))["acquireTime"]
        # when
        await asyncio.sleep(600.0)
        # then
        assert a.leads
        assert not b.leads
        result = await spec(place)
        assert result["acquireTime"] == acquired < result["renewTime"]
        assert result["leaseTransitions"] == 0
        assert b.elector.read_stats().holder == "a"
        # one write each, without a read before it
        assert a.elector.read_stats().slow_renewals == 0


async def test_a_lease_given_back_is_taken_within_seconds() -> None:
    async with stand() as (place, candidate):
        a = candidate("a")
        await a.elector.wait_leading()
        b = candidate("b")
        await asyncio.sleep(10.0)
        # when
        await a.elector.release()
        assert not a.leads
        assert "holderIdentity" not in await spec(place)
        # then
        assert await place.until(lambda: b.leads) <= RETRY_S * 1.2
        await a.task
        seconds = await spec(place)
        assert (seconds["holderIdentity"], seconds["leaseTransitions"]) == ("b", 1)


async def test_a_leader_that_ends_leaves_to_the_next_one_what_it_has_written() -> None:
    async with stand() as (place, candidate):
        a = candidate("a")
        await a.elector.wait_leading()
        assert a.elector.inherited == {}  # none was there before
        b = candidate("b")
        # when
        await a.elector.release({"pods": 17})
        await place.until(lambda: b.leads)
        # then
        assert b.elector.inherited == {"pods": 17}


async def test_a_killed_leader_leaves_no_note_even_if_an_earlier_one_did() -> None:
    async with stand() as (place, candidate):
        # given the note of a leader that released the Lease
        a = candidate("a")
        await a.elector.wait_leading()
        await a.elector.release({"pods": 17})
        b = candidate("b")
        await b.elector.wait_leading()
        # when
        await b.kill()
        c = candidate("c")
        await place.until(lambda: c.leads)
        # then
        assert c.elector.inherited is None


async def test_a_note_is_void_once_another_program_has_led() -> None:
    async with stand() as (place, candidate):
        # given a program that keeps the annotations of the Lease, and releases the Lease without a note
        a = candidate("a")
        await a.elector.wait_leading()
        await a.elector.release({"pods": 17})
        lease = await place.get(LEASES, "kruise-manager")
        lease["spec"] |= {"renewTime": "2030-01-01T00:00:00.000000Z", "leaseTransitions": 5}
        await place.client.update(LEASES, "default", "kruise-manager", lease)
        # when
        b = candidate("b")
        await place.until(lambda: b.leads)
        # then
        assert b.elector.inherited is None


async def test_the_lease_of_a_killed_leader_is_taken_when_it_runs_out_and_not_before() -> None:
    """operations case 14"""
    async with stand() as (place, candidate):
        a = candidate("a")
        await a.elector.wait_leading()
        b = candidate("b")
        await asyncio.sleep(60.0)
        # when
        await a.kill()
        # then
        took_s = await place.until(lambda: b.leads)
        assert LEASE_S - RETRY_S * 1.2 <= took_s <= LEASE_S + 2 * RETRY_S * 1.2


async def test_a_leader_that_cannot_renew_ends_before_another_one_leads() -> None:
    """operations case 14"""
    async with stand() as (_, candidate):
        a = candidate("a")
        await a.elector.wait_leading()
        b = candidate("b")
        await asyncio.sleep(60.0)
        # when it reaches the API server no more
        a.faulty.on(requests(), lambda _: Refuse())
        together = 0
        while not b.leads:
            together += a.leads and b.leads
            await asyncio.sleep(0.05)
        # then
        assert together == 0
        with pytest.raises(LeaseLostError, match="could not be renewed for 10 s"):
            await a.task


@pytest.mark.parametrize(
    "fault",
    [
        Refuse(),
        Answer(500),
        Answer(429, retry_after_s=1),
        Answer(429, retry_after_s=86_400),
        Answer(503, retry_after_s=3_600),
        DropAnswer(),
        TimeOut(60.0),
    ],
)
async def test_a_short_outage_does_not_end_a_term(fault: Any) -> None:
    async with stand() as (place, candidate):
        a = candidate("a")
        await a.elector.wait_leading()
        b = candidate("b")
        # when one renewal fails, in any way
        a.faulty.on(writes("leases"), fault)
        await asyncio.sleep(60.0)
        # then
        assert a.leads
        assert not b.leads
        assert (await spec(place))["leaseTransitions"] == 0


NO_LEASES = [
    b"",
    b"<html>502</html>",
    b"{}",
    b"[]",
    b"null",
    b'{"kind": "Status"}',
    b'{"metadata": null}',
    b'{"metadata": {}}',
    b'{"metadata": {"name": 1}}',
    b'{"metadata": {"name": "a", "resourceVersion": "x"}}',
    b'{"metadata": {"name": "a", "annotations": []}}',
    b'{"metadata": {"name": "a"',
    b"\xff\xfe",
]


@pytest.mark.parametrize("body", NO_LEASES)
async def test_an_answer_that_is_not_a_lease_is_a_failed_attempt_that_ends_no_candidate(body: bytes) -> None:
    async with stand() as (_, candidate):
        # given a leader, and a candidate that tries
        a = candidate("a")
        await a.elector.wait_leading()
        b = candidate("b")
        # when one renewal of the leader, and three attempts of the candidate, get this answer
        a.faulty.on(requests(path="leases"), Answer(200, body=body))
        b.faulty.on(requests(path="leases"), *[Answer(200, body=body)] * 3)
        await asyncio.sleep(60.0)
        # then
        assert a.leads
        assert not a.task.done()
        assert not b.task.done()
        assert a.elector.read_stats().errors == 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"metadata": {"name": "a"}}',
        b'{"metadata": {"name": "a"}, "spec": []}',
        b'{"metadata": {"name": "a"}, "spec": {"holderIdentity": 5, "leaseDurationSeconds": "x"}}',
    ],
)
async def test_a_lease_with_invalid_fields_causes_at_most_a_lost_lease(body: bytes) -> None:
    async with stand() as (_, candidate):
        a = candidate("a")
        await a.elector.wait_leading()
        a.faulty.on(requests(path="leases"), *[Answer(200, body=body)] * 3)
        await asyncio.sleep(60.0)
        assert not a.task.done() or isinstance(a.task.exception(), LeaseLostError)


async def test_an_outage_for_all_ends_the_term_and_the_first_one_back_leads() -> None:
    async with stand() as (place, candidate):
        a, b = candidate("a"), candidate("b")
        await place.until(lambda: a.leads or b.leads)
        leader, other = (a, b) if a.leads else (b, a)
        # when no candidate reaches the API server for a minute
        for item in (a, b):
            item.faulty.on(requests(), lambda _: Refuse())
        await asyncio.sleep(60.0)
        assert leader.task.done()
        for item in (a, b):
            item.faulty.clear()
        # then the other one leads after it has seen an unchanged Lease for the duration of the Lease
        assert await place.until(lambda: other.leads) <= LEASE_S + 2 * RETRY_S * 1.2
        with pytest.raises(LeaseLostError):
            await leader.task


async def test_a_clock_that_is_hours_off_changes_nothing() -> None:
    async with stand() as (place, candidate):
        # given a leader whose clock is a day behind, and a candidate whose clock is a day ahead
        now = place.cluster.clock
        a = candidate("a", clock=lambda: now() - 86400)
        await a.elector.wait_leading()
        b = candidate("b", clock=lambda: now() + 86400)
        await asyncio.sleep(300.0)
        assert a.leads
        assert not b.leads
        # when
        await a.kill()
        # then
        assert await place.until(lambda: b.leads) >= LEASE_S - RETRY_S * 1.2


async def test_another_holder_of_the_lease_ends_the_term_immediately() -> None:
    async with stand() as (place, candidate):
        a = candidate("a")
        await a.elector.wait_leading()
        # when a person or another program overwrites the holder
        await place.merge(LEASES, "kruise-manager", {"spec": {"holderIdentity": "another"}})
        # then
        await asyncio.sleep(3 * RETRY_S)
        with pytest.raises(LeaseLostError, match="is held by another now"):
            await a.task
        assert (await spec(place))["holderIdentity"] == "another"


async def test_a_lease_deleted_under_the_leader_is_recreated() -> None:
    async with stand() as (place, candidate):
        a = candidate("a")
        await a.elector.wait_leading()
        await place.client.delete(LEASES, "default", "kruise-manager")
        await asyncio.sleep(30.0)
        assert (await spec(place))["holderIdentity"] == "a"
        assert a.leads


async def test_a_label_written_by_another_client_costs_one_slow_renewal() -> None:
    async with stand() as (place, candidate):
        a = candidate("a")
        await a.elector.wait_leading()
        await place.merge(LEASES, "kruise-manager", {"metadata": {"labels": {"a": "b"}}})
        await asyncio.sleep(60.0)
        assert a.leads
        assert a.elector.read_stats().slow_renewals == 1
        assert (await place.get(LEASES, "kruise-manager"))["metadata"]["labels"] == {"a": "b"}


async def test_the_length_that_the_holder_wrote_counts() -> None:
    async with stand() as (place, candidate):
        # given a Lease with a longer duration, held by a Go manager
        held = {
            "metadata": {"name": "kruise-manager"},
            "spec": {
                "holderIdentity": "go_1",
                "leaseDurationSeconds": 60,
                "acquireTime": "2026-01-31T12:00:00.000000Z",
                "renewTime": "2026-01-31T12:00:00.000000Z",
                "leaseTransitions": 4,
            },
        }
        await place.create(LEASES, held)
        # when
        b = candidate("b")
        # then the candidate waits for that duration, from when it first saw the Lease
        assert await place.until(lambda: b.leads, within_s=100.0) >= 60.0
        assert (await spec(place))["leaseTransitions"] == 5


async def test_simultaneous_candidates_elect_one_leader() -> None:
    async with stand() as (place, candidate):
        electors = [candidate(f"c{number}") for number in range(8)]
        await asyncio.sleep(60.0)
        assert sum(elector.leads for elector in electors) == 1
        leader = next(elector for elector in electors if elector.leads)
        assert (await spec(place))["holderIdentity"] == leader.elector.identity


async def test_a_lost_answer_to_the_first_write_is_found_to_be_one_s_own() -> None:
    async with stand() as (place, candidate):
        a = candidate("a")
        a.faulty.on(writes("leases"), DropAnswer())
        assert await place.until(lambda: a.leads) <= RETRY_S * 1.2 + 1.0
        assert (await spec(place))["leaseTransitions"] == 0


async def test_a_candidate_without_rights_keeps_trying_and_reports_the_error() -> None:
    async with stand() as (_, candidate):
        a = candidate("a")
        a.faulty.on(requests(path="leases"), lambda _: Answer(403, message="leases is forbidden"))
        await asyncio.sleep(60.0)
        assert not a.leads
        assert not a.task.done()
        assert "leases is forbidden" in a.elector.read_stats().last_error


async def test_lengths_that_would_let_two_lead_are_refused() -> None:
    async with small_cluster() as place:
        with pytest.raises(ValueError, match="lease_s > renew_s > retry_s > 0"):
            LeaderElector(
                place.client,
                namespace="default",
                name="x",
                identity="a",
                lease_s=10,
                renew_s=10,
                clock=place.cluster.clock,
                rng=random.Random(1),
            )


# ── the fence ────────────────────────────────────────────────────────────────


async def test_a_write_out_of_term_does_not_leave_and_a_read_does() -> None:
    async with small_cluster() as place:
        term = LeaseTerm(asyncio.get_running_loop().time)
        client = place.client.replace_transport(FencedTransport(place.client.transport, term))
        # given no term
        with pytest.raises(NotLeadingError):
            await client.create(CONFIG_MAPS, "default", config_map("a"))
        assert (await client.list(CONFIG_MAPS, "default")).items == []
        # when there is one
        now = asyncio.get_running_loop().time()
        term.extend(until=now + 10, taken_at=now + 15)
        await client.create(CONFIG_MAPS, "default", config_map("a"))
        # and when it is over
        await asyncio.sleep(10.0)
        with pytest.raises(NotLeadingError):
            await client.create(CONFIG_MAPS, "default", config_map("b"))


async def test_a_write_in_flight_ends_before_another_candidate_can_lead() -> None:
    async with small_cluster() as place:
        # given a server that takes forever
        slow = FaultyTransport(place.cluster.make_transport("slow"))
        timeouts: list[float | None] = []

        class Noting:
            async def request(self, request: Request, /) -> Any:
                timeouts.append(request.timeout_s)
                return await slow.request(request)

            async def close(self) -> None: ...

        now = asyncio.get_running_loop().time()
        term = LeaseTerm(asyncio.get_running_loop().time)
        term.extend(until=now + 10, taken_at=now + 15)
        fenced = FencedTransport(Noting(), term)  # type: ignore[arg-type]  # streams are not asked for
        # when writes begin early and late
        await asyncio.sleep(1.0)
        await fenced.request(Request("POST", "/api/v1/namespaces/default/configmaps", body=b"{}"))
        await asyncio.sleep(8.0)
        await fenced.request(
            Request("PATCH", "/api/v1/namespaces/default/configmaps/a", body=b"{}", timeout_s=2.0)
        )
        await fenced.request(Request("POST", "/api/v1/namespaces/default/configmaps", body=b"{}"))
        # then
        assert timeouts == pytest.approx([14.0, 2.0, 6.0], abs=0.01)


async def test_a_process_resumed_after_a_long_pause_does_not_write() -> None:
    """The timers have not fired yet, but time has passed."""
    async with stand() as (place, candidate):
        # given a leader whose own time can be made to jump
        skipped_s = 0.0
        loop = asyncio.get_running_loop()
        a = candidate("a", now=lambda: loop.time() + skipped_s)
        await a.elector.wait_leading()
        client = place.client.replace_transport(FencedTransport(place.client.transport, a.elector.term))
        await client.create(CONFIG_MAPS, "default", config_map("a"))
        # when the process is stopped for 20 s and then continues
        skipped_s = 20.0
        # then
        with pytest.raises(NotLeadingError):
            await client.create(CONFIG_MAPS, "default", config_map("b"))
        assert not a.leads


async def test_the_term_of_a_slow_renewal_counts_from_its_request() -> None:
    async with stand() as (_, candidate):
        a = candidate("a")
        await a.elector.wait_leading()
        # when the answer to a renewal takes four seconds on its way back
        a.faulty.on(writes("leases"), Delay(4.0, on_the_way_back=True))
        await asyncio.sleep(RETRY_S * 1.2 + 4.1)
        # then the remaining time is counted from before the renewal
        assert a.leads
        assert a.elector.term.write_time_s() <= LEASE_S - 4.0
