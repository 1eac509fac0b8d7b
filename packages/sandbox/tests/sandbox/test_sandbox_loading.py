"""A dump of one cluster as the initial state of another."""

import asyncio
import random
from pathlib import Path

import pytest
import yaml

from pykruise.kube.clock import make_loop_clock
from pykruise.kube.documents import decode
from pykruise.kube.resources import (
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
)
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.sandbox.loading import Dump, DumpError, Loaded, load, node_spec_of, prepare_document, read_dump
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.faults_file import FaultsFileError, read_rules
from support.paper import START
from support.sandbox import Object, Place, small_cluster

DUMPED = (
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    JOBS,
    SERVICES,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
)


async def dump_of(place: Place) -> str:
    """Output of `kubectl get ... -A -o yaml`, with kinds in the order of the command."""
    items = []
    for resource in DUMPED:
        for raw in (await place.client.list(resource)).items:
            items.append({"apiVersion": resource.api_version, "kind": resource.kind, **decode(raw)})
    return yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})


def workload(kind: str, name: str, **spec: object) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": f"{name}:1"}]},
            },
            **spec,
        },
    }


async def lived_in(place: Place) -> None:
    """Create workloads of several kinds, and wait until they have settled."""
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await place.create(DEPLOYMENTS, workload("Deployment", "web"))
    await place.create(
        STATEFUL_SETS, workload("StatefulSet", "db", serviceName="db", volumeClaimTemplates=[claim])
    )
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "sum"}]}}
    await place.create(JOBS, {"metadata": {"name": "sum"}, "spec": {"template": template}})
    await place.create(
        SERVICES, {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    )
    await asyncio.sleep(30)


async def pods_of(place: Place) -> dict[str, Object]:
    return {name: await place.get(PODS, name) for name in await place.names(PODS)}


async def test_a_loaded_dump_continues_from_its_dumped_state(tmp_path: Path) -> None:
    # given a dumped cluster
    path = tmp_path / "dump.yaml"
    async with small_cluster(nodes=2) as place:
        await lived_in(place)
        before = await pods_of(place)
        path.write_text(await dump_of(place))
    # when another cluster starts from the dump
    dump = read_dump(path)
    cluster = Cluster(
        ClusterSettings(nodes=0), clock=make_loop_clock(start=START + 900), rng=random.Random(9)
    )
    loaded = await load(cluster.client, dump)
    for raw in (await cluster.client.list(NODES)).items:
        cluster.kubelets.adopt_node(node_spec_of(decode(raw)))
    async with cluster:
        place = Place(cluster)
        await asyncio.sleep(60)
        # then all objects were loaded, except the namespaces that always exist
        assert loaded.left_out == ()
        after = await pods_of(place)
        # and no pod was replaced or restarted
        assert set(after) == set(before)
        for name, old in before.items():
            new = after[name]
            assert new["spec"]["nodeName"] == old["spec"]["nodeName"]
            assert new["status"]["containerStatuses"] == old["status"]["containerStatuses"]
            assert new["status"]["phase"] == old["status"]["phase"]
            assert new["metadata"]["uid"] != old["metadata"]["uid"]
        # and owner references have the new uids
        (web,) = [name for name in await place.names(REPLICA_SETS) if name.startswith("web-")]
        replica_set = await place.get(REPLICA_SETS, web)
        pod = next(doc for name, doc in after.items() if name.startswith("web-"))
        assert pod["metadata"]["ownerReferences"][0]["uid"] == replica_set["metadata"]["uid"]
        job = await place.get(JOBS, "sum")
        assert job["status"]["succeeded"] == 1
        done = next(doc for name, doc in after.items() if name.startswith("sum-"))
        assert done["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] == job["metadata"]["uid"]
        # and claims keep their volumes
        claim = await place.get(PERSISTENT_VOLUME_CLAIMS, "data-db-0")
        assert claim["status"]["phase"] == "Bound"
        volume = await place.get(PERSISTENT_VOLUMES, claim["spec"]["volumeName"])
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        assert volume["status"]["phase"] == "Bound"
        # and controllers manage the loaded objects
        await place.merge(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})

        async def has_shrunk() -> bool:
            return len([name for name in await place.names(PODS) if name.startswith("web-")]) == 1

        await place.until(has_shrunk)


def dumped_node(name: str, *taints: Object, **spec: object) -> Object:
    """A Node as `kubectl get -o yaml` shows it."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-of-{name}", "annotations": {"team": "a"}},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


async def start_dumped(cluster: Cluster, *documents: Object) -> None:
    """Load the documents, and give each Node a kubelet, as `pykruise up --load` does."""
    loaded = await load(cluster.client, Dump(documents))
    assert loaded.left_out == ()
    for raw in (await cluster.client.list(NODES)).items:
        cluster.kubelets.adopt_node(node_spec_of(decode(raw)))


def new_cluster() -> Cluster:
    return Cluster(ClusterSettings(nodes=0), clock=make_loop_clock(start=START), rng=random.Random(1))


async def test_a_loaded_node_stays_cordoned_and_keeps_its_annotations_and_taints() -> None:
    # given
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    out = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoSchedule"}
    own = {"key": "example.com/gpu", "effect": "NoSchedule"}
    cluster = new_cluster()
    # when
    await start_dumped(cluster, dumped_node("a", cordon, out, own, unschedulable=True))
    async with cluster:
        place = Place(cluster)
        containers = [{"name": "main", "image": "web"}]
        await place.create(PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers}})
        await asyncio.sleep(90)
        # then
        node = decode(await cluster.client.get(NODES, "", "a"))
        assert node["metadata"]["annotations"] == {"team": "a"}
        assert node["spec"] == {"unschedulable": True, "taints": [cordon, out, own]}
        # and the scheduler uses no cordoned node
        pod = await place.get(PODS, "p")
        assert "nodeName" not in pod["spec"]


@pytest.mark.parametrize("key", ["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"])
async def test_the_pods_of_a_loaded_node_that_was_not_ready_stay(key: str) -> None:
    # given a pod that tolerates the taint for less time than has passed since then
    taint = {"key": key, "effect": "NoExecute", "timeAdded": "2020-01-01T00:00:00Z"}
    toleration = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "nodeName": "a",
            "containers": [{"name": "main", "image": "web"}],
            "tolerations": [toleration],
        },
        "status": {"phase": "Running"},
    }
    cluster = new_cluster()
    # when
    await start_dumped(cluster, dumped_node("a", taint), pod)
    async with cluster:
        await asyncio.sleep(400)
        # then
        assert await Place(cluster).names(PODS) == ["p"]
        assert not decode(await cluster.client.get(NODES, "", "a"))["spec"].get("taints")


async def loaded_from(*documents: Object) -> Loaded:
    return await load(new_cluster().client, Dump(documents))


async def test_objects_that_cannot_be_created_are_reported_and_the_rest_is_loaded() -> None:
    # when
    loaded = await loaded_from(
        {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}},
        {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "b"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}, "spec": {"containers": []}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d", "namespace": "default"}},
    )
    # then
    reasons = dict(loaded.left_out)
    assert loaded.created == 1
    assert "its CRD is missing" in reasons["Thing a"]
    assert "another cluster" in reasons["Event b"]
    assert "spec.containers" in reasons["Pod c"]


async def test_a_reference_to_an_owner_outside_the_dump_is_removed() -> None:
    # given
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "u-1", "controller": True}
    doc = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "uid": "u-2", "resourceVersion": "7", "ownerReferences": [owner]},
    }
    # then
    assert prepare_document(doc, {}) == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert prepare_document(doc, {"u-1": "new"})["metadata"]["ownerReferences"][0]["uid"] == "new"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: ]", ":1:4: invalid YAML"),
        ("- a\n- b\n", "document 1: expected an object, got list"),
        ("kind: Pod\nmetadata: {name: a}\n", "document 1: apiVersion: required"),
        (
            "{kind: List, items: [{apiVersion: v1, kind: Pod}]}",
            "document 1: items[0]: metadata.name: required",
        ),
    ],
)
def test_a_file_that_is_not_a_dump_is_refused_with_the_place(tmp_path: Path, text: str, problem: str) -> None:
    # given
    path = tmp_path / "dump.yaml"
    path.write_text(text)
    # then
    with pytest.raises(DumpError) as refused:
        read_dump(path)
    assert problem in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_failures_are_read_from_a_few_lines(tmp_path: Path) -> None:
    # given
    path = tmp_path / "rules.yaml"
    path.write_text(
        "# this image never becomes ready on that node after 30 s\n"
        "- image: shop:2.*\n  node: node-1\n  never_ready: true\n  after_s: 30\n"
    )
    # then
    assert read_rules(path) == (Rule(image="shop:2.*", node="node-1", never_ready=True, after_s=30.0),)
    path.write_text("")
    assert read_rules(path) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- image: a\n- image: b\n  never_ready: 'yes'\n", ":3: [1].never_ready: expected `bool`, got `str`"),
        ("- image: a\n  nodes: b\n", ":2: [0].nodes: unknown field; the fields are image, node,"),
        ("- labels: 'a in'\n", ":1: [0].labels: "),
        ("image: a\n", ":1: expected a list of rules"),
        ("- a: [\n", ": invalid YAML"),
    ],
)
def test_failures_that_cannot_be_read_are_an_error_with_line_and_field(
    tmp_path: Path, text: str, problem: str
) -> None:
    # given
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    # then
    with pytest.raises(FaultsFileError) as refused:
        read_rules(path)
    assert problem in str(refused.value)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)
