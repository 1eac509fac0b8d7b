"""A manager as a process: its parts, its start, its end, and its exit code.

Settings, Connection ──▶ run_process(): transports ─ election ─ Manager ─ webhooks ─ probes ─ metrics ─ watchdog

    0   stopped by SIGTERM or SIGINT, running writes are complete, the Lease is released
    1   a part failed, or a second signal arrived
    70  the event loop was blocked (watchdog)

Steps after the first signal. Each has a time limit, and all together take at most ManagerSettings.longest_stop_s:

1. Controllers start no reconcile, and running reconciles finish their writes. At the same time, API servers learn to
   send reviews to other replicas.
2. The Lease, or the Leases of slots, are released, so that a successor can work.
3. Pending events are written.
4. The webhook server finishes the reviews in progress, then the servers of probes and metrics stop.

Signals have an effect from the beginning of the process's work: before the manager runs, a signal ends the process
at once.
"""

import asyncio
import logging
import os
import random
import socket
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

import orjson
from msgspec.structs import replace
from prometheus_client.registry import CollectorRegistry

from pykruise.kinds import use_stored_versions
from pykruise.kube.cache.event_batching import AT_LEISURE
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.clock import read_system_clock
from pykruise.kube.config.connection import Connection
from pykruise.kube.election.leases import LeaderElector
from pykruise.kube.election.membership import Membership
from pykruise.kube.errors import ApiError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.program.metrics import make_metrics_responder
from pykruise.kube.program.process import DIAGNOSIS, return_memory, run_beside_servers, run_until
from pykruise.kube.program.serving import PlainServer
from pykruise.kube.schemas.releases import is_newer_than_known
from pykruise.kube.schemas.served_fields import list_further_fields
from pykruise.manager.health import make_health_paths
from pykruise.manager.manager import Manager
from pykruise.manager.metrics import make_registry
from pykruise.manager.settings import ElectionSettings, ManagerSettings, ServingSettings
from pykruise.manager.state_metrics import make_state_registry
from pykruise.manager.traces import make_span_recorder
from pykruise.manager.watchdog import Watchdog
from pykruise.pods.in_place import has_resize

if TYPE_CHECKING:
    from pykruise.manager.webhooks import Webhooks


_log = logging.getLogger(__name__)

_Candidate = TypeVar("_Candidate", LeaderElector, Membership)

USER_AGENT = "kruise-manager"

SWITCH_S = 0.001
"""Seconds after which the event loop gets the interpreter's lock back from a busy thread. The loop requests the lock in
each iteration.
"""


async def run_process(connection: Connection, settings: ManagerSettings, *, stopping: asyncio.Event) -> None:
    """Run a manager until `stopping` is set. Raises OSError for an address in use (except --pprof-addr), ApiError
    when the cluster rejects the credentials, MissingTracesError before any request.
    """
    span = make_span_recorder(os.environ)
    sys.setswitchinterval(SWITCH_S)
    return_memory()
    async with AsyncExitStack() as stack:
        transport = HttpTransport(connection, user_agent=USER_AGENT)
        stack.push_async_callback(transport.close)
        metered = MeteredTransport(transport)
        rng = random.Random()
        stored = use_stored_versions(metered)
        client = Client(stored, user_agent=USER_AGENT, rng=rng)
        adapted = await run_until(stopping, _adapt_settings(client, settings))
        if adapted is None:
            return
        settings = adapted
        for note in settings.notes:
            _log.warning("%s", note)
        elector = membership = None
        if settings.election.enabled:
            # The election has separate connections and limits, because a busy manager must not miss renewals of its
            # Lease.
            apart = HttpTransport(
                connection, pool=2, timeout_s=settings.election.renew_s, user_agent=USER_AGENT
            )
            stack.push_async_callback(apart.close)
            name = make_identity()
            _log.info("this manager is %s", name)
            own = Client(apart, user_agent=USER_AGENT, rng=rng)
            election = settings.election
            if election.shards > 1:
                sharing = {"members": election.shards, "keying": election.shard_by}
                membership = _build_candidate(Membership, name, own, election, rng, **sharing)
            else:
                elector = _build_candidate(LeaderElector, name, own, election, rng)
        webhooks = _make_webhooks(client, settings, rng) if settings.webhook.enabled else None
        manager = Manager(
            client,
            settings=settings,
            components=[webhooks] if webhooks is not None else [],
            elector=elector,
            membership=membership,
            rng=rng,
            freeze_heap=True,
            pace=AT_LEISURE,
            span=span,
            before_renewal=stored.versions.forget,
        )
        metrics = make_registry(manager, metered, host=urlsplit(connection.server).netloc)
        if webhooks is not None:
            webhooks.register(metrics)
        servers = _build_servers(manager, metrics, settings.serving)
        ending = asyncio.create_task(_stop_when(stopping, manager), name="signals")
        stack.callback(ending.cancel)
        if settings.watchdog_s > 0:
            watchdog = Watchdog(timeout_s=settings.watchdog_s)
            watchdog.start()
            stack.callback(watchdog.stop)
        await run_beside_servers(manager.run(), servers)


