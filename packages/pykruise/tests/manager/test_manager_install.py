"""Manifests of an installation: complete, safe, and with the names that users of OpenKruise know."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from pykruise.agent.flags import parse as parse_agent
from pykruise.kinds import build_crds
from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kinds.gates import Gates
from pykruise.kube.documents import Document, get_path
from pykruise.kube.program.serving import STOP_S
from pykruise.kube.schemas.releases import MINORS
from pykruise.kube.values.quantities import parse_quantity
from pykruise.kube.values.selectors import parse_selector
from pykruise.kube.version import __version__
from pykruise.manager.flags import parse
from pykruise.manager.install import MANAGER, POD_LABELS, Installation, build_manifests
from pykruise.manager.settings import WEBHOOK_STOP_S
from pykruise.runtime.operator import EVENTS_S, RELEASE_S
from support.api import PODS, Api, pod
from support.sources import ROOT
from support.up import pykruise
from support.yaml_documents import yaml_documents

CHART_MANAGER = ROOT / "charts" / "pykruise" / "templates" / "manager.yaml"


def one(documents: list[Document], kind: str, name: str) -> Document:
    return next(doc for doc in documents if (doc["kind"], doc["metadata"]["name"]) == (kind, name))


def names(documents: list[Document]) -> set[tuple[str, str]]:
    return {(doc["kind"], doc["metadata"]["name"]) for doc in documents}


def container(documents: list[Document]) -> dict[str, Any]:
    pod = one(documents, "Deployment", "kruise-controller-manager")["spec"]["template"]["spec"]
    container: dict[str, Any] = pod["containers"][0]
    return container


@pytest.mark.parametrize("minor", MINORS)
def test_the_admission_policy_of_the_agents_is_installed_on_minors_that_support_it(minor: str) -> None:
    # when
    result = names(build_manifests(Installation(minor=minor)))
    # then manifests for older minors lack only the policy and its binding
    kinds = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    left_out = {kind for kind, _ in names(build_manifests(Installation())) - result}
    assert left_out == (kinds if minor in ("1.28", "1.29") else set())


def test_all_objects_have_the_original_s_names() -> None:
    result = names(build_manifests(Installation()))
    assert result >= {
        ("Namespace", "kruise-system"),
        ("ServiceAccount", "kruise-manager"),
        ("ClusterRole", "kruise-manager-role"),
        ("Service", "kruise-webhook-service"),
        ("Deployment", "kruise-controller-manager"),
        ("PodDisruptionBudget", "kruise-controller-manager"),
        ("DaemonSet", "kruise-daemon"),
        ("ServiceAccount", "kruise-daemon"),
        ("ClusterRole", "kruise-daemon-role"),
        ("Role", "kruise-daemon-secret-role"),
        ("MutatingWebhookConfiguration", "kruise-mutating-webhook-configuration"),
        ("ValidatingWebhookConfiguration", "kruise-validating-webhook-configuration"),
        *(("CustomResourceDefinition", crd["metadata"]["name"]) for crd in build_crds()),
    }


def test_pods_run_without_privileges_on_a_read_only_root() -> None:
    deployment = one(build_manifests(Installation()), "Deployment", "kruise-controller-manager")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65534
    only = pod["containers"][0]
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {mount["mountPath"] for mount in only["volumeMounts"]} == {"/tmp", "/log"}
    assert deployment["spec"]["minReadySeconds"] == 3
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": "100%", "maxUnavailable": 0}


def test_the_flags_in_the_deployment_parse_to_the_requested_settings() -> None:
    # given
    text = "CloneSetShortHash=true,PodWebhook=false"
    wanted = Installation(
        namespace="here", gates=Gates.of(CloneSetShortHash=True, PodWebhook=False), feature_gates=text
    )
    # when
    only = container(build_manifests(wanted))
    settings = parse(only["args"], environ={"POD_NAMESPACE": "here"}).settings
    # then
    assert only["command"] == ["/manager"]
    assert settings.read_kind_settings(CLONE_SET).short_hash
    assert not settings.gates["PodWebhook"]
    assert settings.election.namespace == settings.own_namespace == "here"
    assert settings.serving.diagnosis is not None
    assert settings.serving.diagnosis.host == "localhost"
    assert settings.resync_s is None
    assert settings.notes == ()


def test_a_manager_with_the_flags_in_the_deployment_ends_within_the_grace_period_of_its_pod() -> None:
    # given
    documents = build_manifests(Installation())
    pod = one(documents, "Deployment", "kruise-controller-manager")["spec"]["template"]["spec"]
    settings = parse(container(documents)["args"], environ={}).settings
    # when each step takes its maximum: controllers, Leases, events, webhooks, servers
    longest_s = settings.stop_grace_s + RELEASE_S + EVENTS_S + WEBHOOK_STOP_S + STOP_S
    # then
    assert settings.longest_stop_s == longest_s < pod["terminationGracePeriodSeconds"]
    assert (
        f"terminationGracePeriodSeconds: {pod['terminationGracePeriodSeconds']}\n"
        in CHART_MANAGER.read_text()
    )


def test_all_objects_are_in_the_requested_namespace() -> None:
    documents = build_manifests(Installation(namespace="here"))
    assert {doc["metadata"]["namespace"] for doc in documents if "namespace" in doc["metadata"]} == {
        "here",
        "kruise-daemon-config",  # the secrets that agents may read
    }
    for doc in documents:
        if doc["kind"].endswith("RoleBinding"):
            assert doc["subjects"][0]["namespace"] == "here"
        for entry in doc.get("webhooks") or ():
            assert entry["clientConfig"]["service"]["namespace"] == "here"
    crd = one(documents, "CustomResourceDefinition", "clonesets.apps.kruise.io")
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["namespace"] == "here"


def test_no_webhook_of_pods_guards_the_own_namespace_or_kube_system() -> None:
    """a broken manager cannot keep its own pods, or those of the cluster, from starting"""
    documents = build_manifests(Installation())
    labels = {
        **one(documents, "Namespace", "kruise-system")["metadata"]["labels"],
        "kubernetes.io/metadata.name": "kruise-system",
    }
    guarded = 0
    for kind, name in names(documents):
        if not kind.endswith("WebhookConfiguration"):
            continue
        for entry in one(documents, kind, name)["webhooks"]:
            if not any("" in rule["apiGroups"] for rule in entry["rules"]):
                continue
            guarded += 1
            selector = parse_selector(entry.get("namespaceSelector") or {})
            is_about_pods = any(
                what.startswith("pods") for rule in entry["rules"] for what in rule["resources"]
            )
            assert not selector.matches({"kubernetes.io/metadata.name": "kube-system"}), entry["name"]
            if is_about_pods:
                assert not selector.matches(labels), entry["name"]
            assert entry["timeoutSeconds"] <= 10
    assert guarded > 0


def test_a_disabled_pod_webhook_is_not_installed() -> None:
    documents = build_manifests(Installation(gates=Gates.of(PodWebhook=False)))
    entries = one(documents, "MutatingWebhookConfiguration", "kruise-mutating-webhook-configuration")[
        "webhooks"
    ]
    assert "mpod.kb.io" not in {entry["name"] for entry in entries}


def test_a_manager_outside_the_cluster_gets_its_address_everywhere_and_no_deployment() -> None:
    documents = build_manifests(Installation(webhook_host="192.0.2.10", webhook_port=9443))
    base = "https://192.0.2.10:9443"
    endpoints = {
        **{entry["name"]: entry["clientConfig"] for doc in documents for entry in doc.get("webhooks") or ()},
        **{
            doc["metadata"]["name"]: doc["spec"]["conversion"]["webhook"]["clientConfig"]
            for doc in documents
            if get_path(doc, "spec", "conversion", "webhook")
        },
    }
    assert {"mcloneset.kb.io", "clonesets.apps.kruise.io"} <= set(endpoints)
    for name, config in endpoints.items():
        assert config["url"].startswith(f"{base}/"), name
        assert "service" not in config, name
    assert not {"Deployment", "Service", "PodDisruptionBudget"} & {kind for kind, _ in names(documents)}
    assert ("ServiceAccount", "kruise-manager") in names(documents)


@pytest.mark.parametrize("gates", [Gates(), Gates.of(KruiseDaemon=False)], ids=["agents", "no agents"])
def test_wherever_managers_run_accounts_and_roles_are_the_same(gates: Gates) -> None:
    """Agents run on nodes in any case; permissions depend on the gates alone."""
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    inside, outside = (
        [doc for doc in build_manifests(Installation(gates=gates, webhook_host=host)) if doc["kind"] in kinds]
        for host in ("", "192.0.2.10")
    )
    assert sorted(inside, key=str) == sorted(outside, key=str)


def test_one_replica_needs_no_budget() -> None:
    assert "PodDisruptionBudget" not in {kind for kind, _ in names(build_manifests(Installation(replicas=1)))}


@pytest.mark.parametrize(("is_ready", "status"), [(False, 201), (True, 429)])
async def test_the_last_manager_is_evicted_only_if_it_is_not_ready(*, is_ready: bool, status: int) -> None:
    """Otherwise nodes with managers that never become ready could not be drained."""
    # given a manager, and the budget of the installation, which permits no disruption of a ready manager
    api = Api.fresh()
    await api.post(PODS, pod("a", node="n1", labels=dict(POD_LABELS)))
    ready = [{"type": "Ready", "status": str(is_ready)}]
    await api.patch(f"{PODS}/a/status", {"status": {"phase": "Running", "conditions": ready}})
    budget = one(build_manifests(Installation(namespace="default")), "PodDisruptionBudget", MANAGER)
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    made = await api.post(budgets, budget)
    counts = {
        "observedGeneration": made.meta["generation"],
        "currentHealthy": int(is_ready),
        "desiredHealthy": 1,
        "expectedPods": 1,
        "disruptionsAllowed": 0,
    }
    await api.patch(f"{budgets}/{MANAGER}/status", {"status": counts})
    # when
    reply = await api.post(f"{PODS}/a/eviction", {"metadata": {"name": "a"}})
    # then
    assert reply.status == status


EVERYTHING = Installation(api_servers=("10.0.0.0/24",))
LEFT_OUT: dict[str, Installation] = {
    "`--replicas 1` or `--no-disruption-budget`": replace(EVERYTHING, replicas=1),
    "none of `--api-server`, `--metrics-from` and `--egress-to`": Installation(),
    "the gate `KruiseDaemon=false`": replace(EVERYTHING, gates=Gates({"KruiseDaemon": False})),
    "`--webhook-host`": replace(EVERYTHING, webhook_host="192.0.2.10"),
    "another `--namespace`": replace(EVERYTHING, namespace="elsewhere"),
}
"""Options in docs/upgrading.md that leave objects of EVERYTHING out."""


def place_of(doc: Document) -> tuple[str, str, str]:
    """The object's namespace, and its kind and name as kubectl takes them."""
    return doc["metadata"].get("namespace", ""), doc["kind"].lower(), doc["metadata"]["name"]


