"""OpenKruise Rollouts, unchanged, controls rollouts of pykruise's workloads: canary, blue-green, rollbacks."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from others.cluster import NODES, Cluster, Document
from others.conftest import Loop, running
from testbed.build import ROLLOUTS, Part
from testbed.rollouts import Rollouts

RELEASE: Final = ROLLOUTS.minors[-1]
VERSION: Final = "0.6.2"
pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

OLD, NEW, NEWER = "web:1", "web:2", "web:3"


def runs(what: str) -> pytest.MarkDecorator:
    return pytest.mark.program("OpenKruise Rollouts", VERSION, what)


@pytest.fixture(scope="module", autouse=True)
def rollouts(needed: Callable[[Part, str], Path], cluster: Cluster, loop: Loop) -> Iterator[Rollouts]:
    """The manager of Rollouts beside pykruise's."""
    needed(ROLLOUTS, RELEASE)
    with running(loop, Rollouts(cluster.plane, RELEASE)) as manager:
        yield manager


class Workload(NamedTuple):
    """A workload that a Rollout may refer to."""

    api_version: str
    kind: str
    resource: str
    pods: int
    spec: Document

    def to_document(self, name: str) -> Document:
        labels = {"app": name}
        containers = [{"name": "main", "image": OLD}]
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {"name": name, "labels": labels},
            "spec": {
                **({} if self.kind == "DaemonSet" else {"replicas": self.pods}),
                **self.spec,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"terminationGracePeriodSeconds": 1, "containers": containers},
                },
            },
        }


CLONE_SET: Final = Workload(
    "apps.kruise.io/v1alpha1",
    "CloneSet",
    "clonesets",
    5,
    {"updateStrategy": {"maxUnavailable": 1, "maxSurge": 1}},
)
WORKLOADS: Final = {
    "CloneSet": CLONE_SET,
    "Advanced StatefulSet": Workload(
        "apps.kruise.io/v1beta1",
        "StatefulSet",
        "statefulsets.apps.kruise.io",
        5,
        {
            "serviceName": "db",
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}},
        },
    ),
    "Advanced DaemonSet": Workload(
        "apps.kruise.io/v1alpha1",
        "DaemonSet",
        "daemonsets.apps.kruise.io",
        NODES,
        {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}},
    ),
    "Deployment": Workload("apps/v1", "Deployment", "deployments", 5, {}),
}


def rollout(name: str, workload: Workload, **strategy: Any) -> Document:
    return {
        "apiVersion": "rollouts.kruise.io/v1beta1",
        "kind": "Rollout",
        "metadata": {"name": name},
        "spec": {
            "workloadRef": {"apiVersion": workload.api_version, "kind": workload.kind, "name": name},
            "strategy": strategy,
        },
    }


def canary(name: str, workload: Workload, *steps: Document) -> Document:
    return rollout(name, workload, canary={"enableExtraWorkloadForCanary": False, "steps": list(steps)})


def waits(share: str) -> Document:
    """A step that ends when a person approves it."""
    return {"replicas": share, "pause": {}}


class Stage:
    """One workload with its Rollout."""

    def __init__(self, cluster: Cluster, loop: Loop, workload: Workload, name: str) -> None:
        self.cluster, self.loop, self.workload, self.name = cluster, loop, workload, name

    def begin(self, *documents: Document) -> None:
        """Create the workload, then the rest, and wait until both are healthy."""
        self.cluster.apply(self.workload.to_document(self.name), *documents)
        self.has_images([OLD] * self.workload.pods)
        self.until(lambda: self.rollout()["phase"] == "Healthy", "the Rollout is healthy")

    def set_image(self, image: str) -> None:
        change = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]
        self.cluster.json_patch(self.workload.resource, self.name, change)

    def rollout(self) -> Document:
        status: Document = self.cluster.get("rollouts.rollouts.kruise.io", self.name)["status"]
        return status

    def is_paused_in(self, step: int) -> bool:
        status = self.rollout()
        return (status.get("currentStepIndex"), status.get("currentStepState")) == (step, "StepPaused")

    def pauses_in(self, step: int) -> None:
        self.until(lambda: self.is_paused_in(step), f"step {step} waits for approval")

    def approve(self) -> None:
        done = self.cluster.kruise("rollout", "approve", f"rollout/{self.name}")
        assert done.returncode == 0, done.stderr

    def has_images(self, images: list[str]) -> None:
        self.until(lambda: self.images() == sorted(images) and self.is_ready(), f"the images are {images}")

    def images(self) -> list[str]:
        return self.cluster.images(self.name)

    def is_ready(self) -> bool:
        pods = self.cluster.list("pods", f"app={self.name}")
        return all(
            any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in pod["status"]["conditions"]
            )
            for pod in pods
        )

    def ends(self, image: str, *, pods: int | None = None) -> None:
        """Wait until the Rollout is over: all pods have the image, and the workload has no marks of it."""
        self.has_images([image] * (pods or self.workload.pods))
        self.until(lambda: self.rollout()["phase"] == "Healthy", "the Rollout is healthy")
        annotations = self.cluster.get(self.workload.resource, self.name)["metadata"].get("annotations", {})
        assert not any("in-progressing" in name or "control-info" in name for name in annotations), (
            annotations
        )

    def until(self, claim: Callable[[], Any], what: str) -> None:
        self.loop.run(self.cluster.until(claim, what=f"{self.workload.kind} {self.name}: {what}"))


