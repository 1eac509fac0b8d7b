"""Webhooks of managers under test: installed, started, and registered with their own address."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from pykruise.admission.configurations import MUTATING, VALIDATING, Endpoint, build_configurations
from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.settings import make_admission_settings
from pykruise.kinds.gates import Gates
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.kube.documents import Document
from pykruise.kube.errors import AlreadyExistsError, NotFoundError
from pykruise.kube.resources import NAMESPACES
from pykruise.manager.settings import ManagerSettings, WebhookSettings
from pykruise.manager.webhooks import Webhooks, endpoint_of

LOOPBACK = "127.0.0.1"

QUIET_S = 2.5
"""Seconds that webhooks of `running_webhooks` wait before they narrow the selection of pods. A SidecarSet is stored up
to a second after its review; all other objects are stored faster."""

GATES = Gates.of(
    ResourcesDeletionProtection=True,
    DeletionProtectionForCRDCascadingGate=True,
    ImagePullJobGate=True,
    ResourceDistributionGate=True,
    PodUnavailableBudgetUpdateGate=True,
    PodGroups=True,
)
"""Gates of the webhooks in scenarios on every cluster. They can always be on: protection affects only labelled objects,
budgets only pods that are tied to them, and the other gates only objects of their kinds."""


def free_port() -> int:
    """A port that no process listens on at this moment."""
    with socket.socket() as result:
        result.bind((LOOPBACK, 0))
        port: int = result.getsockname()[1]
        return port


def webhook_settings(
    folder: Path, *, port: int = 0, gates: Gates | None = None, **changes: Any
) -> ManagerSettings:
    """Settings of a manager outside the cluster, whose certificates are in a Secret that replicas share."""
    given: dict[str, Any] = {
        "host": LOOPBACK,
        "port": port or free_port(),
        "certificate_folder": str(folder / "certs"),
        "certificate_writer": "secret",
        "protection_log_folder": str(folder / "log"),
        "initialize_timeout_s": 100.0,  # a busy machine is no failure
    }
    return ManagerSettings(gates=gates or Gates(), webhook=WebhookSettings(**{**given, **changes}))


async def install_namespace(client: Client, settings: ManagerSettings) -> None:
    """Create the manager's namespace."""
    namespace = {"metadata": {"name": settings.own_namespace, "labels": {"control-plane": "openkruise"}}}
    with suppress(AlreadyExistsError):
        await client.create(NAMESPACES, "", namespace)


async def install_configurations(client: Client, settings: ManagerSettings, *, unreviewed: str = "") -> None:
    """Create both webhook configurations, as an installer does. `unreviewed`: a namespace that they leave out."""
    rules = build_reviewers(make_admission_settings(settings.gates, namespace=settings.own_namespace))
    for resource, doc in zip(
        (MUTATING, VALIDATING), build_configurations(rules, endpoint_of(settings)), strict=True
    ):
        if unreviewed:
            _leave_out(doc, unreviewed)
        await client.create(resource, "", doc)


def _leave_out(doc: Document, namespace: str) -> None:
    for entry in doc["webhooks"]:
        selector = entry.setdefault("namespaceSelector", {})
        named = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [namespace]}
        selector["matchExpressions"] = [*selector.get("matchExpressions", ()), named]


async def uninstall_configurations(client: Client) -> None:
    """Delete both webhook configurations, if they exist."""
    for resource, doc in zip((MUTATING, VALIDATING), build_configurations((), Endpoint()), strict=True):
        with suppress(NotFoundError):
            await client.delete(resource, "", doc["metadata"]["name"])


@asynccontextmanager
async def running_webhooks(
    client: Client,
    settings: ManagerSettings,
    *,
    clock: Clock = read_system_clock,
    rng: random.Random | None = None,
    wait: bool = True,
    **options: Any,
) -> AsyncIterator[Webhooks]:
    """Run one replica's webhooks; with `wait`, return when they are ready."""
    webhooks = Webhooks(client, settings=settings, clock=clock, rng=rng, **{"bind": LOOPBACK, **options})
    running = asyncio.create_task(webhooks.run())
    try:
        if wait:
            await wait_ready([webhooks], running)
        yield webhooks
    finally:
        await webhooks.stop()
        await running


async def wait_ready(
    replicas: Sequence[Webhooks], *running: asyncio.Task[None], within_s: float = 100.0
) -> None:
    """Wait until no replica has a problem; fails immediately when one ends."""
    async with asyncio.timeout(within_s):
        while any(replica.list_problems() for replica in replicas):
            for task in running:
                if task.done():
                    task.result()
            await asyncio.sleep(0.02)
