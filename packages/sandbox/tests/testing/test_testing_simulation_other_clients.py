"""Operators on kr8s and on lightkube are simulated over HTTPS: a bug is planted in each, and is found.

Each makes a page of the service account `shop`, as the tutorials of both clients write such a loop.
"""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pykruise.kube.documents import Document
from pykruise.kube.resources import CONFIG_MAPS, SERVICE_ACCOUNTS
from pykruise.testing.simulation import (
    Fault,
    SimulatedOperation,
    SimulatedStore,
    Simulation,
    SimulationOutcome,
    SimulationScript,
    create,
    delete,
    hunt,
)
from pykruise.testing.simulation.over_http import RunOperator, player_of

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),  # of both clients, when they are cancelled
]

ACCOUNT: Document = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "shop", "namespace": "default"},
}
RETRY_S = 0.2


@contextmanager
def in_thread(run: Callable[[threading.Event], Awaitable[None]]) -> Iterator[None]:
    """Runs a loop of an operator in a thread, from its first request until the context is left."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    task = loop.create_task(run(ready))

    def live() -> None:
        asyncio.set_event_loop(loop)
        with pytest.raises(asyncio.CancelledError):
            loop.run_until_complete(task)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    try:
        assert ready.wait(20)
        yield
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(20)
        gc.collect()  # connections that kr8s leaves open warn now, and not in the middle of another test


def on_kr8s(*, cleans_up: bool) -> RunOperator:
    """Deletes the page when the account's deletion is seen; with `cleans_up`, also pages of accounts that it finds gone
    when a watch begins."""
    import kr8s.asyncio
    from kr8s.asyncio.objects import ConfigMap

    async def write_page(api: Any, name: str) -> None:
        page = await ConfigMap({"metadata": {"name": f"{name}-page", "namespace": "default"}}, api=api)
        if not await page.exists():
            await page.create()

    async def delete_page(api: Any, name: str) -> None:
        page = await ConfigMap({"metadata": {"name": name, "namespace": "default"}}, api=api)
        if await page.exists():
            await page.delete()

    async def delete_leaks(api: Any) -> None:
        accounts = {item.name async for item in api.get("serviceaccounts", namespace="default")}
        async for page in api.get("configmaps", namespace="default"):
            if page.name.endswith("-page") and page.name.removesuffix("-page") not in accounts:
                await delete_page(api, page.name)

    async def watch(api: Any) -> None:
        if cleans_up:
            await delete_leaks(api)
        async for event, account in api.watch("serviceaccounts", namespace="default"):
            if account.name != "shop":
                continue
            if event == "DELETED":
                await delete_page(api, f"{account.name}-page")
            else:
                await write_page(api, account.name)

    def operator(kubeconfig: str) -> Any:
        async def run(ready: threading.Event) -> None:
            api = await kr8s.asyncio.api(kubeconfig=kubeconfig)
            ready.set()
            while True:
                try:
                    await watch(api)
                except Exception:  # any error of the network or the API server: begin again
                    await asyncio.sleep(RETRY_S)

        return in_thread(run)

    return operator


def on_lightkube(*, name: str = "") -> RunOperator:
    """Creates the page under a name of its own, or under one that the API server makes."""
    from lightkube import AsyncClient, KubeConfig
    from lightkube.core.exceptions import ApiError
    from lightkube.models.meta_v1 import ObjectMeta
    from lightkube.resources.core_v1 import ConfigMap, ServiceAccount

    async def write_page(client: Any) -> None:
        metadata = ObjectMeta(name=name) if name else ObjectMeta(generateName="page-")
        try:
            await client.create(ConfigMap(metadata=metadata), namespace="default")
        except ApiError as error:
            if error.status.reason != "AlreadyExists":
                raise

    def operator(kubeconfig: str) -> Any:
        async def run(ready: threading.Event) -> None:
            client: Any = AsyncClient(KubeConfig.from_file(kubeconfig).get(), trust_env=False)
            ready.set()
            has_page = False
            try:
                while True:
                    try:
                        async for _, account in client.watch(ServiceAccount, namespace="default"):
                            if account.metadata.name == "shop" and not has_page:
                                await write_page(client)
                                has_page = True
                    except Exception:  # any error of the network or the API server: begin again
                        await asyncio.sleep(RETRY_S)
            finally:
                await client.close()

        return in_thread(run)

    return operator


# ── rules ────────────────────────────────────────────────────────────────────


def pages(store: SimulatedStore) -> list[str]:
    names = [item["metadata"]["name"] for item in store.list_objects(CONFIG_MAPS, "default")]
    return [name for name in names if "page" in name]


def a_shop_has_one_page(store: SimulatedStore) -> str | None:
    return f"pages: {pages(store)}" if len(pages(store)) > 1 else None


def no_page_is_left_behind(store: SimulatedStore) -> str | None:
    return "the page is left" if pages(store) and store.get(SERVICE_ACCOUNTS, "shop") is None else None


def each_shop_has_a_page(store: SimulatedStore) -> str | None:
    return None if store.get(SERVICE_ACCOUNTS, "shop") is None or pages(store) else "no page"


def simulation_of(*faults: str, actions: tuple[str, ...] = ("open", "close")) -> Simulation:
    known = {"open": create(ACCOUNT), "close": delete(SERVICE_ACCOUNTS, "shop")}
    return Simulation(
        actions={name: known[name] for name in actions},
        always=[a_shop_has_one_page],
        at_rest=[each_shop_has_a_page, no_page_is_left_behind],
        faults=faults,
        nodes=0,
        controllers=(),
        length_s=1.5,
    )


def played(
    operator: RunOperator, *operations: SimulatedOperation, faults: tuple[Fault, ...] = ()
) -> SimulationOutcome:
    script = SimulationScript(seed=0, operations=operations, faults=faults)
    return player_of(operator, quiet_s=1.0, patience_s=6.0)(simulation_of(), script)


OPEN, CLOSE = SimulatedOperation(0.2, "open"), SimulatedOperation(0.9, "close")


def test_both_operators_work_without_faults() -> None:
    for operator in (on_kr8s(cleans_up=False), on_lightkube(name="page")):
        outcome = played(operator, OPEN)
        assert not outcome.violations, outcome.violations[0]
        assert any("configmaps default/" in line and "page" in line for line in outcome.trace)


def test_a_page_that_kr8s_leaks_because_a_deletion_is_not_seen_is_found() -> None:
    failure = hunt(
        simulation_of("crash", "cut"),
        seeds=80,
        first=6,  # one that finds it: each run takes seconds
        play=player_of(on_kr8s(cleans_up=False), quiet_s=1.0, patience_s=3.0),
        most_runs=4,
    )
    assert failure is not None
    assert failure.outcome.rule == "no_page_is_left_behind"
    assert any(fault.kind in ("crash", "cut") for fault in failure.script.faults)


def test_an_operator_on_kr8s_that_looks_for_leaks_leaves_none() -> None:
    crash = Fault(0.85, "crash")
    outcome = played(on_kr8s(cleans_up=True), OPEN, CLOSE, faults=(crash,))
    assert not outcome.violations, outcome.violations[0]


def test_a_page_that_lightkube_creates_twice_is_found() -> None:
    failure = hunt(
        simulation_of("answer lost", "request lost", actions=("open",)),
        seeds=60,
        first=1,
        play=player_of(on_lightkube(), quiet_s=1.0, patience_s=3.0),
        most_runs=4,
    )
    assert failure is not None
    assert failure.outcome.rule == "a_shop_has_one_page"


def test_an_operator_on_lightkube_whose_page_has_a_name_survives_a_lost_answer() -> None:
    lost = Fault(0.0, "answer lost", "/configmaps")
    outcome = played(on_lightkube(name="page"), OPEN, faults=(lost,))
    assert not outcome.violations, outcome.violations[0]
