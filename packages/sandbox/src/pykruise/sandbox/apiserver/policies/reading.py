"""ValidatingAdmissionPolicies and their bindings, read once.

stored policies ──▶ policy_from() ──▶ Policy      stored bindings ──▶ binding_from() ──▶ PolicyBinding

Pure. Policies were checked when they were written (builtin/admission_policies.py), so their expressions compile; what
came by another way, from a copy of a cluster, may be broken, and then refuses what it is about.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, labels_of
from pykruise.kube.resources import Resource
from pykruise.kube.values.selectors import Selector, selector_from
from pykruise.sandbox.apiserver.custom.expressions import (
    CONDITION_VARIABLES,
    POLICY_VARIABLES,
    Expression,
    ExpressionError,
    compile_expression,
)
from pykruise.sandbox.apiserver.webhooks.configurations import WebhookRule, rule_from


class NamedRule(msgspec.Struct, frozen=True):
    """A rule, for objects of these names only (empty: of any)."""

    rule: WebhookRule
    names: tuple[str, ...]


class Matching(msgspec.Struct, frozen=True, kw_only=True):
    """`matchConstraints` of a policy, `matchResources` of a binding."""

    rules: tuple[NamedRule, ...] = ()
    """Empty: everything."""
    excluded: tuple[NamedRule, ...] = ()
    exact: bool = False
    namespace_selector: Selector | None = None
    object_selector: Selector | None = None

    def selects(self, labels: Mapping[str, str] | None, *docs: Document | None) -> bool:
        """Whether the selectors match: `labels` of the namespace (None: it has none), and either of the documents."""
        wanted, selector = self.namespace_selector, self.object_selector
        if wanted is not None and labels is not None and not wanted.matches(labels):
            return False
        return selector is None or any(selector.matches(labels_of(doc)) for doc in docs if doc is not None)


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """One of `validations`."""

    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str


class AdmissionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A ValidatingAdmissionPolicy."""

    name: str
    fails_closed: bool
    matching: Matching
    conditions: tuple[Expression, ...]
    variables: tuple[tuple[str, Expression], ...]
    validations: tuple[Validation, ...]
    annotations: tuple[Expression, ...]
    """Values of audit annotations: there is no audit log, but what cannot be evaluated is refused."""
    param_kind: tuple[str, str] | None
    """apiVersion and kind."""
    broken: str = ""
    """Why its expressions cannot be compiled: of what was stored elsewhere."""


class ParamRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where a binding has its parameters."""

    name: str
    namespace: str
    selector: Selector | None
    denies_without: bool


class PolicyBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A ValidatingAdmissionPolicyBinding."""

    name: str
    policy: str
    matching: Matching | None
    param: ParamRef | None
    actions: tuple[str, ...]


def policy_from(doc: Mapping[str, Any]) -> AdmissionPolicy:
    """The policy of a stored document; without expressions when one of them cannot be compiled."""
    try:
        return _whole(doc, doc["spec"])
    except ExpressionError as err:
        bare = {
            **doc["spec"],
            "matchConditions": (),
            "variables": (),
            "validations": (),
            "auditAnnotations": (),
        }
        return msgspec.structs.replace(_whole(doc, bare), broken=f"compilation failed: {err}")


def _whole(doc: Mapping[str, Any], spec: Mapping[str, Any]) -> AdmissionPolicy:
    param = spec.get("paramKind")
    conditions, inside = names_of(spec)
    return AdmissionPolicy(
        name=doc["metadata"]["name"],
        fails_closed=spec.get("failurePolicy") != "Ignore",
        matching=_matching(spec.get("matchConstraints") or {}),
        conditions=tuple(
            compile_expression(each["expression"], conditions) for each in spec.get("matchConditions") or ()
        ),
        variables=tuple(
            (each["name"], compile_expression(each["expression"], inside))
            for each in spec.get("variables") or ()
        ),
        validations=tuple(
            Validation(
                expression=compile_expression(each["expression"], inside),
                message=(each.get("message") or "").strip(),
                message_expression=compile_expression(said, inside)
                if (said := each.get("messageExpression"))
                else None,
                reason=each.get("reason") or "Invalid",
            )
            for each in spec.get("validations") or ()
        ),
        annotations=tuple(
            compile_expression(each["valueExpression"], inside) for each in spec.get("auditAnnotations") or ()
        ),
        param_kind=(param["apiVersion"], param["kind"]) if param else None,
    )


def names_of(spec: Mapping[str, Any]) -> tuple[frozenset[str], frozenset[str]]:
    """Variables of a policy's match conditions, and of all its other expressions."""
    params = {"params"} if spec.get("paramKind") else set()
    own = {"variables"} if spec.get("variables") else set()
    return frozenset(CONDITION_VARIABLES | params), frozenset(POLICY_VARIABLES | params | own)


_TEXT: Final = re.compile(r"""r?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_USED: Final = re.compile(r"(?<![\w.])variables\s*\.\s*([A-Za-z_]\w*)")


def used_variables(text: str) -> tuple[str, ...]:
    """The names that an expression takes from `variables`, in their order."""
    return tuple(dict.fromkeys(_USED.findall(_TEXT.sub("''", text))))


def binding_from(doc: Mapping[str, Any]) -> PolicyBinding:
    """The binding of a stored document."""
    spec = doc["spec"]
    where = spec.get("matchResources")
    return PolicyBinding(
        name=doc["metadata"]["name"],
        policy=spec["policyName"],
        matching=_matching(where) if where else None,
        param=_param(ref) if (ref := spec.get("paramRef")) else None,
        actions=tuple(spec.get("validationActions") or ()),
    )


def _param(ref: Mapping[str, Any]) -> ParamRef:
    selector = ref.get("selector")
    return ParamRef(
        name=ref.get("name") or "",
        namespace=ref.get("namespace") or "",
        selector=selector_from(selector) if selector is not None else None,
        denies_without=ref.get("parameterNotFoundAction") != "Allow",
    )


def _matching(doc: Mapping[str, Any]) -> Matching:
    def named(member: str) -> tuple[NamedRule, ...]:
        return tuple(
            NamedRule(rule_from(rule), tuple(rule.get("resourceNames") or ()))
            for rule in doc.get(member) or ()
        )

    def selector(member: str) -> Selector | None:
        return selector_from(result) if (result := doc.get(member)) else None

    return Matching(
        rules=named("resourceRules"),
        excluded=named("excludeResourceRules"),
        exact=doc.get("matchPolicy") == "Exact",
        namespace_selector=selector("namespaceSelector"),
        object_selector=selector("objectSelector"),
    )


def names_resource(
    rules: tuple[NamedRule, ...],
    resource: Resource,
    *,
    subresource: str,
    operation: str,
    namespace: str,
    name: str,
) -> bool:
    """Whether a rule matches the resource in this very version."""
    return any(
        each.rule.matches(resource, subresource, operation)
        and each.rule.in_scope(resource, namespace)
        and (not each.names or name in each.names)
        for each in rules
    )
