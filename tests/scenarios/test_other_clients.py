"""Other people's clients, unchanged, over HTTPS: the official Python client, both asynchronous ones, and kopf.

The same tests run on the real control plane, so the clients behave in the same way on both.
"""

import asyncio
import importlib
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import kubernetes
import pytest
from kubernetes.dynamic import DynamicClient
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from pykruise.testing.http import HttpSandbox
from support.up import running_real

pytestmark = pytest.mark.real_time

Object = dict[str, Any]

CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cluster with three nodes, for all tests of this module."""
    if request.config.getoption("--cluster") == "real":
        with running_real(request.getfixturevalue("plane"), nodes=3) as kubectl:
            yield kubectl.kubeconfig
    else:
        with HttpSandbox(tmp_path_factory.mktemp("clients") / "kubeconfig") as server:
            yield Path(server.kubeconfig)


@pytest.fixture
def api(kubeconfig: Path) -> Iterator[kubernetes.client.ApiClient]:
    kubernetes.config.load_kube_config(str(kubeconfig))  # the locks use the default configuration
    with kubernetes.config.new_client_from_config(str(kubeconfig)) as client:
        yield client


@pytest.fixture
def namespace(api: kubernetes.client.ApiClient) -> Iterator[str]:
    """A namespace of the test's own."""
    core = kubernetes.client.CoreV1Api(api)
    name = f"clients-{uuid.uuid4().hex[:8]}"
    core.create_namespace({"metadata": {"name": name}})
    yield name
    core.delete_namespace(name)


def pod(name: str, image: str = "nginx:1") -> Object:
    return {
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}], "terminationGracePeriodSeconds": 1},
    }


def until(claim: Callable[[], Any], within_s: float = 90.0) -> Any:
    """Wait until the claim returns a true value, and return this value."""
    end = time.monotonic() + within_s
    while not (until := claim()):
        assert time.monotonic() < end, f"not within {within_s:g} s"
        time.sleep(0.1)
    return until


# ── the official client ──────────────────────────────────────────────────────


def test_the_official_client_reads_writes_and_watches(
    api: kubernetes.client.ApiClient, namespace: str
) -> None:
    # given a watch that sees a pod become ready
    core = kubernetes.client.CoreV1Api(api)
    core.create_namespaced_pod(namespace, pod("web"))
    watch = kubernetes.watch.Watch()
    phases: list[str] = []
    for event in watch.stream(core.list_namespaced_pod, namespace, timeout_seconds=30):
        v1_pod = event["object"]
        phases.append(v1_pod.status.phase)
        if any(
            condition.type == "Ready" and condition.status == "True"
            for condition in v1_pod.status.conditions or ()
        ):
            watch.stop()
    assert phases[-1] == "Running"
    # when
    core.patch_namespaced_pod("web", namespace, {"metadata": {"annotations": {"a": "b"}}})
    # then
    v1_pod = core.read_namespaced_pod("web", namespace)
    assert v1_pod.metadata.annotations["a"] == "b"
    assert v1_pod.status.container_statuses[0].state.running.started_at is not None
    assert len(core.list_namespaced_pod(namespace, label_selector="app in (web)", limit=1).items) == 1
    core.delete_namespaced_pod("web", namespace)
    until(lambda: not core.list_namespaced_pod(namespace).items)


def test_the_python_client_gets_the_errors_of_the_api_server(
    api: kubernetes.client.ApiClient, namespace: str
) -> None:
    core = kubernetes.client.CoreV1Api(api)
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}})
    # when
    stale = core.read_namespaced_config_map("a", namespace)
    core.patch_namespaced_config_map("a", namespace, {"data": {"x": "1"}})
    # then
    with pytest.raises(kubernetes.client.ApiException) as conflict:
        core.replace_namespaced_config_map("a", namespace, stale)
    assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")
    with pytest.raises(kubernetes.client.ApiException, match="AlreadyExists"):
        core.create_namespaced_config_map(namespace, {"metadata": {"name": "a"}})
    with pytest.raises(kubernetes.client.ApiException, match="NotFound"):
        core.read_namespaced_config_map("b", namespace)


def test_a_deployment_rolls_out_under_it(api: kubernetes.client.ApiClient, namespace: str) -> None:
    # given
    apps = kubernetes.client.AppsV1Api(api)
    labels = {"app": "web"}
    template = kubernetes.client.V1PodTemplateSpec(
        metadata=kubernetes.client.V1ObjectMeta(labels=labels),
        spec=kubernetes.client.V1PodSpec(
            containers=[kubernetes.client.V1Container(name="main", image="nginx:1")],
            termination_grace_period_seconds=1,
        ),
    )
    spec = kubernetes.client.V1DeploymentSpec(
        replicas=2, selector=kubernetes.client.V1LabelSelector(match_labels=labels), template=template
    )
    body = kubernetes.client.V1Deployment(metadata=kubernetes.client.V1ObjectMeta(name="web"), spec=spec)
    apps.create_namespaced_deployment(namespace, body)
    until(lambda: apps.read_namespaced_deployment("web", namespace).status.available_replicas == 2)
    # when
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    scale.spec.replicas = 3
    apps.replace_namespaced_deployment_scale("web", namespace, scale)
    # then
    until(lambda: apps.read_namespaced_deployment("web", namespace).status.available_replicas == 3)


