"""The chart in Helm's own hands: rendered as the tests' renderer does it, installed, upgraded, uninstalled."""

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykruise.kube.schemas.releases import NEWEST_MINOR
from pykruise.manager.install import Installation, build_manifests
from support.charts import render
from support.control_plane import running_plane
from support.helm import Helm, build
from support.yaml_documents import yaml_documents
from testbed.control_plane import ControlPlane

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(shutil.which("go") is None, reason="Helm is built with Go"),
    pytest.mark.timeout(1800),  # the first time it is built
]

CHART = Path(__file__).parents[2] / "charts" / "pykruise"

VALUES: list[dict[str, Any]] = [
    {},
    {"featureGates": "PodWebhook=false,ResourceDistributionGate=true"},
    {"featureGates": "EnableExternalCerts=true", "externalCerts": {"annotations": {"a": "b"}}},
    {"featureGates": "AllAlpha=true", "crds": {"managed": False}, "installation": {"createNamespace": False}},
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


@pytest.fixture(scope="module")
def bare_plane() -> Iterator[ControlPlane]:
    """An API server of this module's own, with nothing of pykruise in it, and without controllers."""
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


async def test_helm_installs_upgrades_and_uninstalls_the_chart(
    program: Path, tmp_path: Path, bare_plane: ControlPlane
) -> None:
    """operations case 38"""
    helm = Helm(program, home=tmp_path, kubeconfig=bare_plane.kubeconfig)

    async def run(*arguments: str, **values: Any) -> str:
        return await asyncio.to_thread(helm.run, *arguments, values=values)

    async def kubectl(*arguments: str) -> Any:
        process = await asyncio.create_subprocess_exec(
            str(bare_plane.find_binary("kubectl")),
            f"--kubeconfig={bare_plane.kubeconfig}",
            *arguments,
            "--output=json",
            stdout=asyncio.subprocess.PIPE,
        )
        text, _ = await process.communicate()
        assert process.returncode == 0
        return json.loads(text)

    # when it is installed, an API server takes every object
    await run("install", "kruise", str(CHART))
    installed = yaml_documents(await run("get", "manifest", "kruise"))
    wanted = Installation(minor=os.environ.get("KUBERNETES", NEWEST_MINOR))
    assert set(by_name(build_manifests(wanted))) <= set(by_name(installed))
    deployment = await kubectl("-n", "kruise-system", "get", "deployment", "kruise-controller-manager")
    assert deployment["spec"]["replicas"] == 2
    # and when it is upgraded, what the manager has put into the Secret stays
    patch = json.dumps({"data": {"ca-cert.pem": "Q0E="}})
    secret = ("-n", "kruise-system", "patch", "secret", "kruise-webhook-certs", "--type=merge", "-p", patch)
    await kubectl(*secret)
    await run("upgrade", "kruise", str(CHART), manager={"replicas": 3})
    deployment = await kubectl("-n", "kruise-system", "get", "deployment", "kruise-controller-manager")
    assert deployment["spec"]["replicas"] == 3
    kept = await kubectl("-n", "kruise-system", "get", "secret", "kruise-webhook-certs")
    assert kept["data"]["ca-cert.pem"] == "Q0E="
    # and when it is uninstalled (its hook is a Job, which no controller runs here), its kinds go too
    await run("uninstall", "kruise", "--no-hooks")
    left = await kubectl("get", "crds")
    assert [item for item in left["items"] if "deletionTimestamp" not in item["metadata"]] == []
