"""Parsing of webhook configurations: the writes that each webhook wants to see.

MutatingWebhookConfiguration, ValidatingWebhookConfiguration ──▶ parse_webhooks() ──▶ Webhook, …

Pure. Same rules as apiserver's `webhook/predicates` and `rules.Matcher`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, labels_of
from pykruise.kube.resources import Resource
from pykruise.kube.values.selectors import Selector, parse_selector
from pykruise.sandbox.apiserver.custom.expressions import CONDITION_VARIABLES, Expression, compile_expression
from pykruise.sandbox.apiserver.webhooks.calling import CallTarget, target_of

_EXEMPT: Final = frozenset(
    (
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    )
)


class WebhookRule(msgspec.Struct, frozen=True):
    """An entry of `rules`."""

    groups: tuple[str, ...]
    versions: tuple[str, ...]
    resources: tuple[str, ...]
    operations: tuple[str, ...]
    scope: str

    def matches(self, resource: Resource, subresource: str, operation: str) -> bool:
        """Whether the rule matches this resource and operation. The scope of the rule is not checked here."""
        return (
            _is_listed(operation, self.operations)
            and _is_listed(resource.group, self.groups)
            and _is_listed(resource.version, self.versions)
            and any(_matches_resource(each, resource.plural, subresource) for each in self.resources)
        )

    def in_scope(self, resource: Resource, namespace: str) -> bool:
        """Whether the rule's scope includes the object: namespaced or cluster-scoped. Namespaces are cluster-scoped."""
        is_in = bool(namespace) and (resource.group, resource.plural) != ("", "namespaces")
        return self.scope in ("", "*") or (self.scope == "Namespaced") is is_in


def _is_listed(value: str, listed: Sequence[str]) -> bool:
    return value in listed or "*" in listed


def _matches_resource(pattern: str, plural: str, subresource: str) -> bool:
    wanted, _, part = pattern.partition("/")
    return wanted in ("*", plural) and part in ("*", subresource)


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook of a configuration."""

    uid: str
    """Configuration, name and index, which identify the webhook."""
    name: str
    mutating: bool
    target: CallTarget
    rules: tuple[WebhookRule, ...]
    exact: bool
    fails_closed: bool
    timeout_s: int
    reinvoked: bool
    runs_dry: bool
    """Whether the webhook supports dry runs: it has no side effects, or omits them in a dry run."""
    versions: tuple[str, ...]
    namespace_selector: Selector | None
    object_selector: Selector | None
    conditions: tuple[Expression, ...]

    def rule_for(self, resource: Resource, subresource: str, operation: str, namespace: str) -> bool:
        """Whether a rule matches the resource in exactly this version."""
        return any(
            rule.matches(resource, subresource, operation) and rule.in_scope(resource, namespace)
            for rule in self.rules
        )

    def selects(self, labels: Mapping[str, str] | None, *docs: Document | None) -> bool:
        """Whether the selectors match the `labels` of the namespace (None if there is no namespace) and at least one of
        the documents.
        """
        wanted = self.namespace_selector
        if wanted is not None and labels is not None and not wanted.matches(labels):
            return False
        selector = self.object_selector
        if selector is None:
            return True
        return any(selector.matches(labels_of(doc)) for doc in docs if doc is not None)


def is_exempt(resource: Resource) -> bool:
    """Whether webhooks never see the resource. Otherwise a webhook could prevent its own removal."""
    return resource.group == "admissionregistration.k8s.io" and resource.plural in _EXEMPT


def parse_webhooks(configuration: Mapping[str, Any], *, mutating: bool) -> Iterator[Webhook]:
    """Yield the webhooks of a stored configuration, in their order."""
    name = configuration["metadata"]["name"]
    for place, doc in enumerate(configuration.get("webhooks") or ()):
        yield Webhook(
            uid=f"{name}/{doc['name']}/{place}",
            name=doc["name"],
            mutating=mutating,
            target=target_of(doc.get("clientConfig") or {}),
            rules=tuple(parse_rule(rule) for rule in doc.get("rules") or ()),
            exact=doc.get("matchPolicy") == "Exact",
            fails_closed=doc.get("failurePolicy") != "Ignore",
            timeout_s=doc.get("timeoutSeconds") or 10,
            reinvoked=doc.get("reinvocationPolicy") == "IfNeeded",
            runs_dry=doc.get("sideEffects") in ("None", "NoneOnDryRun"),
            versions=tuple(doc.get("admissionReviewVersions") or ("v1",)),
            namespace_selector=_parse_selector(doc.get("namespaceSelector")),
            object_selector=_parse_selector(doc.get("objectSelector")),
            conditions=tuple(
                compile_expression(each["expression"], CONDITION_VARIABLES)
                for each in doc.get("matchConditions") or ()
            ),
        )


def parse_rule(doc: Mapping[str, Any]) -> WebhookRule:
    """Parse an entry of `rules`."""
    return WebhookRule(
        groups=tuple(doc.get("apiGroups") or ()),
        versions=tuple(doc.get("apiVersions") or ()),
        resources=tuple(doc.get("resources") or ()),
        operations=tuple(doc.get("operations") or ()),
        scope=doc.get("scope") or "*",
    )


def _parse_selector(doc: Mapping[str, Any] | None) -> Selector | None:
    """Parse a selector; None when it selects everything."""
    return parse_selector(doc) if doc else None
