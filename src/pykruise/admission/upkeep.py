"""One pass of upkeep: certificates in their store, and API servers told about them.

store ──▶ certificates() (made or renewed) ──▶ tell() ──▶ webhook configurations, CRDs
                                                 └─ CONFIRM_S later ──▶ webhook configurations once more

Each write is the narrowest patch, with the version that was read as its precondition; a conflict ends the pass
and the next one looks again. So any number of replicas may do this at once, in any order with whoever installs
the Secret, the configurations or the CRDs. Nothing is written when nothing differs.

Certificates from outside are never made and what API servers are told is never written: it is only compared.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from pykruise.admission.certificates import Certificates, problem_with, renewed
from pykruise.admission.configurations import (
    MUTATING,
    MUTATING_NAME,
    VALIDATING,
    VALIDATING_NAME,
    Endpoint,
    confirmed,
    kept_conversion,
    kept_webhooks,
    mismatches,
    told_conditions,
)
from pykruise.admission.narrowing import Narrowing
from pykruise.admission.pods.chain import CONDITION
from pykruise.admission.stores import CertificateStore
from pykruise.kube.admission import ReviewRule
from pykruise.kube.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.documents import Document, decode, same
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.patches import PatchType, diff_json
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

__all__ = ["CrdView", "Upkeep", "UpkeepError", "project_crd"]

_log = logging.getLogger(__name__)

GROUPS: Final = ("apps.kruise.io", "policy.kruise.io")

CONFIRM_S: Final = 5.0
"""How long webhook configurations stand before they are written a second time: longer than API servers lag behind."""


class UpkeepError(Exception):
    """What keeps API servers from being told; the message says which object and what to do."""


class _Names(msgspec.Struct):
    kind: str = ""


class _Version(msgspec.Struct):
    name: str = ""


class _CrdSpec(msgspec.Struct):
    group: str = ""
    names: _Names = msgspec.field(default_factory=_Names)
    versions: list[_Version] = []
    conversion: dict[str, Any] | None = None


class _CrdMeta(msgspec.Struct, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0


class _Crd(msgspec.Struct):
    metadata: _CrdMeta
    spec: _CrdSpec


class CrdView(msgspec.Struct, frozen=True, kw_only=True):
    """What upkeep needs of a CRD."""

    namespace: str = ""
    name: str
    uid: str
    resource_version: int
    generation: int = 0
    group: str
    kind: str
    versions: int
    conversion: Mapping[str, Any] | None


_decode_crd = msgspec.json.Decoder(_Crd).decode


def project_crd(raw: bytes | msgspec.Raw) -> CrdView:
    """A CRD's view; of foreign ones nothing of the conversion is kept. Raises msgspec.DecodeError."""
    crd = _decode_crd(raw)
    return CrdView(
        name=crd.metadata.name,
        uid=crd.metadata.uid,
        resource_version=int(crd.metadata.resource_version),
        generation=crd.metadata.generation,
        group=crd.spec.group,
        kind=crd.spec.names.kind,
        versions=len(crd.spec.versions),
        conversion=crd.spec.conversion if crd.spec.group in GROUPS else None,
    )


