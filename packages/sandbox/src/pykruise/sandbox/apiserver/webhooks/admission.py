"""Admission by webhooks that are configured in the cluster, after the reviewers of this process.

writes.py ──▶ WebhookAdmission.mutate()   ──▶ AdmissionChain, then the webhooks sequentially, some twice
          ──▶ WebhookAdmission.validate() ──▶ AdmissionChain, then all webhooks concurrently

This module owns the webhook configurations, and updates them in the same step as each commit of a configuration.

Same rules as apiserver's `webhook/mutating` and `webhook/validating` dispatchers. A webhook sees the object in a
version that its rules name (matchPolicy), and its patch is converted back. There are two differences: the objects
have no managedFields, and matchConditions have no variable `authorizer`.
"""

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec
import orjson

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document, decode, deep_copy, is_same
from pykruise.kube.errors import ErrorStatus
from pykruise.kube.patches.errors import PatchError
from pykruise.kube.patches.json_patch import apply_json_patch
from pykruise.kube.resources import Resource
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.custom.expressions import EvaluationError, evaluate_conditions
from pykruise.sandbox.apiserver.objects.storage import StorageChange
from pykruise.sandbox.apiserver.plugins.reviewers import Admission, Concerns, ReviewVerdict
from pykruise.sandbox.apiserver.requests.statuses import (
    Refusal,
    make_bad_request,
    make_forbidden,
    make_internal_error,
    status_of,
)
from pykruise.sandbox.apiserver.webhooks.calling import Caller, CallFailedError
from pykruise.sandbox.apiserver.webhooks.configurations import Webhook, is_exempt, parse_webhooks
from pykruise.sandbox.apiserver.webhooks.wire import (
    CallingError,
    ReviewResponse,
    encode_admission,
    format_status_error,
    read_admission,
)

if TYPE_CHECKING:
    from pykruise.sandbox.apiserver.webhooks.review_objects import Seeing, SeenByAdmission


_SHELVES: Final = {
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": True,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": False,
}


