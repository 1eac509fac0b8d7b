"""Privilege escalation check on every write of a role or a binding: users can grant only permissions that they have.

    writes.py ──▶ plugins/builtin.py ──▶ check_grant(core, call, doc) ──▶ Refusal (403, 404), or nothing

This is the rule of kube-apiserver's `policybased` storage of the RBAC kinds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pykruise.kube.documents import Document
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.access.attributes import Attributes
from pykruise.sandbox.apiserver.access.authorizer import (
    BINDINGS,
    CLUSTER_BINDINGS,
    CLUSTER_ROLES,
    GROUP,
    ROLES,
    Authorizer,
)
from pykruise.sandbox.apiserver.access.rules import PolicyRule, compact_rules, format_rule, list_uncovered
from pykruise.sandbox.apiserver.access.users import User
from pykruise.sandbox.apiserver.requests.call import Call
from pykruise.sandbox.apiserver.requests.statuses import make_forbidden, make_not_found

_FULL: Final[Sequence[PolicyRule]] = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)


def check_grant(authorizer: Authorizer, call: Call, doc: Document) -> None:
    """Reject a role or binding that would grant permissions that its writer does not have. Raises Refusal."""
    check = _CHECKS.get(call.entry.shelf)
    if check is not None and not call.user.is_master:
        check(authorizer, call, doc)


def _check_role(authorizer: Authorizer, call: Call, doc: Document) -> None:
    name = doc["metadata"].get("name") or ""
    if _is_allowed(authorizer, call, "escalate", call.entry.resource.plural, name):
        return
    _check_held(authorizer, call, name, doc.get("rules") or ())
    if doc.get("aggregationRule") is not None and list_uncovered(authorizer.list_rules(call.user, ""), _FULL):
        why = "must have cluster-admin privileges to use the aggregationRule"
        raise make_forbidden(call.entry.resource, name, why)


def _check_binding(authorizer: Authorizer, call: Call, doc: Document) -> None:
    name, role = doc["metadata"].get("name") or "", doc.get("roleRef") or {}
    kind, wanted = role.get("kind") or "", role.get("name") or ""
    plural = "clusterroles" if kind == "ClusterRole" else "roles"
    if _is_allowed(authorizer, call, "bind", plural, wanted):
        return
    rules = authorizer.find_role_rules(kind, call.namespace, wanted)
    if rules is None:
        # As in apiserver, the message has the kind of the binding and the name of the role.
        raise make_not_found(call.entry.resource, wanted)
    _check_held(authorizer, call, name, rules)


def _is_allowed(authorizer: Authorizer, call: Call, verb: str, plural: str, name: str) -> bool:
    asked = Attributes(
        user=call.user, verb=verb, group=GROUP, resource=plural, namespace=call.namespace, name=name
    )
    return authorizer.decide(asked).allowed


def _check_held(authorizer: Authorizer, call: Call, name: str, rules: Sequence[PolicyRule]) -> None:
    held = authorizer.list_rules(call.user, call.namespace)
    if list_uncovered(held, rules):
        raise make_forbidden(call.entry.resource, name, _describe_missing_rights(call.user, held, rules))


def _describe_missing_rights(user: User, held: Sequence[PolicyRule], rules: Sequence[PolicyRule]) -> str:
    groups = " ".join(quote_text(group) for group in user.groups)
    missing = sorted({format_rule(rule) for rule in compact_rules(list_uncovered(held, rules))})
    return (
        f"user {quote_text(user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions not currently "
        "held:\n" + "\n".join(missing)
    )


_CHECKS: Final[Mapping[str, Callable[[Authorizer, Call, Document], None]]] = {
    ROLES: _check_role,
    CLUSTER_ROLES: _check_role,
    BINDINGS: _check_binding,
    CLUSTER_BINDINGS: _check_binding,
}
