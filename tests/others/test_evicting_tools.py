"""Descheduler and Karpenter's packages with pykruise: known owners, respected budgets, evictions."""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from others.cluster import NODES, Cluster, Document
from others.conftest import Loop
from others.modules import version_in_module
from others.programs import Program, program_of
from others.scalable import app_of, workload
from testbed.build import DESCHEDULER, KARPENTER, Part

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

DESCHEDULER_VERSION: Final = version_in_module(
    DESCHEDULER.module, f"{DESCHEDULER.name}-{DESCHEDULER.minors[-1]}"
)
KARPENTER_VERSION: Final = version_in_module(KARPENTER.module, f"{KARPENTER.name}-{KARPENTER.minors[-1]}")

BETA: Final = "apps.kruise.io/v1beta1"
CLONE_SET, STATEFUL_SET = ("CloneSet", BETA), ("StatefulSet", BETA)
ADVANCED, OWN = ("DaemonSet", BETA), ("DaemonSet", "apps/v1")
UNITED: Final = ("UnitedDeployment", "apps.kruise.io/v1alpha1")

Owner = tuple[str, str]

LIFETIME_S = 1
"""Age in seconds from which the descheduler evicts a pod."""


def runs_descheduler(what: str) -> pytest.MarkDecorator:
    return pytest.mark.program("descheduler", DESCHEDULER_VERSION, what)


def runs_karpenter(what: str) -> pytest.MarkDecorator:
    return pytest.mark.program("Karpenter (its pod rules, limits, eviction queue)", KARPENTER_VERSION, what)


class Apps:
    """Workloads of one test, by the owner of their pods."""

    def __init__(self, cluster: Cluster, loop: Loop, prefix: str) -> None:
        self.cluster, self._loop, self._prefix = cluster, loop, prefix
        self._objects: list[tuple[str, str]] = []
        self._changes = 0

    def _prefix_of(self, owner: Owner) -> str:
        """The prefix of names. Kinds of Kubernetes have another one, because pykruise has kinds of the same name."""
        return self._prefix if owner[1].startswith("apps.kruise.io") else f"kubernetes-{self._prefix}"

    def name_of(self, owner: Owner) -> str:
        return app_of(self._prefix_of(owner), *owner)

    def create(self, *owners: Owner, replicas: int = NODES, annotations: Document | None = None) -> None:
        """Create a workload for each owner, and return when all pods are ready."""
        for owner in owners:
            document = workload(self._prefix_of(owner), *owner, replicas=replicas)
            template = document["spec"]["template"]
            if annotations:
                template["metadata"]["annotations"] = annotations
            self.apply(document)
        self.until(lambda: all(self.count_ready(owner) == replicas for owner in owners), "all pods are ready")

    def apply(self, document: Document) -> None:
        """Create any object, which `delete()` deletes."""
        self.cluster.apply(document)
        group = document["apiVersion"].rpartition("/")[0]
        plural = f"{document['kind'].lower()}s{'.' if group else ''}{group}"
        self._objects.append((plural, document["metadata"]["name"]))

    def pods_of(self, owner: Owner) -> list[Document]:
        """Return the owner's pods that do not terminate."""
        pods = self.cluster.list("pods", f"app={self.name_of(owner)}")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def uids_of(self, owner: Owner) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self.pods_of(owner)}

    def count_ready(self, owner: Owner) -> int:
        return sum(
            condition["type"] == "Ready" and condition["status"] == "True"
            for pod in self.pods_of(owner)
            for condition in pod.get("status", {}).get("conditions", ())
        )

    def count_disruptions(self, budget: str) -> int:
        """The disruptions that a PodDisruptionBudget allows.

        Kubernetes reads the list of kinds every 30 seconds, and tries a failed budget again when the budget changes.
        """
        self._changes += 1
        self.cluster.patch("pdb", budget, {"metadata": {"annotations": {"changes": str(self._changes)}}})
        return int(self.cluster.get("pdb", budget)["status"]["disruptionsAllowed"])

    def until(self, claim: Callable[[], Any], what: str) -> None:
        self._loop.run(self.cluster.until(claim, what=what))

    def delete(self) -> None:
        for plural, name in reversed(self._objects):
            self.cluster.kubectl("delete", plural, name)


@pytest.fixture
def apps(cluster: Cluster, loop: Loop, request: pytest.FixtureRequest) -> Iterator[Apps]:
    apps = Apps(cluster, loop, "".join(word[0] for word in request.node.name.split("_")))
    yield apps
    apps.delete()


