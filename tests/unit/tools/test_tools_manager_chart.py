"""The Helm chart: it renders to what `pykruise install` prints, with values as in OpenKruise's chart."""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from pykruise.admission.configurations import RELEASE, Endpoint, build_desired_webhooks
from pykruise.admission.reviewers import build_reviewers, list_installed_rules
from pykruise.admission.settings import make_admission_settings
from pykruise.agent.flags import parse as parse_agent
from pykruise.kinds import gates
from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kube.schemas.releases import MINORS
from pykruise.kube.version import __version__
from pykruise.kube.webhooks.reviews import index_rules_by_path
from pykruise.manager.argocd import build_config_map
from pykruise.manager.flags import parse
from pykruise.manager.install import Installation, build_manifests
from pykruise.manager.roles import list_needed_rights
from support.charts import ChartRefusalError, render, render_notes
from support.rbac import Authorizer
from tools.chart_values import OPEN
from tools.manager_chart import render_chart_files

CHART = Path(__file__).parents[3] / "charts" / "pykruise"


def by_name(documents: list[Any]) -> dict[tuple[str, str], Any]:
    return {(doc["kind"], doc["metadata"]["name"]): doc for doc in documents}


def spelled_out(doc: Any) -> Any:
    """The document with every single right of a role, because the chart lists the rights of gates separately."""
    if not isinstance(doc.get("rules"), list):
        return doc
    rights = {
        (group, resource, name, verb)
        for rule in doc["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for name in rule.get("resourceNames", ("",))
        for verb in rule["verbs"]
    }
    return {**doc, "rules": rights}


def container(documents: list[Any]) -> Any:
    deployment = by_name(documents)["Deployment", "kruise-controller-manager"]
    return deployment["spec"]["template"]["spec"]["containers"][0]


def webhooks(documents: list[Any]) -> list[Any]:
    return [entry for doc in documents for entry in doc.get("webhooks") or ()]


def test_the_generated_files_are_those_in_the_chart() -> None:
    """Run `python -m tools.manager_chart charts/pykruise` to update the files."""
    for name, text in render_chart_files().items():
        assert (CHART / "templates" / name).read_text() == text, f"generate {name} again"


@pytest.mark.parametrize("minor", MINORS)
def test_on_every_minor_it_renders_the_policies_that_install_prints(minor: str) -> None:
    # when
    rendered = by_name(render(CHART, kubernetes=f"v{minor}.3"))
    printed = by_name(build_manifests(Installation(minor=minor)))
    # then
    assert {key for key in rendered if key[0].startswith("ValidatingAdmissionPolicy")} == {
        key for key in printed if key[0].startswith("ValidatingAdmissionPolicy")
    }


def test_the_chart_with_default_values_renders_what_install_prints() -> None:
    # when
    rendered = by_name(render(CHART))
    printed = by_name(build_manifests(Installation()))
    # then the chart has every object of install, unchanged
    for key, doc in printed.items():
        assert spelled_out(rendered.pop(key)) == spelled_out(doc), key
    # and in addition only the Secret that upgrades keep, and the check before uninstalling
    assert {kind for kind, _ in rendered} == {
        "Secret",
        "ServiceAccount",
        "ClusterRole",
        "ClusterRoleBinding",
        "Job",
    }
    assert {name for kind, name in rendered if kind != "Secret"} == {
        "kruise-helm-hook",
        "kruise-helm-hook-role",
        "kruise-helm-hook-rolebinding",
        "kruise-finalizer",
    }


def test_the_chart_has_the_version_of_the_code() -> None:
    assert container(render(CHART))["image"] == f"pykruise/kruise-manager:v{__version__}"


def test_values_reach_the_manager() -> None:
    documents = render(
        CHART,
        featureGates="CloneSetShortHash=true",
        installation={"namespace": "here"},
        manager={
            "replicas": 1,
            "loggingFormat": "json",
            "resyncPeriod": "10m",
            "log": {"level": "5"},
            "webhook": {"port": 9443},
            "image": {"repository": "example/manager", "tag": "x"},
            "tolerations": [{"operator": "Exists"}],
            "hostNetwork": True,
        },
    )
    only = container(documents)
    environ = {variable["name"]: variable["value"] for variable in only["env"] if "value" in variable}
    settings = parse(only["args"], environ=environ).settings
    assert only["image"] == "example/manager:x"
    assert settings.read_kind_settings(CLONE_SET).short_hash
    assert settings.log.format == "json"
    assert settings.log.verbosity == 5
    assert settings.resync_s == 600
    assert settings.webhook.port == 9443
    assert settings.election.namespace == "here"
    result = by_name(documents)
    assert result["Service", "kruise-webhook-service"]["spec"]["ports"][0]["targetPort"] == 9443
    pod = result["Deployment", "kruise-controller-manager"]["spec"]["template"]["spec"]
    assert pod["hostNetwork"] is True
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert ("PodDisruptionBudget", "kruise-controller-manager") not in result
    assert {doc["metadata"]["namespace"] for doc in documents if "namespace" in doc["metadata"]} == {
        "here",
        "kruise-daemon-config",  # the secrets that agents may read
    }


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ({"repository": "openkruise/kruise-manager"}, f"openkruise/kruise-manager:v{__version__}"),
        ({"repository": "mirror/kruise-manager", "tag": "v1.8.3"}, "mirror/kruise-manager:v1.8.3"),
        ({"tag": "v1.9.0-alpha3"}, "pykruise/kruise-manager:v1.9.0-alpha3"),
    ],
)
def test_an_image_of_openkruise_is_refused(image: dict[str, str], told: str) -> None:
    """Values of OpenKruise's chart contain its image, which cannot work with the roles of this chart."""
    with pytest.raises(ChartRefusalError, match=re.escape(f"{told} is an image of OpenKruise")):
        render(CHART, manager={"image": image})


