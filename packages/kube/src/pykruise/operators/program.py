"""The program of an operator: flags, logs, leader election, metrics, probes, webhooks, and a graceful end.

argv ──▶ Settings ──▶ serve(): HttpTransport ──▶ Operator (and its LeaderElector)
                               └──▶ servers: /metrics, /healthz and /readyz, webhooks

At the first SIGTERM or SIGINT the program finishes writes in progress, releases the Lease, and stops its servers last.
"""

import asyncio
import logging
import random
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import prometheus_client
from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from pykruise.kube.admission import ReviewRule
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.clock import read_system_clock
from pykruise.kube.config.kubeconfig import SERVICE_ACCOUNT, load
from pykruise.kube.election.leases import LeaderElector
from pykruise.kube.errors import KubeError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.program.cache_oversight import Oversight
from pykruise.kube.program.flags import (
    Flag,
    FlagError,
    format_help_lines,
    make_text_flag,
    read_address,
    read_one_of,
    read_texts,
    read_value,
    read_whole,
    switch,
)
from pykruise.kube.program.health import make_responder
from pykruise.kube.program.logs import LogSettings, set_up
from pykruise.kube.program.metrics import (
    cache_metrics,
    collect_controller_metrics,
    collect_queue_metrics,
    collect_request_metrics,
    make_gauge,
    make_metrics_responder,
)
from pykruise.kube.program.process import return_memory, run_beside, run_beside_servers, stop_on_signals
from pykruise.kube.program.serving import Address, PlainServer
from pykruise.kube.resources import Resource
from pykruise.kube.webhooks.reviews import ReviewDispatcher
from pykruise.kube.webhooks.server import WebhookServer, review_paths
from pykruise.runtime.assemble import views_of
from pykruise.runtime.operator import Operator, Work

__all__ = ["Settings", "main", "serve"]

_log = logging.getLogger(__name__)

CACHE_TIMEOUT_S: Final = 120.0
"""Seconds until the log reports a cache that is not filled yet."""

FLAGS: Final[Sequence[Flag]] = (
    make_text_flag(
        "kubeconfig", "", "Path of a kubeconfig (default: $KUBECONFIG, the pod's account, or ~/.kube/config)."
    ),
    make_text_flag("namespace", "", "Reconcile only the objects of this namespace."),
    switch("leader-elect", "false", "Elect a leader through a Lease; only the leader reconciles."),
    make_text_flag(
        "leader-election-namespace", "", "Namespace of the Lease (default: the pod's namespace, or default)."
    ),
    make_text_flag("metrics-bind-address", ":8080", "Address of /metrics; 0 disables it.", read=read_address),
    make_text_flag(
        "health-probe-bind-address",
        ":8081",
        "Address of /healthz and /readyz; 0 disables them.",
        read=read_address,
    ),
    make_text_flag(
        "webhook-bind-address",
        ":9443",
        "Address of the webhooks, if the operator has webhooks.",
        read=read_address,
    ),
    make_text_flag("webhook-cert-dir", "", "Folder with tls.crt and tls.key of the webhooks."),
    make_text_flag(
        "log-format", "text", "Format of the logs: text or json.", read=read_one_of("text", "json")
    ),
    make_text_flag("v", "0", "Verbosity of the logs; 5 or higher adds debug lines.", read=read_whole(0)),
)
"""Flags of every operator."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a program; the help of the flags explains them."""

    kubeconfig: str = ""
    namespace: str = ""
    leader_elect: bool = False
    leader_election_namespace: str = ""
    metrics_bind_address: Address | None = None
    health_probe_bind_address: Address | None = None
    webhook_bind_address: Address | None = None
    webhook_cert_dir: str = ""


def main(
    name: str, *work: Work, webhooks: Sequence[ReviewRule] = (), argv: Sequence[str] | None = None
) -> None:
    """Run an operator until SIGTERM or SIGINT, and exit: 0 after a graceful end, 1 for an error, 2 for wrong flags.

    `name`: of the Lease and the user agent. `webhooks`: results of `validating()` and `defaulting()`; they need
    `--webhook-cert-dir`. `argv`: flags; None: those of the command line. `--help` lists them.
    """
    known = {flag.name: flag for flag in FLAGS}
    try:
        given = read_texts(sys.argv[1:] if argv is None else argv, known)
        if "help" in given or "h" in given:
            sys.stdout.write("\n".join(format_help_lines(FLAGS)) + "\n")
            sys.exit(0)
        values = {flag.name: read_value(flag, given.get(flag.name)) for flag in FLAGS}
        if webhooks and not values["webhook-cert-dir"]:
            raise FlagError("--webhook-cert-dir: the folder with tls.crt and tls.key is needed for webhooks")
    except FlagError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    set_up(LogSettings(format=values.pop("log-format"), verbosity=values.pop("v")))
    settings = Settings(**{flag.replace("-", "_"): value for flag, value in values.items()})
    try:
        asyncio.run(serve(name, work, webhooks=webhooks, settings=settings))
    except (KubeError, OSError) as error:
        _log.critical("%s", error)
        sys.exit(1)


