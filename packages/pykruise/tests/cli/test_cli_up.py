"""`pykruise up`: kept data, objects at the start, and messages about unusable files."""

import json
import shutil
from pathlib import Path

import pytest

from pykruise.cli.up import check_replaceable
from support.up import pykruise, running_up

pytestmark = pytest.mark.real_time

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


def one_line(*arguments: str) -> str:
    """The error line of a failing command."""
    done = pykruise(*arguments)
    line, *rest = done.stderr.strip().splitlines()
    assert done.returncode == 1, done
    # an error in the command line also names the help
    assert rest in ([], [f"See 'pykruise {arguments[0]} --help' for usage."]), done.stderr
    return line


@needs_kubectl
def test_a_data_directory_restores_all_objects_at_the_next_start(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    deployment = ("create", "deployment", "web", "--image=nginx", "--replicas=2")
    pods = ("get", "pods", "-o", "jsonpath={.items[*].metadata.uid}")
    # given a cluster that is killed while it works
    with running_up(tmp_path, "--nodes", "2", "--data-dir", data) as up:
        up.says(*deployment)
        up.says("wait", "--for=condition=Available", "deployment/web", "--timeout=30s")
        before = up.says(*pods)
        assert f"kept in {data}" in " ".join(up.greeting.split())
        up.process.kill()
        up.process.wait()
    # when
    with running_up(tmp_path, "--data-dir", data) as up:
        # then
        assert up.says(*pods) == before
        assert up.says("get", "nodes", "-o", "name").split() == ["node/node-1", "node/node-2"]
        up.says("scale", "deployment/web", "--replicas=1")
        up.until("get", "deployments", "web", "-o", "jsonpath={.status.replicas}", shows="1")
        assert "already exists" in up.refuses(*deployment)


@needs_kubectl
def test_a_dump_is_loaded_at_start_and_failure_rules_are_simulated(tmp_path: Path) -> None:
    # given a pod on a node of the dump, and a rule that makes its image fail
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-7", "labels": {"disk": "ssd"}}}
    spec = {"nodeName": "worker-7", "containers": [{"name": "main", "image": "shop:2.1"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"}, "spec": spec}
    lost = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "lost"}}
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod, node, lost]}))
    rules = tmp_path / "rules.yaml"
    rules.write_text("- image: shop:2.*\n  node: worker-7\n  image_pull_error: true\n")
    # when
    with running_up(tmp_path, "--load", str(dump), "--failures", str(rules)) as up:
        # then
        assert up.says("get", "nodes", "-o", "name").split() == ["node/worker-7"]
        up.until("get", "pods", "shop", shows="ErrImagePull")
        # and when the file is unusable, nothing changes
        rules.write_text("- image: shop:2.*\n  never: true\n")
        # and when it is usable, its rules apply from then on
        rules.write_text("[]\n")
        up.until("get", "pods", "shop", shows="Running")


def test_an_unusable_file_is_reported_in_one_line(tmp_path: Path) -> None:
    # given
    diary = tmp_path / "data" / "cluster.db"
    diary.parent.mkdir()
    diary.write_text("dear diary")
    rules = tmp_path / "rules.yaml"
    rules.write_text("- image: a\n  after_s: soon\n")
    # then
    assert "is not a cluster's file" in one_line("up", "--data-dir", str(diary.parent))
    assert diary.read_text() == "dear diary"
    assert f"{rules}:2: [0].after_s: expected `float`" in one_line("up", "--failures", str(rules))
    assert "cannot be read" in one_line("up", "--load", str(tmp_path / "none.yaml"))
    assert "cannot be created" in one_line("up", "--data-dir", str(rules / "data"))
    assert "--feature-gates: " in one_line("up", "--feature-gates", "NoSuchGate=true")


def test_a_kubeconfig_of_other_clusters_is_not_replaced(tmp_path: Path) -> None:
    # given
    own, other, notes = tmp_path / "own", tmp_path / "other", tmp_path / "notes"
    cluster = {"cluster": {"server": "https://127.0.0.1:1"}}
    own.write_text(json.dumps({"clusters": [{"name": "pykruise", **cluster}]}))
    other.write_text(
        json.dumps({"clusters": [{"name": name, **cluster} for name in ("pykruise", "prod", "kind")]})
    )
    notes.write_text("dear diary")
    before = other.read_text()
    # when
    lost = one_line("up", "--kubeconfig", str(other))
    malformed = one_line("up", "--kubeconfig", str(notes))
    # then
    assert f"{other}: the kubeconfig has other entries (kind, prod), which would be lost" in lost
    assert other.read_text() == before
    assert "is not a kubeconfig" in malformed
    assert notes.read_text() == "dear diary"
    # and the files that the command itself may have written are replaced
    for path in (own, tmp_path / "new"):
        check_replaceable(path)


@needs_kubectl
def test_a_cluster_without_agents_does_not_execute_requests_to_agents(tmp_path: Path) -> None:
    examples = Path(__file__).parents[4] / "examples"
    with running_up(tmp_path, "--no-agent") as up:
        # given
        up.says("apply", "-f", str(examples / "imagepulljob.yaml"))
        # then
        up.until("get", "imagepulljobs", "-o", "yaml", shows="desired: 3")
        assert "succeeded: " not in up.says("get", "imagepulljobs", "-o", "yaml")
        said = up.refuses("exec", "nothing", "--", "date")
        assert "pods of this cluster are simulated" in said or "not found" in said


def test_the_manager_runs_with_the_gates_that_are_given(tmp_path: Path) -> None:
    # given a kind that is on by default
    copies = Path(__file__).parents[4] / "examples" / "resourcedistribution.yaml"
    with running_up(tmp_path, "--feature-gates", "ResourceDistributionGate=false") as up:
        # then its objects are rejected, and the manager's Deployment shows the gates
        assert "ResourceDistributionGate" in up.refuses("apply", "-f", str(copies))
        deployment = ("get", "deployment", "-n", "kruise-system", "kruise-controller-manager", "-o", "yaml")
        assert "ImagePullJobGate=true" in up.says(*deployment)