def test_without_critical_priority_classes_the_chart_has_no_quota() -> None:
    without = render(CHART, manager={"priorityClassName": ""}, daemon={"priorityClassName": ""})
    assert "ResourceQuota" in {doc["kind"] for doc in render(CHART)}
    assert "ResourceQuota" not in {doc["kind"] for doc in without}


def test_a_disabled_pod_webhook_is_not_registered() -> None:
    names = {entry["name"] for entry in webhooks(render(CHART, featureGates="PodWebhook=false"))}
    assert not names & {"mpod.kb.io", "vpod.kb.io", "vpodeviction.kb.io"}
    assert "mcloneset.kb.io" in names


@pytest.mark.parametrize("text", ["EnableExternalCerts=true", "AllAlpha=true"])
def test_external_certificates_need_no_secret_and_no_right_to_write_it(text: str) -> None:
    """The rule is operations case 39."""
    result = by_name(render(CHART, featureGates=text, externalCerts={"annotations": {"a": "b"}}))
    assert ("Secret", "kruise-webhook-certs") not in result
    rules = result["ClusterRole", "kruise-certs-role"]["rules"]
    assert {verb for rule in rules for verb in rule["verbs"]} == {"get", "list", "watch"}
    configuration = result["MutatingWebhookConfiguration", "kruise-mutating-webhook-configuration"]
    assert configuration["metadata"]["annotations"]["a"] == "b"
    # and the program that injects certificates also finds each CRD with a conversion webhook
    crds = [doc for (kind, _), doc in result.items() if kind == "CustomResourceDefinition"]
    annotated = [doc for doc in crds if doc["metadata"].get("annotations") == {"a": "b"}]
    assert annotated == [
        doc for doc in crds if doc["spec"].get("conversion", {}).get("strategy") == "Webhook"
    ]
    assert annotated


def test_the_manager_creates_the_secret_with_all_alpha_gates_but_own_certificates() -> None:
    # given: OpenKruise's chart has no Secret with these gates. With one in this chart, Helm would find the Secret that
    # OpenKruise's manager has created, and would reject the upgrade.
    result = by_name(render(CHART, featureGates="AllAlpha=true,EnableExternalCerts=false"))
    assert ("Secret", "kruise-webhook-certs") not in result
    # then
    role = Authorizer(
        [result["Role", "kruise-webhook-role"], result["RoleBinding", "kruise-webhook-rolebinding"]]
    )
    assert role.allows("create", "", "secrets", namespace="kruise-system")


