"""The output of `pykruise install` on a real API server: it is accepted, it is enough, and replicas share the work.

The managers are processes with the ServiceAccount's own token: RBAC is the generated roles and nothing else.
"""

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from pykruise.admission.certificate_work import renew_certificates
from pykruise.admission.configurations import MUTATING, MUTATING_NAME, VALIDATING, VALIDATING_NAME
from pykruise.admission.stores import SecretStore
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.documents import decode, get_path
from pykruise.kube.errors import KubeError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, PODS
from pykruise.kube.schemas.releases import NEWEST_MINOR
from support.control_plane import connection, running_plane
from support.processes import ManagerProcess, balancer, manager_process
from support.scenario import cloneset, rolling
from support.up import Kubectl, pykruise, running
from support.webhooks import free_port
from support.yaml_documents import yaml_documents
from testbed.control_plane import CONTROLLER_MANAGER, ControlPlane

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

OLD_CLONE_SETS = msgspec.structs.replace(CLONE_SETS, version="v1alpha1")

KUBERNETES = os.environ.get("KUBERNETES", NEWEST_MINOR)
GATES = ("--feature-gates", "InPlaceWorkloadVerticalScaling=true")
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
    return Kubectl(plane.kubeconfig, program=str(plane.find_binary("kubectl")))


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("install") / "install.yaml"
    path.write_text(asyncio.run(printed(*GATES)))
    return path


