"""Cost of a pod: decoding, memory, and its share of a plan. Prints; asserts nothing.

PYTHONPATH=tests python -m bench.bench_plan [--pods 10000]
"""

import argparse
import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson

sys.path[:0] = [str(Path(__file__).parents[1])]

from pykruise.kinds.cloneset.plan import plan_cloneset  # noqa: E402
from pykruise.kinds.cloneset.snapshot import CloneSetSnapshot  # noqa: E402
from pykruise.kube.clock import format_time  # noqa: E402
from pykruise.kube.values.hashing import draw_suffix  # noqa: E402
from pykruise.plans.in_place import SeenInPlace  # noqa: E402
from pykruise.pods.view import keys  # noqa: E402
from pykruise.pods.view.decoding import PodProjector  # noqa: E402
from pykruise.pods.view.pod_view import PodView  # noqa: E402
from support.cloneset_builder import (  # noqa: E402
    NAME,
    NAMESPACE,
    NOW,
    UID,
    CloneSetBuilder,
    cloneset,
    revision,
    template,
)

NODES = 50


def pod_text(rng: random.Random, revision: str, *, was_updated: bool = False) -> bytes:
    """A pod of about 6 KB, as a real API server stores a running pod with two containers and managed fields."""
    instance_id = draw_suffix(rng, 10)  # long enough that all are different
    born = NOW - rng.randrange(86_400)
    uid = f"{rng.getrandbits(128):032x}"
    containers = [
        {
            "name": name,
            "image": f"registry.example.com/shop/{name}:1.27.3",
            "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(12)],
            "ports": [{"containerPort": 8080 + i, "protocol": "TCP"} for i in range(2)],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            "volumeMounts": [
                {
                    "name": f"kube-api-access-{instance_id}",
                    "readOnly": True,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                }
            ],
            "readinessProbe": {
                "httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"},
                "periodSeconds": 10,
            },
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
        }
        for name in ("main", "proxy")
    ]
    fields: dict[str, Any] = {f"f:field-{i}": {"f:inner": {}, ".": {}} for i in range(60)}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{NAME}-{instance_id}",
            "namespace": NAMESPACE,
            "uid": f"{uid[:8]}-{uid[8:12]}-{uid[12:16]}-{uid[16:20]}-{uid[20:]}",
            "resourceVersion": str(rng.randrange(10**8)),
            "creationTimestamp": format_time(born),
            "labels": {
                "app": NAME,
                "team": "storefront",
                keys.REVISION_LABEL: revision,
                keys.TEMPLATE_HASH_LABEL: revision.split("-")[-1],
                keys.INSTANCE_ID_LABEL: instance_id,
                keys.STATE_LABEL: "Normal",
            },
            "annotations": {keys.STATE_TIME_ANNOTATION: format_time(born + 3), "example.com/note": "x" * 200},
            "ownerReferences": [
                {
                    "apiVersion": "apps.kruise.io/v1beta1",
                    "kind": "CloneSet",
                    "name": NAME,
                    "uid": UID,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}],
        },
        "spec": {
            "containers": containers,
            "nodeName": f"node-{rng.randrange(NODES)}",
            "readinessGates": [
                {"conditionType": keys.IN_PLACE_READY},
                {"conditionType": keys.KRUISE_POD_READY},
            ],
            "restartPolicy": "Always",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": format_time(born + second)}
                for second, kind in enumerate(
                    (
                        keys.IN_PLACE_READY,
                        keys.KRUISE_POD_READY,
                        "PodReadyToStartContainers",
                        "Initialized",
                        "Ready",
                        "ContainersReady",
                        "PodScheduled",
                    )
                )
            ],
            "podIP": f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}",
            "containerStatuses": [
                {
                    "name": name,
                    "image": f"registry.example.com/shop/{name}:1.27.3",
                    "imageID": f"registry.example.com/shop/{name}@sha256:{'ab' * 32}",
                    "containerID": f"containerd://{rng.getrandbits(256):064x}",
                    "restartCount": 0,
                    "ready": True,
                    "state": {"running": {"startedAt": format_time(born + 2)}},
                }
                for name in ("main", "proxy")
            ],
        },
    }
    if was_updated:
        records = {name: {"imageID": f"{name}@sha256:{'cd' * 32}"} for name in ("main", "proxy")}
        state = {"revision": revision, "updateTimestamp": format_time(born), "lastContainerStatuses": records}
        annotations = pod["metadata"]["annotations"]
        annotations[keys.IN_PLACE_STATE_ANNOTATION] = orjson.dumps(state).decode()
    return orjson.dumps(pod)