@pytest.mark.parametrize(
    "text",
    [
        "ResourceDistributionGate=true,ResourcesDeletionProtection=true,DeletionProtectionForCRDCascadingGate=true",
        "AllBeta=true,AllAlpha=true",
        "AllAlpha=true,EnableExternalCerts=false",
    ],
)
def test_a_gate_adds_the_rights_that_it_needs(text: str) -> None:
    # given
    usual, allowed = Authorizer(render(CHART)), Authorizer(render(CHART, featureGates=text))
    lacking = []
    # then
    for right in list_needed_rights(gates.parse([text])):
        where = "kruise-system" if right.in_namespace else ""
        for verb in right.verbs:
            for name in right.names or ("",):
                what = {"namespace": where, "name": name}
                assert allowed.allows(verb, right.group, right.resource, **what), right
                lacking += [] if usual.allows(verb, right.group, right.resource, **what) else [right]
    assert lacking


@pytest.mark.parametrize("text", ["DeletionProtectionForCRDCascadingGate=true", "AllAlpha=true"])
def test_a_gate_that_another_gate_keeps_off_adds_no_rights(text: str) -> None:
    role = Authorizer(render(CHART, featureGates=text, externalCerts={"annotations": {"a": "b"}}))
    assert not role.allows("list", "networking.k8s.io", "ingresses")
    assert Authorizer(render(CHART, featureGates=f"{text},AllBeta=true")).allows(
        "list", "networking.k8s.io", "ingresses"
    )


def test_the_chart_contains_nothing_that_the_manager_writes() -> None:
    """On an upgrade and a rollback, Helm changes only what its manifests contain (operations case 38)."""
    documents = render(CHART)
    assert "data" not in by_name(documents)["Secret", "kruise-webhook-certs"]
    assert "caBundle" not in str(documents)
    # and no other template reads the cluster, so no manifest gets these values when Helm upgrades
    templates = sorted((CHART / "templates").iterdir())
    assert [path.name for path in templates if re.search(r"\blookup\b", path.read_text())] == ["manager.yaml"]


@pytest.mark.parametrize("revision", [1, 2, 3, 9])
def test_no_revision_of_a_release_of_this_chart_has_the_content_of_the_secret(revision: int) -> None:
    """operations case 38"""
    # given
    created = by_name(render(CHART))["Secret", "kruise-webhook-certs"]
    live = {**created, "data": {"ca-cert.pem": "Q0E="}}
    # when
    upgraded = render(CHART, revision=revision, live=[live])
    # then
    assert by_name(upgraded)["Secret", "kruise-webhook-certs"] == created


@pytest.mark.parametrize(("revision", "has_content"), [(2, False), (3, True), (4, True)])
def test_a_release_has_the_content_of_the_secret_if_the_last_revision_of_openkruise_s_chart_has_it(
    revision: int, has_content: bool
) -> None:
    """operations case 38. OpenKruise's chart has the content in each revision except the first."""
    # given
    meta = {"name": "kruise-webhook-certs", "namespace": "kruise-system"}
    live = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"ca-cert.pem": "Q0E="}}
    # when
    secret = by_name(render(CHART, revision=revision, live=[live]))["Secret", "kruise-webhook-certs"]
    # then
    assert secret.get("data") == (live["data"] if has_content else None)
    # and the revisions after it do the same
    again = {**live, "metadata": secret["metadata"]}
    following = by_name(render(CHART, revision=revision + 1, live=[again]))["Secret", "kruise-webhook-certs"]
    assert following == secret


def test_crds_and_namespace_can_be_left_to_other_programs() -> None:
    rendered = by_name(render(CHART, crds={"managed": False}, installation={"createNamespace": False}))
    assert "CustomResourceDefinition" not in {kind for kind, _ in rendered}
    # then only the namespace stays that the role of the agents needs; Helm deletes a namespace that a new release omits
    assert [name for kind, name in rendered if kind == "Namespace"] == ["kruise-daemon-config"]
    printed = by_name(build_manifests(Installation(has_crds=False, create_namespace=False)))
    assert printed.keys() <= rendered.keys()


def test_nothing_checks_an_uninstallation_that_deletes_no_crd() -> None:
    # given CRDs of another program, which Helm keeps
    values = {"crds": {"managed": False}}
    # then
    assert ("Job", "kruise-finalizer") in by_name(render(CHART))
    assert not {
        name for _, name in by_name(render(CHART, **values)) if "helm-hook" in name or "finalizer" in name
    }
    assert "pykruise uninstall --check" in render_notes(CHART)
    assert "--check" not in render_notes(CHART, **values)
    assert "`helm uninstall kruise` keeps the CRDs." in render_notes(CHART, **values)