async def _stop_when(stopping: asyncio.Event, manager: Manager) -> None:
    await stopping.wait()
    manager.stop()


async def _adapt_settings(client: Client, settings: ManagerSettings) -> ManagerSettings:
    """Adapt settings to the API server's features. This function sends the first request, which shows connection
    problems.
    """
    version = orjson.loads(await client.get_path("/version"))
    git_version = str(version.get("gitVersion") or "")
    _log.info("the cluster is Kubernetes %s", git_version)
    # Discovery decides, not the version: vendors change version texts, and clusters are upgraded in steps.
    is_served = has_resize(orjson.loads(await client.get_path("/api/v1")))
    fitted = settings.fit_version(version, uses_resize=is_served)
    if not is_newer_than_known(version):
        return fitted
    try:
        openapi = orjson.loads(await client.get_path("/openapi/v3/api/v1"))
    except ApiError as error:
        _log.warning("the schemas of Kubernetes %s cannot be read: %s", git_version, error)
        return fitted
    return replace(fitted, further_fields=list_further_fields(openapi, fitted.kubernetes))


def make_identity() -> str:
    """Return the identity of this process in an election: `<hostname>_<uuid>`, as in OpenKruise."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def _build_candidate(
    make: Callable[..., _Candidate],
    name: str,
    client: Client,
    election: ElectionSettings,
    rng: random.Random,
    **further: object,
) -> _Candidate:
    """Return a LeaderElector or a Membership with the settings of the election."""
    return make(
        client,
        namespace=election.namespace,
        name=election.name,
        identity=name,
        lease_s=election.lease_s,
        renew_s=election.renew_s,
        retry_s=election.retry_s,
        clock=read_system_clock,
        rng=rng,
        now=_boot_time,
        **further,
    )


def _boot_time() -> float:
    """Return monotonic seconds. If the system has a clock for this, they include the time during which the machine
    sleeps.
    """
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


def _make_webhooks(client: Client, settings: ManagerSettings, rng: random.Random) -> "Webhooks":
    """Return the webhooks. Their client may write while this replica does not lead, because every replica maintains
    certificates and configurations.
    """
    # Imported only here, so that a manager without webhooks does not load these modules.
    from pykruise.admission.certificate_process import CertificateProcess
    from pykruise.manager.webhooks import Webhooks

    work = CertificateProcess()
    bind = settings.webhook.bind
    if bind is None:
        return Webhooks(client, settings=settings, rng=rng, certificate_work=work)
    return Webhooks(client, settings=settings, bind=bind.host, port=bind.port, rng=rng, certificate_work=work)


def _build_servers(
    manager: Manager, metrics: CollectorRegistry, serving: ServingSettings
) -> list[PlainServer]:
    made: list[PlainServer] = []
    if serving.health is not None:
        made.append(PlainServer("probes", serving.health, make_health_paths(manager)))
    if serving.metrics is not None:
        paths = {"/metrics": make_metrics_responder(metrics)}
        if serving.state:
            paths["/state-metrics"] = make_metrics_responder(
                make_state_registry(manager, namespaces=serving.state_namespaces)
            )
        made.append(PlainServer("metrics", serving.metrics, paths))
    if serving.diagnosis is not None:
        made.append(PlainServer("thread dumps", serving.diagnosis, DIAGNOSIS, is_optional=True))
    return made
