"""Roles: exactly the declared permissions, with OpenKruise's names, and none for a gate that is off."""

from collections.abc import Iterable
from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kinds import list_kinds
from pykruise.kinds.gates import Gates
from pykruise.kube.documents import Document
from pykruise.kube.package_data import read_package_data
from pykruise.kube.rbac import Right
from pykruise.manager.roles import (
    MAY_BE_LENT,
    build_aggregated_roles,
    build_roles,
    is_for_editors,
    list_needed_rights,
)
from pykruise.plans.kind import Kind
from support.rbac import Authorizer

NAMESPACE = "kruise-system"


def named(documents: list[Document], kind: str, name: str) -> Document:
    return next(doc for doc in documents if (doc["kind"], doc["metadata"]["name"]) == (kind, name))


def authorizer(**gates: bool) -> Authorizer:
    return Authorizer(build_roles(Gates.of(**gates), namespace=NAMESPACE))


def test_names_are_the_original_s_and_each_role_is_bound_to_the_account() -> None:
    documents = build_roles(Gates(), namespace=NAMESPACE)
    assert {(doc["kind"], doc["metadata"]["name"]) for doc in documents} == {
        (kind, f"{name}{ending}")
        for kinds, name in (
            (("ClusterRole", "ClusterRoleBinding"), "kruise-manager-role"),
            (("ClusterRole", "ClusterRoleBinding"), "kruise-certs-role"),
            (("Role", "RoleBinding"), "kruise-leader-election-role"),
            (("Role", "RoleBinding"), "kruise-webhook-role"),
        )
        for kind, ending in zip(kinds, ("", "binding"), strict=True)
    }
    for doc in documents:
        if doc["kind"].endswith("Binding"):
            assert doc["subjects"] == [
                {"kind": "ServiceAccount", "name": "kruise-manager", "namespace": NAMESPACE}
            ]
            named(documents, doc["roleRef"]["kind"], doc["roleRef"]["name"])


def test_everything_that_is_declared_is_allowed() -> None:
    for gates in (Gates(), Gates.of(AllAlpha=True), Gates.of(PodWebhook=False)):
        allowed = Authorizer(build_roles(gates, namespace=NAMESPACE))
        for right in list_needed_rights(gates):
            where = NAMESPACE if right.in_namespace else ""
            for verb in right.verbs:
                for name in right.names or ("",):
                    assert allowed.allows(verb, right.group, right.resource, namespace=where, name=name), (
                        right
                    )


