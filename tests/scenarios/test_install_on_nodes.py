"""The installation itself, on real nodes: the manager runs as pods, and webhooks are reached through their Service.

image ──▶ registry; pykruise install | kubectl apply ──▶ two managers ──▶ rollouts, doctor, a new manager meanwhile

With PYKRUISE_RELEASE, the folder of a release, the images, manifests and chart in it are installed
(`make check-release-on-nodes VERSION=…`).
"""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykruise.kube.version import __version__
from support.control_plane import running_plane
from support.dashboard_process import Hand
from support.dashboards import visitor_at
from support.helm import Helm
from support.helm import build as build_helm
from support.up import Kubectl, pykruise
from testbed.control_plane import CONTROLLER_MANAGER, ControlPlane
from testbed.images import HOST_ARCHITECTURE
from testbed.node import Nodes
from testbed.product_images import AGENT, DASHBOARD, MANAGER, build_product_images
from tools.release.pushing import read_archive, read_image

pytestmark = [pytest.mark.node_only, pytest.mark.real_time, pytest.mark.timeout(600)]

RELEASE = Path(os.environ["PYKRUISE_RELEASE"]) if os.environ.get("PYKRUISE_RELEASE") else None
CHART = next(RELEASE.glob("pykruise-*.tgz")) if RELEASE else Path(__file__).parents[2] / "charts" / "pykruise"
SYSTEM = ("-n", "kruise-system")
DEPLOYMENT = "deployment/kruise-controller-manager"

WEB = """
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: %s}
spec:
  replicas: %s
  selector: {matchLabels: {app: %s}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: InPlaceIfPossible, maxUnavailable: 2}}
  template:
    metadata: {labels: {app: %s}}
    spec: {containers: [{name: main, image: "nginx:1"}]}
"""


RECREATE = """
apiVersion: apps.kruise.io/v1alpha1
kind: ContainerRecreateRequest
metadata: {name: asked}
spec: {podName: %s, containers: [{name: main}]}
"""