async def serve(
    name: str,
    work: Sequence[Work],
    *,
    webhooks: Sequence[ReviewRule] = (),
    settings: Settings,
    on_start: Callable[[Operator], None] = lambda _: None,
) -> None:
    """Run an operator until a signal, or `Operator.stop()`. Raises KubeError, and OSError for an address in use.

    `on_start` is called with the operator before it runs.
    """
    return_memory()
    connection = await load(settings.kubeconfig or None)
    rng = random.Random()
    async with AsyncExitStack() as stack:
        transport = HttpTransport(connection, user_agent=name)
        stack.push_async_callback(transport.close)
        metered = MeteredTransport(transport)
        elector = None
        if settings.leader_elect:
            # Separate connections: a busy operator must not miss renewals of its Lease.
            apart = HttpTransport(connection, pool=2, user_agent=name)
            stack.push_async_callback(apart.close)
            elector = LeaderElector(
                Client(apart, user_agent=name, rng=rng),
                namespace=settings.leader_election_namespace or _own_namespace(),
                name=name,
                identity=f"{socket.gethostname()}_{uuid.uuid4()}",
                clock=read_system_clock,
                rng=rng,
            )
        client = Client(metered, user_agent=name, rng=rng)
        operator = Operator(client, work, elector=elector, namespace=settings.namespace, rng=rng)
        if webhooks:
            await stack.enter_async_context(_webhooks_served(webhooks, settings))
        stop_on_signals(operator.stop)
        on_start(operator)
        host = urlsplit(connection.server).netloc
        oversight = Oversight(
            operator.sources.by_resource, shared=_list_shared(work), timeout_s=CACHE_TIMEOUT_S
        )
        servers = _make_servers(operator, oversight, metered, settings, lease=name, host=host)
        await run_beside_servers(run_beside(operator.run(), oversight.run()), servers)


def _list_shared(work: Sequence[Work]) -> frozenset[Resource]:
    """Return the resources that every controller reads."""
    reads = [{views.resource for views in views_of(item.control, item.settings)} for item in work]
    return frozenset(set.intersection(*reads)) if reads else frozenset()


def _own_namespace() -> str:
    """Return the namespace of the pod in which this program runs; `default` outside of pods."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip() or "default"
    except OSError:
        return "default"


@asynccontextmanager
async def _webhooks_served(webhooks: Sequence[ReviewRule], settings: Settings) -> AsyncIterator[None]:
    """Serve webhooks in each replica, whether it leads or not. A renewed certificate is used within a minute."""
    bind = settings.webhook_bind_address or Address("", 9443)
    server = WebhookServer(review_paths(ReviewDispatcher(webhooks)), host=bind.host, port=bind.port)
    folder = Path(settings.webhook_cert_dir)
    server.load_certificate(folder / "tls.crt", folder / "tls.key")
    await server.start()
    renewing = asyncio.get_running_loop().create_task(_reload_certificates(server, folder))
    _log.info("webhooks are served at %s:%d", bind.host, server.port)
    try:
        yield
    finally:
        renewing.cancel()
        await server.stop()


_CERTIFICATE_EVERY_S: Final = 60.0


async def _reload_certificates(server: WebhookServer, folder: Path) -> None:
    """Load a certificate that another program has renewed."""
    before = _stamp(folder)
    while True:
        await asyncio.sleep(_CERTIFICATE_EVERY_S)
        now = _stamp(folder)
        if now == before:
            continue
        try:
            server.load_certificate(folder / "tls.crt", folder / "tls.key")
            before = now
        except (OSError, ValueError) as error:  # the files may be half written
            _log.error("the certificate of the webhooks cannot be loaded: %s", error)


def _stamp(folder: Path) -> tuple[int, ...]:
    try:
        return tuple((folder / name).stat().st_mtime_ns for name in ("tls.crt", "tls.key"))
    except OSError:
        return ()


def _make_servers(
    operator: Operator,
    oversight: Oversight,
    metered: MeteredTransport,
    settings: Settings,
    *,
    lease: str,
    host: str,
) -> list[PlainServer]:
    servers = []
    if settings.metrics_bind_address is not None:
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Metrics(operator, metered, lease=lease, host=host))
        prometheus_client.ProcessCollector(registry=registry)
        prometheus_client.PlatformCollector(registry=registry)
        paths = {"/metrics": make_metrics_responder(registry)}
        servers.append(PlainServer("metrics", settings.metrics_bind_address, paths))
    if settings.health_probe_bind_address is not None:
        checks = {
            "caches-synced": oversight.list_problems,
            "shutdown": lambda: _end_of(operator),
        }
        answers = {
            "/healthz": make_responder("healthz", {"ping": lambda: ()}),
            "/readyz": make_responder("readyz", checks),
        }
        servers.append(PlainServer("probes", settings.health_probe_bind_address, answers))
    return servers


def _end_of(operator: Operator) -> Sequence[str]:
    return ("the program is shutting down",) if operator.is_stopping else ()


class _Metrics(Collector):
    """Metrics of one operator: a scrape reads the counters of its parts. `lease`: name of its Lease; `host`: host of
    the API server.
    """

    def __init__(self, operator: Operator, metered: MeteredTransport, *, lease: str, host: str) -> None:
        self._operator = operator
        self._metered = metered
        self._lease = lease
        self._host = host

    def describe(self) -> Iterable[Metric]:
        """Return nothing in advance: there is no event loop yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics. Must be called in the event loop's thread."""
        controllers: Sequence[Any] = self._operator.controllers
        caches = self._operator.sources.by_resource
        if self._operator.elector is not None:
            yield make_gauge(
                "leader_election_master_status",
                "1 while this replica is the leader.",
                ["name"],
                [([self._lease], int(self._operator.is_leading))],
            )
        yield from collect_controller_metrics({item.name: item.read_stats() for item in controllers}, {})
        yield from collect_queue_metrics({item.name: item.queue.read_stats() for item in controllers}, {})
        yield from cache_metrics({str(resource): cache.read_stats() for resource, cache in caches.items()})
        yield from collect_request_metrics(self._metered, self._host)
