"""The cluster as a whole: its start, the failure of a part, its complete end, and repeatable runs."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import pytest

from pykruise.kube.client.transport import Request, Response
from pykruise.kube.clock import make_loop_clock
from pykruise.kube.documents import decode
from pykruise.kube.errors import UnreachableError
from pykruise.kube.resources import CONFIG_MAPS, NODES, PODS
from pykruise.sandbox.cluster import Cluster, ClusterSettings, ComponentError
from pykruise.sandbox.nodes.images import ImageTable
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from support.paper import START
from support.sandbox import config_map, owned_by, pod, small_cluster


class Part:
    """A component that ends as configured."""

    def __init__(self, *, dies_after_s: float | None = None, stops: bool = True) -> None:
        self.dies_after_s = dies_after_s
        self.stops = stops
        self.stopped = asyncio.Event()
        self.was_cancelled = False

    async def run(self) -> None:
        try:
            if self.dies_after_s is not None:
                await asyncio.sleep(self.dies_after_s)
                raise ZeroDivisionError("the part is broken")
            await self.stopped.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise

    async def stop(self) -> None:
        if self.stops:
            self.stopped.set()


async def test_an_entered_cluster_has_its_nodes() -> None:
    # given, when
    async with small_cluster(nodes=5) as place:
        # then
        assert await place.names(NODES) == [f"node-{number}" for number in range(1, 6)]
        assert place.cluster.scheduler.read_stats().nodes == 5
        assert place.cluster.collector.read_stats().synced


async def test_a_cluster_that_is_left_leaves_no_task_behind() -> None:
    # given
    before = asyncio.all_tasks()
    # when
    async with small_cluster() as place:
        await asyncio.gather(*(place.create(PODS, pod(f"web-{n}")) for n in range(20)))
        await asyncio.sleep(0.3)
        transport = place.cluster.transport
    # then
    assert asyncio.all_tasks() == before
    with pytest.raises(UnreachableError):
        await transport.request(Request("GET", "/version"))


async def test_a_cluster_can_be_left_the_moment_it_was_entered_and_stopped_twice() -> None:
    async with small_cluster() as place:
        await place.cluster.stop()
    assert not place.cluster.failures


async def test_an_error_of_the_body_is_raised_unchanged() -> None:
    with pytest.raises(LookupError, match="mine"):
        async with small_cluster():
            raise LookupError("mine")


async def test_a_part_that_dies_is_reported_and_raised_at_the_exit_of_the_cluster() -> None:
    # given
    before = asyncio.all_tasks()

    async def use() -> None:
        async with small_cluster(startables=[lambda cluster: Part(dies_after_s=5.0)]) as place:
            error = await asyncio.wait_for(place.cluster.wait_failed(), 10.0)
            assert error.name == "Part"
            # the rest still works
            await place.create(PODS, pod("web"))
            await place.until(lambda: place.is_ready("web"))

    # when
    with pytest.raises(ComponentError, match="Part: ZeroDivisionError: the part is broken") as raised:
        await use()
    # then
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert asyncio.all_tasks() == before


async def test_a_cluster_whose_component_fails_at_the_start_raises_its_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given
    async def broken(self: Any) -> None:
        raise ZeroDivisionError("no kubelets today")

    monkeypatch.setattr("pykruise.sandbox.nodes.kubelet.Kubelets.run", broken)
    before = asyncio.all_tasks()
    # when
    with pytest.raises(ComponentError, match="kubelets: ZeroDivisionError: no kubelets today"):
        async with small_cluster():
            raise AssertionError("it must not start")
    # then
    assert asyncio.all_tasks() == before


async def test_parts_that_were_added_are_stopped_first_and_cancelled_only_when_they_do_not_listen() -> None:
    # given
    good, deaf = Part(), Part(stops=False)
    # when
    async with small_cluster(startables=[lambda cluster: good]) as place:
        place.cluster.add("deaf", deaf)
    # then
    assert not good.was_cancelled
    assert deaf.was_cancelled
    assert not place.cluster.failures


async def test_a_part_that_cannot_be_stopped_does_not_keep_the_others_running() -> None:
    # given
    class Stubborn(Part):
        async def stop(self) -> None:
            raise ZeroDivisionError("will not")

    before = asyncio.all_tasks()
    # when
    with pytest.raises(ComponentError, match="stubborn: could not be stopped"):
        async with small_cluster() as place:
            place.cluster.add("stubborn", Stubborn())
    # then
    assert asyncio.all_tasks() == before


async def test_requests_have_the_user_of_their_transport() -> None:
    # given
    async with small_cluster() as place:
        review = b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
        # when
        answer = await place.cluster.make_transport("jane").request(
            Request(
                "POST",
                "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                headers={"content-type": "application/json"},
                body=review,
            )
        )
        # then
        assert decode(answer.body)["status"]["userInfo"]["username"] == "jane"


def test_shortcuts_of_the_settings_do_not_change_the_other_delays() -> None:
    # given
    settings = ClusterSettings(kubelet=KubeletSettings(init_s=9.0, ready_s=4.0), start_s=2.0, stop_s=3.0)
    # when
    delays = settings.build_kubelet_settings()
    # then
    assert (delays.start_s, delays.start_jitter, delays.ready_s, delays.stop_s, delays.init_s) == (
        2.0,
        0.0,
        4.0,
        3.0,
        9.0,
    )


async def test_the_image_table_is_handed_on_to_the_kubelets() -> None:
    # given
    images = ImageTable(broken=("secret:1",))
    async with small_cluster(images=images) as place:
        # when
        await place.create(PODS, pod("web", image="secret:1"))
        await asyncio.sleep(5)
        # then
        assert (await place.get(PODS, "web"))["status"]["phase"] == "Pending"


# ── repeatable runs ──────────────────────────────────────────────────────────


async def test_equal_seeds_give_equal_runs() -> None:
    # given, when
    runs, again, other = [await _trace(seed) for seed in (1, 1, 2)]
    # then
    assert len(runs) > 150
    assert runs == again
    assert runs != other


async def _trace(seed: int) -> list[tuple[float, str, str, bytes]]:
    """All writes in a busy minute of a cluster: time, method, path and body."""
    begun = asyncio.get_running_loop().time()
    cluster = Cluster(
        ClusterSettings(nodes=4, pods_per_node=9), clock=make_loop_clock(start=START), rng=random.Random(seed)
    )
    writes: list[tuple[float, str, str, bytes]] = []
    handle = cluster.server.handle

    async def listening(
        method: str, path: str, *, body: bytes | None = None, **rest: Mapping[str, str] | str | None
    ) -> Response:
        if method != "GET":
            at = round(asyncio.get_running_loop().time() - begun, 6)
            writes.append((at, method, path, body or b""))
        return await handle(method, path, body=body, **rest)  # type: ignore[arg-type]  # handed on as it came

    cluster.server.handle = listening  # type: ignore[method-assign]  # the test listens in
    async with cluster:
        owner = decode(await cluster.client.create(CONFIG_MAPS, "default", config_map("owner")))
        await asyncio.gather(
            *(
                cluster.client.create(PODS, "default", pod(f"web-{n}", owners=[owned_by(owner)]))
                for n in range(40)
            )
        )
        await asyncio.sleep(10)
        await cluster.client.delete(CONFIG_MAPS, "default", "owner", propagation="Foreground")
        await asyncio.sleep(50)
    return writes