class WebhookAdmission:
    """The Admission of a server whose cluster configures webhooks. It calls `first` before the webhooks."""

    def __init__(self, first: Admission, caller: Caller) -> None:
        self._first = first
        self._caller = caller
        self._webhooks: dict[bool, tuple[Webhook, ...]] = {True: (), False: ()}
        self._core: Core | None = None
        self._concerns = Concerns(self._is_for_webhooks)

    def bind(self, core: Core) -> None:
        """Use the configurations that this server stores."""
        self._core = core
        for shelf, mutating in _SHELVES.items():
            core.on_change(shelf, self._on_configuration_changed)
            self._read_configurations(shelf, mutating=mutating)

    def _on_configuration_changed(self, change: StorageChange) -> None:
        self._read_configurations(change.shelf, mutating=_SHELVES[change.shelf])

    def _read_configurations(self, shelf: str, *, mutating: bool) -> None:
        """Read the configurations, in the order of their names."""
        webhooks: list[Webhook] = []
        for stored in self._bound.storage.scan(shelf).items:
            webhooks += parse_webhooks(decode(stored.raw), mutating=mutating)
        self._webhooks[mutating] = tuple(webhooks)
        self._concerns.forget()

    @property
    def _bound(self) -> Core:
        assert self._core is not None, "call bind() first"
        return self._core

    @cached_property
    def _seeing(self) -> "Seeing":
        from pykruise.sandbox.apiserver.webhooks.review_objects import Seeing

        return Seeing(self._bound)

    # --- Admission ----------------------------------------

    def concerns(self, resource: Resource, subresource: str, operation: str) -> bool:
        if self._first.concerns(resource, subresource, operation):
            return True
        revision = self._bound.catalog.revision
        return self._concerns.is_concerned(resource, subresource, operation, revision=revision)

    def _is_for_webhooks(self, resource: Resource, subresource: str, operation: str) -> bool:
        if is_exempt(resource):
            return False
        return any(
            rule.matches(each, subresource, operation)
            for webhooks in self._webhooks.values()
            for webhook in webhooks
            for rule in webhook.rules
            for each in self._seeing.list_versions(resource)
        )

    async def mutate(self, request: AdmissionRequest) -> ReviewVerdict:
        verdict = await self._first.mutate(request)
        if not self._webhooks[True] or is_exempt(request.resource):
            return verdict
        warnings = list(verdict.warnings)
        request = msgspec.structs.replace(request, object=deep_copy(verdict.object))
        again, request = await self._call_mutating(request, warnings, only=None)
        if again:
            _, request = await self._call_mutating(request, warnings, only=again)
        changed = verdict.changed or not is_same(request.object, verdict.object)
        return ReviewVerdict(request.object, changed, tuple(warnings))

    async def validate(self, request: AdmissionRequest) -> ReviewVerdict:
        verdict = await self._first.validate(request)
        if not self._webhooks[False] or is_exempt(request.resource):
            return verdict
        wanting = [
            (webhook, seen)
            for webhook in self._webhooks[False]
            if (seen := await self._match(webhook, request)) is not None
        ]
        if not wanting:
            return verdict
        answers = await asyncio.gather(
            *(self._call_webhook(webhook, seen, request) for webhook, seen in wanting), return_exceptions=True
        )
        warnings = list(verdict.warnings)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            if answer is not None:
                warnings += answer.warnings
        return ReviewVerdict(verdict.object, verdict.changed, tuple(warnings))

    # --- mutating ----------------------------------------

    async def _call_mutating(
        self, request: AdmissionRequest, warnings: list[str], *, only: frozenset[str] | None
    ) -> tuple[frozenset[str], AdmissionRequest]:
        """Call the mutating webhooks. Return the webhooks that must be called again because of later changes,
        and the request with the new object.
        """
        asked: set[str] = set()
        again: set[str] = set()
        for webhook in self._webhooks[True]:
            if only is not None and webhook.uid not in only:
                continue
            seen = await self._match(webhook, request)
            answer = await self._call_webhook(webhook, seen, request) if seen is not None else None
            if answer is None or seen is None:
                continue
            warnings += answer.warnings
            if answer.patch and request.object is not None and request.subresource != "scale":
                changed = await self._apply_patch(webhook, seen, request, answer.patch)
                if not is_same(changed, request.object):
                    again |= asked
                    request = msgspec.structs.replace(request, object=changed)
            if webhook.reinvoked:
                asked.add(webhook.uid)
        return frozenset(again), request

    async def _apply_patch(
        self, webhook: Webhook, seen: "SeenByAdmission", request: AdmissionRequest, patch: bytes
    ) -> Document:
        assert request.object is not None
        shown = await self._seeing.convert_document(request.object, request.resource, seen.resource)
        try:
            patched = apply_json_patch(shown, orjson.loads(patch))
        except (PatchError, orjson.JSONDecodeError) as err:
            raise make_internal_error(str(err)) from err
        changed: Document = await self._seeing.convert_document(patched, seen.resource, request.resource)
        return changed

    # --- matching ----------------------------------------

    async def _match(self, webhook: Webhook, request: AdmissionRequest) -> "SeenByAdmission | None":
        """Return the form in which the webhook sees the write; None when the webhook does not match. Raises Refusal."""
        seen = self._match_rules(webhook, request)
        if seen is None or not self._matches_selectors(webhook, request):
            return None
        return seen if await self._meets_conditions(webhook, seen, request) else None

    def _match_rules(self, webhook: Webhook, request: AdmissionRequest) -> "SeenByAdmission | None":
        """Return the resource in the version that a rule of the webhook names."""

        def names(resource: Resource) -> bool:
            return webhook.rule_for(resource, request.subresource, request.operation, request.namespace)

        return self._seeing.find_seen(request, names, exact=webhook.exact)

    def _matches_selectors(self, webhook: Webhook, request: AdmissionRequest) -> bool:
        looks = webhook.namespace_selector is not None
        labels = self._seeing.read_namespace_labels(request) if looks else None
        return webhook.selects(labels, request.object, request.old_object)

    async def _meets_conditions(
        self, webhook: Webhook, seen: "SeenByAdmission", request: AdmissionRequest
    ) -> bool:
        if not webhook.conditions:
            return True
        variables = {
            "object": await self._seeing.convert_document(request.object, request.resource, seen.resource),
            "oldObject": await self._seeing.convert_document(
                request.old_object, request.resource, seen.resource
            ),
            "request": self._seeing.to_document(request, seen),
        }
        try:
            return evaluate_conditions(webhook.conditions, variables)
        except EvaluationError as err:
            if webhook.fails_closed:
                raise make_forbidden(request.resource, request.name, str(err)) from err
            return False

    # --- calling ----------------------------------------

    async def _call_webhook(
        self, webhook: Webhook, seen: "SeenByAdmission", request: AdmissionRequest
    ) -> ReviewResponse | None:
        """Return the response of a webhook that allows the write; None when it failed and may be ignored. Raises
        Refusal.
        """
        if request.dry_run and not webhook.runs_dry:
            raise make_bad_request(f'admission webhook "{webhook.name}" does not support dry run')
        try:
            answer = await self._post_review(webhook, seen, request)
        except CallingError as err:
            if not webhook.fails_closed:
                return None
            raise make_internal_error(f'failed calling webhook "{webhook.name}": {err}') from err
        if not answer.allowed:
            raise _make_denial(webhook, answer)
        return answer

    async def _post_review(
        self, webhook: Webhook, seen: "SeenByAdmission", request: AdmissionRequest
    ) -> ReviewResponse:
        version = "v1" if "v1" in webhook.versions else webhook.versions[0]
        document = self._seeing.to_document(request, seen)
        for member, doc in (("object", request.object), ("oldObject", request.old_object)):
            document[member] = await self._seeing.convert_shown(doc, request, seen)
        body = encode_admission(document, version)
        try:
            status, answer = await self._caller.call(webhook.target, body, timeout_s=webhook.timeout_s)
        except CallFailedError as err:
            url = f"{webhook.target.url}?timeout={webhook.timeout_s}s"
            raise CallingError(f'failed to call webhook: Post "{url}": {err}') from err
        if status != 200:
            raise CallingError(f"failed to call webhook: {format_status_error(status, answer)}")
        return read_admission(answer, uid=request.uid, version=version, mutating=webhook.mutating)


def _make_denial(webhook: Webhook, answer: ReviewResponse) -> Refusal:
    """Build the Refusal from the webhook's own Status, with the webhook's name."""
    status: ErrorStatus = status_of(answer.status or {})
    by = f'admission webhook "{webhook.name}" denied the request'
    text = status.message or status.reason
    return Refusal(
        msgspec.structs.replace(
            status,
            status=status.status if status.status not in ("", "Success") else "Failure",
            message=f"{by}: {text}" if text else f"{by} without explanation",
            code=max(status.code, 400),
        )
    )
