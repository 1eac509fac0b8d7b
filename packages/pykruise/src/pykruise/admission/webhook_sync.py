"""Reconciles webhook certificates, webhook configurations, and `spec.conversion` of CRDs.

store        ──▶ plan_certificates()   ──▶ renew and use certificates
both configurations, CRDs, selectors ──▶ plan_configurations() ──▶ patches
                     (webhook_plan.py decides; this module reads and writes)

Each write contains the resourceVersion that was read. A conflict ends the reconcile, and the next reconcile reads
again. So several replicas can run this at the same time, and an installer can create the Secret, the configurations and
the CRDs in any order. Without a difference, nothing is written.

**A new CA** is written to API servers together with the previous CA. The server uses the new certificate only after API
servers had time to see both CAs. A new certificate of the same CA is used immediately. So no request fails, whichever
replica receives it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from pykruise.admission.certificate_process import CertificateWork, InProcess
from pykruise.admission.certificates import Certificates
from pykruise.admission.configurations import CONFIGURATIONS
from pykruise.admission.match_conditions import ConditionRemover
from pykruise.admission.stores import CertificateStore, StoreError
from pykruise.admission.webhook_plan import (
    ConfigurationPlan,
    CrdView,
    Examined,
    ObservedWebhooks,
    PlannedPatch,
    Waits,
    WebhookTarget,
    plan_certificates,
    plan_configurations,
    project_crd,
)
from pykruise.kube.client.answers import metadata_of
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ForbiddenError, KubeError, NotFoundError
from pykruise.kube.patches import PatchError, PatchType, apply_json_patch
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from pykruise.kube.values.cel import Interests

_log = logging.getLogger(__name__)

SETTLE_S: Final = 5.0
"""Seconds after which every API server is expected to have seen a new CA. Afterwards the server uses its
certificate.
"""

_MOST_FUTILE: Final = 4
"""Number of remembered patches that changed nothing: for each configuration, one with the widest conditions and one
with narrowed conditions.
"""


class WebhookSyncError(Exception):
    """A problem that prevents correct configurations. The message names the object and the remedy."""


class WebhookSync:
    """The reconciles of one replica. All calls must come from one event loop, and one reconcile must end before the
    next.

    `serve` makes the server use the given certificates. `selectors` returns the selectors from caches (None if these
    are not synced yet); `list_selectors` reads them from the API server. `renew_before_s`: a certificate that expires
    within this time is renewed.
    """

    def __init__(
        self,
        client: Client,
        store: CertificateStore,
        *,
        target: WebhookTarget,
        remover: ConditionRemover,
        selectors: Callable[[], Interests | None],
        list_selectors: Callable[[], Awaitable[Interests]],
        serve: Callable[[Certificates], Awaitable[None]],
        renew_before_s: float,
        clock: Clock,
        settle_s: float = SETTLE_S,
        work: CertificateWork | None = None,
    ) -> None:
        self.served: Certificates | None = None
        """Certificates that the server uses for new connections; None before the server listens."""
        self._client = client
        self._store = store
        self._target = target
        self._remover = remover
        self._selectors = selectors
        self._list_selectors = list_selectors
        self._serve_with = serve
        self._renew_before_s = renew_before_s if target.is_managed else None
        self._clock = clock
        self._settle_s = settle_s
        self._work: CertificateWork = work or InProcess()
        self._certificate_waits: Waits = {}
        self._configuration_waits: Waits = {}
        self._futile: deque[PlannedPatch] = deque(maxlen=_MOST_FUTILE)

    async def reconcile(self, crds: Callable[[], Awaitable[Sequence[CrdView]]]) -> float | None:
        """Run one reconcile. Return the seconds until the next reconcile is needed even if nothing changes; None if it
        is not needed.

        `crds` is awaited after the server has certificates. Raises KubeError, OSError, StoreError, WebhookSyncError,
        and ConflictError if another replica was faster.
        """
        certificates = await self.sync_certificates()
        again_s = await self.sync_configurations(certificates.authority, await crds())
        if certificates != self.served:
            await asyncio.sleep(self._settle_s)
            await self._serve(certificates)
        return again_s

    # ── certificates ─────────────────────────────────────────────────────────

    async def sync_certificates(self) -> Certificates:
        """Return the certificates in the store, after renewing them if necessary. If possible, the server uses them
        now.
        """
        for renew_before_s in (self._renew_before_s, None):
            stored = await self._store.read()
            certificates = stored.certificates if stored is not None else None
            plan = plan_certificates(
                await self._examine(certificates),
                await self._examine(self.served),
                renew_before_s=renew_before_s,
                now=self._clock(),
                at=asyncio.get_running_loop().time(),
                waits=self._certificate_waits,
            )
            if not plan.renew_because:
                break
            _log.info("webhook certificates are renewed: %s", plan.renew_because)
            host = self._target.endpoint.name
            made = await self._work.renew(certificates, host=host, now=self._clock())
            await self._store.write(made, over=stored)
        if certificates is None:
            raise StoreError("another client deletes the webhook certificates as soon as they are stored")
        self._certificate_waits = plan.waits
        if plan.serves_at_once:
            await self._serve(certificates)
        return certificates

    async def _examine(self, certificates: Certificates | None) -> Examined | None:
        if certificates is None:
            return None
        return Examined(certificates, await self._work.examine(certificates, host=self._target.endpoint.name))

    async def _serve(self, certificates: Certificates) -> None:
        await self._serve_with(certificates)
        self.served, self._certificate_waits = certificates, {}

    # ── configurations and CRDs ──────────────────────────────────────────────

    async def sync_configurations(self, bundle: bytes, crds: Sequence[CrdView]) -> float | None:
        """Write the address of this server and `bundle` into both webhook configurations and the CRDs.

        If a write fails, the other writes are sent nevertheless, and WebhookSyncError names all problems. Return the
        same value as `reconcile`.
        """
        observed = await self._observe(bundle, crds)
        plan = self._plan(observed)
        closer = await self._observe_live(observed, plan)
        if closer is not observed:
            plan = self._plan(closer)
        self._configuration_waits = plan.waits
        problems = list(plan.problems)
        results = await asyncio.gather(*map(self._write, plan.patches), return_exceptions=True)
        for patch, result in zip(plan.patches, results, strict=True):
            if isinstance(result, Exception):
                problems.append(f"{patch.resource} {patch.name}: {result}")
            elif isinstance(result, BaseException):
                raise result
        if problems:
            raise WebhookSyncError("; ".join(problems))
        return plan.again_s

    def _plan(self, observed: ObservedWebhooks) -> ConfigurationPlan:
        return plan_configurations(
            observed, self._target, waits=self._configuration_waits, futile=tuple(self._futile)
        )

    async def _observe(self, bundle: bytes, crds: Sequence[CrdView]) -> ObservedWebhooks:
        result = await asyncio.gather(*(self._read_live(resource, name) for resource, name in CONFIGURATIONS))
        configurations = {name: live for (_, name), live in zip(CONFIGURATIONS, result, strict=True)}
        for live in configurations.values():
            if live is not None:
                self._remover.note(live)
        return ObservedWebhooks(
            at=asyncio.get_running_loop().time(),
            bundle=bundle,
            configurations=configurations,
            crds=list(crds),
            selectors=self._selectors(),
        )

    async def _observe_live(self, observed: ObservedWebhooks, plan: ConfigurationPlan) -> ObservedWebhooks:
        """Read the values on which the plan depends from the API server, instead of caches. Return the new
        observation.
        """
        patched = {patch.name for patch in plan.patches if patch.resource == CUSTOM_RESOURCE_DEFINITIONS}
        if not patched and not plan.needs_selectors:
            return observed
        crds = [
            project_crd(await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, "", crd.name))
            if crd.name in patched
            else crd
            for crd in observed.crds
        ]
        listed = None
        if plan.needs_selectors:
            with suppress(KubeError):  # if the API server does not respond, conditions are not narrowed now
                listed = await self._list_selectors()
        return msgspec.structs.replace(observed, crds=crds, listed_selectors=listed)

    async def _read_live(self, resource: Resource, name: str) -> Document | None:
        try:
            return decode(await self._client.get(resource, "", name))
        except NotFoundError:
            return None

    async def _write(self, patch: PlannedPatch) -> None:
        """Write a patch. Raises ConflictError if the object has changed since it was read."""
        try:
            raw = await self._client.patch(
                patch.resource, "", patch.name, patch.body, patch_type=PatchType.JSON
            )
        except ForbiddenError:
            # The ClusterRole of OpenKruise's manager has permission to update CRDs, but not to patch them.
            live = decode(await self._client.get(patch.resource, "", patch.name))
            try:
                wanted = apply_json_patch(live, patch.body)
            except PatchError as error:
                raise WebhookSyncError(
                    f"{patch.name} was changed by another client at the same time: {error}"
                ) from error
            raw = await self._client.update(patch.resource, "", patch.name, wanted)
        if metadata_of(raw).resource_version == patch.version:
            # An API server that does not support match conditions removes them. Remember this, instead of writing them
            # every minute.
            self._futile.append(patch)
        else:
            where = self._target.endpoint.base_url or self._target.endpoint.name
            _log.info(
                "%s %s is written, for webhooks at %s: %s",
                patch.resource.kind,
                patch.name,
                where,
                patch.because,
            )