def test_each_option_that_leaves_objects_out_is_in_the_page_about_upgrades() -> None:
    text = (ROOT / "docs" / "upgrading.md").read_text()
    section = text.partition("## Options that leave objects out")[2].partition("\n## ")[0]
    rows = [
        line.strip("| ").split(" | ") for line in section.splitlines() if "kubectl" in line and "|" in line
    ]
    assert [options for options, _ in rows] == [*LEFT_OUT]
    # and no budget is the same as one replica
    alike = [
        build_manifests(replace(EVERYTHING, **{field: value}))
        for field, value in (("has_disruption_budget", False), ("replicas", 1))
    ]
    assert len({frozenset(map(place_of, documents)) for documents in alike}) == 1


@pytest.mark.parametrize("options", LEFT_OUT)
def test_the_page_about_upgrades_deletes_the_objects_that_options_leave_out(options: str) -> None:
    # given
    [line] = [
        line
        for line in (ROOT / "docs" / "upgrading.md").read_text().splitlines()
        if line.startswith(f"| {options} |")
    ]
    # when
    deleted = {
        (namespace or "", kind, name)
        for namespace, objects in re.findall(r"`kubectl (?:-n (\S+) )?delete ([^`]+)`", line)
        for kind, name in re.findall(r"(\S+)/(\S+)", objects)
    }
    # then
    before, after = (
        {place_of(doc) for doc in build_manifests(wanted)} for wanted in (EVERYTHING, LEFT_OUT[options])
    )
    assert deleted == {each for each in before - after if each[1] != "namespace"}


