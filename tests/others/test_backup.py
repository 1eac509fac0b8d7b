"""A backup of all kinds is restored into a new cluster, as by Velero: nothing is rolled out or created twice.

A backup tool restores the name, namespace, labels, annotations and spec of an object. UIDs are new, owners and
statuses are missing. A CloneSet does not adopt pods without an owner, like OpenKruise's. So the restore leaves out the
objects that controllers created: pods, revisions, and the workloads of a UnitedDeployment.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from others.cluster import Cluster, Document
from others.conftest import Loop
from switch_over.objects import objects_at_rest
from testbed.build import CONTROL_PLANE, Part, default_version
from testbed.control_plane import ControlPlane

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(900)]

WORKLOADS: Final = (
    *(
        "clonesets.apps.kruise.io",
        "statefulsets.apps.kruise.io",
        "daemonsets.apps.kruise.io",
        "uniteddeployments",
    ),
    *("deployments.apps", "statefulsets.apps"),
)
ORDER: Final = (
    *("configmaps", "secrets", "serviceaccounts", "persistentvolumeclaims", "advancedcronjobs"),
    *(
        "persistentpodstates",
        "podprobemarkers",
        "podunavailablebudgets",
        "resourcedistributions",
        "sidecarsets",
    ),
    *("workloadspreads", *WORKLOADS),
)
"""Kinds in the order in which they are restored."""

JOBS: Final = ("BroadcastJob", "ImagePullJob", "ImageListPullJob", "AdvancedCronJob")
"""Kinds that a backup leaves out: they run again when they are restored, like a Job of Kubernetes."""

OF_THE_CLUSTER: Final = ("kube-root-ca.crt", "default")
NAMESPACE: Final = "default"


@pytest.fixture
def two(needed: Callable[[Part, str], Path], loop: Loop, tmp_path: Path) -> Iterator[tuple[Cluster, Cluster]]:
    """Two clusters with pykruise; the second is started by the test."""
    needed(CONTROL_PLANE, default_version())
    clusters: list[Cluster] = []
    try:
        for name in ("old", "new"):
            (tmp_path / name).mkdir()
            clusters.append(Cluster(loop.run(ControlPlane.start()), tmp_path / name))
        yield clusters[0], clusters[1]
    finally:
        for cluster in clusters:
            cluster.stop()
            loop.run(cluster.plane.stop())


def backup(cluster: Cluster) -> dict[str, list[Document]]:
    """The objects of each kind, as a backup tool restores them."""
    kept: dict[str, list[Document]] = {}
    for kind in ORDER:
        listed = json.loads(cluster.kubectl("get", kind, "-A", "-o", "json", check=True))["items"]
        kept[kind] = [restorable(item) for item in listed if is_kept(item)]
    return kept


def is_kept(item: Document) -> bool:
    metadata = item["metadata"]
    return (
        metadata.get("namespace", NAMESPACE) == NAMESPACE
        and metadata["name"] not in OF_THE_CLUSTER
        and not metadata["name"].startswith("system-")
        and item["kind"] not in JOBS
        and "deletionTimestamp" not in metadata
        and not metadata.get("ownerReferences")
    )


def restorable(item: Document) -> Document:
    metadata = item["metadata"]
    kept = {
        name: metadata[name] for name in ("name", "namespace", "labels", "annotations") if name in metadata
    }
    result = {name: value for name, value in item.items() if name != "status"} | {"metadata": kept}
    if item["kind"] == "PersistentVolumeClaim":
        result["spec"] = {name: value for name, value in item["spec"].items() if name != "volumeName"}
        kept["annotations"] = {
            name: text for name, text in kept.get("annotations", {}).items() if "kubernetes.io" not in name
        }
    return result


def pods(cluster: Cluster) -> dict[str, str]:
    """UID of each pod that does not terminate, by name."""
    listed = cluster.list("pods")
    return {
        pod["metadata"]["name"]: pod["metadata"]["uid"]
        for pod in listed
        if "deletionTimestamp" not in pod["metadata"]
    }


def makeup(cluster: Cluster) -> Counter[tuple[str, str, str]]:
    """Number of pods of each app, revision and set of images."""
    return Counter(
        (
            pod["metadata"]["labels"].get("app", ""),
            pod["metadata"]["labels"].get("controller-revision-hash", "").rpartition("-")[2],
            ",".join(container["image"] for container in pod["spec"]["containers"]),
        )
        for pod in cluster.list("pods")
    )


async def settled(
    cluster: Cluster, *, all_ready: bool = True, quiet_s: float = 8.0, within_s: float = 180.0
) -> None:
    """Return when the pods have not changed for a while, and with `all_ready` are ready."""
    end, last, since = time.monotonic() + within_s, pods(cluster), time.monotonic()
    while time.monotonic() < end:
        await asyncio.sleep(1)
        now = pods(cluster)
        if now != last or (all_ready and unready(cluster)):
            last, since = now, time.monotonic()
        elif time.monotonic() - since > quiet_s:
            return
    raise AssertionError(f"pods go on changing, or are not ready: {unready(cluster)}")


def unready(cluster: Cluster) -> dict[str, Any]:
    """Pods that are not ready, with their conditions."""

    def missing(pod: Document) -> list[str]:
        conditions: list[Any] = (pod.get("status") or {}).get("conditions") or []
        if any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions):
            return []
        return [
            f"{item['type']}: {item.get('message', '')}" for item in conditions if item["status"] != "True"
        ] or ["none"]

    return {pod["metadata"]["name"]: why for pod in cluster.list("pods") if (why := missing(pod))}


@pytest.mark.program(
    "backup and restore as Velero does it",
    "",
    "workloads, sidecars and budgets restored into a new cluster: each pod exists once",
)
def test_a_restore_into_a_new_cluster_makes_the_same_pods_once(
    two: tuple[Cluster, Cluster], loop: Loop
) -> None:
    old, new = two
    # given a cluster with workloads of every kind, at rest
    loop.run(old.start())
    served = dict.fromkeys(
        ("CloneSet", "StatefulSet", "DaemonSet", "UnitedDeployment"), frozenset({"v1beta1"})
    )
    wanted = [item for item in objects_at_rest(served) if item["kind"] not in JOBS]
    old.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump_all(wanted), check=False)
    loop.run(settled(old))
    before = makeup(old)
    kept = backup(old)
    assert before.total() > 40
    # when it is restored into a new one, kind after kind, while the manager works
    loop.run(new.start())
    for kind in ORDER:
        if kept[kind]:
            new.kubectl("apply", "--server-side", "-f", "-", text=yaml.safe_dump_all(kept[kind]))
    loop.run(settled(new))
    # then each revision has as many pods as before, and no pod was created and deleted again
    assert makeup(new) == before
    events = json.loads(new.kubectl("get", "events", "-o", "json"))["items"]
    assert [event["message"] for event in events if event["reason"] in ("SuccessfulDelete", "Killing")] == []