def test_the_dynamic_python_client_discovers_kinds(api: kubernetes.client.ApiClient, namespace: str) -> None:
    # given a kind that it has no model of
    dynamic = DynamicClient(api)
    definitions = dynamic.resources.get(
        api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition"
    )
    definitions.create(body=CRD)
    try:
        until(lambda: _is_established(definitions))
        dynamic.resources.invalidate_cache()
        things = dynamic.resources.get(api_version="example.com/v1", kind="Thing")
        # when
        things.create(
            body={
                "apiVersion": "example.com/v1",
                "kind": "Thing",
                "metadata": {"name": "a"},
                "spec": {"size": 1},
            },
            namespace=namespace,
        )
        things.patch(
            body={"spec": {"size": 2}},
            name="a",
            namespace=namespace,
            content_type="application/merge-patch+json",
        )
        # then
        assert things.get(name="a", namespace=namespace).spec.size == 2
        (first, *_) = things.watch(namespace=namespace, timeout=1)
        assert (first["type"], first["object"].metadata.name) == ("ADDED", "a")
        things.delete(name="a", namespace=namespace)
        assert things.get(namespace=namespace).items == []
    finally:
        definitions.delete(name=CRD["metadata"]["name"])
        until(lambda: CRD["metadata"]["name"] not in [item.metadata.name for item in definitions.get().items])


def _is_established(definitions: Any) -> bool:
    result = definitions.get(name=CRD["metadata"]["name"]).to_dict()
    conditions = result.get("status", {}).get("conditions") or ()
    return any(
        condition["type"] == "Established" and condition["status"] == "True" for condition in conditions
    )


@pytest.mark.parametrize("lock_type", [ConfigMapLock, LeaseLock])
def test_the_leader_election_of_the_python_client_has_one_leader(
    api: kubernetes.client.ApiClient, namespace: str, lock_type: Any
) -> None:
    # given two candidates, the second of which starts when the first one leads
    leading: list[str] = []
    leads = {name: threading.Event() for name in ("first", "second")}
    ends = {name: threading.Event() for name in ("first", "second")}

    def candidate(name: str) -> threading.Thread:
        def lead() -> None:
            leading.append(name)
            leads[name].set()
            ends[name].wait(60)
            raise RuntimeError("enough")  # the way to give up the leadership

        config = electionconfig.Config(
            lock_type("leader", namespace, name),
            lease_duration=3,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=lead,
            onstopped_leading=lambda: None,
        )
        thread = threading.Thread(target=leaderelection.LeaderElection(config).run, daemon=True)
        thread.start()
        return thread

    first = candidate("first")
    assert leads["first"].wait(20)
    second = candidate("second")
    # when the first one ends
    assert not leads["second"].wait(2)
    ends["first"].set()
    first.join(20)
    # then
    assert leads["second"].wait(20)
    assert leading == ["first", "second"]
    ends["second"].set()
    second.join(20)


# ── the asynchronous clients ─────────────────────────────────────────────────


@pytest.fixture(params=["kubernetes.aio", "kubernetes_asyncio"])
def aio(request: pytest.FixtureRequest) -> Any:
    """The official asynchronous client, and the one it came from."""
    for part in ("client", "config", "watch", "dynamic"):
        importlib.import_module(f"{request.param}.{part}")
    return importlib.import_module(request.param)


@asynccontextmanager
async def connected(aio: Any, kubeconfig: Path) -> AsyncIterator[Any]:
    """A client. Wait at the end, because aiohttp closes TLS connections a moment after their session."""
    async with await aio.config.new_client_from_config(str(kubeconfig)) as client:
        yield client
    await asyncio.sleep(0.25)


async def test_the_asynchronous_client_reads_writes_and_watches(
    aio: Any, kubeconfig: Path, namespace: str
) -> None:
    # given
    async with connected(aio, kubeconfig) as client:
        core = aio.client.CoreV1Api(client)
        await core.create_namespaced_pod(namespace, pod("web"))
        phases: list[str] = []
        # when
        async with aio.watch.Watch().stream(
            core.list_namespaced_pod, namespace, timeout_seconds=30
        ) as events:
            async for event in events:
                result = event["object"]
                phases.append(result.status.phase)
                if any(
                    condition.type == "Ready" and condition.status == "True"
                    for condition in result.status.conditions or ()
                ):
                    break
        # then
        assert phases[-1] == "Running"
        with pytest.raises(aio.client.ApiException) as refused:
            await core.create_namespaced_pod(namespace, pod("web"))
        assert refused.value.status == 409
        await core.delete_namespaced_pod("web", namespace)


