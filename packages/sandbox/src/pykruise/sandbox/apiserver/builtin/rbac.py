"""Rules of RBAC's kinds: roles and their bindings.

    an object as sent ──▶ …Strategy ──▶ the object as stored, or Causes

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_invalid_error,
    make_invalid_shown_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import (
    Causes,
)
from pykruise.kube.pod_rules.names import is_dns1123_subdomain
from pykruise.kube.schemas.builtin_types import Decoder
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.builtin.strategy import BuiltinStrategy

Doc = Mapping[str, Any]
_RBAC: Final = "rbac.authorization.k8s.io"


class RoleStrategy(BuiltinStrategy):
    """Roles and ClusterRoles."""

    def __init__(self, decoder: Decoder | None = None, *, namespaced: bool = True) -> None:
        super().__init__(decoder)
        self._namespaced = namespaced

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_role(doc, namespaced=self._namespaced))


def _check_role(doc: Doc, *, namespaced: bool) -> Causes:
    for index, rule in enumerate(doc.get("rules") or ()):
        yield from _check_rule(rule, f"rules[{index}]", namespaced=namespaced)
    aggregation = doc.get("aggregationRule")
    if aggregation is not None and not aggregation.get("clusterRoleSelectors"):
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield make_required_error("aggregationRule.clusterRoleSelectors", detail)


def _check_rule(rule: Doc, path: str, *, namespaced: bool) -> Causes:
    if not rule.get("verbs"):
        yield make_required_error(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        shown = f"[]string{{{', '.join(quote_text(url) for url in urls)}}}"
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            yield make_invalid_shown_error(f"{path}.nonResourceURLs", shown, detail)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield make_invalid_shown_error(f"{path}.nonResourceURLs", shown, detail)
        return
    if not rule.get("apiGroups"):
        yield make_required_error(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield make_required_error(f"{path}.resources", "resource rules must supply at least one resource")


class RoleBindingStrategy(BuiltinStrategy):
    """RoleBindings and ClusterRoleBindings: `roleRef` never changes."""

    def __init__(self, decoder: Decoder | None = None, *, namespaced: bool = True) -> None:
        super().__init__(decoder)
        self._namespaced = namespaced

    def default(self, doc: Document) -> Document:
        role = doc.setdefault("roleRef", {})
        if not role.get("apiGroup"):
            role["apiGroup"] = _RBAC
        for subject in doc.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = _RBAC
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_binding(doc, namespaced=self._namespaced))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        causes = self.validate_create(new)
        role = new.get("roleRef") or {}
        if not is_same(role, old.get("roleRef")):
            shown = ", ".join(
                f"{field}:{quote_text(role.get(key) or '')}"
                for field, key in (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
            )
            causes.append(
                make_invalid_shown_error("roleRef", f"rbac.RoleRef{{{shown}}}", "cannot change roleRef")
            )
        return causes


def _check_binding(doc: Doc, *, namespaced: bool) -> Causes:
    role = doc.get("roleRef") or {}
    if role.get("apiGroup") != _RBAC:
        yield make_not_supported_error("roleRef.apiGroup", role.get("apiGroup") or "", (_RBAC,))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if role.get("kind") not in kinds:
        yield make_not_supported_error("roleRef.kind", role.get("kind") or "", kinds)
    if not role.get("name"):
        yield make_required_error("roleRef.name")
    for index, subject in enumerate(doc.get("subjects") or ()):
        yield from _check_subject(subject, f"subjects[{index}]", namespaced=namespaced)


def _check_subject(subject: Doc, path: str, *, namespaced: bool) -> Causes:
    name, group, kind = subject.get("name") or "", subject.get("apiGroup") or "", subject.get("kind") or ""
    if not name:
        yield make_required_error(f"{path}.name")
    match kind:
        case "ServiceAccount":
            for message in is_dns1123_subdomain(name) if name else ():
                yield make_invalid_error(f"{path}.name", name, message)
            if group:
                yield make_not_supported_error(f"{path}.apiGroup", group, ("",))
            if not namespaced and not subject.get("namespace"):
                yield make_required_error(f"{path}.namespace")
        case "User" | "Group":
            if group != _RBAC:
                yield make_not_supported_error(f"{path}.apiGroup", group, (_RBAC,))
        case _:
            yield make_not_supported_error(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))