def test_the_install_command_prints_the_requested_settings() -> None:
    done = pykruise(
        "install", "--namespace", "here", "--replicas", "3", "--feature-gates", "CloneSetShortHash=true"
    )
    assert done.returncode == 0, done.stderr
    documents = yaml_documents(done.stdout)
    deployment = one(documents, "Deployment", "kruise-controller-manager")
    assert deployment["spec"]["replicas"] == 3
    assert container(documents)["image"] == f"pykruise/kruise-manager:v{__version__}"
    assert "--feature-gates=CloneSetShortHash=true" in container(documents)["args"]
    assert "&id" not in done.stdout
    assert one(documents, "PodDisruptionBudget", "kruise-controller-manager")


def test_the_install_command_can_leave_the_namespace_out() -> None:
    def list_namespaces(*options: str) -> list[str]:
        documents = yaml_documents(pykruise("install", "--namespace", "platform", *options).stdout)
        return [doc["metadata"]["name"] for doc in documents if doc["kind"] == "Namespace"]

    assert list_namespaces() == ["platform", "kruise-daemon-config"]
    assert list_namespaces("--no-create-namespace") == ["kruise-daemon-config"]


def test_uninstall_names_the_namespace_in_the_commands_that_it_advises() -> None:
    done = pykruise("uninstall", "--namespace", "platform")
    assert "pykruise uninstall --check --namespace platform" in done.stderr
    assert "pykruise install --namespace platform | kubectl delete" in done.stderr