async def test_the_dynamic_asyncio_client_works(aio: Any, kubeconfig: Path, namespace: str) -> None:
    async with connected(aio, kubeconfig) as client:
        dynamic = await aio.dynamic.DynamicClient(client)
        config_maps = await dynamic.resources.get(api_version="v1", kind="ConfigMap")
        # when
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
        await config_maps.create(body=body, namespace=namespace)
        # then
        result = await config_maps.get(name="a", namespace=namespace)
        assert result.data.x == "1"
        await config_maps.delete(name="a", namespace=namespace)


# Not the official one's: its locks pass a boolean that its own models refuse (37.0.2).
@pytest.mark.parametrize("aio", ["kubernetes_asyncio"], indirect=True)
async def test_the_leader_election_of_the_asyncio_client_leads(
    aio: Any, kubeconfig: Path, namespace: str
) -> None:
    # given
    package = f"{aio.__name__}.leaderelection"
    election = importlib.import_module(f"{package}.leaderelection")
    config = importlib.import_module(f"{package}.electionconfig")
    lock = importlib.import_module(f"{package}.resourcelock.leaselock").LeaseLock
    leads = asyncio.Event()

    async def lead() -> None:
        leads.set()

    async def stop() -> None:
        return

    async with connected(aio, kubeconfig) as client:
        settings = config.Config(
            lock("leader", namespace, "me", client),
            lease_duration=3,
            renew_deadline=2,
            retry_period=1,
            onstarted_leading=lead,
            onstopped_leading=stop,
        )
        # when
        running = asyncio.create_task(election.LeaderElection(settings).run())
        # then
        async with asyncio.timeout(20):
            await leads.wait()
        lease = await aio.client.CoordinationV1Api(client).read_namespaced_lease("leader", namespace)
        assert lease.spec.holder_identity == "me"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


# ── kopf ─────────────────────────────────────────────────────────────────────

OPERATOR = """
import kopf
import kubernetes


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = True
    kubernetes.config.load_kube_config()


@kopf.on.create("example.com", "v1", "things")
def created(spec, name, namespace, **_):
    body = {"metadata": {"name": f"{name}-child"}, "data": {"size": str(spec["size"])}}
    kopf.adopt(body)
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, body)
    return {"child": f"{name}-child"}


@kopf.on.field("example.com", "v1", "things", field="spec.size")
def resized(old, new, name, namespace, **_):
    if old is not None:
        patch = {"data": {"size": str(new)}}
        kubernetes.client.CoreV1Api().patch_namespaced_config_map(f"{name}-child", namespace, patch)


@kopf.on.delete("example.com", "v1", "things")
def deleted(name, namespace, **_):
    body = {"metadata": {"name": f"{name}-was-here"}}
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, body)
"""


@pytest.fixture
def operator(
    kubeconfig: Path, api: kubernetes.client.ApiClient, namespace: str, tmp_path: Path
) -> Iterator[None]:
    """A small operator of kopf at work in the namespace, its CRD in the cluster."""
    definitions = kubernetes.client.ApiextensionsV1Api(api)
    definitions.create_custom_resource_definition(CRD)
    source = tmp_path / "operator.py"
    source.write_text(OPERATOR)
    command = [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", namespace, str(source)]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        yield
        assert process.poll() is None, (tmp_path / "log").read_text()
    finally:
        process.terminate()
        process.wait(20)
        definitions.delete_custom_resource_definition(CRD["metadata"]["name"])


def test_an_operator_of_kopf_creates_updates_and_cleans_up(
    operator: None, api: kubernetes.client.ApiClient, namespace: str
) -> None:
    # given
    things = kubernetes.client.CustomObjectsApi(api)
    core = kubernetes.client.CoreV1Api(api)
    where = ("example.com", "v1", namespace, "things")

    def maps() -> dict[str, Any]:
        return {item.metadata.name: item for item in core.list_namespaced_config_map(namespace).items}

    # when
    until(lambda: _create(things, where, {"metadata": {"name": "a"}, "spec": {"size": 1}}))
    # then
    until(lambda: "a-child" in maps())
    assert maps()["a-child"].metadata.owner_references[0].kind == "Thing"
    until(lambda: "created" in things.get_namespaced_custom_object(*where, "a").get("status", {}))
    # and when it changes
    things.patch_namespaced_custom_object(*where, "a", {"spec": {"size": 2}})
    until(lambda: maps()["a-child"].data["size"] == "2")
    # and when it goes, its handler comes first, and the collector takes the child
    things.delete_namespaced_custom_object(*where, "a")
    until(lambda: "a-was-here" in maps())
    until(lambda: "a-child" not in maps())
    assert things.list_namespaced_custom_object(*where)["items"] == []


def _create(things: Any, where: tuple[str, str, str, str], body: Object) -> bool:
    """Create it, once the definition is served."""
    try:
        things.create_namespaced_custom_object(
            *where, {"apiVersion": "example.com/v1", "kind": "Thing", **body}
        )
    except kubernetes.client.ApiException as error:
        if error.status != 404:
            raise
        return False
    return True