@pytest.mark.parametrize(("secret", "address"), [("", "http://localhost"), ("tls", "https://localhost")])
def test_the_notes_name_the_scheme_that_the_dashboard_serves(secret: str, address: str) -> None:
    notes = render_notes(CHART, dashboard={"enabled": True, "tlsSecret": secret})
    assert f"Open the dashboard on {address}:8080" in notes


@pytest.mark.parametrize("path", sorted(OPEN))
def test_values_with_fields_of_kubernetes_can_be_removed(path: str) -> None:
    """Helm removes a default with --set manager.resources=null."""
    # given
    program, name = path.split(".")
    values: dict[str, Any] = {"dashboard": {"enabled": True}}
    count = str(render(CHART, **values)).count(f"'{name}': {{")
    # when
    values[program] = {**values.get(program, {}), name: None}
    # then
    assert str(render(CHART, **values)).count(f"'{name}': {{") == count - 1
    assert "is installed in the namespace" in render_notes(CHART, **values)


@pytest.mark.parametrize(("program", "cpu"), [("manager", "200m"), ("daemon", "50m")])
def test_the_notes_warn_about_a_limit_of_openkruise_s_chart(program: str, cpu: str) -> None:
    values = {program: {"resources": {"limits": {"cpu": cpu}}}}
    assert f"{program}.resources.limits.cpu is {cpu}" in render_notes(CHART, **values)
    assert "limits.cpu" not in render_notes(CHART)


def test_the_budget_can_be_left_to_another_budget() -> None:
    # given
    budget = ("PodDisruptionBudget", "kruise-controller-manager")
    assert budget in by_name(render(CHART))
    # when
    rendered = by_name(render(CHART, manager={"podDisruptionBudget": {"enabled": False}}))
    printed = by_name(build_manifests(Installation(has_disruption_budget=False)))
    # then
    assert budget not in rendered
    assert budget not in printed


def test_the_timeout_of_all_webhooks_is_a_value() -> None:
    entries = webhooks(render(CHART, webhookConfiguration={"timeoutSeconds": 30}))
    assert {entry["timeoutSeconds"] for entry in entries} == {30}


ENTRY_VALUES: dict[str, list[dict[str, Any]]] = {
    "featureGates": [
        {},
        {"featureGates": "PodWebhook=false"},
        {"featureGates": "ImagePullJobGate=true,PodWebhook=false"},
        {"featureGates": "AllAlpha=true"},
    ],
    "webhookConfiguration.aksIntegration": [{}, {"aksIntegration": True}],
    "webhookConfiguration.timeoutSeconds": [{}, *({"timeoutSeconds": seconds} for seconds in (1, 5, 10, 30))],
    "externalCerts.annotations": [{}, {"externalCerts": {"annotations": {"a": "b"}}}],
    "installation.namespace": [{}, {"installation": {"namespace": "here"}}],
}
"""All values that the webhooks' template reads, each with some settings of it."""


def list_entry_values() -> list[dict[str, Any]]:
    """All combinations of ENTRY_VALUES."""
    return [
        {**text, "webhookConfiguration": {**aks, **seconds}, **certs, **place}
        for text, aks, seconds, certs, place in itertools.product(*ENTRY_VALUES.values())
    ]


