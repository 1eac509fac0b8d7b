"""Authorizer: decides from the stored roles and bindings whether a user may do something.

    Attributes ──▶ Authorizer.decide() ──▶ AccessDecision: allowed or not, and why

The authorizer reads bindings on first use, and reads them again after a binding or a role has changed. This is the rule
of Kubernetes' RBAC authorizer; denials have apiserver's messages.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ErrorStatus, StatusDetails
from pykruise.kube.ids import Key
from pykruise.kube.values.go_text import quote_text
from pykruise.sandbox.apiserver.access.attributes import Attributes
from pykruise.sandbox.apiserver.access.rules import PolicyRule, allows
from pykruise.sandbox.apiserver.access.users import User
from pykruise.sandbox.apiserver.objects.storage import Storage, StorageChange
from pykruise.sandbox.apiserver.requests.statuses import Refusal

GROUP: Final = "rbac.authorization.k8s.io"
ROLES: Final = f"roles.{GROUP}"
BINDINGS: Final = f"rolebindings.{GROUP}"
CLUSTER_ROLES: Final = f"clusterroles.{GROUP}"
CLUSTER_BINDINGS: Final = f"clusterrolebindings.{GROUP}"


class AccessDecision(msgspec.Struct, frozen=True):
    """Decision of the authorizer. `reason` is empty when there is nothing to explain."""

    allowed: bool
    reason: str = ""


class _Binding(msgspec.Struct, frozen=True):
    """A binding with the rules that it grants."""

    namespace: str
    name: str
    role_kind: str
    role_name: str
    subjects: tuple[Mapping[str, Any], ...]
    rules: tuple[PolicyRule, ...] | None
    """None if the role does not exist."""

    def subject_of(self, user: User) -> Mapping[str, Any] | None:
        """Return the binding's first subject that matches the user."""
        return next((each for each in self.subjects if _matches_subject(each, user, self.namespace)), None)

    @property
    def missing(self) -> str:
        """Error message for a role that does not exist."""
        return f"{self.role_kind.lower()}.{GROUP} {quote_text(self.role_name)} not found"

    def describe(self, subject: Mapping[str, Any]) -> str:
        """Describe the binding, its role and the subject, as Kubernetes does in the reason of an allowed request."""
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        name = f"{self.name}/{self.namespace}" if self.namespace else self.name
        who = subject.get("name") or ""
        if subject.get("kind") == "ServiceAccount":
            who = f"{who}/{subject.get('namespace') or self.namespace}"
        return (
            f"{kind} {quote_text(name)} of {self.role_kind} {quote_text(self.role_name)} to "
            f"{subject['kind']} {quote_text(who)}"
        )


def _matches_subject(subject: Mapping[str, Any], user: User, namespace: str) -> bool:
    name = subject.get("name")
    match subject.get("kind"):
        case "User":
            return user.name == name
        case "Group":
            return name in user.groups
        case "ServiceAccount":
            return user.account == (subject.get("namespace") or namespace, name)
        case _:
            return False


class Authorizer:
    """Decides from the stored roles and bindings. Call `forget` after each change of a role or a binding."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._known: dict[str, tuple[_Binding, ...]] = {}

    def forget(self, change: StorageChange) -> None:
        """Drop the bindings that were read, because a role or a binding has changed."""
        self._known.clear()

    def check(self, asked: Attributes) -> None:
        """Raise Refusal (403) unless the request is allowed."""
        decision = self.decide(asked)
        if not decision.allowed:
            raise make_not_allowed(asked, decision.reason)

    def decide(self, asked: Attributes) -> AccessDecision:
        """Decide whether the request is allowed. The reason names the binding that allows it, or the bound roles
        that do not exist.
        """
        if asked.user.is_master:
            return AccessDecision(True)
        missing: list[str] = []
        for binding, subject in self._list_bindings_of_user(asked.user, asked.namespace):
            if binding.rules is None:
                missing.append(binding.missing)
            elif any(allows(rule, asked) for rule in binding.rules):
                return AccessDecision(True, f"RBAC: allowed by {binding.describe(subject)}")
        if not missing:
            return AccessDecision(False)
        listed = ", ".join(missing)
        return AccessDecision(False, f"RBAC: {listed if len(missing) == 1 else f'[{listed}]'}")

    def list_rules(self, user: User, namespace: str) -> list[PolicyRule]:
        """All rules that apply to the user, cluster-wide rules first."""
        own = [_EVERYTHING, _EVERY_URL] if user.is_master else []
        return own + [
            rule
            for binding, _ in self._list_bindings_of_user(user, namespace)
            for rule in binding.rules or ()
        ]

    def find_role_rules(self, kind: str, namespace: str, name: str) -> tuple[PolicyRule, ...] | None:
        """The rules of a role; None when the role does not exist."""
        shelf, key = (
            (CLUSTER_ROLES, Key("", name)) if kind == "ClusterRole" else (ROLES, Key(namespace, name))
        )
        stored = self._storage.get(shelf, key)
        return None if stored is None else tuple(decode(stored.raw).get("rules") or ())

    def _list_bindings_of_user(
        self, user: User, namespace: str
    ) -> Iterator[tuple[_Binding, Mapping[str, Any]]]:
        """Yield the bindings that apply to a user, each with the subject that matches the user."""
        for where in ["", namespace] if namespace else [""]:
            for binding in self._read_bindings(where):
                if (subject := binding.subject_of(user)) is not None:
                    yield binding, subject

    def _read_bindings(self, namespace: str) -> Sequence[_Binding]:
        bindings = self._known.get(namespace)
        if bindings is None:
            shelf = BINDINGS if namespace else CLUSTER_BINDINGS
            page = self._storage.scan(shelf, namespace=namespace)
            bindings = tuple(self._parse_binding(decode(stored.raw)) for stored in page.items)
            self._known[namespace] = bindings
        return bindings

    def _parse_binding(self, doc: Document) -> _Binding:
        namespace, role = doc["metadata"].get("namespace") or "", doc.get("roleRef") or {}
        kind, name = role.get("kind") or "", role.get("name") or ""
        rules = self.find_role_rules(kind, namespace, name)
        subjects = tuple(doc.get("subjects") or ())
        return _Binding(namespace, doc["metadata"]["name"], kind, name, subjects, rules)


_EVERYTHING: Final[PolicyRule] = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
_EVERY_URL: Final[PolicyRule] = {"verbs": ["*"], "nonResourceURLs": ["*"]}


def make_not_allowed(asked: Attributes, reason: str = "") -> Refusal:
    """Build the Refusal (403) with apiserver's message."""
    why = _describe_refused(asked) + (f": {reason}" if reason else "")
    if not asked.resource:
        status = ErrorStatus(
            status="Failure",
            message=f"forbidden: {why}",
            reason="Forbidden",
            code=403,
            details=StatusDetails(),
        )
        return Refusal(status)
    plural = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    called = f"{plural} {quote_text(asked.name)}" if asked.name else plural
    details = StatusDetails(name=asked.name, group=asked.group, kind=asked.resource)
    text = f"{called} is forbidden: {why}"
    return Refusal(ErrorStatus(status="Failure", message=text, reason="Forbidden", code=403, details=details))


def _describe_refused(asked: Attributes) -> str:
    user = f"User {quote_text(asked.user.name)} cannot {asked.verb}"
    if not asked.resource:
        return f"{user} path {quote_text(asked.path)}"
    where = f"in the namespace {quote_text(asked.namespace)}" if asked.namespace else "at the cluster scope"
    return f"{user} resource {quote_text(asked.full_resource)} in API group {quote_text(asked.group)} {where}"
