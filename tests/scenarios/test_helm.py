"""The chart in Helm's own hands: rendered as the tests' renderer does it, installed, upgraded, uninstalled, and as the
upgrade of a release of OpenKruise's chart.
"""

import asyncio
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from pykruise.kube.schemas.releases import NEWEST_MINOR
from pykruise.kube.version import __version__
from pykruise.manager.install import Installation, build_manifests
from support.charts import render
from support.control_plane import running_plane
from support.helm import Helm, build
from support.openkruise_chart import write_openkruise_chart
from support.pages import ROOT, read_page
from support.yaml_documents import yaml_documents
from testbed.control_plane import ControlPlane

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("go") is None, reason="Helm is built with Go"),
    pytest.mark.timeout(1800),  # the first time it is built
]

CHART = ROOT / "charts" / "pykruise"

VALUES: list[dict[str, Any]] = [
    {},
    {"featureGates": "PodWebhook=false,ResourceDistributionGate=true"},
    {"featureGates": "EnableExternalCerts=true", "externalCerts": {"annotations": {"a": "b"}}},
    {
        "featureGates": "AllAlpha=true,EnableExternalCerts=false",
        "crds": {"managed": False},
        "installation": {"createNamespace": False},
        "manager": {"podDisruptionBudget": {"enabled": False}},
    },
    {
        "networkPolicy": {
            "apiServers": ["10.0.0.0/24"],
            "metricsFrom": ["10.1.0.0/24"],
            "egressTo": ["10.2.0.5/32"],
        },
        "manager": {"webhook": {"clientAuthority": "api-server-clients"}},
    },
    {
        "installation": {"namespace": "elsewhere"},
        "imagePullSecrets": [{"name": "key"}],
        "manager": {
            "replicas": 1,
            "log": {"level": "5"},
            "loggingFormat": "json",
            "hostNetwork": True,
            "tolerations": [{"operator": "Exists"}],
            "nodeSelector": {"disk": "ssd"},
            "webhook": {"port": 9443},
        },
        "webhookConfiguration": {"timeoutSeconds": 5},
    },
]


@pytest.fixture(scope="module")
def program() -> Path:
    return build()


@pytest.fixture
def bare_plane() -> Iterator[ControlPlane]:
    """An API server of the test's own, with nothing of pykruise in it, and without controllers."""
    with running_plane(controller_manager=False, scheduler=False) as plane:
        yield plane


def by_name(documents: list[Any]) -> dict[tuple[str, str, str], Any]:
    """Objects by kind, name and namespace."""
    return {
        (doc["kind"], doc["metadata"]["name"], doc["metadata"].get("namespace", "")): doc for doc in documents
    }


@pytest.mark.parametrize("values", VALUES, ids=lambda values: values.get("featureGates", "values")[:20])
def test_helm_renders_the_chart_as_the_renderer_of_the_tests_does(
    program: Path, tmp_path: Path, values: dict[str, Any]
) -> None:
    """what packages/pykruise/tests/manager/test_manager_chart.py shows holds for Helm"""
    rendered = by_name(Helm(program, home=tmp_path).template(CHART, values))
    assert rendered == by_name(render(CHART, **values))


async def run_helm(helm: Helm, *arguments: str, **values: Any) -> str:
    """Run Helm; returns its output."""
    return await asyncio.to_thread(helm.run, *arguments, values=values)


async def run_kubectl(plane: ControlPlane, *arguments: str) -> Any:
    """Run kubectl; returns the objects that it prints."""
    process = await asyncio.create_subprocess_exec(
        str(plane.find_binary("kubectl")),
        f"--kubeconfig={plane.kubeconfig}",
        *arguments,
        "--output=json",
        stdout=asyncio.subprocess.PIPE,
    )
    text, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(text)


FILL_SECRET = (
    *("-n", "kruise-system", "patch", "secret", "kruise-webhook-certs", "--type=merge"),
    *("-p", json.dumps({"data": {"ca-cert.pem": "Q0E="}})),
)
"""Arguments of kubectl that write a certificate into the Secret, as a manager does."""


