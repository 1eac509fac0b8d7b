"""The command in doctor's remedies applies the same manifests again, whatever options an installation has."""

import shlex
from typing import Any

import pytest
from click.testing import CliRunner

from pykruise.cli.commands.installing import install
from pykruise.kinds.gates import parse
from pykruise.kube.documents import Document
from pykruise.kube.yaml_documents import read_yaml_documents
from pykruise.manager.doctor.apply_command import format_apply_command
from pykruise.manager.doctor.live import APPLY
from pykruise.manager.install import Installation, build_manifests, image_of


def find_one(documents: list[Document], kind: str, name: str) -> Document:
    [document] = [doc for doc in documents if (doc["kind"], doc["metadata"]["name"]) == (kind, name)]
    return document


def format_for(documents: list[Document], wanted: Installation) -> str:
    names = {doc["kind"] for doc in documents}
    return format_apply_command(
        find_one(documents, "Deployment", "kruise-controller-manager"),
        find_one(documents, "DaemonSet", "kruise-daemon") if "DaemonSet" in names else None,
        namespace=wanted.namespace,
        has_budget="PodDisruptionBudget" in names,
        layout=wanted.layout,
        minor=wanted.minor,
    )


REGISTRY = "registry.example.com/team"
IMAGES: dict[str, Any] = {
    "image": image_of("kruise-manager", REGISTRY),
    "daemon_image": image_of("kruise-daemon", REGISTRY),
}


@pytest.mark.parametrize(
    "options",
    [
        IMAGES,
        {"image": "example/manager:x", "daemon_image": "example/agent:y"},
        {**IMAGES, "namespace": "kruise", "replicas": 3, "shards": 2, "verbosity": 5, "state_metrics": True},
        {**IMAGES, "feature_gates": "CloneSetShortHash=true,AllBeta=true"},
        {**IMAGES, "feature_gates": ""},
        {**IMAGES, "feature_gates": "KruiseDaemon=false"},
        {**IMAGES, "socket_location": "/run/k3s", "socket_file": "containerd/containerd.sock"},
        {**IMAGES, "webhook_port": 9443, "client_authority": "api-server-clients"},
        {**IMAGES, "replicas": 1},
        {**IMAGES, "has_disruption_budget": False},
        {**IMAGES, "layout": "v1alpha1", "minor": "1.29"},
    ],
    ids=lambda options: "-".join(sorted(options.keys() - IMAGES.keys())) or str(options["image"])[:8],
)
def test_the_command_prints_the_manifests_of_the_installation(options: dict[str, Any]) -> None:
    # given
    gates = parse([options.get("feature_gates", "ImagePullJobGate=true")])
    wanted = Installation(**{**options, "gates": gates})
    documents = build_manifests(wanted)
    # when
    printing, _, applying = format_for(documents, wanted).partition(" | ")
    done = CliRunner().invoke(install, shlex.split(printing)[2:])
    # then
    assert done.exit_code == 0, done.output
    assert [doc for doc in read_yaml_documents(done.stdout) if doc is not None] == documents
    assert applying == "kubectl apply --server-side -f -"


def test_flags_that_install_does_not_print_are_named() -> None:
    # given
    wanted = Installation(**IMAGES)
    documents = build_manifests(wanted)
    deployment = find_one(documents, "Deployment", "kruise-controller-manager")
    deployment["spec"]["template"]["spec"]["containers"][0]["args"] += [
        "--cloneset-workers=9",
        "--state-metrics-namespaces=a,b",
    ]
    # then
    assert format_for(documents, wanted) == (
        "pykruise install --registry=registry.example.com/team | kubectl apply --server-side -f -, then write"
        " --cloneset-workers=9 --state-metrics-namespaces=a,b into the args of the Deployment again"
    )


HELM = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {"meta.helm.sh/release-name": "kruise", "meta.helm.sh/release-namespace": "ops"},
}
BY_KUBECTL = {"managedFields": [{"manager": "kubectl", "operation": "Apply"}]}


@pytest.mark.parametrize(
    ("metadata", "command"),
    [
        (
            HELM,
            "helm upgrade kruise CHART --namespace ops --reset-then-reuse-values, where CHART is pykruise's chart",
        ),
        (
            {**HELM, **BY_KUBECTL},
            "pykruise install --registry=registry.example.com/team | kubectl apply --server-side -f -",
        ),
    ],
)
def test_a_release_of_helm_is_upgraded_unless_kubectl_has_replaced_it(
    metadata: dict[str, Any], command: str
) -> None:
    wanted = Installation(**IMAGES)
    documents = build_manifests(wanted)
    find_one(documents, "Deployment", "kruise-controller-manager")["metadata"].update(metadata)
    assert format_for(documents, wanted) == command


def test_a_manager_of_openkruise_is_not_installed_again() -> None:
    wanted = Installation(image="openkruise/kruise-manager:v1.9.0")
    assert format_for(build_manifests(wanted), wanted) == APPLY