def unavailable_budget(app: str, most: int) -> Document:
    return {
        "apiVersion": "policy.kruise.io/v1alpha1",
        "kind": "PodUnavailableBudget",
        "metadata": {"name": app},
        "spec": {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": most},
    }


def disruption_budget(app: str, name: str, most: int | str) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": most},
    }


# ── descheduler ──────────────────────────────────────────────────────────────


class Descheduler:
    """Evicts pods that are older than a second, once for each call."""

    def __init__(self, program: Path, cluster: Cluster, folder: Path) -> None:
        self._program, self._cluster, self._folder = program, cluster, folder

    def run(self, apps: list[str], *, limits: Document | None = None, evictor: Document | None = None) -> str:
        """Run it, and return its log. `limits`: of evictions; `evictor`: arguments of its evictor."""
        lifetime = {
            "maxPodLifeTimeSeconds": LIFETIME_S,
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": apps}]},
        }
        policy = {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerPolicy",
            **(limits or {}),
            "profiles": [
                {
                    "name": "old",
                    "pluginConfig": [
                        {"name": "DefaultEvictor", "args": evictor or {}},
                        {"name": "PodLifeTime", "args": lifetime},
                    ],
                    "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
                }
            ],
        }
        path = self._folder / "policy.yaml"
        path.write_text(yaml.safe_dump(policy))
        words = (f"--kubeconfig={self._cluster.plane.kubeconfig}", f"--policy-config-file={path}")
        command = [str(self._program), *words, "--secure-port=0", "--disable-metrics", "-v=3"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stderr


@pytest.fixture
def descheduler(needed: Callable[[Part, str], Path], cluster: Cluster, tmp_path: Path) -> Descheduler:
    return Descheduler(needed(DESCHEDULER, DESCHEDULER.minors[-1]) / "descheduler", cluster, tmp_path)


@runs_descheduler(
    "PodUnavailableBudget: it evicts as many pods as the budget allows, and continues when they are ready"
)
def test_descheduler_evicts_as_many_pods_as_a_budget_allows(descheduler: Descheduler, apps: Apps) -> None:
    apps.create(CLONE_SET)
    app = apps.name_of(CLONE_SET)
    apps.apply(unavailable_budget(app, 1))
    apps.until(
        lambda: apps.cluster.get("podunavailablebudget", app)["status"]["unavailableAllowed"] == 1,
        "the budget allows one",
    )
    first = apps.uids_of(CLONE_SET)
    # when
    descheduler.run([app])
    # then one pod is replaced
    apps.until(lambda: apps.count_ready(CLONE_SET) == NODES, "all pods are ready")
    second = apps.uids_of(CLONE_SET)
    assert len(first & second) == NODES - 1
    # and a second run evicts the next
    apps.until(
        lambda: apps.cluster.get("podunavailablebudget", app)["status"]["unavailableAllowed"] == 1,
        "the budget allows one again",
    )
    descheduler.run([app])
    apps.until(lambda: apps.count_ready(CLONE_SET) == NODES, "all pods are ready")
    assert len(second & apps.uids_of(CLONE_SET)) == NODES - 1


@runs_descheduler(
    "owners: it evicts pods of every workload, except pods of DaemonSets and Advanced DaemonSets; `minReplicas` and"
    " limits of evictions have an effect"
)
def test_descheduler_knows_the_owners_of_pods(descheduler: Descheduler, apps: Apps) -> None:
    evicted, kept = (CLONE_SET, STATEFUL_SET, UNITED), (ADVANCED, OWN)
    apps.create(*evicted, *kept)
    names = [apps.name_of(owner) for owner in (*evicted, *kept)]
    before = {owner: apps.uids_of(owner) for owner in (*evicted, *kept)}
    # when an owner needs more pods than it has
    descheduler.run(names, evictor={"minReplicas": NODES + 1})
    # then no pod is evicted
    assert {owner: apps.uids_of(owner) for owner in before} == before
    # when the namespace has a limit
    descheduler.run(names, limits={"maxNoOfPodsToEvictPerNamespace": 1})
    # then one pod is evicted
    apps.until(lambda: all(apps.count_ready(owner) == NODES for owner in before), "all pods are ready")
    after = {owner: apps.uids_of(owner) for owner in before}
    assert sum(len(before[owner] - after[owner]) for owner in before) == 1
    # when nothing limits it, and the newest pod is older than the limit as well
    time.sleep(2 * LIFETIME_S)
    descheduler.run(names)
    # then all pods are evicted, except those of DaemonSets
    apps.until(lambda: all(apps.count_ready(owner) == NODES for owner in before), "all pods are ready")
    assert [len(after[owner] & apps.uids_of(owner)) for owner in evicted] == [0] * len(evicted)
    assert {owner: apps.uids_of(owner) for owner in kept} == {owner: before[owner] for owner in kept}


# ── Karpenter ────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def karpenter(needed: Callable[[Part, str], Path], cluster: Cluster) -> Program:
    ask = program_of(needed(KARPENTER, KARPENTER.minors[-1]) / "karpenter")
    return lambda *words, **question: ask(
        {"namespace": "default", **question}, *words, KUBECONFIG=str(cluster.plane.kubeconfig)
    )


def treatments(karpenter: Program, apps: Apps, owner: Owner) -> list[Document]:
    """The way in which Karpenter treats each pod of an owner."""
    answers = karpenter("pods")
    return [answers[pod["metadata"]["name"]] for pod in apps.pods_of(owner)]


@runs_karpenter(
    "owners: pods of every workload are rescheduled and evicted; Karpenter treats pods of an Advanced DaemonSet like"
    " pods of other workloads, not like pods of a DaemonSet; `do-not-disrupt` and the deletion cost in a template have"
    " an effect"
)
def test_karpenter_treats_pods_by_their_owner(karpenter: Program, apps: Apps) -> None:
    apps.create(STATEFUL_SET, UNITED, ADVANCED, OWN)
    apps.create(
        CLONE_SET,
        annotations={
            "karpenter.sh/do-not-disrupt": "true",
            "controller.kubernetes.io/pod-deletion-cost": "134217728",
        },
    )
    for owner in (STATEFUL_SET, UNITED, ADVANCED):
        for treatment in treatments(karpenter, apps, owner):
            assert treatment["reschedulable"], owner
            assert treatment["evictable"], owner
            assert treatment["drainable"], owner
            assert (treatment["daemonSet"], treatment["statefulSet"]) == (False, False), owner
    # then Karpenter treats only a DaemonSet of Kubernetes as a DaemonSet
    assert all(item["daemonSet"] and not item["reschedulable"] for item in treatments(karpenter, apps, OWN))
    # and a template's annotations reach the pods
    for treatment in treatments(karpenter, apps, CLONE_SET):
        assert (treatment["disruptable"], treatment["evictable"]) == (False, False)
        assert treatment["cost"] == 2.0


@runs_karpenter(
    "budgets: a PodDisruptionBudget with a percentage for a CloneSet; the eviction queue waits while a"
    " PodUnavailableBudget rejects an eviction, and continues when the budget allows it"
)
def test_karpenter_respects_both_kinds_of_budgets(karpenter: Program, apps: Apps) -> None:
    apps.create(CLONE_SET)
    app = apps.name_of(CLONE_SET)
    # given a budget in percent, for which Kubernetes reads the scale of the owner
    apps.apply(disruption_budget(app, "half", "50%"))
    apps.until(lambda: apps.count_disruptions("half") == NODES // 2, "half of the pods may be disrupted")
    assert [item["blockers"] for item in treatments(karpenter, apps, CLONE_SET)] == [[]] * NODES
    apps.cluster.patch("pdb", "half", {"spec": {"maxUnavailable": 0}})
    apps.until(
        lambda: apps.cluster.get("pdb", "half")["status"]["disruptionsAllowed"] == 0,
        "no pod may be disrupted",
    )
    assert [item["blockers"] for item in treatments(karpenter, apps, CLONE_SET)] == [["half"]] * NODES
    apps.cluster.patch("pdb", "half", {"spec": {"maxUnavailable": "100%"}})
    # given a PodUnavailableBudget that allows none
    apps.apply(unavailable_budget(app, 0))
    apps.until(
        lambda: apps.cluster.get("podunavailablebudget", app)["status"]["totalReplicas"] == NODES,
        "the budget counts the pods",
    )
    pod = apps.pods_of(CLONE_SET)[0]["metadata"]
    # when
    refused = karpenter("evict", pod=pod["name"])
    # then the pod stays in the queue, as for a PodDisruptionBudget
    assert refused == {"isDone": False, "events": ["FailedDraining"]}
    assert pod["uid"] in apps.uids_of(CLONE_SET)
    # when the budget allows one
    apps.cluster.patch("podunavailablebudget", app, {"spec": {"maxUnavailable": 1}})
    apps.until(
        lambda: apps.cluster.get("podunavailablebudget", app)["status"]["unavailableAllowed"] == 1,
        "the budget allows one",
    )
    apps.until(lambda: karpenter("evict", pod=pod["name"])["isDone"], "Karpenter evicts the pod")
    # then another pod takes its place
    apps.until(lambda: apps.count_ready(CLONE_SET) == NODES, "all pods are ready")
    assert pod["uid"] not in apps.uids_of(CLONE_SET)
