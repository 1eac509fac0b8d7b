"""Operators with other clients are simulated over HTTPS: here one in kopf, whose bug is found."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pykruise.kube.documents import Document
from pykruise.kube.resources import CONFIG_MAPS, SERVICE_ACCOUNTS
from pykruise.testing.simulation import (
    Fault,
    SimulatedOperation,
    SimulatedStore,
    Simulation,
    SimulationScript,
    create,
    hunt,
)
from pykruise.testing.simulation.network import STREAM_FAULTS
from pykruise.testing.simulation.over_http import HTTP_FAULTS, player_of

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore"),  # of kopf and the official client
]

ACCOUNT: Document = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "shop", "namespace": "default"},
}


def a_shop_has_one_page(store: SimulatedStore) -> str | None:
    pages = [
        item
        for item in store.list_objects(CONFIG_MAPS, "default")
        if item["metadata"]["name"] != "kube-root-ca.crt"
    ]
    return f"{len(pages)} pages" if len(pages) > 1 else None


def each_shop_has_a_page(store: SimulatedStore) -> str | None:
    pages = [
        item
        for item in store.list_objects(CONFIG_MAPS, "default")
        if item["metadata"]["name"] != "kube-root-ca.crt"
    ]
    return None if store.get(SERVICE_ACCOUNTS, "shop") is None or pages else "no page"


@contextmanager
def kopf_operator(kubeconfig: str, *, name: str = "") -> Iterator[None]:
    """An operator in kopf that makes a page of each service account `shop`; without `name`, the API server names it."""
    import kopf
    import kubernetes

    registry = kopf.OperatorRegistry()
    api = kubernetes.config.new_client_from_config(kubeconfig)
    core = kubernetes.client.CoreV1Api(api)

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> Any:
        return kopf.ConnectionInfo(**connection_of(kubeconfig))

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.posting.enabled = False
        settings.networking.error_backoffs = (0.1, 0.2, 0.5)

    @kopf.on.create("serviceaccounts", registry=registry, backoff=0.3, field="metadata.name", value="shop")
    def make_page(**_: Any) -> None:
        metadata = {"name": name} if name else {"generateName": "page-"}
        try:
            core.create_namespaced_config_map("default", {"metadata": metadata})
        except kubernetes.client.ApiException as error:
            if '"AlreadyExists"' not in str(error.body):
                raise

    stop, ready = threading.Event(), threading.Event()

    def run() -> None:
        asyncio.run(
            kopf.operator(
                registry=registry, standalone=True, namespaces=["default"], stop_flag=stop, ready_flag=ready
            )
        )

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        assert ready.wait(20)
        yield
    finally:
        stop.set()
        thread.join(20)
        api.close()


def connection_of(kubeconfig: str) -> dict[str, Any]:
    document = yaml.safe_load(Path(kubeconfig).read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    return {
        "server": cluster["server"],
        "ca_data": cluster["certificate-authority-data"].encode(),
        "token": user["token"],
    }


def simulation_of(faults: tuple[str, ...]) -> Simulation:
    return Simulation(
        actions={"open": create(ACCOUNT)},
        always=[a_shop_has_one_page],
        at_rest=[each_shop_has_a_page],
        faults=faults,
        faulty_paths=["/configmaps"],
        nodes=0,
        controllers=(),
        length_s=1.5,
    )


def test_a_page_that_kopf_creates_twice_is_found() -> None:
    failure = hunt(
        simulation_of(("answer lost", "conflict", "request lost")),
        seeds=60,
        play=player_of(kopf_operator, quiet_s=1.0),
        most_runs=6,
    )
    assert failure is not None
    assert failure.outcome.rule == "a_shop_has_one_page"
    assert {fault.kind for fault in failure.script.faults} == {"answer lost"}


def named(kubeconfig: str) -> Any:
    return kopf_operator(kubeconfig, name="page")


ENDS_KOPF = {"garbage"}
"""A line that is not JSON ends kopf's watch, and kopf does not begin another one."""


@pytest.mark.parametrize("kind", HTTP_FAULTS)
def test_an_operator_whose_creation_has_a_name_survives_every_kind_of_fault(kind: str) -> None:
    path = "/serviceaccounts" if kind in STREAM_FAULTS else "/configmaps"
    fault = Fault(0.0, kind, path, count=1, seconds=0.3)
    script = SimulationScript(seed=0, operations=(SimulatedOperation(0.2, "open"),), faults=(fault,))
    patience_s = 5.0 if kind in ENDS_KOPF else 30.0
    outcome = player_of(named, quiet_s=0.8, patience_s=patience_s)(simulation_of(()), script)
    if kind in ENDS_KOPF:
        assert outcome.rule == "each_shop_has_a_page"
    else:
        assert not outcome.violations, outcome.violations[0]