async def test_helm_installs_upgrades_and_uninstalls_the_chart(
    program: Path, tmp_path: Path, bare_plane: ControlPlane
) -> None:
    """operations case 38"""
    helm = Helm(program, home=tmp_path, kubeconfig=bare_plane.kubeconfig)

    run, kubectl = partial(run_helm, helm), partial(run_kubectl, bare_plane)
    # when it is installed, an API server takes every object
    await run("install", "kruise", str(CHART))
    installed = yaml_documents(await run("get", "manifest", "kruise"))
    wanted = Installation(minor=os.environ.get("KUBERNETES", NEWEST_MINOR))
    assert set(by_name(build_manifests(wanted))) <= set(by_name(installed))
    deployment = await kubectl("-n", "kruise-system", "get", "deployment", "kruise-controller-manager")
    assert deployment["spec"]["replicas"] == 2
    # and when it is upgraded twice and rolled back, what the manager has put into the Secret stays
    await kubectl(*FILL_SECRET)
    steps = [("upgrade", str(CHART), 3), ("upgrade", str(CHART), 4), ("rollback", "1", 2)]
    for command, target, replicas in steps:
        await run(command, "kruise", target, manager={"replicas": replicas})
        deployment = await kubectl("-n", "kruise-system", "get", "deployment", "kruise-controller-manager")
        assert deployment["spec"]["replicas"] == replicas
        kept = await kubectl("-n", "kruise-system", "get", "secret", "kruise-webhook-certs")
        assert kept["data"]["ca-cert.pem"] == "Q0E="
    # and when it is uninstalled (its hook is a Job, which no controller runs here), its kinds go too
    await run("uninstall", "kruise", "--no-hooks")
    left = await kubectl("get", "crds")
    assert [item for item in left["items"] if "deletionTimestamp" not in item["metadata"]] == []


ORIGINAL = """
apiVersion: v1
kind: Namespace
metadata:
  name: kruise-daemon-config
---
apiVersion: v1
kind: Secret
metadata:
  name: kruise-webhook-certs
  namespace: kruise-system
{{- with lookup "v1" "Secret" "kruise-system" "kruise-webhook-certs" }}
data:
{{- range $k, $v := .data }}
  {{ $k }}: {{ $v }}
{{- end }}
{{- end }}
"""
"""The namespace and the Secret of OpenKruise's chart, with `installation.createNamespace=false`."""


async def test_a_release_of_openkruise_s_chart_keeps_its_certificates_and_its_namespace(
    program: Path, tmp_path: Path, bare_plane: ControlPlane
) -> None:
    """operations case 38"""
    run = partial(run_helm, Helm(program, home=tmp_path, kubeconfig=bare_plane.kubeconfig))
    kubectl = partial(run_kubectl, bare_plane)

    async def check() -> None:
        secret = await kubectl("-n", "kruise-system", "get", "secret", "kruise-webhook-certs")
        assert secret.get("data") == {"ca-cert.pem": "Q0E="}
        namespace = await kubectl("get", "namespace", "kruise-daemon-config")
        assert "deletionTimestamp" not in namespace["metadata"]

    # given a release whose second revision contains the certificates
    original = tmp_path / "original"
    (original / "templates").mkdir(parents=True)
    (original / "Chart.yaml").write_text("apiVersion: v2\nname: kruise\nversion: 1.8.3\n")
    (original / "templates" / "manager.yaml").write_text(ORIGINAL)
    await kubectl("create", "namespace", "kruise-system")
    await run("install", "kruise", str(original))
    await kubectl(*FILL_SECRET)
    await run("upgrade", "kruise", str(original))
    assert "Q0E=" in await run("get", "manifest", "kruise")
    # when it becomes a release of this chart, when it is upgraded again, and when it is rolled back
    for replicas in (2, 3):
        await run(
            "upgrade",
            "kruise",
            str(CHART),
            installation={"createNamespace": False},
            manager={"replicas": replicas},
        )
        # then
        await check()
    await run("rollback", "kruise", "2")
    await check()


MIRROR: Final = "registry.example.com/mirror/openkruise/kruise-manager"
SWITCH: Final = next(
    block.text
    for block in read_page(ROOT / "docs" / "migration.md").blocks
    if block.first_line.startswith("helm upgrade")
)
"""The command with which docs/migration.md switches a release of OpenKruise's chart to pykruise's chart."""