async def printed(*options: str) -> str:
    """Output of `pykruise install`."""
    done = await asyncio.to_thread(pykruise, "install", "--kubernetes", KUBERNETES, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(plane: ControlPlane, kubectl: Kubectl, manifests: Path) -> Path:
    """Apply all manifests; returns a kubeconfig with the ServiceAccount's token."""
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
    assert len(applied) == len(yaml_documents(manifests.read_text()))
    text = kubectl.says("get", "deployment,service,pdb,serviceaccount", "-n", "kruise-system", "-o", "name")
    assert {
        "deployment.apps/kruise-controller-manager",
        "service/kruise-webhook-service",
        "poddisruptionbudget.policy/kruise-controller-manager",
        "serviceaccount/kruise-manager",
    } <= set(text.split())


def test_an_editor_of_a_namespace_may_edit_clonesets_and_a_viewer_may_not(
    kubectl: Kubectl, installed: Path
) -> None:
    """operations case 41"""
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
    """operations cases 13 and 14, with the generated roles alone"""
    kubelets = ("kubelets", "--kubeconfig", str(plane.kubeconfig), "--start", "0.2", "--stop", "0.1")
    with running(*kubelets, says="registered"):
        async with (
            client_of(plane) as client,
            replicas(installed, tmp_path) as (first, second),
        ):
            managers = {
                await manager_process.says_identity(): manager_process for manager_process in (first, second)
            }
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
            assert loop.time() - killed_at < 6 + 2 * 1.2 + 10
            await until(lambda: is_settled(client))
            refused = [line for line in follower.lines + leader.lines if "a permission is missing" in line]
            assert refused == []
            # and each pod was replaced once: events report all of them
            created = await created_pods(kubectl)
            assert created == 2 * REPLICAS
            # when the other one is stopped too, the lease is free
            assert await follower.end() == 0
            lease = decode(await client.get(LEASES, "kruise-system", "kruise-manager"))
            assert "holderIdentity" not in lease["spec"]


async def test_versions_convert_both_ways_and_a_second_install_changes_nothing(
    plane: ControlPlane, kubectl: Kubectl, installed: Path, tmp_path: Path
) -> None:
    """operations 12: everything may be applied again at any time"""
    async with client_of(plane) as client, replicas(installed, tmp_path) as processes:
        for process in processes:
            await process.says("webhooks are registered at https://127.0.0.1:")
        # when a CloneSet is written as v1alpha1
        doc = cloneset("old", replicas=0, updateStrategy={"type": "ReCreate", "partition": "20%"})
        written = {**doc, "apiVersion": OLD_CLONE_SETS.api_version}
        await asyncio.to_thread(
            kubectl.says, "apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(written)
        )
        # then both versions can be read, each in its own words
        new = decode(await client.get(CLONE_SETS, "default", "old"))["spec"]["updateStrategy"]
        old = decode(await client.get(OLD_CLONE_SETS, "default", "old"))["spec"]["updateStrategy"]
        assert (old["type"], old["partition"]) == ("ReCreate", "20%")
        assert new["rollingUpdate"]["partition"] == "20%"
        # when the same is installed for the address that these managers have
        before = await configured(client)
        again = await printed(*GATES, *address_of(before))
        await asyncio.to_thread(kubectl.says, "apply", "--server-side", "-f", "-", stdin=again)
        # then the managers' changes stay, and webhooks and conversion go on
        applied = await configured(client)
        assert {name: applied[name] for name in before} == before

        # The manifests contain entries of gates that are off; managers remove them.
        async def is_as_before() -> bool:
            return await configured(client) == before

        await until(is_as_before)
        await client.create(OLD_CLONE_SETS, "default", {**written, "metadata": {"name": "x"}}, dry_run=True)
        await client.delete(CLONE_SETS, "default", "old")
        # and manifests with a Service are refused as long as managers keep up an address: it says which to use
        other = await asyncio.to_thread(
            kubectl.kubectl, "apply", "--server-side", "-f", "-", stdin=(await printed(*GATES))
        )
        assert other.returncode != 0
        assert "url" in other.stderr
        await until(is_as_before)
        for process in processes:
            assert await process.end() == 0
        # when a manager of the cluster's own is next
        environment = {"WEBHOOK_CERT_DIR": str(tmp_path / "inside"), "WEBHOOK_PORT": str(free_port())}
        flags = ("--webhook-addr=127.0.0.1:0", f"--protection-log-path={tmp_path}")
        async with manager_process(installed, *flags, environment=environment) as inside:
            await inside.says("webhooks are registered at kruise-webhook-service.kruise-system.svc")
            # then all is behind the Service again, and can be applied again
            assert all("service" in config for config in (await configured(client)).values())
            plain = await printed(*GATES)
            await asyncio.to_thread(kubectl.says, "apply", "--server-side", "-f", "-", stdin=plain)
            assert await inside.end() == 0


async def test_certificates_are_exchanged_under_load_without_one_failed_request(
    plane: ControlPlane, installed: Path, tmp_path: Path
) -> None:
    """rotated live, with two managers as processes; test_webhooks.py tests when certificates are due"""
    async with client_of(plane) as client, replicas(installed, tmp_path) as processes:
        for process in processes:
            await process.says("webhooks are registered at")
        # given writers and readers of both versions at work
        await client.create(CLONE_SETS, "default", cloneset("kept", replicas=0))
        old = {**cloneset("y"), "apiVersion": OLD_CLONE_SETS.api_version}
        async with load(
            lambda: client.create(CLONE_SETS, "default", cloneset("x"), dry_run=True),
            lambda: client.create(OLD_CLONE_SETS, "default", old, dry_run=True),
            lambda: client.get(OLD_CLONE_SETS, "default", "kept"),
        ) as (done, failures):
            await until(lambda: reached(done, 20))
            # when another authority signs another pair
            store = SecretStore(client, namespace="kruise-system", name="kruise-webhook-certs")
            stored = await store.read()
            assert stored is not None
            without_key = msgspec.structs.replace(stored.certificates, authority_key=b"")
            await store.write(renew_certificates(without_key, host="127.0.0.1", now=time.time()), over=stored)
            for process in processes:
                await process.says("webhooks are served with a new certificate")
            before = len(done)
            await until(lambda: reached(done, before + 50))
        # then
        assert failures == []
        await client.delete(CLONE_SETS, "default", "kept")


async def test_a_revoked_right_is_one_log_line_and_a_metric_without_a_crash(
    plane: ControlPlane, kubectl: Kubectl, installed: Path, tmp_path: Path
) -> None:
    async with replicas(installed, tmp_path, count=1) as (process,):
        await process.says("the controller starts")
        # when the manager loses the right to write events
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
        await process.says("a permission is missing, POST events is forbidden")
        await asyncio.sleep(3.0)
        assert sum("POST events is forbidden" in line for line in process.lines) == 1
        text = (await process.get("metrics", "/metrics"))[1]
        kubectl.says("replace", "-f", "-", stdin=yaml.safe_dump(role))
        assert re.search(r'pykruise_missing_rights_total\{method="POST",resource="events"\} [1-9]', text)
        assert await process.end() == 0


async def test_doctor_finds_what_is_wrong_on_a_real_cluster_and_nothing_else(
    plane: ControlPlane, kubectl: Kubectl, installed: Path, tmp_path: Path
) -> None:
    async def doctor() -> dict[str, list[str]]:
        done = await asyncio.to_thread(pykruise, "doctor", "--kubeconfig", str(plane.kubeconfig))
        doctor: dict[str, list[str]] = {}
        for line in done.stdout.splitlines():
            level, rest = line.split(maxsplit=1)
            doctor.setdefault(level, []).append(rest)
        return doctor

    # given a manager outside the cluster, and none in it
    kubectl.says("scale", "deployment", "kruise-controller-manager", "--replicas=0", "-n", "kruise-system")
    async with replicas(installed, tmp_path, count=1) as (process,):
        await process.says("the controller starts")
        result = await doctor()
        # then the only fault is that the Deployment has no pods; webhooks and conversion were really called
        assert [line.split(":")[0] for line in result["fault"]] == ["manager"], result
        checks = {line.split(":")[0] for line in result["ok"]}
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
        result = await doctor()
        faults = "\n".join(result["fault"])
        assert "rbac: kruise-manager has no permission to patch pods/resize" in faults
        assert "namespace: namespace kruise-system lacks the label control-plane=openkruise" in faults
        assert "lease: lease kruise-system/kruise-manager has no holder" in faults
        assert "admission: a CloneSet cannot be written" in faults


def test_uninstalling_is_refused_while_there_is_something_to_lose(
    plane: ControlPlane, kubectl: Kubectl, installed: Path
) -> None:
    """operations cases 36 and 37"""
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
    transport = HttpTransport(connection(plane.kubeconfig))
    try:
        yield Client(transport, retry=RetryPolicy(writes=0, reads=0))
    finally:
        await transport.close()


async def sides(client: Client, managers: dict[str, ManagerProcess]) -> tuple[ManagerProcess, ManagerProcess]:
    """The manager that leads, and the one that waits."""

    async def holder() -> str:
        try:
            lease = decode(await client.get(LEASES, "kruise-system", "kruise-manager"))
        except Exception:
            return ""
        return str(lease["spec"].get("holderIdentity", ""))

    async with asyncio.timeout(60):
        while (name := await holder()) not in managers:
            await asyncio.sleep(0.1)
    other = next(manager for identity, manager in managers.items() if identity != name)
    return managers[name], other


async def configured(client: Client) -> dict[str, dict[str, Any]]:
    """Client configurations by which API servers reach the webhooks, by the name of the webhook or the CRD."""
    result: dict[str, dict[str, Any]] = {}
    for resource, name in ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME)):
        entries = decode(await client.get(resource, "", name))["webhooks"]
        result |= {entry["name"]: entry["clientConfig"] for entry in entries}
    for crd in map(decode, (await client.list(CUSTOM_RESOURCE_DEFINITIONS)).items):
        if webhook := get_path(crd, "spec", "conversion", "webhook"):
            result[crd["metadata"]["name"]] = webhook["clientConfig"]
    return result