def test_the_install_command_can_leave_the_budget_out() -> None:
    done = pykruise("install", "--no-disruption-budget")
    assert done.returncode == 0, done.stderr
    assert "PodDisruptionBudget" not in {doc["kind"] for doc in yaml_documents(done.stdout)}


def test_the_command_refuses_wrong_gates() -> None:
    done = pykruise("install", "--feature-gates", "Foo=true")
    assert done.returncode == 1
    assert done.stderr.startswith("error: gate 'Foo' is not known")


def test_the_command_refuses_wrong_addresses() -> None:
    done = pykruise("install", "--api-server", "10.0.0.1/24")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: --api-server: 10.0.0.1/24 has host bits set; write a range such as 10.0.0.0/24"
    )


@pytest.mark.parametrize(
    ("given", "printed"),
    [
        ("10.0.0.5", "10.0.0.5/32"),
        ("10.0.0.0/255.255.255.0", "10.0.0.0/24"),
        ("FD00::5", "fd00::5/128"),
        ("10.0.0.0/24", "10.0.0.0/24"),
    ],
)
def test_the_command_prints_addresses_in_the_form_that_api_servers_accept(given: str, printed: str) -> None:
    # when
    done = pykruise("install", "--api-server", given, "--metrics-from", given, "--egress-to", given)
    assert done.returncode == 0, done.stderr
    # then
    policy = str(one(yaml_documents(done.stdout), "NetworkPolicy", MANAGER)["spec"])
    assert policy.count(f"{{'cidr': '{printed}'}}") == policy.count("'cidr'") == 3


def test_the_command_refuses_addresses_with_a_zone() -> None:
    done = pykruise("install", "--egress-to", "fe80::1%eth0")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error: --egress-to: fe80::1%eth0/128 has a zone; write a range such as fd00::/64"
    )


def test_uninstall_without_check_removes_nothing_and_names_the_flag() -> None:
    done = pykruise("uninstall")
    assert done.returncode == 1
    assert "pykruise uninstall --check" in done.stderr