def web(name: str, replicas: int) -> str:
    return WEB % (name, replicas, name, name)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane that knows nothing of OpenKruise, with real nodes."""
    with running_plane(nodes=True) as plane:
        yield plane


@pytest.fixture(scope="module")
def nodes(plane: ControlPlane) -> Iterator[Nodes]:
    nodes = asyncio.run(Nodes.start(plane, 3, services=True))
    if RELEASE is None:
        for recipe, made in build_product_images(MANAGER, AGENT, DASHBOARD).items():
            nodes.registry.push(made, f"{recipe.name}:v{__version__}", f"{recipe.name}:next")
    else:
        for file in RELEASE.glob("kruise-*.oci.tar"):
            layout = read_archive(file)
            made = read_image(layout, HOST_ARCHITECTURE)
            # Under the names in the release's manifests, and under the names of the tests.
            names = (f"{layout.repository}:{layout.tag}", f"pykruise/{layout.name}:{layout.tag}")
            nodes.registry.push(made, *names, f"pykruise/{layout.name}:next")
    yield nodes
    asyncio.run(nodes.stop())


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane) -> Kubectl:
    return Kubectl(plane.kubeconfig, program=str(plane.find_binary("kubectl")))


@pytest.fixture(scope="module")
def installed(
    plane: ControlPlane, nodes: Nodes, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Apply all manifests, and wait until two managers are ready; returns the manifests."""
    path = tmp_path_factory.mktemp("install") / "install.yaml"
    path.write_text((RELEASE / "install.yaml").read_text() if RELEASE else pykruise("install").stdout)
    kubectl.says("apply", "--server-side", "-f", str(path))
    kubectl.says("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    asyncio.run(plane.restart(CONTROLLER_MANAGER))  # it looks for new kinds only every 30 s
    for each in (DEPLOYMENT, "daemonset/kruise-daemon"):
        kubectl.says(*SYSTEM, "rollout", "status", each, "--timeout=120s")
    return path


def test_the_managers_run_as_pods_and_doctor_finds_nothing(kubectl: Kubectl, installed: Path) -> None:
    # when
    done = pykruise("doctor", "--kubeconfig", str(kubectl.kubeconfig))
    # then
    assert done.returncode == 0, done.stdout + done.stderr
    managers = ("get", "pods", "-l", "control-plane=controller-manager")
    pods = kubectl.says(*SYSTEM, *managers, "-o", "jsonpath={.items[*].status.podIP}").split()
    assert len(pods) == 2
    assert all(address.startswith("10.244.") for address in pods)


def test_a_review_through_the_service_refuses_what_is_wrong(kubectl: Kubectl, installed: Path) -> None:
    wrong = web("wrong", 1).replace("maxUnavailable: 2", "maxUnavailable: 0, maxSurge: 0")
    refused = kubectl.refuses("apply", "-f", "-", stdin=wrong)
    assert "maxUnavailable: Invalid value: 0: must be at least 1 when maxSurge is 0" in refused


def test_the_agents_recreate_a_requested_container(kubectl: Kubectl, installed: Path) -> None:
    # given
    kubectl.says("apply", "-f", "-", stdin=web("asked", 1))
    ready = ("get", "cloneset", "asked", "-o", "jsonpath={.status.readyReplicas}")
    kubectl.until(*ready, shows="1", within_s=60)
    pod = kubectl.says("get", "pods", "-l", "app=asked", "-o", "jsonpath={.items[0].metadata.name}")
    # when
    kubectl.says("apply", "-f", "-", stdin=RECREATE % pod)
    # then
    phase = ("get", "containerrecreaterequest", "asked", "-o", "jsonpath={.status.phase}")
    kubectl.until(*phase, shows="Completed", within_s=60)
    count = ("get", "pod", pod, "-o", "jsonpath={.status.containerStatuses[0].restartCount}")
    kubectl.until(*count, shows="1", within_s=20)


def test_a_rollout_continues_without_lost_reviews_while_the_manager_is_replaced(
    kubectl: Kubectl, installed: Path
) -> None:
    # given
    kubectl.says("apply", "-f", "-", stdin=web("web", 6))
    kubectl.until("get", "cloneset", "web", "-o", "jsonpath={.status.readyReplicas}", shows="6", within_s=60)
    # when a new version of the manager is rolled out within a rollout
    image = '[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:2"}]'
    kubectl.says("patch", "cloneset", "web", "--type=json", "-p", image)
    kubectl.says(*SYSTEM, "set", "image", DEPLOYMENT, f"manager={MANAGER.name}:next")
    waiting = kubectl.start(*SYSTEM, "rollout", "status", DEPLOYMENT, "--timeout=120s")
    lost = []
    end = time.monotonic() + 25
    number = 0
    while time.monotonic() < end:
        number += 1
        done = kubectl.kubectl("apply", "-f", "-", stdin=web(f"other-{number % 5}", number % 3))
        lost += [done.stderr] if done.returncode else []
    # then
    assert "successfully rolled out" in waiting()
    assert not lost
    kubectl.until(
        "get", "cloneset", "web", "-o", "jsonpath={.status.updatedReadyReplicas}", shows="6", within_s=60
    )
    restarts = kubectl.says(
        "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"
    )
    assert restarts.split() == ["1"] * 6


def test_uninstalled_nothing_is_left(kubectl: Kubectl, installed: Path) -> None:
    # given all objects of users are deleted
    kubectl.says("delete", "clonesets,containerrecreaterequests", "--all", "--wait", "--timeout=120s")
    done = pykruise("uninstall", "--check", "--kubeconfig", str(kubectl.kubeconfig))
    assert done.returncode == 0, done.stdout + done.stderr
    # when
    deleting = kubectl.start("delete", "-f", str(installed), "--wait", "--timeout=55s")
    deleting()
    # then
    left = kubectl.says(
        "get", "crd,mutatingwebhookconfiguration,validatingwebhookconfiguration", "-o", "name"
    )
    assert "kruise" not in left
    kubectl.until("get", "namespace", "-o", "name", shows="default")
    assert "kruise-system" not in kubectl.says("get", "namespaces", "-o", "name")


@pytest.fixture(scope="module")
def helm(plane: ControlPlane, nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm, which has installed the chart with its dashboard; all pods are ready."""
    helm = Helm(build_helm(), home=tmp_path_factory.mktemp("helm"), kubeconfig=plane.kubeconfig)
    helm.run(
        "install", "kruise", str(CHART), "--wait", "--timeout=100s", values={"dashboard": {"enabled": True}}
    )
    asyncio.run(plane.restart(CONTROLLER_MANAGER))
    return helm


def test_the_dashboard_of_the_chart_shows_a_user_of_one_namespace_that_namespace_alone(
    plane: ControlPlane, kubectl: Kubectl, helm: Helm
) -> None:
    # given
    hand = Hand(plane.kubeconfig)
    own, other = (hand.namespace(name) for name in ("team-a", "team-b"))
    for namespace in (own, other):
        kubectl.says("apply", "-n", namespace, "-f", "-", stdin=web(f"web-{namespace}", 1))
    token = hand.token(own, "reader", "*")

    async def look(port: int) -> None:
        async with visitor_at(f"http://127.0.0.1:{port}/") as browser:
            # when no user is logged in
            for path in ("api/session", "api/stream?page=rollouts"):
                assert (await browser.get(path))[0] == 401
            assert await browser.log_in("nonsense") == 401
            # when the user of one namespace is
            assert await browser.log_in(token) == 200
            async with browser.stream("rollouts") as stream:
                await stream.until(lambda stream: any(row.get("ready") for row in stream.rows.values()))
                assert {row["namespace"] for row in stream.rows.values()} == {own}
                assert other not in stream.sent

    # then
    with kubectl.forwarding("kruise-system", "service/kruise-dashboard", 80) as port:
        asyncio.run(look(port))


def test_helms_own_job_refuses_to_uninstall_what_is_in_use(kubectl: Kubectl, helm: Helm) -> None:
    # given
    kubectl.says("apply", "-f", "-", stdin=web("web", 1))
    ready = ("get", "cloneset", "web", "-o", "jsonpath={.status.readyReplicas}")
    kubectl.until(*ready, shows="1", within_s=60)
    # when objects of users exist
    with pytest.raises(AssertionError, match="job kruise-finalizer failed"):
        helm.run("uninstall", "kruise", "--timeout=40s")
    # then the installation stays, until these objects are deleted
    assert kubectl.says(*SYSTEM, "get", DEPLOYMENT, "-o", "name")
    kubectl.says("delete", "cloneset", "--all", "--all-namespaces", "--wait", "--timeout=120s")
    helm.run("uninstall", "kruise", "--wait", "--timeout=100s")
    left = kubectl.says(
        "get", "crd,clusterrole,mutatingwebhookconfiguration,validatingwebhookconfiguration", "-o", "name"
    )
    assert "kruise" not in left
