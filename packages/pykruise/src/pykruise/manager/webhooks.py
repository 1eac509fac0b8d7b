"""The webhooks of a manager: their server, their certificates, and their configurations.

Secret, configurations, CRDs, selectors ──changed──▶ a reconcile of WebhookSync (admission/webhook_sync.py) ──▶ served
                                        ──each minute──▶

The webhooks run in every replica, whether it leads or not. The manager, the Secret, the webhook configurations and the
CRDs may be created in any order. Missing objects are looked up again until `initialize_timeout_s` has passed. After
the first complete reconcile, there is no time limit. All replicas do the same work on the same objects. If two replicas
write an object at the same time, its resourceVersion makes one of the writes fail.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from prometheus_client.registry import CollectorRegistry

from pykruise.admission.certificate_process import CertificateWork
from pykruise.admission.certificates import Certificates, read_renew_before
from pykruise.admission.configurations import CONFIGURATIONS, CONVERT_PATH, Endpoint
from pykruise.admission.conversion_path import build_conversion_path
from pykruise.admission.conversion_process import ConversionProcess
from pykruise.admission.reviewers import list_installed_rules
from pykruise.admission.settings import make_admission_settings
from pykruise.admission.stores import (
    CertificateFolder,
    CertificateStore,
    ExternalStore,
    FileStore,
    SecretStore,
    StoreError,
)
from pykruise.admission.webhook_plan import QUIET_S, CrdView, WebhookTarget, project_crd
from pykruise.admission.webhook_sync import SETTLE_S, WebhookSync, WebhookSyncError
from pykruise.kinds import list_conversions
from pykruise.kube.admission import ReviewRule
from pykruise.kube.cache.cache import Cache, Change
from pykruise.kube.cache.definition_watch import Renewal
from pykruise.kube.cache.metadata_view import MetadataView, project_metadata
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, read_system_clock
from pykruise.kube.errors import ConflictError, KubeError
from pykruise.kube.http.heads import format_request_head
from pykruise.kube.http.server import find_local_host
from pykruise.kube.http.trust import make_client_context
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, SECRETS
from pykruise.kube.webhooks.server import PostPath, WebhookLimits, WebhookServer, review_paths
from pykruise.manager.review_service import ReviewService
from pykruise.manager.settings import WEBHOOK_STOP_S, ManagerSettings, WebhookSettings
from pykruise.manager.webhook_metrics import WebhookMetrics

_log = logging.getLogger(__name__)

AGAIN_S: Final = 60.0
"""Seconds until the next reconcile after a successful one."""

FILES_AGAIN_S: Final = 10.0
"""Seconds until the next reconcile if certificates are files that other programs may change."""

SPACING_S: Final = 0.5
"""Minimum seconds between two reconciles."""

PASS_S: Final = 30.0
"""Maximum seconds of a reconcile."""

BACKOFF_S: Final = (0.5, 30.0)
"""First and longest wait after a failed reconcile; each wait is twice the previous one, with jitter."""

CHECK_EVERY_S: Final = 10.0
CHECK_S: Final = 5.0
"""Interval and time limit of the requests that check whether the server responds."""

JUMP_S: Final = 60.0
"""The clock and the event loop's time advance by about the same number of seconds. If these numbers differ by more than
JUMP_S since the start, or since the last jump, the clock was changed.
"""


class WebhooksNotReadyError(RuntimeError):
    """No complete reconcile succeeded in time; the message contains the last error."""


def endpoint_of(settings: ManagerSettings) -> Endpoint:
    """Return the address of the webhooks for API servers."""
    webhook = settings.webhook
    return Endpoint(
        namespace=settings.own_namespace, service=webhook.service, host=webhook.host, port=webhook.port
    )


class Webhooks:
    """The webhooks as a component of a manager (manager/components.py).

    `client` must be able to write without leading. `bind` and `port`: the server's address; an empty `bind` means all
    interfaces; without `port`, the server listens on the port that API servers call; with `port`, another program
    forwards requests to it. `over` can wrap the reviewers. `quiet_s`, `settle_s`: see admission/webhook_plan.py and
    webhook_sync.py. `certificate_work`: examines and renews certificates; None: in this process.
    """

    name = "webhook-ready"

    def __init__(
        self,
        client: Client,
        *,
        settings: ManagerSettings | None = None,
        bind: str = "",
        port: int | None = None,
        limits: WebhookLimits | None = None,
        clock: Clock = read_system_clock,
        rng: random.Random | None = None,
        settle_s: float = SETTLE_S,
        quiet_s: float = QUIET_S,
        over: Callable[[Sequence[ReviewRule]], Sequence[ReviewRule]] = tuple,
        certificate_work: CertificateWork | None = None,
    ) -> None:
        settings = settings or ManagerSettings()
        rng = rng or random.Random()
        webhook = settings.webhook
        client = (
            client.separate_limit()
        )  # controllers' writes wait for the reviews, so reviews must not wait for them
        self._client, self._settings, self._clock, self._rng = client, settings, clock, rng
        self._timeout_s = webhook.initialize_timeout_s
        self._endpoint = endpoint_of(settings)
        self.metrics = WebhookMetrics(log_folder=webhook.protection_log_folder)
        self._folder = CertificateFolder(Path(webhook.certificate_folder), clock=clock)
        self._choose_store, self._again_s = _choose_store(client, settings, webhook, self._folder)
        self.reviews = ReviewService(
            client,
            settings,
            self.metrics,
            clock=clock,
            rng=rng,
            narrows=self._choose_store.is_managed,
            over=over,
        )
        self._converting = ConversionProcess()
        self._local_host = find_local_host(bind)
        self.server = WebhookServer(
            self._build_paths(),
            host=bind,
            port=webhook.port if port is None else port,
            limits=limits,
            client_authority=Path(webhook.client_authority) if webhook.client_authority else None,
            meter=self.metrics,
        )
        self._sync = WebhookSync(
            client,
            self._choose_store,
            target=self._build_target(quiet_s),
            remover=self.reviews.remover,
            selectors=self.reviews.selectors.find_known,
            list_selectors=self.reviews.selectors.read,
            serve=self._serve,
            renew_before_s=read_renew_before(webhook.renew_before),
            clock=clock,
            settle_s=settle_s,
            work=certificate_work,
        )
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._crds = Cache(client, CUSTOM_RESOURCE_DEFINITIONS, project=project_crd, clock=clock, rng=rng)
        self._watches = self._make_watched_caches()
        self._subscribe()
        self._is_initialized = False
        self._problem = "the first check of Secret, webhook configurations and CRDs has not finished"
        self._check_problem = ""

    def _build_paths(self) -> Mapping[str, PostPath]:
        """Return all paths that the server serves."""
        return {
            **review_paths(self.reviews.dispatcher),
            **build_conversion_path(CONVERT_PATH, aside=self._converting.convert),
        }

    def _build_target(self, quiet_s: float) -> WebhookTarget:
        settings = make_admission_settings(self._settings.gates, namespace=self._settings.own_namespace)
        return WebhookTarget(
            rules=self.reviews.dispatcher.by_path,
            installed=list_installed_rules(settings),
            converted=frozenset(list_conversions()),
            endpoint=self._endpoint,
            is_managed=self._choose_store.is_managed,
            quiet_s=quiet_s,
        )

    def _subscribe(self) -> None:
        """Start a reconcile when its input changes."""
        for cache in self._watches:
            cache.subscribe(lambda _: self._wake.set())
        self._crds.subscribe(self._on_crd)
        self._crds.subscribe(Renewal(self.reviews.list_caches).handle_definition)
        self.reviews.selectors.subscribe(self._wake.set)

    def _make_watched_caches(self) -> list[Cache[MetadataView]]:
        """Return caches of the objects whose change starts a reconcile. The Secret is included only if it stores the
        certificates.
        """
        settings = self._settings
        named = [(resource, "", name) for resource, name in CONFIGURATIONS]
        if not isinstance(self._choose_store, FileStore):
            named.append((SECRETS, settings.own_namespace, settings.webhook.secret))
        return [
            Cache(
                self._client,
                resource,
                project=project_metadata,
                namespace=namespace,
                field_selector=f"metadata.name={name}",
                clock=self._clock,
                rng=self._rng,
            )
            for resource, namespace, name in named
        ]

    def _on_crd(self, change: Change[CrdView]) -> None:
        crd = change.new or change.old
        if crd is not None and crd.conversion is not None:
            self._wake.set()

    # ── as a component ───────────────────────────────────────────────────────

    def list_problems(self) -> Sequence[str]:
        """Reasons why API servers should not send reviews here now."""
        if not self._is_initialized:
            return [self._problem]
        problems = [self._check_problem] if self._check_problem else []
        problems += self.reviews.list_problems()
        return problems

    @property
    def serves(self) -> Certificates | None:
        """Certificates for new connections; None before the server listens."""
        return self._sync.served

    def register(self, registry: CollectorRegistry) -> None:
        """Export the webhooks' metrics."""
        self.metrics.register(registry, paths=self.server.paths, shed=lambda: self.server.shed)

    async def run(self) -> None:
        """Serve and reconcile until `stop()`. Raises WebhooksNotReadyError when no reconcile succeeds in time."""
        try:
            async with asyncio.TaskGroup() as tasks:
                parts: dict[str, Coroutine[Any, Any, None]] = {
                    **{f"cache-{cache.resource}": cache.run() for cache in self._watches},
                    f"cache-{self._crds.resource}": self._crds.run(),
                    "webhook-sync": self._run_passes(),
                    "webhook-check": self._check_server(),
                    **self.reviews.list_parts(),
                }
                background = [tasks.create_task(part, name=name) for name, part in parts.items()]
                await self._stop.wait()
                for task in background:
                    task.cancel()
        finally:
            await self.server.stop(grace_s=WEBHOOK_STOP_S)
            self._converting.close()

    def retire(self) -> None:
        """Make API servers use other replicas, if there are any; `stop()` follows soon."""
        self.server.retire()

    async def stop(self) -> None:
        """Complete running reviews and end `run()`."""
        self._stop.set()
        await self.server.stop(grace_s=WEBHOOK_STOP_S)

    # ── reconciles ───────────────────────────────────────────────────────────

    async def _run_passes(self) -> None:
        loop = asyncio.get_running_loop()
        deadline, failures = loop.time() + self._timeout_s, 0
        while True:
            self._wake.clear()
            try:
                async with asyncio.timeout(PASS_S):
                    again_s = await self._sync.reconcile(self._read_crd_views)
            except (KubeError, OSError, StoreError, WebhookSyncError, ValueError, TimeoutError) as error:
                failures += 1
                self._note_error(error)
                if not self._is_initialized and loop.time() >= deadline:
                    raise WebhooksNotReadyError(
                        f"webhooks are not registered after {self._timeout_s:g} s: {self._problem}"
                    ) from error
                wait_s = self._compute_backoff_s(failures)
                if not self._is_initialized:
                    wait_s = min(wait_s, max(deadline - loop.time(), 0.1))
            else:
                if not self._is_initialized:
                    _log.info("webhooks are registered at %s", self._endpoint.base_url or self._endpoint.name)
                failures, self._is_initialized, self._problem = 0, True, ""
                wait_s = self._again_s if again_s is None else min(self._again_s, again_s)
            await self._wait_for_change(wait_s)
            # If another writer reverts these writes, the two must not cause writes all the time.
            await asyncio.sleep(SPACING_S)

    async def _read_crd_views(self) -> Sequence[CrdView]:
        async with asyncio.timeout(PASS_S / 2):
            await self._crds.wait_synced()
        return self._crds.values()

    async def _serve(self, certificates: Certificates) -> None:
        self._folder.write(certificates)
        self.server.load_certificate(*self._folder.pair)
        if not self.server.is_listening:
            await self.server.start()
            _log.info("webhooks are served on port %d", self.server.port)
        else:
            _log.info("webhooks are served with a new certificate")

    def _note_error(self, error: BaseException) -> None:
        if isinstance(error, ConflictError):
            _log.debug("another replica has written first: %s", error)
            return
        problem = str(error) or type(error).__name__
        if isinstance(error, TimeoutError):
            problem = "the API server takes too long to respond"
        if problem != self._problem:
            _log.warning("the webhooks have a problem, and the manager retries: %s", problem)
        self._problem = problem

    def _compute_backoff_s(self, failures: int) -> float:
        first, longest = BACKOFF_S
        return min(longest, first * 2.0 ** min(failures - 1, 10)) * self._rng.uniform(0.5, 1.0)

    async def _wait_for_change(self, seconds: float) -> None:
        """Wait until something changed, at most for these seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    # ── check of the server with a request, as API servers send it ────────────────

    async def _check_server(self) -> None:
        loop = asyncio.get_running_loop()
        ahead = self._clock() - loop.time()
        while True:
            if abs(self._clock() - loop.time() - ahead) > JUMP_S:
                ahead = self._clock() - loop.time()
                _log.warning("the clock has jumped: certificates are checked again")
                self._wake.set()
            if (served := self._sync.served) is not None:
                problem = await self._find_problem(served)
                if problem and not self._check_problem:
                    _log.error("webhooks: %s", problem)
                self._check_problem = problem
            await asyncio.sleep(CHECK_EVERY_S if served is not None else 1.0)

    async def _find_problem(self, certificates: Certificates) -> str:
        """Return why the server does not respond to a client that trusts the CA; empty when it responds."""
        try:
            context = make_client_context(certificates.authority.decode())
            context.check_hostname = False  # this request uses another address than API servers do
            async with asyncio.timeout(CHECK_S):
                reader, writer = await asyncio.open_connection(
                    self._local_host, self.server.port, ssl=context
                )
                try:
                    writer.write(
                        format_request_head(
                            "GET", "/healthz", [("Host", "localhost"), ("Connection", "close")]
                        )
                    )
                    status = await reader.readline()
                finally:
                    writer.close()
        except TimeoutError:
            return f"the webhook server does not respond within {CHECK_S:g} s"
        except (OSError, ValueError) as error:
            return f"the webhook server does not respond correctly: {error}"
        return (
            ""
            if b" 200 " in status
            else f"the webhook server reports a problem: {status.decode(errors='replace')}"
        )


def _choose_store(
    client: Client, settings: ManagerSettings, webhook: WebhookSettings, folder: CertificateFolder
) -> tuple[CertificateStore, float]:
    """Return the store of certificates, and the seconds between reads. The rule is the same as in OpenKruise's choice
    of a certificate writer.
    """
    if settings.gates["EnableExternalCerts"]:
        return ExternalStore(client, namespace=settings.own_namespace, name=webhook.secret), AGAIN_S
    if webhook.certificate_writer == "fs" or (webhook.host and not webhook.certificate_writer):
        return FileStore(folder), FILES_AGAIN_S
    return SecretStore(client, namespace=settings.own_namespace, name=webhook.secret), AGAIN_S
