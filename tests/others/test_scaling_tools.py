"""KEDA and VerticalPodAutoscaler as their Go packages: their scaling, and the controllers that they find for pods.

Small programs in Go (testbed/keda-*, testbed/vpa-*) call the packages as their controllers do.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from others.cluster import Cluster, Document
from others.conftest import Loop
from others.modules import version_in_module
from others.programs import Program, program_of
from others.scalable import SCALED, app_of, workload
from testbed.build import KEDA, VPA, Part

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

KEDA_VERSION: Final = version_in_module(KEDA.module, f"{KEDA.name}-{KEDA.minors[-1]}")
VPA_VERSION: Final = version_in_module(VPA.module, f"{VPA.name}-{VPA.minors[-1]}")
NAMES_OF_KUBERNETES: Final = ("DaemonSet", "StatefulSet")
"""Kinds of pykruise with a name that Kubernetes' own kinds have. VPA ignores the API group of such a kind."""
WITHOUT_SCALE: Final = [("DaemonSet", "apps.kruise.io/v1beta1")]


def runs_keda(what: str) -> pytest.MarkDecorator:
    return pytest.mark.program("KEDA (its scale executor and resolver)", KEDA_VERSION, what)


def runs_vpa(what: str) -> pytest.MarkDecorator:
    return pytest.mark.program("VPA (its target fetcher and controller fetcher)", VPA_VERSION, what)


@pytest.fixture(scope="module")
def keda(needed: Callable[[Part, str], Path]) -> Program:
    return program_of(needed(KEDA, KEDA.minors[-1]) / "keda")


@pytest.fixture(scope="module")
def vpa(needed: Callable[[Part, str], Path]) -> Program:
    return program_of(needed(VPA, VPA.minors[-1]) / "vpa")


def count_pods(cluster: Cluster, app: str) -> int:
    """The number of pods of an app that do not terminate."""
    return len(cluster.images(app))


class Workloads:
    """A workload of each kind and version, and the reference of a ScaledObject or a VPA to it."""

    def __init__(self, cluster: Cluster, loop: Loop, prefix: str, kinds: list[tuple[str, str]]) -> None:
        self.cluster, self._loop, self.prefix, self._kinds = cluster, loop, prefix, kinds
        cluster.apply(*(workload(prefix, *item) for item in kinds))

    @property
    def targets(self) -> list[Document]:
        return [
            {"apiVersion": api_version, "kind": kind, "name": app_of(self.prefix, kind, api_version)}
            for kind, api_version in self._kinds
        ]

    def have(self, pods: int) -> None:
        """Return when each workload has this number of pods."""
        apps = [target["name"] for target in self.targets]
        self.until(lambda: {count_pods(self.cluster, app) for app in apps} == {pods}, f"{pods} pods each")

    def until(self, claim: Callable[[], Any], what: str) -> None:
        self._loop.run(self.cluster.until(claim, what=what))

    def delete(self) -> None:
        for kind, api_version in self._kinds:
            self.cluster.kubectl(
                "delete", f"{kind.lower()}s.apps.kruise.io", app_of(self.prefix, kind, api_version)
            )


@pytest.fixture
def scaled(cluster: Cluster, loop: Loop) -> Iterator[Workloads]:
    workloads = Workloads(cluster, loop, "keda", SCALED)
    yield workloads
    workloads.delete()


@runs_keda(
    "every kind with a scale in every version: scaled to zero while no trigger is active, and up when a trigger is"
    " active"
)
def test_keda_scales_every_kind_to_zero_and_back(keda: Program, scaled: Workloads) -> None:
    kubeconfig = str(scaled.cluster.plane.kubeconfig)

    def ask(*, is_active: bool, least: int) -> list[Document]:
        question = {"namespace": "default", "targets": scaled.targets, "isActive": is_active, "least": least}
        answers: list[Document] = keda(question, KUBECONFIG=kubeconfig)
        assert [(answer["error"], answer["ready"]) for answer in answers] == [("", "True")] * len(answers)
        return answers

    assert len(SCALED) >= 6
    scaled.have(2)
    # when no trigger is active
    answers = ask(is_active=False, least=0)
    # then KEDA reads the resource, the count and the containers (a UnitedDeployment has none of its own), and scales
    assert [answer["resource"] for answer in answers] == [f"{kind.lower()}s" for kind, _ in SCALED]
    assert [(answer["before"], answer["after"]) for answer in answers] == [(2, 0)] * len(SCALED)
    assert [answer["containers"] for answer in answers] == [
        [] if kind == "UnitedDeployment" else ["main"] for kind, _ in SCALED
    ]
    scaled.have(0)
    # when one is active
    answers = ask(is_active=True, least=0)
    assert [(answer["before"], answer["after"]) for answer in answers] == [(0, 1)] * len(SCALED)
    scaled.have(1)
    # when the least count of an idle target is raised
    answers = ask(is_active=False, least=3)
    assert [(answer["before"], answer["after"]) for answer in answers] == [(1, 3)] * len(SCALED)
    scaled.have(3)


@pytest.fixture
def owning(cluster: Cluster, loop: Loop) -> Iterator[Workloads]:
    workloads = Workloads(cluster, loop, "vpa", [*SCALED, *WITHOUT_SCALE])
    yield workloads
    workloads.delete()


def first_pod(cluster: Cluster, app: str) -> str:
    return str(cluster.list("pods", f"app={app}")[0]["metadata"]["name"])


@runs_vpa(
    "every kind with a scale in every version: VPA finds the pods of a target and the controller of a pod; it treats"
    " every StatefulSet and DaemonSet as Kubernetes' own kind; for a pod of a UnitedDeployment it finds the workload"
    " of the subset as the controller"
)
def test_vpa_finds_the_pods_of_a_target_and_the_controller_of_a_pod(vpa: Program, owning: Workloads) -> None:
    cluster, targets = owning.cluster, owning.targets
    apps = [target["name"] for target in targets]
    owning.until(lambda: all(count_pods(cluster, app) >= 2 for app in apps), "each has pods")
    pods = [first_pod(cluster, app) for app in apps]
    question = {"namespace": "default", "targets": targets, "pods": pods}
    # when
    answer = vpa(question, KUBECONFIG=str(cluster.plane.kubeconfig))
    # then
    for target, selected, controller in zip(targets, answer["targets"], answer["pods"], strict=True):
        if target["kind"] in NAMES_OF_KUBERNETES:  # VPA looks for the kind in apps/v1
            assert selected["error"], target
            assert controller["error"], target
            continue
        assert selected == {"selector": f"app={target['name']}", "error": ""}, target
        assert controller["error"] == ""
        if target["kind"] == "UnitedDeployment":  # a scale has no owners, so VPA finds a CloneSet
            assert controller["kind"] == "CloneSet"
            assert controller["name"].startswith(target["name"])
        else:
            assert (controller["kind"], controller["name"]) == (target["kind"], target["name"])