@pytest.fixture(scope="module")
def webhook_chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The chart without other templates than that of the webhooks, which renders ten times as fast."""
    folder = tmp_path_factory.mktemp("chart")
    (folder / "templates").mkdir()
    for name in ("Chart.yaml", "values.yaml", "templates/webhooks.yaml"):
        (folder / name).write_text((CHART / name).read_text())
    return folder


def entries_of(doc: Any) -> list[Any]:
    """The entries without the address of the server, which the manager sets."""
    return [
        {key: value for key, value in entry.items() if key != "clientConfig"} for entry in doc["webhooks"]
    ]


def test_values_that_render_other_webhooks_also_render_another_hash(webhook_chart: Path) -> None:
    """Otherwise the manager restores the webhooks of the first installation after each upgrade."""
    # given all values on which the webhooks depend
    template = (CHART / "templates" / "webhooks.yaml").read_text()
    assert set(re.findall(r"\.Values\.([A-Za-z.]+)", template)) == ENTRY_VALUES.keys()
    # when
    rendered: dict[tuple[str, str], list[Any]] = {}
    for values in list_entry_values():
        for doc in render(webhook_chart, **values):
            key = doc["metadata"]["name"], doc["metadata"]["annotations"][RELEASE]
            # then one hash has one list of webhooks
            assert rendered.setdefault(key, entries_of(doc)) == entries_of(doc), values
    # and annotations and other gates change no hash. It differs with webhooks of pods, with AKS, with each of four
    # timeouts, and in another namespace; there are two configurations.
    assert len(rendered) == 2 * 2 * 2 * 4 * 2


@pytest.mark.parametrize("text", ["ImagePullJobGate=true", "PodWebhook=false"])
def test_the_hash_of_webhooks_is_the_one_that_install_prints(text: str, webhook_chart: Path) -> None:
    printed = by_name(build_manifests(Installation(gates=gates.parse([text]), feature_gates=text)))
    for doc in render(webhook_chart, featureGates=text):
        assert printed[doc["kind"], doc["metadata"]["name"]] == doc


def reconciled(live: Any, values: dict[str, Any]) -> Any:
    """The configuration after a manager with the gates of these values has reconciled it."""
    settings = make_admission_settings(
        gates.parse([values.get("featureGates", "ImagePullJobGate=true")]),
        namespace=values.get("installation", {}).get("namespace", "kruise-system"),
    )
    rules = index_rules_by_path(build_reviewers(settings))
    installed = list_installed_rules(settings)
    return build_desired_webhooks(live, rules, endpoint=Endpoint(), bundle=b"CA", installed=installed)


def upgraded(live: Any, doc: Any) -> Any:
    """The configuration after `helm upgrade`: the release's entries, and the annotations of the manager."""
    meta = {
        **live["metadata"],
        "annotations": {**live["metadata"]["annotations"], **doc["metadata"]["annotations"]},
    }
    return {**live, "metadata": meta, "webhooks": doc["webhooks"]}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *itertools.permutations(
            [
                {},
                {"featureGates": "PodWebhook=false"},
                {"webhookConfiguration": {"timeoutSeconds": 5}},
                {"webhookConfiguration": {"aksIntegration": True}},
                {"installation": {"namespace": "here"}},
            ],
            2,
        )
    ],
    ids=repr,
)
def test_after_an_upgrade_with_other_values_the_manager_keeps_the_webhooks_of_the_upgrade(
    first: dict[str, Any], second: dict[str, Any], webhook_chart: Path
) -> None:
    for before, after in zip(render(webhook_chart, **first), render(webhook_chart, **second), strict=True):
        # given a release
        live = reconciled(before, first)
        # when it is upgraded, and managers with the old gates and with the new gates reconcile the webhooks
        live = reconciled(reconciled(upgraded(live, after), first), second)
        # then
        assert entries_of(live) == entries_of(reconciled(after, second))
        assert {entry["timeoutSeconds"] for entry in live["webhooks"]} == {
            entry["timeoutSeconds"] for entry in after["webhooks"]
        }
        # and a rollback restores the webhooks of the release
        assert entries_of(reconciled(upgraded(live, before), first)) == entries_of(reconciled(before, first))


def test_the_network_policy_of_webhooks_is_the_one_that_install_prints() -> None:
    # given
    wanted = Installation(api_servers=("10.0.0.0/24", "fd00::/64"), client_authority="api-server-clients")
    # when
    rendered = by_name(
        render(
            CHART,
            networkPolicy={"apiServers": ["10.0.0.0/24", "fd00::/64"]},
            manager={"webhook": {"port": 9876, "clientAuthority": "api-server-clients"}},
        )
    )
    # then
    for key, doc in by_name(build_manifests(wanted)).items():
        assert spelled_out(rendered[key]) == spelled_out(doc), key
    assert ("NetworkPolicy", "kruise-controller-manager") in rendered
    assert (
        "--webhook-client-ca-file=/etc/kruise-webhook-clients/ca.crt"
        in container(list(rendered.values()))["args"]
    )