class Upkeep:
    """Keeps certificates and what API servers know of them. `rules` by every path that is served.

    `converted`: group and kind of what this program converts. `renew_before_s`: a pair that expires sooner is
    renewed. Without `narrowing` API servers ask about every pod.
    """

    def __init__(
        self,
        client: Client,
        store: CertificateStore,
        *,
        rules: Mapping[str, ReviewRule],
        converted: frozenset[tuple[str, str]],
        endpoint: Endpoint,
        renew_before_s: float,
        clock: Clock,
        narrowing: Narrowing | None = None,
        make: Callable[..., Certificates] = renewed,
    ) -> None:
        self._client = client
        self._store = store
        self._rules = rules
        self._converted = converted
        self._endpoint = endpoint
        self._renew_before_s = renew_before_s
        self._clock = clock
        self._narrowing = narrowing
        self._make = make
        self._in_vain: defaultdict[str, deque[Document]] = defaultdict(partial(deque, maxlen=2))
        """By name, what was written last without effect: the widest conditions, and those of what is stored."""
        self._unconfirmed: dict[str, tuple[str, float]] = {}
        """By name, the version of a configuration that is to be written once more, and since when it is known."""

    async def certificates(self) -> Certificates:
        """What the store holds after it was renewed where that was due.

        Raises KubeError, OSError, StoreError; ConflictError when another replica was faster.
        """
        stored = await self._store.read()
        if not self._store.is_ours:
            assert stored is not None
            return stored.certificates
        now, host = self._clock(), self._endpoint.name
        problem = "there are none"
        if stored is not None:
            problem = problem_with(stored.certificates, host=host, now=now, lasting_s=self._renew_before_s)
            if not problem:
                return stored.certificates
        _log.info("webhook certificates are made anew: %s", problem)
        made = self._make(stored.certificates if stored else None, host=host, now=now)
        await self._store.write(made, over=stored)
        return made

    async def tell(self, certificates: Certificates, crds: Sequence[CrdView]) -> None:
        """Have both webhook configurations and the CRDs point here and believe the authority.

        All of them are tried; then raises UpkeepError with what did not work.
        """
        bundle = certificates.authority
        rules = self._wanted(crds)
        steps = [
            (str(resource), self._tell_webhooks(resource, name, bundle, rules))
            for resource, name in ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME))
        ]
        steps += [(crd.name, self._tell_crd(crd, bundle)) for crd in crds if self._is_ours(crd)]
        results = await asyncio.gather(*(step for _, step in steps), return_exceptions=True)
        problems = []
        for (what, _), result in zip(steps, results, strict=True):
            if isinstance(result, Exception):
                problems.append(f"{what}: {result}")
            elif isinstance(result, BaseException):
                raise result
        if problems:
            raise UpkeepError("; ".join(problems))

    def wait_s(self) -> float | None:
        """Until the next configuration is to be written once more; None: none is."""
        if not self._unconfirmed:
            return None
        first = min(since for _, since in self._unconfirmed.values())
        return max(0.0, first + CONFIRM_S - asyncio.get_running_loop().time())

    def _wanted(self, crds: Sequence[CrdView]) -> Mapping[str, ReviewRule]:
        """The webhooks that API servers are told of. One that is about a kind which is not installed comes with it.

        Rule: OpenKruise's, which looks once at its start; here it does not matter what is installed first.
        """
        known = {(crd.group, crd.kind) for crd in crds if crd.versions}
        return {path: rule for path, rule in self._rules.items() if rule.needs is None or rule.needs in known}

    def _is_ours(self, crd: CrdView) -> bool:
        return crd.versions > 0 and (crd.group, crd.kind) in self._converted

    async def _tell_webhooks(
        self, resource: Resource, name: str, bundle: bytes, rules: Mapping[str, ReviewRule]
    ) -> None:
        try:
            live = decode(await self._client.get(resource, "", name))
        except NotFoundError as error:
            raise UpkeepError(f"{name} is not there; apply what `pykruise install` prints") from error
        if not self._store.is_ours:
            if wrong := mismatches(live, self._rules, bundle=bundle):
                raise UpkeepError(f"{', '.join(wrong)}: does not match the external caBundle")
            if any(told_conditions(live).values()):
                # Left by a manager that kept it; nobody does so now, and SidecarSets that come would be missed.
                raise UpkeepError(f"its match condition {CONDITION} has no keeper now: delete it")
            return
        if self._narrowing is not None:
            rules = await self._narrowing.rules(live, rules)
        wanted = kept_webhooks(live, rules, endpoint=self._endpoint, bundle=bundle)
        if not await self._write(resource, live, wanted):
            await self._confirm(resource, live)

    async def _confirm(self, resource: Resource, live: Document) -> None:
        """Write a configuration that has stood for a moment once more, if nobody has yet."""
        name, version = live["metadata"]["name"], live["metadata"]["resourceVersion"]
        wanted, now = confirmed(live), asyncio.get_running_loop().time()
        known, since = self._unconfirmed.get(name, ("", now))
        if wanted is None:
            self._unconfirmed.pop(name, None)
        elif known != version:
            self._unconfirmed[name] = (version, now)
        elif now >= since + CONFIRM_S:
            del self._unconfirmed[name]
            await self._write(resource, live, wanted)

    async def _tell_crd(self, crd: CrdView, bundle: bytes) -> None:
        wanted = kept_conversion(crd.conversion, endpoint=self._endpoint, bundle=bundle)
        if wanted is None or crd.conversion is None:
            return
        if not self._store.is_ours:
            told = ((crd.conversion.get("webhook") or {}).get("clientConfig") or {}).get("caBundle")
            if told != wanted["webhook"]["clientConfig"].get("caBundle"):
                raise UpkeepError("its conversion does not match the external caBundle")
            return
        live = decode(await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, "", crd.name))
        wanted_now = kept_conversion(live["spec"].get("conversion"), endpoint=self._endpoint, bundle=bundle)
        if wanted_now is not None:
            changed = {**live, "spec": {**live["spec"], "conversion": wanted_now}}
            await self._write(CUSTOM_RESOURCE_DEFINITIONS, live, changed)

    async def _write(self, resource: Resource, live: Document, wanted: Document) -> bool:
        """Write the difference, and whether there was one. Raises ConflictError when the object changed meanwhile."""
        name, version = live["metadata"]["name"], live["metadata"]["resourceVersion"]
        operations = diff_json(live, wanted)
        if not operations or any(same(_content(wanted), one) for one in self._in_vain[name]):
            return False
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
        try:
            body = [test, *operations]
            stored = await self._client.patch(resource, "", name, body, patch_type=PatchType.JSON)
        except ForbiddenError:
            # OpenKruise's own role lets a manager update CRDs, not patch them.
            stored = await self._client.update(resource, "", name, wanted)
        if same(_content(decode(stored)), _content(live)):
            # An API server older than match conditions drops them: asked once, not every minute.
            self._in_vain[name].append(_content(wanted))
            return False
        _log.info("%s %s is kept at %s", resource.kind, name, self._endpoint.base_url or self._endpoint.name)
        return True


def _content(doc: Mapping[str, Any]) -> Document:
    """A configuration or a CRD without what every write changes."""
    annotations = (doc.get("metadata") or {}).get("annotations")
    return {**doc, "metadata": {"annotations": annotations}}
