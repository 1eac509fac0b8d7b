"""An operator on lightkube is simulated over HTTPS: a bug is planted in it, and is found.

It makes a page of the service account `shop`. Operators on other clients: examples/planted_bugs.
"""

import asyncio
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
    hunt,
)
from pykruise.testing.simulation.over_http import RunOperator, make_thread_runner, player_of

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),  # warnings of both clients when they are cancelled
]

ACCOUNT: Document = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "shop", "namespace": "default"},
}
RETRY_S = 0.2


def on_lightkube(*, name: str = "") -> RunOperator:
    """An operator that creates the page with a fixed name, or with a generated one."""
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

    async def main(kubeconfig: str) -> None:
        client: Any = AsyncClient(KubeConfig.from_file(kubeconfig).get(), trust_env=False)
        has_page = False
        try:
            while True:
                try:
                    async for _, account in client.watch(ServiceAccount, namespace="default"):
                        if account.metadata.name == "shop" and not has_page:
                            await write_page(client)
                            has_page = True
                except Exception:  # any error of the network or the API server: watch again
                    await asyncio.sleep(RETRY_S)
        finally:
            await client.close()

    return make_thread_runner(main)


# ── rules ────────────────────────────────────────────────────────────────────


def pages(store: SimulatedStore) -> list[str]:
    names = [item["metadata"]["name"] for item in store.list_objects(CONFIG_MAPS, "default")]
    return [name for name in names if "page" in name]


def a_shop_has_one_page(store: SimulatedStore) -> str | None:
    return f"pages: {pages(store)}" if len(pages(store)) > 1 else None


def each_shop_has_a_page(store: SimulatedStore) -> str | None:
    return None if store.get(SERVICE_ACCOUNTS, "shop") is None or pages(store) else "no page"


def simulation_of(*faults: str) -> Simulation:
    return Simulation(
        actions={"open": create(ACCOUNT)},
        always=[a_shop_has_one_page],
        at_rest=[each_shop_has_a_page],
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


OPEN = SimulatedOperation(0.2, "open")


def test_the_operator_works_without_faults() -> None:
    outcome = played(on_lightkube(name="page"), OPEN)
    assert not outcome.violations, outcome.violations[0]
    assert any("configmaps default/" in line and "page" in line for line in outcome.trace)


def test_a_page_that_lightkube_creates_twice_is_found() -> None:
    failure = hunt(
        simulation_of("answer lost", "request lost"),
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
