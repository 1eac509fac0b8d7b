"""Admission reviews: the question that an API server asks before it stores an object, and the response.

API server ──▶ AdmissionRequest ──▶ a reviewer (webhook server, or a function in the same process)
           ◀── AdmissionAnswer (allowed, perhaps with a changed object, or rejected with a Status)

The names follow `admission.k8s.io/v1 AdmissionReview`.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, is_same, labels_of
from pykruise.kube.errors import Cause, ErrorStatus
from pykruise.kube.resources import Resource
from pykruise.kube.schemas.served_fields import ServedFields
from pykruise.kube.values.cel import Interests
from pykruise.kube.values.selectors import parse_selector

__all__ = [
    "ALLOWED",
    "NAMESPACE_NAME_LABEL",
    "AdmissionAnswer",
    "AdmissionRequest",
    "MatchCondition",
    "ResourceRule",
    "ReviewRule",
    "Reviewer",
    "SpokeRules",
    "is_on_its_way_out",
    "is_reviewed_write",
]

NAMESPACE_NAME_LABEL: Final = "kubernetes.io/metadata.name"
"""Label of every namespace, with the name of the namespace as its value."""


class AdmissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A write under review. Objects are plain documents in the version of `resource`."""

    uid: str
    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    resource: Resource
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    username: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = {}
    """Further facts about the user, such as the node of the pod to which the token belongs."""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool = False
    options: dict[str, Any] | None = None
    served: ServedFields = ServedFields()
    """Fields that the sending API server knows."""
    size: int = 0
    """Size of the review in bytes as it was sent; 0 when it was not sent over the network."""


class AdmissionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The response: the write is allowed (`refusal` is None), possibly with a changed object, or it is rejected."""

    refusal: ErrorStatus | None = None
    object: dict[str, Any] | None = None
    """The changed object to store; None: the reviewer changes nothing. Only a mutating reviewer may set it."""
    warnings: tuple[str, ...] = ()


ALLOWED = AdmissionAnswer()
"""Response of a reviewer that allows a request without changes."""


def is_reviewed_write(request: AdmissionRequest) -> bool:
    """Whether the request creates or updates an object (not a subresource), and `is_on_its_way_out` is false."""
    is_write = request.operation in ("CREATE", "UPDATE") and not request.subresource
    return is_write and not is_on_its_way_out(request)


def is_on_its_way_out(request: AdmissionRequest) -> bool:
    """Whether the request updates a terminating object without changing its spec, for example to remove finalizers.

    A reviewer must not reject such a write because of the spec: the object could then never be deleted.
    """
    new, old = request.object, request.old_object
    if request.operation != "UPDATE" or new is None or old is None:
        return False
    is_terminating = bool((old.get("metadata") or {}).get("deletionTimestamp"))
    return is_terminating and is_same(new.get("spec"), old.get("spec"))


Reviewer = Callable[[AdmissionRequest], Awaitable[AdmissionAnswer]]
"""Reviews one AdmissionRequest, and returns the response."""


class SpokeRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules for objects in an older version of a kind; all other rules review the hub version."""

    errors: Callable[[AdmissionRequest], Awaitable[Sequence[Cause]]]
    """Return every violation of these rules. The objects of the request are in the version in which they were
    written.
    """
    field_of: Callable[[str], str | None]
    """Return the name that a field of the hub version has in the older version. None: errors about this field are not
    reported.
    """


class ResourceRule(msgspec.Struct, frozen=True, kw_only=True):
    """Writes that a webhook reviews: one of the `rules[]` of a webhook configuration."""

    groups: tuple[str, ...]
    versions: tuple[str, ...] = ("*",)
    resources: tuple[str, ...]
    """Plural names, optionally with a subresource: `pods`, `pods/eviction`, `pods/*`, `*`, `*/*`."""
    operations: tuple[str, ...]

    def matches(self, resource: Resource, subresource: str, operation: str) -> bool:
        """Whether the rule covers the write. The version does not matter: an API server converts the object to a
        version in the rule (matchPolicy Equivalent).
        """
        return (
            _is_listed(operation, self.operations)
            and _is_listed(resource.group, self.groups)
            and any(_matches_resource(pattern, resource.plural, subresource) for pattern in self.resources)
        )

    def to_document(self) -> Document:
        """Return the rule as a webhook configuration contains it."""
        return {
            "apiGroups": list(self.groups),
            "apiVersions": list(self.versions),
            "operations": list(self.operations),
            "resources": list(self.resources),
            "scope": "*",
        }


