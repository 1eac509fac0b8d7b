"""Rules of roles: which requests they allow, and whether a set of rules covers another one. Pure.

Rules are PolicyRules as documents: verbs, apiGroups, resources, resourceNames, nonResourceURLs. Same rules as
Kubernetes' RBAC authorizer and `k8s.io/component-helpers/auth/rbac/validation`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final

from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.access.attributes import Attributes

PolicyRule = Mapping[str, Any]
_ANY: Final = "*"


def allows(rule: PolicyRule, asked: Attributes) -> bool:
    """Whether a rule allows the request. The scope of the rule's binding is not checked here."""
    if not _contains_or_any(rule.get("verbs"), asked.verb):
        return False
    if not asked.resource:
        return any(_matches_url(each, asked.path) for each in rule.get("nonResourceURLs") or ())
    return (
        _contains_or_any(rule.get("apiGroups"), asked.group)
        and _matches_resource(rule.get("resources") or (), asked.full_resource, asked.subresource)
        and _matches_name(rule.get("resourceNames") or (), asked.name)
    )


def _contains_or_any(values: Sequence[str] | None, wanted: str) -> bool:
    return values is not None and (wanted in values or _ANY in values)


def _matches_resource(resources: Sequence[str], asked: str, subresource: str) -> bool:
    if _ANY in resources or asked in resources:
        return True
    return bool(subresource) and f"*/{subresource}" in resources


def _matches_name(names: Sequence[str], name: str) -> bool:
    return not names or name in names


def _matches_url(pattern: str, path: str) -> bool:
    if pattern in (_ANY, path):
        return True
    return pattern.endswith(_ANY) and path.startswith(pattern.rstrip(_ANY))


# --- coverage of a set of rules by another set ----------------------------------------


def list_uncovered(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return the single permissions of the wanted rules that the held rules do not include."""
    return [
        small
        for rule in wanted
        for small in _split_rule(rule)
        if not any(_covers(owner, small) for owner in held)
    ]


def _split_rule(rule: PolicyRule) -> Iterator[PolicyRule]:
    """Split a rule into single permissions: each has one verb for one resource (of one group, with at most one name),
    or for one URL.
    """
    verbs = rule.get("verbs") or ()
    names = rule.get("resourceNames") or (None,)
    for group, resource, verb, name in product(
        rule.get("apiGroups") or (), rule.get("resources") or (), verbs, names
    ):
        small = {"verbs": [verb], "apiGroups": [group], "resources": [resource]}
        yield small if name is None else {**small, "resourceNames": [name]}
    for url, verb in product(rule.get("nonResourceURLs") or (), verbs):
        yield {"verbs": [verb], "nonResourceURLs": [url]}


def _covers(owner: PolicyRule, small: PolicyRule) -> bool:
    (verb,) = small["verbs"]
    if not _contains_or_any(owner.get("verbs"), verb):
        return False
    if urls := small.get("nonResourceURLs"):
        return any(
            each in (_ANY, urls[0]) or (each.endswith(_ANY) and urls[0].startswith(each.rstrip(_ANY)))
            for each in owner.get("nonResourceURLs") or ()
        )
    (group,), (resource,) = small["apiGroups"], small["resources"]
    if not (
        _contains_or_any(owner.get("apiGroups"), group)
        and _covers_resource(owner.get("resources") or (), resource)
    ):
        return False
    held_names: Sequence[str] = owner.get("resourceNames") or ()
    names: Sequence[str] = small.get("resourceNames") or ()
    return not held_names or bool(names and names[0] in held_names)


def _covers_resource(held: Sequence[str], resource: str) -> bool:
    if _ANY in held or resource in held:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"*/{subresource}" in held


def compact_rules(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Merge single permissions for a message: all verbs for the same resource in one rule."""
    result: dict[str, dict[str, Any]] = {}
    for rule in rules:
        what = {member: value for member, value in rule.items() if member != "verbs"}
        is_simple = "nonResourceURLs" not in rule
        key = repr(sorted(what.items())) if is_simple else repr(rule)
        known = result.setdefault(key, {**what, "verbs": []})
        known["verbs"] += [verb for verb in rule["verbs"] if verb not in known["verbs"]]
    return list(result.values())


_MEMBERS: Final = (
    ("APIGroups", "apiGroups"),
    ("Resources", "resources"),
    ("ResourceNames", "resourceNames"),
    ("NonResourceURLs", "nonResourceURLs"),
    ("Verbs", "verbs"),
)


def format_rule(rule: PolicyRule) -> str:
    """Format a rule for a message: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`."""
    parts = [
        f"{name}:[{' '.join(quote_text(each) for each in values)}]"
        for name, member in _MEMBERS
        if (values := rule.get(member))
    ]
    return f"{{{', '.join(parts)}}}"