def under_way(rng: random.Random, old: str, new: str, *, pods: int, waiting: int) -> list[bytes]:
    """The middle of an in-place rollout: half of the pods are old, and `waiting` pods still run their old image."""
    texts = []
    for number in range(pods):
        if number < pods // 2:
            texts.append(pod_text(rng, old))
            continue
        pod = orjson.loads(pod_text(rng, new))
        images = {status["name"]: status["imageID"] for status in pod["status"]["containerStatuses"]}
        is_waiting = number >= pods - waiting
        ran = images["main"] if is_waiting else f"main@sha256:{'cd' * 32}"
        state = {
            "revision": new,
            "updateTimestamp": format_time(NOW),
            "lastContainerStatuses": {"main": {"imageID": ran}},
            "updateImages": True,
            "containerBatchesRecord": [{"timestamp": format_time(NOW), "containers": ["main"]}],
        }
        pod["metadata"]["annotations"][keys.IN_PLACE_STATE_ANNOTATION] = orjson.dumps(state).decode()
        if is_waiting:
            pod["metadata"]["labels"][keys.STATE_LABEL] = "Updating"
            for status in pod["status"]["containerStatuses"]:
                status["image"] = "registry.example.com/shop/main:1.27.2"
            for condition in pod["status"]["conditions"]:
                if condition["type"] in (keys.IN_PLACE_READY, "Ready"):
                    condition["status"] = "False"
        texts.append(orjson.dumps(pod))
    return texts


def in_the_middle(rng: random.Random, *, pods: int, waiting: int) -> CloneSetSnapshot:
    """The same pods as one snapshot."""
    builder = cloneset(pods, pods=0, image="nginx:2", max_unavailable="100%")
    builder.with_revisions(revision(template("nginx:1"), 1), revision(template("nginx:2"), 2))
    builder.with_rolling(podUpdatePolicy="InPlaceIfPossible")
    old, new = builder.revision_views()
    project = PodProjector()
    texts = under_way(rng, old.name, new.name, pods=pods, waiting=waiting)
    return builder.snapshot_of([project(text) for text in texts], [old, new])


def timed(action: Callable[[], object], *, repeats: int) -> float:
    """CPU seconds of the fastest run, which other work on the machine affects least."""
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        action()
        best = min(best, time.thread_time() - start)
    return best


def snapshots(pods: list[PodView]) -> Iterator[tuple[str, CloneSetSnapshot]]:
    """Snapshots to plan: the same pods under different specs."""
    count = len(pods)

    def snapshot(builder: CloneSetBuilder) -> CloneSetSnapshot:
        return builder.snapshot_of(pods, builder.revision_views())

    yield "settled", snapshot(cloneset(count, pods=0))
    yield "settled, minReadySeconds", snapshot(cloneset(count, pods=0, minReadySeconds=30))
    yield "scale in by 10%", snapshot(cloneset(count - count // 10, pods=0))
    new_image = cloneset(count, pods=0, image="nginx:2", max_unavailable="20%")
    yield "update, maxUnavailable 20%", snapshot(new_image)
    yield "update of all at once", snapshot(cloneset(count, pods=0, image="nginx:2", max_unavailable="100%"))
    yield (
        "update, waiting for its turn",
        snapshot(
            cloneset(count, pods=0, image="nginx:2", max_unavailable=0, max_surge=1).with_status(replicas=1)
        ),
    )
    in_place = cloneset(count, pods=0, image="nginx:2", max_unavailable="20%")
    in_place.with_revisions(revision(template("nginx:1"), 1), revision(template("nginx:2"), 2))
    yield "update in place", snapshot(in_place.with_rolling(podUpdatePolicy="InPlaceIfPossible"))
    yield "scale out by 10%", snapshot(cloneset(count + count // 10, pods=0))


def main() -> None:
    """Decode, keep, plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--updated", action="store_true", help="pods that were updated in place before")
    args = parser.parse_args()
    count = args.pods
    rng = random.Random(1)
    revision = cloneset(1).update_revision
    texts = [pod_text(rng, revision, was_updated=args.updated) for _ in range(count)]
    print(f"{count} pods of {sum(map(len, texts)) / count / 1000:.1f} KB")

    project = PodProjector()
    for text in texts[:1000]:
        project(text)
    seconds = timed(lambda: [project(text) for text in texts], repeats=3)
    print(f"decode and project: {seconds / count * 1e6:.1f} µs a pod")

    gc.collect()
    tracemalloc.start()
    project = PodProjector()
    pods = [project(text) for text in texts]
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(f"kept in memory: {size / count / 1000:.2f} KB a pod")

    gc.collect()
    gc.freeze()
    for name, snapshot in snapshots(pods):
        plan = plan_cloneset(snapshot)
        steps = sum(1 for _ in plan.steps)
        seconds = timed(lambda snapshot=snapshot: plan_cloneset(snapshot), repeats=5)  # type: ignore[misc]
        print(f"plan, {name}: {seconds * 1000:.1f} ms, {steps} writes")
    waiting = min(300, count // 4)
    middle = in_the_middle(rng, pods=count, waiting=waiting)
    steps = sum(1 for _ in plan_cloneset(middle).steps)
    again = timed(lambda: plan_cloneset(middle), repeats=5)
    first = timed(lambda: plan_cloneset(msgspec.structs.replace(middle, seen=SeenInPlace())), repeats=5)
    print(f"plan, update in place, {waiting} under way: {first * 1000:.1f} ms, {steps} writes")
    print(f"... when the last plan has seen them already: {again * 1000:.1f} ms")


if __name__ == "__main__":
    main()