def test_agents_run_on_every_node_with_the_runtime_s_socket_and_no_capability() -> None:
    pod = one(build_manifests(Installation()), "DaemonSet", "kruise-daemon")["spec"]["template"]["spec"]
    assert (pod["hostNetwork"], pod["tolerations"]) == (True, [{"operator": "Exists"}])
    [only] = pod["containers"]
    assert only["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert only["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {mount["mountPath"]: mount.get("readOnly") for mount in only["volumeMounts"]}
    assert mounts == {"/hostvarrun/containerd": True, "/hostvarrun/crio": True, "/tmp": None}
    # and /var/run of the node is not mounted as a whole by default
    assert only["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    named = Installation(socket_location="/run/k3s")
    other = one(build_manifests(named), "DaemonSet", "kruise-daemon")["spec"]["template"]["spec"]
    assert other["volumes"][0]["hostPath"]["path"] == "/run/k3s"


def test_no_other_machine_reaches_an_agent_s_port() -> None:
    pod = one(build_manifests(Installation()), "DaemonSet", "kruise-daemon")["spec"]["template"]["spec"]
    [only] = pod["containers"]
    settings = parse_agent(only["args"], environ={"NODE_NAME": "n1"})
    assert settings is not None
    assert settings.serving is not None
    assert settings.serving.host == only["livenessProbe"]["httpGet"]["host"] == "127.0.0.1"


def test_neither_manager_nor_agent_is_pushed_out_by_other_pods() -> None:
    documents = build_manifests(Installation())
    classes = {
        kind: one(documents, kind, name)["spec"]["template"]["spec"]["priorityClassName"]
        for kind, name in (("Deployment", "kruise-controller-manager"), ("DaemonSet", "kruise-daemon"))
    }
    assert classes == {"Deployment": "system-cluster-critical", "DaemonSet": "system-node-critical"}


def test_a_quota_permits_the_critical_priority_classes_where_only_such_namespaces_may_use_them() -> None:
    """Clusters of GKE reject pods of these classes in a namespace without a quota that names the class."""
    [quota] = [doc for doc in build_manifests(Installation()) if doc["kind"] == "ResourceQuota"]
    [scope] = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert set(scope["values"]) == {"system-cluster-critical", "system-node-critical"}
    assert (scope["scopeName"], scope["operator"]) == ("PriorityClass", "In")
    assert parse_quantity(quota["spec"]["hard"]["pods"]) >= 10**9


def test_the_agents_flags_are_understood() -> None:
    pod = one(build_manifests(Installation()), "DaemonSet", "kruise-daemon")["spec"]["template"]["spec"]
    settings = parse_agent(pod["containers"][0]["args"], environ={"NODE_NAME": "n1"})
    assert settings is not None
    assert settings.notes == ()
    assert settings.serving is not None
    assert settings.serving.port == pod["containers"][0]["livenessProbe"]["httpGet"]["port"]


def test_agents_read_secrets_in_one_namespace_and_write_statuses_alone() -> None:
    """operations case 40"""
    documents = build_manifests(Installation())
    wide = one(documents, "ClusterRole", "kruise-daemon-role")["rules"]
    assert "secrets" not in {resource for rule in wide for resource in rule["resources"]}
    written = {
        resource
        for rule in wide
        for resource in rule["resources"]
        if set(rule["verbs"]) & {"create", "patch", "update", "delete"}
    }
    assert written == {
        "events",
        "pods/status",
        "nodeimages/status",
        "nodepodprobes/status",
        "containerrecreaterequests/status",
    }
    secret = one(documents, "Role", "kruise-daemon-secret-role")
    assert secret["metadata"]["namespace"] == "kruise-daemon-config"
    assert secret["rules"] == [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]


def test_no_agent_is_installed_without_the_gate() -> None:
    gates = Gates.of(KruiseDaemon=False)
    result = names(build_manifests(Installation(gates=gates, feature_gates="KruiseDaemon=false")))
    assert not {kind for kind, name in result if name.startswith("kruise-daemon") and kind != "Namespace"}
