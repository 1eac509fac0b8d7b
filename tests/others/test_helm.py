"""Helm 3 and Helm 4, unchanged, install, upgrade, roll back and uninstall every kind and pykruise's own chart."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
import yaml

from others.client_work import NAMESPACE, Document, Place
from others.gitops_objects import State, is_observed, samples, states, with_image
from others.modules import version_in_module
from support.charts import IMAGE_VALUES
from support.control_plane import running_plane
from support.helm import HERE
from support.helm import build as build_helm_3
from testbed.build import HELM, Part
from testbed.control_plane import ControlPlane

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(900)]

CHART: Final = Path(__file__).parents[2] / "charts" / "pykruise"
VERSIONS: Final = {
    "3": version_in_module("helm.sh/helm/v3", str(HERE)),
    "4": version_in_module(HELM.module, f"{HELM.name}-{HELM.minors[-1]}"),
}
LONG_S: Final = {"3": 60.0, "4": 0.0}
"""Seconds until the pods have followed after `--wait`: Helm 3 does not wait for custom resources."""
real: Final = pytest.mark.parametrize("place", ["real"], indirect=True)


def runs_in_both(what: str) -> pytest.MarkDecorator:
    """Both releases of Helm, as the parameter `release`."""
    return pytest.mark.parametrize(
        "release",
        [
            pytest.param(release, marks=pytest.mark.program("Helm", version, what), id=f"helm-{release}")
            for release, version in VERSIONS.items()
        ],
    )


class Helm:
    """One release of Helm with its own home."""

    def __init__(self, program: Path, kubeconfig: Path, home: Path, namespace: str) -> None:
        self._program = program
        self._home = home
        self._namespace = namespace
        self._environment = {"HOME": str(home), "PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig)}

    def try_to_run(self, *words: str) -> tuple[int, str]:
        """Return the exit code of a command and all its output."""
        done = subprocess.run(
            [str(self._program), *words, "-n", self._namespace],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def run(self, *words: str) -> str:
        """Return the output of a command, which must succeed."""
        code, output = self.try_to_run(*words)
        assert code == 0, output
        return output

    def write_chart(self, name: str, documents: Iterable[Document]) -> str:
        """Write a chart with these objects, and return its folder."""
        chart = self._home / name
        (chart / "templates").mkdir(parents=True, exist_ok=True)
        (chart / "Chart.yaml").write_text(
            yaml.safe_dump({"apiVersion": "v2", "name": name, "version": "1.0.0"})
        )
        (chart / "templates" / "all.yaml").write_text(yaml.safe_dump_all(documents))
        return str(chart)

    def upgrade(self, name: str, documents: Iterable[Document], *words: str) -> tuple[int, str]:
        """Install or upgrade a chart with these objects, and wait for them."""
        chart = self.write_chart(name, documents)
        return self.try_to_run("upgrade", "--install", name, chart, "--wait", *words)


@pytest.fixture
def programs(needed: Callable[[Part, str], Path]) -> dict[str, Path]:
    """The programs of both releases."""
    return {"4": needed(HELM, HELM.minors[-1]) / "helm", "3": build_helm_3()}


@pytest.fixture
def helm(programs: dict[str, Path], place: Place, tmp_path: Path, release: str) -> Iterator[Helm]:
    """Helm in one version, on the cluster with pykruise. Afterwards all charts are uninstalled, in any case."""
    helm = Helm(programs[release], place.kubeconfig, tmp_path, NAMESPACE)
    yield helm
    all_of_helm_3 = ("--all",) if release == "3" else ()  # Helm 4 lists releases in every state
    for name in helm.run("list", *all_of_helm_3, "--short").split():
        helm.run("uninstall", name, "--wait", "--timeout=90s")


@real
@runs_in_both(
    "every kind: installed, upgraded without a change and with a change, rolled back, uninstalled; each step waits"
    " until the objects are ready"
)
def test_helm_installs_upgrades_rolls_back_and_uninstalls_every_kind(
    helm: Helm, place: Place, release: str
) -> None:
    idle = samples(place, f"helm{release}")
    running = [state.document for state in states(place) if state.name == "healthy"]
    documents = [*idle, *running]
    workloads = [document for document in running if document["kind"] != "BroadcastJob"]
    jobs = [document for document in running if document["kind"] == "BroadcastJob"]
    # when
    code, output = helm.upgrade("every", documents, "--timeout=90s")
    # then
    assert code == 0, output
    before = read_generations(place, documents)
    # when nothing has changed
    code, output = helm.upgrade("every", documents, "--timeout=90s")
    # then Helm writes no spec
    assert code == 0, output
    assert read_generations(place, documents) == before
    # when the image of each workload changes
    changed = [*idle, *jobs, *(with_image(document, "web:2") for document in workloads)]
    code, output = helm.upgrade("every", changed, "--timeout=90s")
    # then the wait ends with the new pods
    assert code == 0, output
    assert await_images(place, workloads, "web:2", within_s=LONG_S[release]) == {"web:2"}
    # when the release is rolled back
    helm.run("rollback", "every", "2", "--wait", "--timeout=90s")
    # then
    assert await_images(place, workloads, "web:1", within_s=LONG_S[release]) == {"web:1"}
    # when it is uninstalled
    helm.run("uninstall", "every", "--wait", "--timeout=90s")
    # then none of its objects remain
    assert read_items(place, documents) == []


def read_items(place: Place, documents: Iterable[Document]) -> list[Document]:
    """The objects of these documents that exist."""
    asked = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    text = place.kubectl("get", "-f", "-", "-o", "json", "--ignore-not-found", text=json.dumps(asked))
    items: list[Document] = json.loads(text)["items"] if text else []
    return items


def read_generations(place: Place, documents: Iterable[Document]) -> dict[str, int]:
    """The generation of each object."""
    return {
        f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["generation"]
        for item in read_items(place, documents)
    }


def read_images(place: Place, workloads: Iterable[Document]) -> set[str]:
    """Images of the pods of these workloads that do not terminate; an empty text for a workload without a pod."""
    names = {document["metadata"]["name"] for document in workloads}
    pods = json.loads(place.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json"))["items"]
    read = {
        pod["metadata"]["labels"]["app"]: pod["spec"]["containers"][0]["image"]
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and pod["metadata"].get("labels", {}).get("app") in names
    }
    return {read.get(name, "") for name in names}


def await_images(place: Place, workloads: Sequence[Document], image: str, *, within_s: float) -> set[str]:
    """The images of the pods; waits until all pods have this image."""
    until = time.monotonic() + within_s
    while (images := read_images(place, workloads)) != {image} and time.monotonic() < until:
        time.sleep(0.5)
    return images


def is_ended_well(release: str, state: State) -> bool:
    """Whether `--wait` succeeds. Helm 3 waits for the kinds that it knows, and for no custom resource."""
    return release == "3" or state.ends == ""


@real
@runs_in_both(
    "workloads that are healthy, progressing, failed, paused: `--wait` ends according to the state"
    " (Helm 3 does not wait for custom resources)"
)
def test_the_wait_of_helm_ends_according_to_the_state(helm: Helm, place: Place, release: str) -> None:
    for number, state in enumerate(states(place)):
        name = f"state-{number}"
        helm.upgrade(name, [state.document], "--timeout=2s")
        is_observed(place, state.document)
        # when
        timeout = "8s" if state.ends == "InProgress" else "60s"
        code, output = helm.upgrade(name, [state.document], f"--timeout={timeout}")
        # then
        assert (code == 0) == is_ended_well(release, state), (state, output)
        helm.run("uninstall", name)


@pytest.fixture
def bare_plane(programs: dict[str, Path]) -> Iterator[ControlPlane]:
    """An API server without pykruise and without controllers."""
    with running_plane(controller_manager=False, scheduler=False) as plane:
        yield plane


@runs_in_both("pykruise's own chart: installed, upgraded, rolled back, uninstalled")
def test_helm_installs_upgrades_rolls_back_and_uninstalls_our_chart(
    programs: dict[str, Path], bare_plane: ControlPlane, tmp_path: Path, release: str
) -> None:
    helm = Helm(programs[release], bare_plane.kubeconfig, tmp_path, "default")
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(IMAGE_VALUES))
    given = ("kruise", str(CHART), "--values", str(values))
    kubectl = Place(bare_plane.kubeconfig, str(bare_plane.find_binary("kubectl"))).kubectl

    def replicas() -> int:
        name = ("-n", "kruise-system", "deployment", "kruise-controller-manager")
        return int(kubectl("get", *name, "-o", "jsonpath={.spec.replicas}"))

    # when
    helm.run("install", *given)
    assert replicas() == 2
    # and the manager has written its certificate
    patch = json.dumps({"data": {"ca-cert.pem": "Q0E="}})
    secret = ("-n", "kruise-system", "secret", "kruise-webhook-certs")
    kubectl("patch", *secret, "--type=merge", "-p", patch)
    # then upgrade and rollback keep the certificate
    helm.run("upgrade", *given, "--set", "manager.replicas=3")
    assert replicas() == 3
    helm.run("rollback", "kruise", "1")
    assert replicas() == 2
    assert kubectl("get", *secret, "-o", "jsonpath={.data.ca-cert\\.pem}") == "Q0E="
    # when it is uninstalled (no controller runs the Job of its hook here)
    helm.run("uninstall", "kruise", "--no-hooks")
    # then its kinds are deleted too
    left = json.loads(kubectl("get", "crds", "-o", "json"))["items"]
    assert [item for item in left if "deletionTimestamp" not in item["metadata"]] == []
