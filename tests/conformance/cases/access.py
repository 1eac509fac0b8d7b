"""Authorization: roles and their bindings, users who may grant them, and the messages of rejections."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from conformance.builders import config_map, pod
from conformance.dsl import MERGE, Request, apply, case, create, delete, get, patch, pause, put, raw

_GROUP = "rbac.authorization.k8s.io"
_ALL = "create get list watch update patch delete"
"""The verbs of most users; `bind` and `escalate` are not among them."""


def _as(user: str, request: Request, *groups: str) -> Request:
    """Return the request with headers that impersonate the user and at most one group: a header occurs only once."""
    who = {"impersonate-user": user} | ({"impersonate-group": groups[0]} if groups else {})
    return replace(request, headers={**request.headers, **who})


def _rule(verbs: str, resources: str, groups: str = "", **more: Any) -> dict[str, Any]:
    return {
        "apiGroups": groups.split(",") if groups else [""],
        "resources": resources.split(),
        "verbs": verbs.split(),
        **more,
    }


def _role(name: str, *rules: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "rules": list(rules)}


def _binding(name: str, role: str, *subjects: Mapping[str, Any], kind: str = "Role") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": role},
        "subjects": list(subjects),
    }


def _user(name: str) -> dict[str, Any]:
    return {"kind": "User", "name": name}


def _access(user: str = "", groups: tuple[str, ...] = (), **attributes: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"resourceAttributes": attributes}
    if user:
        spec |= {"user": user, "groups": list(groups)}
    return {"spec": spec}


CASES = [
    case(
        "who has no role may nothing",
        _as("alice", get("pods")),
        _as("alice", get("pods/a")),
        _as("alice", get("pods/a/status")),
        _as("alice", get("pods/a/log")),
        _as("alice", get("pods", fieldSelector="metadata.name=a")),
        _as("alice", get("/api/v1/pods")),
        _as("alice", get("nodes")),
        _as("alice", get("namespaces/$ns")),
        _as("alice", get("/apis/apps/v1/namespaces/$ns/deployments/a/scale")),
        _as("alice", create("configmaps", config_map("a"))),
        _as("alice", put("configmaps/a", config_map("a"))),
        _as("alice", patch("configmaps/a", {"data": {"x": "y"}}, MERGE)),
        _as("alice", apply("configmaps/a", config_map("a"))),
        _as("alice", delete("configmaps/a")),
        _as("alice", delete("configmaps")),
        _as("alice", get("configmaps", watch="1")),
        _as("alice", get("/apis/none.example.com/v1/namespaces/$ns/things/x")),
        _as("alice", get("/apis/none.example.com/v1/things")),
        _as("alice", get("/nowhere")),
        _as("alice", raw("POST", "/nowhere", {})),
        _as("alice", get("/apis/apps/v1", only=("kind", "groupVersion"))),
        _as("alice", get("/version", only=("major",))),
        _as("alice", get("/healthz")),
        _as("alice", get("/metrics")),
        _as("system:anonymous", get("/version", only=("major",)), "system:unauthenticated"),
        _as("system:anonymous", get("/apis"), "system:unauthenticated"),
    ),
    case(
        "a role lets its holder do what it says where it is bound",
        create(
            "roles",
            _role(
                "reader",
                _rule("get list", "pods configmaps"),
                _rule("patch", "configmaps", resourceNames=["a"]),
                _rule("*", "*/scale", "apps"),
                _rule("create", "secrets"),
                _rule("update", "configmaps"),
            ),
        ),
        create("rolebindings", _binding("reader", "reader", _user("$ns-alice"))),
        create("configmaps", config_map("a", x="1")),
        create("configmaps", config_map("b", x="1")),
        pause(),
        _as("$ns-alice", get("pods", only=("kind",))),
        _as("$ns-alice", get("configmaps/a", only=("data",))),
        _as("$ns-alice", patch("configmaps/a", {"data": {"x": "2"}}, MERGE, only=("data",))),
        _as("$ns-alice", patch("configmaps/b", {"data": {"x": "2"}}, MERGE)),
        _as("$ns-alice", delete("configmaps/a")),
        _as("$ns-alice", get("configmaps", watch="1")),
        _as("$ns-alice", get("/api/v1/namespaces/default/pods")),
        _as("$ns-alice", get("/api/v1/pods")),
        _as("$ns-alice", get("/apis/apps/v1/namespaces/$ns/deployments/none/scale")),
        _as("$ns-alice", get("/apis/apps/v1/namespaces/$ns/deployments/none")),
        _as("$ns-alice", create("secrets", {"metadata": {"name": "s"}}, only=("type",))),
        _as("$ns-alice", apply("configmaps/a", config_map("a", y="1"), force=True)),
        # A user who may change objects, but not create them:
        _as("$ns-alice", apply("configmaps/c", config_map("c", y="1"))),
        _as("$ns-alice", put("/apis/coordination.k8s.io/v1/namespaces/$ns/leases/x", {})),
        _as("$ns-bob", get("pods")),
        delete("rolebindings/reader"),
        pause(),
        _as("$ns-alice", get("pods")),
    ),
    case(
        "groups, service accounts and cluster roles",
        create("clusterroles", _role("$ns", _rule("list", "pods"), _rule("get", "nodes"))),
        create("clusterroles", _role("$ns-urls", {"nonResourceURLs": ["/metrics*"], "verbs": ["get"]})),
        create(
            "rolebindings",
            _binding("group", "$ns", {"kind": "Group", "name": "$ns-team"}, kind="ClusterRole"),
        ),
        create(
            "rolebindings",
            _binding("account", "view", {"kind": "ServiceAccount", "name": "worker"}, kind="ClusterRole"),
        ),
        create("clusterrolebindings", _binding("$ns-urls", "$ns-urls", _user("$ns-zoe"), kind="ClusterRole")),
        create("rolebindings", _binding("none", "no-such-role", _user("$ns-kim"))),
        pause(),
        _as("carl", get("pods", only=("kind",)), "$ns-team"),
        _as("carl", get("/api/v1/pods"), "$ns-team"),
        _as("carl", get("/api/v1/nodes/none"), "$ns-team"),
        _as("system:serviceaccount:$ns:other", get("pods")),
        _as("$ns-zoe", get("/metrics/none")),
        _as("$ns-zoe", get("/logs")),
        _as("$ns-kim", get("pods")),
        _as("root", get("/api/v1/namespaces/$ns/pods", only=("kind",)), "system:masters"),
    ),
    case(
        "a user grants no more than they hold",
        create(
            "clusterroles",
            _role("$ns", _rule(_ALL, "roles rolebindings clusterroles clusterrolebindings", _GROUP)),
        ),
        create("clusterrolebindings", _binding("$ns", "$ns", _user("$ns-olga"), kind="ClusterRole")),
        create("clusterroles", _role("$ns-pods", _rule("get list", "pods"))),
        create("rolebindings", _binding("olga", "$ns-pods", _user("$ns-olga"), kind="ClusterRole")),
        create("roles", _role("known", _rule("get", "secrets"))),
        pause(),
        _as("$ns-olga", create("roles", _role("pods", _rule("get", "pods")), only=("rules",))),
        _as("$ns-olga", create("roles", _role("more", _rule("get list watch", "pods secrets")))),
        _as("$ns-olga", create("roles", _role("named", _rule("get", "secrets", resourceNames=["x"])))),
        _as(
            "$ns-olga",
            create("clusterroles", _role("$ns-urls", {"nonResourceURLs": ["/x"], "verbs": ["get"]})),
        ),
        _as("$ns-olga", create("clusterroles", _role("$ns-more", _rule("get", "pods")))),
        _as("$ns-olga", patch("roles/known", {"rules": [_rule("get delete", "secrets")]}, MERGE)),
        _as("$ns-olga", patch("roles/known", {"metadata": {"labels": {"a": "b"}}}, MERGE, only=("rules",))),
        _as("$ns-olga", create("rolebindings", _binding("one", "known", _user("eve")))),
        _as("$ns-olga", create("rolebindings", _binding("two", "pods", _user("eve")), only=("roleRef",))),
        _as("$ns-olga", create("rolebindings", _binding("three", "no-such-role", _user("eve")))),
        _as(
            "$ns-olga",
            create("clusterrolebindings", _binding("$ns-b", "$ns-pods", _user("eve"), kind="ClusterRole")),
        ),
        _as(
            "$ns-olga",
            create(
                "clusterroles",
                {
                    "metadata": {"name": "$ns-sum"},
                    "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
                },
            ),
        ),
        create("roles", _role("binder", _rule("bind", "roles", _GROUP), _rule("escalate", "roles", _GROUP))),
        create("rolebindings", _binding("binder", "binder", _user("$ns-olga"))),
        pause(),
        _as("$ns-olga", create("rolebindings", _binding("four", "known", _user("eve")), only=("roleRef",))),
        _as("$ns-olga", create("roles", _role("secrets", _rule("get", "secrets")), only=("rules",))),
    ),
    case(
        "a user asks what they may do",
        create("roles", _role("reader", _rule("get list", "pods"))),
        create("rolebindings", _binding("reader", "reader", _user("$ns-ann"))),
        pause(),
        _as(
            "$ns-ann",
            create("selfsubjectaccessreviews", _access(verb="list", resource="pods", namespace="$ns")),
        ),
        _as(
            "$ns-ann",
            create("selfsubjectaccessreviews", _access(verb="delete", resource="pods", namespace="$ns")),
        ),
        _as("$ns-ann", create("selfsubjectaccessreviews", _access(verb="list", resource="pods"))),
        _as(
            "$ns-ann",
            create(
                "selfsubjectaccessreviews",
                {"spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}},
                only=("status.allowed",),  # several bindings allow it, and servers name any of these
            ),
        ),
        create("subjectaccessreviews", _access("$ns-ann", verb="get", resource="pods", namespace="$ns")),
        create("subjectaccessreviews", _access("$ns-ann", verb="get", resource="secrets", namespace="$ns")),
        create(
            "subjectaccessreviews",
            _access("x", ("system:masters",), verb="get", resource="secrets", namespace="$ns"),
        ),
        create("subjectaccessreviews", {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
        _as("$ns-ann", create("subjectaccessreviews", _access("x", verb="get", resource="pods"))),
        create(
            "/apis/authorization.k8s.io/v1/namespaces/$ns/localsubjectaccessreviews",
            _access("$ns-ann", verb="get", resource="pods", namespace="$ns"),
        ),
        _as(
            "$ns-ann",
            create(
                "selfsubjectrulesreviews",
                {"spec": {"namespace": "$ns"}},
                only=("spec", "status.incomplete"),
            ),
        ),
        create("selfsubjectrulesreviews", {"spec": {}}),
        _as("$ns-ann", create("selfsubjectreviews", {}, only=("status",))),
        _as("$ns-ann", create("selfsubjectreviews", {}, only=("status",)), "team"),
        create("selfsubjectreviews", {}, only=("status.userInfo.groups",)),
    ),
    case(
        "a service account has tokens",
        create("serviceaccounts", {"metadata": {"name": "worker"}}, only=("kind",)),
        create(
            "serviceaccounts/worker/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
            only=("kind", "apiVersion", "metadata.name", "metadata.namespace", "spec.expirationSeconds"),
        ),
        create(
            "serviceaccounts/worker/token",
            {"spec": {"expirationSeconds": 60}},
        ),
        create("serviceaccounts/none/token", {"spec": {}}),
        create("tokenreviews", {"spec": {"token": "nonsense"}}),
        create("pods", pod("p", serviceAccountName="worker"), only=("kind",)),
        create(
            "serviceaccounts/worker/token",
            {
                "spec": {
                    "expirationSeconds": 600,
                    "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "none"},
                }
            },
        ),
        create(
            "serviceaccounts/worker/token",
            {
                "spec": {
                    "expirationSeconds": 900,
                    "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p"},
                }
            },
            only=("spec.expirationSeconds", "spec.boundObjectRef.name"),
        ),
    ),
]