def _is_listed(value: str, listed: tuple[str, ...]) -> bool:
    return value in listed or "*" in listed


def _matches_resource(pattern: str, plural: str, subresource: str) -> bool:
    """Kubernetes' rule: `*` is every resource, `*/*` includes every subresource, `pods/*` is pods with all
    subresources.
    """
    wanted, _, part = pattern.partition("/")
    return wanted in (plural, "*") and (part == subresource or part == "*")


class MatchCondition(msgspec.Struct, frozen=True):
    """A CEL expression over `object`, `oldObject` and `request`; if it is false, the webhook is not called."""

    name: str
    expression: str


class ReviewRule(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook: its reviewer, the writes that it reviews, and the content of its entry in a webhook configuration.

    The selectors apply in every cluster. The match conditions only avoid unnecessary calls: a reviewer returns ALLOWED
    for an object that does not concern it, so an API server that does not support conditions gets the same responses.
    """

    name: str
    reviewer: Reviewer
    mutating: bool
    rules: tuple[ResourceRule, ...]
    path: str = ""
    """Path at which a server serves the webhook: `/mutate-apps-kruise-io-cloneset`."""
    aliases: tuple[str, ...] = ()
    """Further paths that older configurations use."""
    failure_policy: str = "Fail"
    """Fail or Ignore: what an API server does when it gets no response."""
    timeout_s: int = 10
    namespace_selector: Mapping[str, Any] | None = None
    object_selector: Mapping[str, Any] | None = None
    side_effects: str = "None"
    """None, or NoneOnDryRun if a review changes anything besides the reviewed object."""
    conditions: tuple[MatchCondition, ...] = ()
    narrowed: Callable[[Interests], tuple[MatchCondition, ...]] | None = None
    """Return further conditions, computed from the objects that are stored now. The caller must keep the conditions
    up to date (admission/match_conditions.py).
    """
    needs: tuple[str, str] | None = None
    """Group and kind of a custom resource. A cluster that does not serve the kind gets no entry for this webhook."""

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths of the webhook."""
        return (self.path, *self.aliases)

    def wants(self, resource: Resource, subresource: str, operation: str) -> bool:
        """Whether the webhook reviews these writes; an empty `subresource` means the object itself."""
        return any(rule.matches(resource, subresource, operation) for rule in self.rules)

    def selects(self, request: AdmissionRequest, namespace_labels: Mapping[str, str] | None = None) -> bool:
        """Whether the selectors match this write.

        `namespace_labels` are the labels of the request's namespace; None: only its name is known. Kubernetes' rule:
        a Namespace is selected by its own labels, other cluster-scoped objects always match, and an object selector
        must match the new or the old object.
        """
        return self._selects_namespace(request, namespace_labels) and self._selects_object(request)

    def _selects_namespace(self, request: AdmissionRequest, labels: Mapping[str, str] | None) -> bool:
        if self.namespace_selector is None:
            return True
        if (request.resource.group, request.resource.plural) == ("", "namespaces"):
            doc = request.object if request.object is not None else request.old_object
            labels = {NAMESPACE_NAME_LABEL: request.name, **labels_of(doc or {})}
        elif not request.resource.namespaced:
            return True
        elif labels is None:
            labels = {NAMESPACE_NAME_LABEL: request.namespace}
        return parse_selector(self.namespace_selector).matches(labels)

    def _selects_object(self, request: AdmissionRequest) -> bool:
        if self.object_selector is None:
            return True
        selector = parse_selector(self.object_selector)
        objects = (request.object, request.old_object)
        return any(selector.matches(labels_of(doc)) for doc in objects if doc is not None)

    def to_document(self, client_config: Mapping[str, Any]) -> Document:
        """Return the entry of a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
        entry: Document = {
            "name": self.name,
            "admissionReviewVersions": ["v1", "v1beta1"],
            "clientConfig": dict(client_config),
            "failurePolicy": self.failure_policy,
            "rules": [rule.to_document() for rule in self.rules],
            "sideEffects": self.side_effects,
            "timeoutSeconds": self.timeout_s,
        }
        if self.namespace_selector is not None:
            entry["namespaceSelector"] = dict(self.namespace_selector)
        if self.object_selector is not None:
            entry["objectSelector"] = dict(self.object_selector)
        if self.conditions:
            entry["matchConditions"] = [
                {"name": condition.name, "expression": condition.expression} for condition in self.conditions
            ]
        return entry
