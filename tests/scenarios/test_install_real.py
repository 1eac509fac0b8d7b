"""What `pykruise install` prints, on a real API server: it is accepted, it is enough, and replicas share the work.

The managers are processes with the ServiceAccount's own token: RBAC is the generated roles and nothing else.
"""

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import yaml

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client import Client
from pykruise.kube.config import load_kubeconfig
from pykruise.kube.documents import decode
from pykruise.kube.http import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import LEASES, PODS
from support.control_plane import running_plane
from support.processes import ManagerProcess, balancer, manager_process
from support.scenario import cloneset, rolling
from support.up import Kubectl, pykruise, running
from support.webhooks import free_port
from testbed.control_plane import CONTROLLER_MANAGER, ControlPlane

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

REPLICAS = 12
LEASE = (
    "--leader-election-lease-duration=6s",
    "--leader-election-renew-deadline=4s",
    "--leader-election-retry-period=1s",
)
WEBHOOKS = "mutatingwebhookconfigurations,validatingwebhookconfigurations"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane that knows nothing of OpenKruise."""
    with running_plane() as plane:
        yield plane


@pytest.fixture(scope="module")
def kubectl(plane: ControlPlane) -> Kubectl:
    return Kubectl(plane.kubeconfig, program=str(plane.binary("kubectl")))


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    done = pykruise("install", "--feature-gates", "InPlaceWorkloadVerticalScaling=true")
    assert done.returncode == 0, done.stderr
    path = tmp_path_factory.mktemp("install") / "install.yaml"
    path.write_text(done.stdout)
    return path


@pytest.fixture(scope="module")
def installed(plane: ControlPlane, kubectl: Kubectl, manifests: Path) -> Path:
    """Everything applied; returns a kubeconfig with the ServiceAccount's token."""
    kubectl.says("apply", "--server-side", "-f", str(manifests))
    kubectl.says("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    asyncio.run(plane.restart(CONTROLLER_MANAGER))  # it looks for new kinds only every 30 s
    return account_kubeconfig(plane, kubectl)


def account_kubeconfig(plane: ControlPlane, kubectl: Kubectl) -> Path:
    token = kubectl.says("create", "token", "kruise-manager", "-n", "kruise-system").strip()
    document = yaml.safe_load(plane.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": token}
    path = plane.directory / "account.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_manifests_are_accepted_and_applying_them_again_changes_nothing(
    kubectl: Kubectl, installed: Path, manifests: Path
) -> None:
    # when
    again = kubectl.says("apply", "--server-side", "-f", str(manifests))
    # then
    applied = [line for line in again.splitlines() if line]
    assert all(line.endswith("serverside-applied") for line in applied)
    assert len(applied) == len(list(yaml.safe_load_all(manifests.read_text())))
    found = kubectl.says("get", "deployment,service,pdb,serviceaccount", "-n", "kruise-system", "-o", "name")
    assert {
        "deployment.apps/kruise-controller-manager",
        "service/kruise-webhook-service",
        "poddisruptionbudget.policy/kruise-controller-manager",
        "serviceaccount/kruise-manager",
    } <= set(found.split())


def test_an_editor_of_a_namespace_may_edit_clonesets_and_a_viewer_may_not(
    kubectl: Kubectl, installed: Path
) -> None:
    """operations case_41"""
    for role in ("edit", "view"):
        kubectl.says(
            "create", "rolebinding", role, f"--clusterrole={role}", f"--user={role}", "-n", "default"
        )

    def may(user: str, verb: str, resource: str) -> bool:
        done = kubectl.kubectl("auth", "can-i", verb, resource, f"--as={user}", "-n", "default")
        return done.stdout.strip() == "yes"

    assert may("edit", "patch", "clonesets.apps.kruise.io")
    assert may("edit", "patch", "clonesets.apps.kruise.io/scale")
    assert not may("edit", "patch", "resourcedistributions.apps.kruise.io")
    assert may("view", "list", "clonesets.apps.kruise.io")
    assert not may("view", "patch", "clonesets.apps.kruise.io")


async def test_a_leader_killed_in_mid_rollout_is_followed_and_nothing_is_lost_or_done_twice(
    plane: ControlPlane, kubectl: Kubectl, installed: Path, tmp_path: Path
) -> None:
    """operations case_13 case_14, with the generated roles alone"""
    kubelets = ("kubelets", "--kubeconfig", str(plane.kubeconfig), "--start", "0.2", "--stop", "0.1")
    with running(*kubelets, says="registered"):
        async with (
            client_of(plane) as client,
            replicas(installed, tmp_path) as (first, second),
        ):
            managers = {await one.says_identity(): one for one in (first, second)}
            leader, follower = await sides(client, managers)
            # given a rollout under way
            strategy = rolling(maxUnavailable=2)
            await client.create(CLONE_SETS, "default", cloneset(replicas=REPLICAS, updateStrategy=strategy))
            await until(lambda: is_settled(client))
            first_uids = await uids(client)
            await client.patch(CLONE_SETS, "default", "web", NEW_IMAGE, patch_type=PatchType.MERGE)

            async def is_under_way() -> bool:
                return len(await uids(client) - first_uids) >= 3

            await until(is_under_way)
            # when
            loop = asyncio.get_running_loop()
            killed_at = loop.time()
            assert await leader.end(signal.SIGKILL) == -signal.SIGKILL
            await follower.says("cloneset: caches are synced, the controller starts")
            # then (stopping and starting take their time on a busy machine)
            assert loop.time() - killed_at < 6 + 2 * 1.2 + 2
            await until(lambda: is_settled(client))
            refused = [line for line in follower.lines + leader.lines if "a right is missing" in line]
            assert refused == []
            # and each pod was replaced once: events tell of all of them
            created = await created_pods(kubectl)
            assert created == 2 * REPLICAS
            # when the other one is stopped too, the lease is free
            assert await follower.end() == 0
            lease = decode(await client.get(LEASES, "kruise-system", "kruise-manager"))
            assert "holderIdentity" not in lease["spec"]


async def test_a_right_that_is_taken_away_is_one_line_and_a_metric_and_no_crash(
    plane: ControlPlane, kubectl: Kubectl, installed: Path, tmp_path: Path
) -> None:
    async with replicas(installed, tmp_path, count=1) as (process,):
        await process.says("the controller starts")
        # when events may not be written any more
        role = yaml.safe_load(kubectl.says("get", "clusterrole", "kruise-manager-role", "-o", "yaml"))
        role["metadata"].pop("resourceVersion")
        less = [rule for rule in role["rules"] if "events" not in rule["resources"]]
        kubectl.says("replace", "-f", "-", stdin=yaml.safe_dump({**role, "rules": less}))
        await asyncio.sleep(1.0)
        for name in ("one", "two"):
            await asyncio.to_thread(
                kubectl.says, "create", "-f", "-", stdin=yaml.safe_dump(cloneset(name, replicas=2))
            )
        # then
        await process.says("a right is missing, POST events is refused")
        await asyncio.sleep(3.0)
        assert sum("POST events is refused" in line for line in process.lines) == 1
        text = (await process.get("metrics", "/metrics"))[1]
        kubectl.says("replace", "-f", "-", stdin=yaml.safe_dump(role))
        assert re.search(r'pykruise_missing_rights_total\{method="POST",resource="events"\} [1-9]', text)
        assert await process.end() == 0


async def test_doctor_finds_what_is_wrong_on_a_real_cluster_and_nothing_else(
    plane: ControlPlane, kubectl: Kubectl, installed: Path, tmp_path: Path
) -> None:
    async def doctor() -> dict[str, list[str]]:
        done = await asyncio.to_thread(pykruise, "doctor", "--kubeconfig", str(plane.kubeconfig))
        found: dict[str, list[str]] = {}
        for line in done.stdout.splitlines():
            level, rest = line.split(maxsplit=1)
            found.setdefault(level, []).append(rest)
        return found

    # given a manager outside the cluster, and none in it
    kubectl.says("scale", "deployment", "kruise-controller-manager", "--replicas=0", "-n", "kruise-system")
    async with replicas(installed, tmp_path, count=1) as (process,):
        await process.says("the controller starts")
        found = await doctor()
        # then: the Deployment has no pods, and else there is no fault; webhooks and conversion are really tried
        assert [line.split(":")[0] for line in found["fault"]] == ["manager"], found
        checks = {line.split(":")[0] for line in found["ok"]}
        assert {
            "cluster",
            "namespace",
            "crds",
            "lease",
            "rbac",
            "webhooks",
            "admission",
            "conversion",
        } <= checks
        # when rights, a CRD's conversion and the authority of the webhooks are broken
        role = yaml.safe_load(kubectl.says("get", "clusterrole", "kruise-manager-role", "-o", "yaml"))
        role["rules"] = [rule for rule in role["rules"] if "pods/resize" not in rule["resources"]]
        kubectl.says("replace", "-f", "-", stdin=yaml.safe_dump(role))
        assert await process.end() == 0
        kubectl.says("label", "namespace", "kruise-system", "control-plane-")
        found = await doctor()
        faults = "\n".join(found["fault"])
        assert "rbac: kruise-manager may not patch pods/resize" in faults
        assert "namespace: kruise-system lacks the label control-plane=openkruise" in faults
        assert "lease: nobody holds lease kruise-system/kruise-manager" in faults
        assert "admission: a CloneSet cannot be written" in faults


def test_uninstalling_is_refused_while_there_is_something_to_lose(
    plane: ControlPlane, kubectl: Kubectl, installed: Path
) -> None:
    """operations case_36 case_37"""
    kubectl.says("delete", WEBHOOKS, "--all")  # no manager runs any more
    kubectl.says("apply", "-f", "-", stdin=yaml.safe_dump(cloneset("kept", replicas=0)))
    done = pykruise("uninstall", "--check", "--kubeconfig", str(plane.kubeconfig))
    assert done.returncode == 1
    assert "there still exists some clonesets in the cluster" in done.stderr
    assert "default/kept" in done.stdout
    # when there is nothing any more
    kubectl.says("delete", "clonesets", "--all", "-A")
    done = pykruise("uninstall", "--check", "--kubeconfig", str(plane.kubeconfig))
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing would be lost" in done.stdout


# ── help ─────────────────────────────────────────────────────────────────────

NEW_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}}}}