@pytest.mark.parametrize("given", list(itertools.product([False, True], repeat=3)))
def test_the_network_policy_has_the_directions_that_were_given(given: tuple[bool, bool, bool]) -> None:
    # given
    addresses = [(f"10.0.{number}.0/24",) if is_given else () for number, is_given in enumerate(given)]
    api_servers, metrics_from, egress_to = addresses
    wanted = Installation(api_servers=api_servers, metrics_from=metrics_from, egress_to=egress_to)
    # when
    values = {"apiServers": [*api_servers], "metricsFrom": [*metrics_from], "egressTo": [*egress_to]}
    rendered = by_name(render(CHART, networkPolicy=values))
    # then
    name = ("NetworkPolicy", "kruise-controller-manager")
    printed = by_name(build_manifests(wanted)).get(name)
    assert rendered.get(name) == printed
    assert (printed is not None) is any(given)
    if printed is not None:
        spec = printed["spec"]
        ports = [port["port"] for rule in spec.get("ingress", ()) for port in rule["ports"]]
        assert sorted(ports) == ([8000, 8080, 9876] if api_servers or metrics_from else [])
        assert ("egress" in spec) is bool(egress_to)
        assert spec["policyTypes"] == [
            literal for literal in ("Ingress", "Egress") if literal.lower() in spec
        ]


@pytest.mark.parametrize("name", ["apiServers", "metricsFrom", "egressTo"])
def test_a_network_policy_that_would_protect_nothing_is_refused(name: str) -> None:
    """Network plugins generally do not apply a NetworkPolicy to pods in the network of their node."""
    policy = {name: ["10.0.0.0/24"]}
    with pytest.raises(ChartRefusalError, match=re.escape("networkPolicy.* needs manager.hostNetwork=false")):
        render(CHART, networkPolicy=policy, manager={"hostNetwork": True})


def test_values_reach_the_agents() -> None:
    documents = render(
        CHART,
        daemon={
            "port": 11221,
            "socketLocation": "/run/k3s",
            "socketFile": "containerd/containerd.sock",
            "maxWorkersForPullImage": 3,
            "image": {"repository": "example/agent", "tag": "x"},
            "credentialProvider": {"enable": True},
        },
    )
    pod = by_name(documents)["DaemonSet", "kruise-daemon"]["spec"]["template"]["spec"]
    [only] = pod["containers"]
    settings = parse_agent(only["args"], environ={"NODE_NAME": "n1"})
    assert settings is not None
    assert only["image"] == "example/agent:x"
    assert settings.socket_file == "containerd/containerd.sock"
    assert settings.most_pulls == 3
    assert str(settings.plugin_folder) == "/credential-provider-plugin"
    assert settings.serving is not None
    assert settings.serving.port == 11221 == only["livenessProbe"]["httpGet"]["port"]
    assert pod["volumes"][0]["hostPath"]["path"] == "/run/k3s"


def test_a_socket_file_without_a_folder_is_in_var_run() -> None:
    """OpenKruise's chart mounts /var/run by default, so its values files may name only the file."""
    file = "k3s/containerd/containerd.sock"
    documents = by_name(render(CHART, daemon={"socketFile": file, "credentialProvider": {"enable": True}}))
    printed = by_name(build_manifests(Installation(socket_file=file)))
    pod, wanted = (
        objects["DaemonSet", "kruise-daemon"]["spec"]["template"]["spec"] for objects in (documents, printed)
    )
    folders = {volume["name"]: volume["hostPath"] for volume in pod["volumes"] if "hostPath" in volume}
    assert folders["runtime-socket-dir"] == {"path": "/var/run", "type": ""}
    assert wanted["volumes"][0] in pod["volumes"]
    assert f"--socket-file={file}" in pod["containers"][0]["args"]
    assert f"--socket-file={file}" in wanted["containers"][0]["args"]
    # and a missing folder of credential providers does not keep the pod from starting, as in OpenKruise's chart
    assert folders["credential-provider-plugin"]["type"] == ""


def test_no_agent_is_rendered_without_the_gate() -> None:
    result = by_name(render(CHART, featureGates="KruiseDaemon=false"))
    assert not {
        kind for kind, name in result if name.startswith("kruise-daemon") and kind not in ("Namespace",)
    }


def test_argo_cd_is_configured_for_the_kinds_when_the_values_enable_it() -> None:
    values: dict[str, Any] = {"argocd": {"enabled": True, "namespace": "gitops", "configMap": "cm"}}
    rendered = by_name(render(CHART, **values))
    assert ("ConfigMap", "argocd-cm") not in by_name(render(CHART))
    result = rendered["ConfigMap", "cm"]
    assert result["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert result["metadata"]["namespace"] == "gitops"
    assert result["data"] == build_config_map()["data"]