@pytest.fixture
def stage(cluster: Cluster, loop: Loop) -> Callable[[Workload, str], Stage]:
    return lambda workload, name: Stage(cluster, loop, workload, name)


Staging = Callable[[Workload, str], Stage]


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(workload, marks=runs(f"{kind}: canary by partition, approved"))
        for kind, workload in WORKLOADS.items()
    ],
    ids=[kind.replace(" ", "-") for kind in WORKLOADS],
)
def test_a_canary_continues_when_it_is_approved(stage: Staging, workload: Workload) -> None:
    # given
    name = f"canary-{workload.kind.lower()}"
    it = stage(workload, name)
    it.begin(
        canary(
            name, workload, waits("20%"), {"replicas": "60%", "pause": {"duration": 2}}, {"replicas": "100%"}
        )
    )
    # when
    it.set_image(NEW)
    # then one pod is new until a person approves more
    it.pauses_in(1)
    assert sorted(it.images()) == sorted([NEW, *[OLD] * (workload.pods - 1)])
    it.approve()
    it.ends(NEW)


@runs("CloneSet: rolled back during a step")
def test_a_reverted_canary_leaves_no_new_pod(stage: Staging) -> None:
    it = stage(CLONE_SET, "back")
    it.begin(canary("back", CLONE_SET, waits("40%"), {"replicas": "100%"}))
    it.set_image(NEW)
    it.pauses_in(1)
    old = {pod["metadata"]["uid"] for pod in it.cluster.list("pods", "app=back") if OLD in str(pod["spec"])}
    # when
    it.set_image(OLD)
    # then
    it.ends(OLD)
    assert old <= {pod["metadata"]["uid"] for pod in it.cluster.list("pods", "app=back")}


@runs("CloneSet: a new release that begins during another release")
def test_a_newer_release_replaces_a_waiting_release(stage: Staging) -> None:
    it = stage(CLONE_SET, "again")
    it.begin(canary("again", CLONE_SET, waits("20%"), {"replicas": "100%"}))
    it.set_image(NEW)
    it.pauses_in(1)
    # when
    it.set_image(NEWER)
    # then the canary is of the newer one
    it.until(
        lambda: sorted(it.images()) == sorted([NEWER, *[OLD] * 4]) and it.is_paused_in(1),
        "the canary is newer",
    )
    it.approve()
    it.ends(NEWER)


@runs("CloneSet: scaled while a step waits for approval")
def test_a_canary_keeps_its_share_when_the_workload_is_scaled(stage: Staging) -> None:
    it = stage(CLONE_SET, "scaled")
    it.begin(canary("scaled", CLONE_SET, waits("20%"), {"replicas": "100%"}))
    it.set_image(NEW)
    it.pauses_in(1)
    # when
    it.cluster.kubectl("scale", "clonesets", "scaled", "--replicas=10")
    # then
    it.has_images([*[NEW] * 2, *[OLD] * 8])
    it.approve()
    it.ends(NEW, pods=10)


