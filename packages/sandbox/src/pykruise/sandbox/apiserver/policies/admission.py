"""Admission by ValidatingAdmissionPolicies, before the validating webhooks.

writes.py ──▶ PolicyAdmission.validate() ──▶ verdicts.py, for each policy and binding ──▶ `rest`

This module owns the configuration, and updates it in the same step as each commit of a policy or binding. A policy
without a binding has no effect. Same rules as apiserver's `policy/validating` dispatcher, but audit annotations are
not recorded, and policies run in the order of their names.
"""

from typing import Any, Final

import msgspec

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import Cause
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.kube.values.selectors import Selector
from pykruise.sandbox.apiserver.catalog import CatalogEntry
from pykruise.sandbox.apiserver.core import Core
from pykruise.sandbox.apiserver.objects.storage import StorageChange, Stored
from pykruise.sandbox.apiserver.plugins.reviewers import Admission, Concerns, ReviewVerdict
from pykruise.sandbox.apiserver.policies import BINDINGS, POLICIES
from pykruise.sandbox.apiserver.policies.reading import (
    AdmissionPolicy,
    Matching,
    NamedRule,
    ParamRef,
    PolicyBinding,
    has_rule_for_resource,
    parse_binding,
    parse_policy,
)
from pykruise.sandbox.apiserver.policies.verdicts import Denial, judge
from pykruise.sandbox.apiserver.requests.statuses import Refusal, make_forbidden
from pykruise.sandbox.apiserver.webhooks.configurations import is_exempt
from pykruise.sandbox.apiserver.webhooks.review_objects import Seeing, SeenByAdmission

_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
_KEPT: Final = frozenset(
    """name generateName namespace uid resourceVersion generation creationTimestamp deletionTimestamp
    deletionGracePeriodSeconds labels annotations finalizers""".split()  # noqa: SIM905  (a list of words reads better)
)
"""Fields of a namespace's metadata that expressions can read."""


class _ConfigurationError(Exception):
    """The configuration of a policy or binding cannot be used."""