def address_of(configs: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    """The options of `pykruise install` for the address in these client configurations."""
    (address,) = {urlsplit(config["url"]).netloc for config in configs.values()}
    host, _, port = address.partition(":")
    return ("--webhook-host", host, "--webhook-port", port)


@asynccontextmanager
async def load(
    *requests: Callable[[], Awaitable[object]],
) -> AsyncIterator[tuple[list[float], list[KubeError]]]:
    """Repeats these requests while the block runs; yields the times of responses, and the failures."""
    done: list[float] = []
    failures: list[KubeError] = []

    async def work(request: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await request()
                done.append(time.monotonic())
            except KubeError as error:
                failures.append(error)
            await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as tasks:
        working = [tasks.create_task(work(request)) for request in requests]
        yield done, failures
        for task in working:
            task.cancel()


async def reached(done: list[float], count: int) -> bool:
    """Whether so many requests were answered."""
    return len(done) >= count


async def uids(client: Client) -> set[str]:
    listed = await client.list(PODS, "default", label_selector="app=web")
    return {decode(raw)["metadata"]["uid"] for raw in listed.items}


async def is_settled(client: Client) -> bool:
    result = decode(await client.get(CLONE_SETS, "default", "web"))
    status = result.get("status") or {}
    return (
        status.get("observedGeneration") == result["metadata"]["generation"]
        and status.get("updatedAvailableReplicas", status.get("availableReplicas")) == REPLICAS
        and status.get("replicas") == REPLICAS
        and len(await uids(client)) == REPLICAS
    )


async def until(claim: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(90):
        while not await claim():
            await asyncio.sleep(0.1)


async def created_pods(kubectl: Kubectl) -> int:
    """Number of pods that were created, from the events of the scheduler: one per pod."""
    await asyncio.sleep(1.0)
    listed = yaml.safe_load(kubectl.says("get", "events", "-n", "default", "-o", "yaml"))["items"]
    return len(
        {
            event["involvedObject"]["uid"]
            for event in listed
            if event["reason"] == "Scheduled" and event["involvedObject"]["name"].startswith("web-")
        }
    )