@runs("CloneSet: a Rollout that was created after its workload")
def test_a_rollout_may_be_created_after_its_workload(stage: Staging) -> None:
    it = stage(CLONE_SET, "late")
    it.cluster.apply(CLONE_SET.to_document("late"))
    it.has_images([OLD] * 5)
    it.set_image(NEW)
    it.has_images([NEW] * 5)
    # when
    it.cluster.apply(canary("late", CLONE_SET, waits("20%"), {"replicas": "100%"}))
    it.until(lambda: it.rollout()["phase"] == "Healthy", "the Rollout is healthy")
    it.set_image(NEWER)
    # then
    it.pauses_in(1)
    assert sorted(it.images()) == sorted([NEWER, *[NEW] * 4])
    it.approve()
    it.ends(NEWER)


def service(name: str) -> tuple[Document, Document]:
    """A Service and an Ingress, so that traffic can be told apart."""
    backend = {"service": {"name": name, "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    return (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": name},
            "spec": {
                "ingressClassName": "nginx",
                "rules": [{"host": f"{name}.example.com", "http": {"paths": [path]}}],
            },
        },
    )


def blue_green(name: str) -> Document:
    steps = [
        {"replicas": "100%", "traffic": "0%", "pause": {}},
        {"replicas": "100%", "traffic": "100%", "pause": {}},
    ]
    routing = [{"service": name, "ingress": {"classType": "nginx", "name": name}}]
    return rollout(name, CLONE_SET, blueGreen={"steps": steps, "trafficRoutings": routing})


@runs("CloneSet: blue-green with traffic of an Ingress, approved")
def test_blue_and_green_pods_run_side_by_side_until_approved(stage: Staging) -> None:
    it = stage(CLONE_SET, "blue")
    it.begin(*service("blue"), blue_green("blue"))
    # when
    it.set_image(NEW)
    # then all new pods exist beside all old ones, and no new pod counts as available
    it.has_images([*[OLD] * 5, *[NEW] * 5])
    it.pauses_in(1)
    it.approve()
    it.pauses_in(2)
    assert sorted(it.images()) == sorted([*[OLD] * 5, *[NEW] * 5])
    it.approve()
    it.ends(NEW)


@runs("CloneSet: blue-green, scaled down while the new pods wait for approval")
def test_a_blue_green_release_ends_after_a_scale_down_in_the_middle(stage: Staging) -> None:
    it = stage(CLONE_SET, "less")
    it.begin(*service("less"), blue_green("less"))
    it.set_image(NEW)
    it.has_images([*[OLD] * 5, *[NEW] * 5])
    it.pauses_in(1)
    # when
    it.cluster.kubectl("scale", "clonesets", "less", "--replicas=3")
    it.approve()
    # then, as with OpenKruise's manager, no pod counts as available, so none is deleted before the release ends
    it.pauses_in(2)
    assert sorted(it.images()) == sorted([*[OLD] * 5, *[NEW] * 5])
    it.approve()
    it.ends(NEW, pods=3)


@runs("CloneSet: blue-green, rolled back")
def test_green_pods_are_deleted_when_a_blue_green_release_is_reverted(stage: Staging) -> None:
    it = stage(CLONE_SET, "green")
    it.begin(*service("green"), blue_green("green"))
    old = {pod["metadata"]["uid"] for pod in it.cluster.list("pods", "app=green")}
    it.set_image(NEW)
    it.has_images([*[OLD] * 5, *[NEW] * 5])
    it.pauses_in(1)
    # when
    it.set_image(OLD)
    # then the old pods are the same as before
    it.ends(OLD)
    assert {pod["metadata"]["uid"] for pod in it.cluster.list("pods", "app=green")} == old


@runs("CloneSet: `kubectl kruise` describes the Rollout and undoes the release")
def test_kubectl_kruise_describes_and_undoes_a_release(stage: Staging) -> None:
    it = stage(CLONE_SET, "undone")
    it.begin(canary("undone", CLONE_SET, waits("40%"), {"replicas": "100%"}))
    it.set_image(NEW)
    it.pauses_in(1)
    old = {pod["metadata"]["uid"] for pod in it.cluster.list("pods", "app=undone") if OLD in str(pod["spec"])}
    # when
    described = it.cluster.kruise("describe", "rollout", "undone")
    undone = it.cluster.kruise("rollout", "undo", "rollout/undone")
    # then
    assert described.returncode == 0, described.stderr
    assert "StepPaused" in described.stdout, described.stdout
    assert undone.returncode == 0, undone.stderr
    it.ends(OLD)
    assert old <= {pod["metadata"]["uid"] for pod in it.cluster.list("pods", "app=undone")}