class PolicyAdmission:
    """The Admission of a server whose cluster has policies. It calls `rest` after the policies."""

    def __init__(self, rest: Admission, core: Core) -> None:
        self._rest = rest
        self._core = core
        self._seeing = Seeing(core)
        self._pairs: tuple[tuple[AdmissionPolicy, tuple[PolicyBinding, ...]], ...] = ()
        self._concerns = Concerns(self._may_concern)
        for shelf in (POLICIES, BINDINGS):
            core.on_change(shelf, self._read_configuration)
        self._read_configuration()

    def _read_configuration(self, _: StorageChange | None = None) -> None:
        bindings: dict[str, list[PolicyBinding]] = {}
        for stored in self._core.storage.scan(BINDINGS).items:
            binding = parse_binding(decode(stored.raw))
            bindings.setdefault(binding.policy, []).append(binding)
        docs = [decode(stored.raw) for stored in self._core.storage.scan(POLICIES).items] if bindings else []
        self._pairs = tuple(
            (parse_policy(doc), tuple(result))
            for doc in docs
            if (result := bindings.get(doc["metadata"]["name"]))
        )
        self._concerns.forget()

    # --- Admission ----------------------------------------

    def concerns(self, resource: Resource, subresource: str, operation: str) -> bool:
        if self._rest.concerns(resource, subresource, operation):
            return True
        revision = self._core.catalog.revision
        return self._concerns.is_concerned(resource, subresource, operation, revision=revision)

    def _may_concern(self, resource: Resource, subresource: str, operation: str) -> bool:
        return any(self._may_match(policy, resource, subresource, operation) for policy, _ in self._pairs)

    def _may_match(
        self, policy: AdmissionPolicy, resource: Resource, subresource: str, operation: str
    ) -> bool:
        if is_exempt(resource):
            return False
        versions = self._seeing.list_versions(resource)
        return any(
            named.rule.matches(each, subresource, operation)
            for named in policy.matching.rules
            for each in versions
        )

    async def mutate(self, request: AdmissionRequest) -> ReviewVerdict:
        return await self._rest.mutate(request)

    async def validate(self, request: AdmissionRequest) -> ReviewVerdict:
        warnings: list[str] = []
        refusals: list[Refusal] = []
        if self._pairs and not is_exempt(request.resource):
            for policy, bindings in self._pairs:
                seen = self._match(policy.matching, request)
                if seen is not None:
                    await self._judge_bindings(policy, bindings, seen, request, warnings, refusals)
        if refusals:
            raise refusals[0]
        verdict = await self._rest.validate(request)
        return msgspec.structs.replace(verdict, warnings=(*warnings, *verdict.warnings))

    async def _judge_bindings(
        self,
        policy: AdmissionPolicy,
        bindings: tuple[PolicyBinding, ...],
        seen: SeenByAdmission,
        request: AdmissionRequest,
        warnings: list[str],
        refusals: list[Refusal],
    ) -> None:
        try:
            kind = self._find_param_entry(policy)
        except _ConfigurationError as err:
            if policy.fails_closed:
                text = f"ValidatingAdmissionPolicy '{policy.name}'"
                refusals.append(_make_refusal(request, text, Denial(f"failed to configure policy: {err}")))
            return
        for binding in bindings:
            if binding.matching is not None and self._match(binding.matching, request) is None:
                continue
            text = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
            try:
                params = await self._read_params(binding.param, kind, request)
            except _ConfigurationError as err:
                if policy.fails_closed:
                    denial = Denial(f"failed to configure binding: {err}")
                    refusals.append(_make_refusal(request, text, denial))
                continue
            variables = await self._build_variables(seen, request)
            denials = [denial for each in params for denial in judge(policy, {**variables, "params": each})]
            for denial in denials:
                if "Deny" in binding.actions:
                    refusals.append(_make_refusal(request, text, denial))
                elif "Warn" in binding.actions:
                    warnings.append(f"Validation failed for {text}: {denial.message}")

    def _match(self, matching: Matching, request: AdmissionRequest) -> SeenByAdmission | None:
        """Return the form in which the policy sees the write; None when the policy does not match."""
        looks = matching.namespace_selector is not None
        labels = self._seeing.read_namespace_labels(request) if looks else None
        if not matching.selects(labels, request.object, request.old_object):
            return None

        def seen(rules: tuple[NamedRule, ...]) -> SeenByAdmission | None:
            def names(resource: Resource) -> bool:
                return has_rule_for_resource(
                    rules,
                    resource,
                    subresource=request.subresource,
                    operation=request.operation,
                    namespace=request.namespace,
                    name=request.name,
                )

            return self._seeing.find_seen(request, names, exact=matching.exact)

        if matching.excluded and seen(matching.excluded) is not None:
            return None
        if not matching.rules:
            return SeenByAdmission(self._seeing.find_entry(request.resource), request.resource)
        return seen(matching.rules)

    async def _build_variables(self, seen: SeenByAdmission, request: AdmissionRequest) -> dict[str, Any]:
        namespace = self._seeing.namespace_of(request)
        return {
            "object": await self._seeing.convert_shown(request.object, request, seen),
            "oldObject": await self._seeing.convert_shown(request.old_object, request, seen),
            "request": self._seeing.to_document(request, seen),
            "namespaceObject": _build_shown_namespace(namespace) if namespace is not None else None,
        }

    # --- parameters ----------------------------------------

    def _find_param_entry(self, policy: AdmissionPolicy) -> CatalogEntry | None:
        """Return the resource of the policy's parameters; None when it has none. Raises _ConfigurationError."""
        if policy.param_kind is None:
            return None
        api_version, kind = policy.param_kind
        for entry in self._core.catalog.list_entries():
            if entry.api_version == api_version and entry.resource.kind == kind:
                return entry
        group_version = api_version if "/" in api_version else f"/{api_version}"
        text = f"failed to find resource referenced by paramKind: '{group_version}, Kind={kind}'"
        raise _ConfigurationError(text)

    async def _read_params(
        self, ref: ParamRef | None, entry: CatalogEntry | None, request: AdmissionRequest
    ) -> list[Document | None]:
        """Return the parameters of a binding; the write is judged with each of them. Raises _ConfigurationError."""
        if entry is None or ref is None:
            return [None]
        namespace = self._find_param_namespace(ref, entry, request)
        if ref.selector is None:
            result = self._core.storage.get(entry.shelf, Key(namespace, ref.name))
            stored = [result] if result is not None else []
        else:
            stored = _select_params(self._core, entry, namespace, ref.selector)
        if not stored and ref.denies_without:
            text = "no params found for policy binding with `Deny` parameterNotFoundAction"
            raise _ConfigurationError(text)
        return [await self._core.load(entry, each) for each in stored]

    def _find_param_namespace(self, ref: ParamRef, entry: CatalogEntry, request: AdmissionRequest) -> str:
        if not entry.resource.namespaced:
            if ref.namespace:
                text = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                raise _ConfigurationError(text)
            return ""
        if not (namespace := ref.namespace or request.namespace):
            text = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            raise _ConfigurationError(text)
        return namespace


def _select_params(core: Core, entry: CatalogEntry, namespace: str, selector: Selector) -> list[Stored]:
    page = core.storage.scan(entry.shelf, namespace=namespace)
    return [stored for stored in page.items if selector.matches(stored.labels)]


def _build_shown_namespace(stored: Stored) -> Document:
    doc = decode(stored.raw)
    metadata = {name: value for name, value in doc["metadata"].items() if name in _KEPT}
    return {"metadata": metadata, "spec": doc.get("spec") or {}, "status": doc.get("status") or {}}


def _make_refusal(request: AdmissionRequest, text: str, denial: Denial) -> Refusal:
    why = f"{text} denied request: {denial.message}"
    refusal = make_forbidden(request.resource, request.name, why, [Cause(message=why)])
    code = _CODES.get(denial.reason, 422)
    return Refusal(msgspec.structs.replace(refusal.status, reason=denial.reason, code=code))