def test_the_only_wildcard_is_reading_scales_and_only_the_own_secret_can_be_read() -> None:
    """users 10: least privilege by construction"""
    documents = build_roles(Gates(), namespace=NAMESPACE)
    rules: list[dict[str, Any]] = [rule for doc in documents for rule in doc.get("rules", ())]
    wild = [
        rule for rule in rules if "*" in "".join((*rule["verbs"], *rule["resources"], *rule["apiGroups"]))
    ]
    # WorkloadSpread, PodUnavailableBudget: the scale of a workload on a white list contains its number of replicas
    assert wild == [{"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["get"]}]
    allowed = authorizer()
    own = "kruise-webhook-certs"
    for verb in ("get", "list", "watch", "patch", "update"):
        assert allowed.allows(verb, "", "secrets", namespace=NAMESPACE, name=own)
        assert not allowed.allows(verb, "", "secrets", namespace=NAMESPACE, name="another")
        assert not allowed.allows(verb, "", "secrets", namespace=NAMESPACE)
        assert not allowed.allows(verb, "", "secrets", namespace="default", name=own)
    # without a name: RBAC cannot restrict the creation of objects by name
    assert allowed.allows("create", "", "secrets", namespace=NAMESPACE)
    assert not allowed.allows("delete", "", "secrets", namespace=NAMESPACE, name=own)


def test_the_managers_role_cannot_change_objects_of_others() -> None:
    allowed = authorizer()
    assert allowed.allows("patch", "apps.kruise.io", "clonesets/status", namespace="default")
    assert not allowed.allows("create", "apps.kruise.io", "daemonsets", namespace="default")
    assert not allowed.allows("delete", "apps.kruise.io", "daemonsets", namespace="default")
    assert not allowed.allows("update", "", "pods", namespace="default")
    assert not allowed.allows("patch", "", "nodes")
    group = "admissionregistration.k8s.io"
    configurations = "mutatingwebhookconfigurations"
    assert allowed.allows("patch", group, configurations, name="kruise-mutating-webhook-configuration")
    assert not allowed.allows("patch", group, configurations, name="another-program")
    crds = ("apiextensions.k8s.io", "customresourcedefinitions")
    assert allowed.allows("patch", *crds, name="clonesets.apps.kruise.io")
    assert not allowed.allows("patch", *crds, name="certificates.cert-manager.io")
    assert allowed.allows("update", "coordination.k8s.io", "leases", namespace=NAMESPACE)
    assert not allowed.allows("update", "coordination.k8s.io", "leases", namespace="kube-system")


def test_external_certificates_need_no_right_to_write_configurations_or_secrets() -> None:
    """operations case 39"""
    allowed = authorizer(EnableExternalCerts=True)
    group = "admissionregistration.k8s.io"
    name = "kruise-validating-webhook-configuration"
    assert allowed.allows("get", group, "validatingwebhookconfigurations", name=name)
    assert not allowed.allows("patch", group, "validatingwebhookconfigurations", name=name)
    crds = ("apiextensions.k8s.io", "customresourcedefinitions")
    assert not allowed.allows("update", *crds, name="clonesets.apps.kruise.io")
    assert not allowed.allows("create", "", "secrets", namespace=NAMESPACE)


def test_only_protecting_crds_may_list_everything() -> None:
    assert not authorizer().allows("list", "example.com", "widgets")
    gates = {"ResourcesDeletionProtection": True, "DeletionProtectionForCRDCascadingGate": True}
    assert authorizer(**gates).allows("list", "example.com", "widgets")


@pytest.mark.parametrize(
    ("role", "verb", "may"), [("view", "list", True), ("view", "patch", False), ("edit", "patch", True)]
)
def test_kubernetes_own_roles_learn_of_the_kinds(role: str, verb: str, may: bool) -> None:
    """operations case 41"""
    documents = build_aggregated_roles()
    result = named(documents, "ClusterRole", f"aggregate-kruise-{role}")
    assert result["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{role}"] == "true"
    assert Authorizer([result]).allows(verb, "apps.kruise.io", "clonesets", namespace="default") is may


def test_resource_distributions_are_for_admins() -> None:
    """operations case 41"""
    documents = build_aggregated_roles()
    edit = Authorizer([named(documents, "ClusterRole", "aggregate-kruise-edit")])
    assert not edit.allows("patch", "apps.kruise.io", "resourcedistributions")
    # and others cannot read them either, because they can contain Secrets
    view = Authorizer([named(documents, "ClusterRole", "aggregate-kruise-view")])
    assert not view.allows("get", "apps.kruise.io", "resourcedistributions")
    admin = Authorizer([named(documents, "ClusterRole", "aggregate-kruise-admin")])
    assert admin.allows("patch", "apps.kruise.io", "resourcedistributions")
    assert admin.allows("get", "apps.kruise.io", "resourcedistributions/status")
    assert not admin.allows("patch", "apps.kruise.io", "resourcedistributions/status")


@pytest.mark.parametrize("plural", ["sidecarsets", "nodeimages", "nodepodprobes"])
def test_viewers_of_the_whole_cluster_read_its_kinds_and_an_administrator_binds_the_role_to_write_them(
    plural: str,
) -> None:
    """operations case 41"""
    # given
    documents = build_aggregated_roles()
    view, edit = (
        Authorizer([named(documents, "ClusterRole", f"aggregate-kruise-{role}")]) for role in ("view", "edit")
    )
    # then
    assert view.allows("list", "apps.kruise.io", plural)
    assert view.allows("get", "apps.kruise.io", f"{plural}/status")
    assert not edit.allows("patch", "apps.kruise.io", plural)
    by_hand = named(documents, "ClusterRole", f"kruise-{plural}-editor")
    assert "labels" not in by_hand["metadata"]
    assert Authorizer([by_hand]).allows("patch", "apps.kruise.io", plural)


# ── rights that kinds lend ───────────────────────────────────────────────────


def kubernetes_own(role: str) -> Authorizer:
    """Rules that API servers give this role at their start."""
    policy = orjson.loads(read_package_data("pykruise.sandbox", "bootstrap_policy.json"))
    label = f"rbac.authorization.k8s.io/aggregate-to-{role}"
    rules = [
        rule
        for clusterrole in policy["clusterroles"]
        if clusterrole["metadata"]["name"] == role
        or clusterrole["metadata"].get("labels", {}).get(label) == "true"
        for rule in clusterrole["rules"] or ()
    ]
    return Authorizer([{"kind": "ClusterRole", "rules": rules}])


def may_all(role: str, rights: Iterable[Right]) -> bool:
    allowed = kubernetes_own(role)
    return all(allowed.allows(verb, right.group, right.resource) for right in rights for verb in right.verbs)


NAMESPACED = [kind for kind in list_kinds() if kind.versions and kind.resource.namespaced]


def test_each_namespaced_kind_declares_which_rights_it_aggregates() -> None:
    assert [kind.name for kind in NAMESPACED if kind.lends is None] == []


@pytest.mark.parametrize("kind", NAMESPACED, ids=lambda kind: kind.name)
def test_a_kind_is_for_those_roles_of_kubernetes_that_may_do_all_that_it_lends(kind: Kind) -> None:
    documents = build_aggregated_roles()
    edit = Authorizer([named(documents, "ClusterRole", "aggregate-kruise-edit")])
    asked = ("create", kind.resource.group, kind.resource.plural)
    assert edit.allows(*asked) is may_all("edit", kind.lends or ())
    if edit.allows(*asked):
        return
    # then no role of Kubernetes has this right, and an administrator binds a role of its own
    assert not may_all("admin", kind.lends or ())
    by_hand = named(documents, "ClusterRole", f"kruise-{kind.resource.plural}-editor")
    assert "labels" not in by_hand["metadata"]
    assert Authorizer([by_hand]).allows(*asked)


def test_aggregated_rights_are_those_of_kubernetes_editors() -> None:
    assert may_all("edit", MAY_BE_LENT)


def test_a_kind_without_aggregated_rights_is_in_no_default_role() -> None:
    assert not is_for_editors(msgspec.structs.replace(NAMESPACED[0], lends=None))