class Switch:
    """A release of OpenKruise's chart, whose user set some values."""

    def __init__(self, helm: Helm, plane: ControlPlane) -> None:
        self._helm = helm
        self._kubectl = [str(plane.find_binary("kubectl")), f"--kubeconfig={plane.kubeconfig}"]

    def install(self, chart: Path, *settings: str) -> None:
        """Install OpenKruise's chart with these values."""
        words = [word for setting in settings for word in ("--set", setting)]
        code, output = self._helm.try_to_run("install", "kruise", str(chart), *words)
        assert code == 0, output

    def run(self, line: str) -> tuple[int, str]:
        """The exit code and the output of a line of the page, in the folder of the sources."""
        program, *words = shlex.split(line.replace("\\\n", " "))
        assert program == "helm"
        return self._helm.try_to_run(*words, cwd=ROOT)

    def read(self, *words: str) -> Any:
        """The output of `kubectl get`."""
        command = [*self._kubectl, "get", "--namespace=kruise-system", *words, "--output=json"]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    def read_images(self) -> list[str]:
        """The images of manager and agents."""
        workloads = (self.read("deployment/kruise-controller-manager"), self.read("daemonset/kruise-daemon"))
        return [workload["spec"]["template"]["spec"]["containers"][0]["image"] for workload in workloads]

    def read_definitions(self) -> dict[str, tuple[str, str]]:
        """The uid and the stored version of each CRD, by its name."""
        return {
            crd["metadata"]["name"]: (
                crd["metadata"]["uid"],
                next(version["name"] for version in crd["spec"]["versions"] if version["storage"]),
            )
            for crd in self.read("crds")["items"]
        }


@pytest.fixture
def switch(program: Path, tmp_path: Path, bare_plane: ControlPlane) -> Switch:
    return Switch(Helm(program, home=tmp_path, kubeconfig=bare_plane.kubeconfig), bare_plane)


def test_the_command_of_the_page_switches_a_release_of_openkruise(switch: Switch, tmp_path: Path) -> None:
    # given OpenKruise's chart with its default values, except an image of a mirror, and replicas
    chart = write_openkruise_chart(tmp_path / "kruise")
    switch.install(chart, f"manager.image.repository={MIRROR}", "manager.replicas=3")
    assert switch.read_images() == [f"{MIRROR}:v1.8.3"] * 2
    before = switch.read_definitions()
    # when
    code, output = switch.run(SWITCH)
    # then the images are those of pykruise
    assert code == 0, output
    registry = "registry.example.com/team"
    assert switch.read_images() == [
        f"{registry}/{name}:v{__version__}" for name in ("kruise-manager", "kruise-daemon")
    ]
    # and the values of the user stay, but not the defaults of OpenKruise's chart
    manager = switch.read("deployment/kruise-controller-manager")["spec"]
    assert manager["replicas"] == 3
    assert manager["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "1"
    # and the CRDs are the same objects and store the same versions; that of EphemeralJobs is new
    after = switch.read_definitions()
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {"ephemeraljobs.apps.kruise.io"}
    # and the rollback restores OpenKruise
    code, output = switch.run("helm rollback kruise")
    assert code == 0, output
    assert switch.read_images() == [f"{MIRROR}:v1.8.3"] * 2
    assert before.items() <= switch.read_definitions().items()


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ([f"manager.image.repository={MIRROR}"], f"{MIRROR}:v{__version__}"),
        (["manager.image.tag=v1.8.3"], "registry.example.com/team/kruise-manager:v1.8.3"),
    ],
)
def test_an_upgrade_that_keeps_openkruises_image_is_refused_and_changes_nothing(
    switch: Switch, tmp_path: Path, image: list[str], told: str
) -> None:
    # given
    switch.install(write_openkruise_chart(tmp_path / "kruise"), *image)
    before = switch.read_images()
    # when the command lacks the two empty values
    code, output = switch.run(SWITCH.partition("--set manager.image.repository=")[0].rstrip("\\\n "))
    # then
    assert code != 0
    assert f"{told} is an image of OpenKruise" in output
    assert switch.read_images() == before
