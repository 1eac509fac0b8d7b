"""Parsing of ValidatingAdmissionPolicies and their bindings.

stored policies ──▶ parse_policy()  ──▶ AdmissionPolicy
stored bindings ──▶ parse_binding() ──▶ PolicyBinding

Pure. Policies were checked when they were written (builtin/admission_policies.py), so their expressions compile. A
policy that was not written here, but comes from a copy of a cluster, may be broken, and then rejects the writes that
it matches.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, labels_of
from pykruise.kube.resources import Resource
from pykruise.kube.values.selectors import Selector, parse_selector
from pykruise.sandbox.apiserver.custom.expressions import (
    CONDITION_VARIABLES,
    POLICY_VARIABLES,
    Expression,
    ExpressionError,
    compile_expression,
)
from pykruise.sandbox.apiserver.webhooks.configurations import WebhookRule, parse_rule


class NamedRule(msgspec.Struct, frozen=True):
    """A rule that matches only objects with these names (empty: any name)."""

    rule: WebhookRule
    names: tuple[str, ...]


class Matching(msgspec.Struct, frozen=True, kw_only=True):
    """`matchConstraints` of a policy, `matchResources` of a binding."""

    rules: tuple[NamedRule, ...] = ()
    """If empty, every resource matches."""
    excluded: tuple[NamedRule, ...] = ()
    exact: bool = False
    namespace_selector: Selector | None = None
    object_selector: Selector | None = None

    def selects(self, labels: Mapping[str, str] | None, *docs: Document | None) -> bool:
        """Whether the selectors match the `labels` of the namespace (None if there is no namespace) and at least one of
        the documents.
        """
        wanted, selector = self.namespace_selector, self.object_selector
        if wanted is not None and labels is not None and not wanted.matches(labels):
            return False
        return selector is None or any(selector.matches(labels_of(doc)) for doc in docs if doc is not None)


class Validation(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `validations`."""

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
    """Values of audit annotations. There is no audit log, but an annotation that cannot be evaluated denies the
    write (unless failurePolicy is Ignore).
    """
    param_kind: tuple[str, str] | None
    """apiVersion and kind; None if the policy has no parameters."""
    broken: str = ""
    """Error of an expression that cannot be compiled. Only policies that were not written here can have one."""


class ParamRef(msgspec.Struct, frozen=True, kw_only=True):
    """The reference from a binding to its parameters."""

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


def parse_policy(doc: Mapping[str, Any]) -> AdmissionPolicy:
    """Parse a stored policy. If one of its expressions cannot be compiled, the result has no expressions."""
    try:
        return _parse_policy(doc, doc["spec"])
    except ExpressionError as err:
        bare = {
            **doc["spec"],
            "matchConditions": (),
            "variables": (),
            "validations": (),
            "auditAnnotations": (),
        }
        return msgspec.structs.replace(_parse_policy(doc, bare), broken=f"compilation failed: {err}")


def _parse_policy(doc: Mapping[str, Any], spec: Mapping[str, Any]) -> AdmissionPolicy:
    param = spec.get("paramKind")
    conditions, inside = names_of(spec)
    return AdmissionPolicy(
        name=doc["metadata"]["name"],
        fails_closed=spec.get("failurePolicy") != "Ignore",
        matching=_parse_matching(spec.get("matchConstraints") or {}),
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
    """Return two sets of variables: those for the match conditions of a policy, and those for its other expressions."""
    params = {"params"} if spec.get("paramKind") else set()
    own = {"variables"} if spec.get("variables") else set()
    return frozenset(CONDITION_VARIABLES | params), frozenset(POLICY_VARIABLES | params | own)


_TEXT: Final = re.compile(r"""r?("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_USED: Final = re.compile(r"(?<![\w.])variables\s*\.\s*([A-Za-z_]\w*)")


def list_used_variables(text: str) -> tuple[str, ...]:
    """Names that an expression reads from `variables`, in the order of their first use."""
    return tuple(dict.fromkeys(_USED.findall(_TEXT.sub("''", text))))


def parse_binding(doc: Mapping[str, Any]) -> PolicyBinding:
    """Parse a stored binding."""
    spec = doc["spec"]
    where = spec.get("matchResources")
    return PolicyBinding(
        name=doc["metadata"]["name"],
        policy=spec["policyName"],
        matching=_parse_matching(where) if where else None,
        param=_parse_param_ref(ref) if (ref := spec.get("paramRef")) else None,
        actions=tuple(spec.get("validationActions") or ()),
    )


def _parse_param_ref(ref: Mapping[str, Any]) -> ParamRef:
    selector = ref.get("selector")
    return ParamRef(
        name=ref.get("name") or "",
        namespace=ref.get("namespace") or "",
        selector=parse_selector(selector) if selector is not None else None,
        denies_without=ref.get("parameterNotFoundAction") != "Allow",
    )


def _parse_matching(doc: Mapping[str, Any]) -> Matching:
    def named(member: str) -> tuple[NamedRule, ...]:
        return tuple(
            NamedRule(parse_rule(rule), tuple(rule.get("resourceNames") or ()))
            for rule in doc.get(member) or ()
        )

    def selector(member: str) -> Selector | None:
        return parse_selector(result) if (result := doc.get(member)) else None

    return Matching(
        rules=named("resourceRules"),
        excluded=named("excludeResourceRules"),
        exact=doc.get("matchPolicy") == "Exact",
        namespace_selector=selector("namespaceSelector"),
        object_selector=selector("objectSelector"),
    )


def has_rule_for_resource(
    rules: tuple[NamedRule, ...],
    resource: Resource,
    *,
    subresource: str,
    operation: str,
    namespace: str,
    name: str,
) -> bool:
    """Whether a rule matches the resource in exactly this version."""
    return any(
        each.rule.matches(resource, subresource, operation)
        and each.rule.in_scope(resource, namespace)
        and (not each.names or name in each.names)
        for each in rules
    )