@asynccontextmanager
async def replicas(
    kubeconfig: Path, folder: Path, *, count: int = 2
) -> AsyncIterator[tuple[ManagerProcess, ...]]:
    """Managers outside the cluster, whose webhooks are at one address, with certificates in the shared Secret."""
    ports = [free_port() for _ in range(count)]
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(balancer(ports))
        started = []
        for number, port in enumerate(ports):
            environment = {
                "WEBHOOK_HOST": "127.0.0.1",
                "WEBHOOK_PORT": str(address),
                "WEBHOOK_CERT_WRITER": "secret",
                "WEBHOOK_CERT_DIR": str(folder / f"certs-{number}"),
            }
            flags = (*LEASE, f"--webhook-addr=127.0.0.1:{port}", f"--protection-log-path={folder}")
            process = manager_process(kubeconfig, *flags, environment=environment)
            started.append(await stack.enter_async_context(process))
        yield tuple(started)


@asynccontextmanager
async def client_of(plane: ControlPlane) -> AsyncIterator[Client]:
    transport = HttpTransport(load_kubeconfig(plane.kubeconfig))
    try:
        yield Client(transport)
    finally:
        await transport.close()


async def sides(client: Client, managers: dict[str, ManagerProcess]) -> tuple[ManagerProcess, ManagerProcess]:
    """Who leads, and who waits."""

    async def holder() -> str:
        try:
            lease = decode(await client.get(LEASES, "kruise-system", "kruise-manager"))
        except Exception:
            return ""
        return str(lease["spec"].get("holderIdentity", ""))

    async with asyncio.timeout(60):
        while (name := await holder()) not in managers:
            await asyncio.sleep(0.1)
    other = next(one for identity, one in managers.items() if identity != name)
    return managers[name], other


async def uids(client: Client) -> set[str]:
    listed = await client.list(PODS, "default", label_selector="app=web")
    return {decode(raw)["metadata"]["uid"] for raw in listed.items}


async def is_settled(client: Client) -> bool:
    found = decode(await client.get(CLONE_SETS, "default", "web"))
    status = found.get("status") or {}
    return (
        status.get("observedGeneration") == found["metadata"]["generation"]
        and status.get("updatedAvailableReplicas", status.get("availableReplicas")) == REPLICAS
        and status.get("replicas") == REPLICAS
        and len(await uids(client)) == REPLICAS
    )


async def until(claim: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(90):
        while not await claim():
            await asyncio.sleep(0.1)


async def created_pods(kubectl: Kubectl) -> int:
    """From the revision that each pod's node was told: one binding event a pod, whoever made it."""
    await asyncio.sleep(1.0)
    listed = yaml.safe_load(kubectl.says("get", "events", "-n", "default", "-o", "yaml"))["items"]
    return len(
        {
            event["involvedObject"]["uid"]
            for event in listed
            if event["reason"] == "Scheduled" and event["involvedObject"]["name"].startswith("web-")
        }
    )
