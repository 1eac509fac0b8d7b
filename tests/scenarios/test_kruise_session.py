"""A recorded session of `kubectl kruise`, on `pykruise up` and on a real control plane: for built-in kinds the
answers must be those of kubectl, word for word; for our kinds those of the recording."""

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from support.golden import same_as
from support.kruise_session import BUILT_IN, MANIFESTS, OURS, Answer, Step, by_kruise, by_kubectl
from support.up import Kubectl, running_real, running_up

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(400),
    pytest.mark.not_in_brief("the sandbox is compared with the record"),
]

RECORD = Path(__file__).parent / "recorded" / "kruise_session.json"
THEIRS = Path(__file__).parent / "recorded" / "kubectl_1.37_session.json"
"""Output of kubectl 1.37."""


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    if request.config.getoption("--cluster") == "real":
        with running_real(request.getfixturevalue("plane"), nodes=3) as kubectl:
            yield kubectl
    else:
        if shutil.which("kubectl") is None:
            pytest.skip("kubectl is not installed")
        with running_up(tmp_path_factory.mktemp("up")) as up:
            yield up


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "session.yaml").write_text(yaml.safe_dump_all(list(yaml.safe_load_all(MANIFESTS))[:3]))
    return tmp_path


def prepared(cluster: Kubectl, namespace: str) -> None:
    """The objects of the session in a namespace of their own."""
    cluster.says("create", "namespace", namespace)
    cluster.says("apply", "-n", namespace, "-f", "-", stdin=MANIFESTS)


def recorded(answers: Iterable[tuple[Step, Answer]], file: Path) -> None:
    """Compare the answers with the recorded ones; PYKRUISE_GOLDEN=write records them again."""
    answered = [{"command": step.command, **msgspec.to_builtins(answer)} for step, answer in answers]
    same_as(file, json.dumps(answered, indent=1, ensure_ascii=False) + "\n")


def test_kubectl_prints_the_recorded_output(cluster: Kubectl, folder: Path) -> None:
    version = json.loads(cluster.says("version", "--client", "-o", "json"))["clientVersion"]
    if version["minor"] != "37":
        return  # other versions of kubectl print some other words
    prepared(cluster, "theirs")
    typed = by_kubectl(cluster, "theirs", folder)
    recorded([(step, typed(step)) for step in BUILT_IN], THEIRS)


def test_kubectl_kruise_prints_the_same_as_kubectl_for_built_in_kinds(cluster: Kubectl, folder: Path) -> None:
    # given the same objects as kubectl had
    prepared(cluster, "ours")
    typed = by_kruise(cluster, "ours", folder)
    theirs = json.loads(THEIRS.read_text("utf-8"))
    # when the same is typed
    different = []
    for step, expected in zip(BUILT_IN, theirs, strict=True):
        said = {"command": step.command, **msgspec.to_builtins(typed(step))}
        if said != expected:
            different.append(f"{expected}\n{said}")
    # then
    assert not different, "\n\n".join(different)
    assert len(BUILT_IN) + len(OURS) >= 150


def workload(kind: str, name: str, **spec: object) -> dict[str, object]:
    """A workload of one container."""
    labels = {"app": name}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "main", "image": "nginx:1", "ports": [{"containerPort": 80}]}],
                },
            },
            **spec,
        },
    }


def test_kubectl_kruise_prints_the_recorded_output_for_our_kinds(cluster: Kubectl, folder: Path) -> None:
    # given one workload of each kind
    cluster.says("create", "namespace", "kinds")
    for document in (
        workload("CloneSet", "cs", replicas=2),
        workload("StatefulSet", "ast", replicas=2, serviceName="ast"),
        workload("DaemonSet", "ads"),
    ):
        cluster.says("create", "-n", "kinds", "-f", "-", stdin=json.dumps(document))
    ours = by_kruise(cluster, "kinds", folder)
    # when
    answers = [(step, ours(step)) for step in OURS]
    # then
    recorded(answers, RECORD)
