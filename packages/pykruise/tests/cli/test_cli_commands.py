"""Commands with typed arguments: their output, their errors and their exit codes."""

import socket
from pathlib import Path

import pytest
import yaml

from pykruise.cli.errors import CommandError
from pykruise.cli.manifests import load_documents, read_documents
from pykruise.kinds import build_crds
from pykruise.kube.version import __version__
from support.up import pykruise
from support.yaml_documents import yaml_documents


def one_line(text: str) -> str:
    """The only line of the error output."""
    lines = text.strip().splitlines()
    assert len(lines) == 1, text
    return lines[0]


def test_the_version_is_printed() -> None:
    assert pykruise("version").stdout.strip() == __version__


def test_the_crds_are_printed_ready_to_apply() -> None:
    # when
    documents = yaml_documents(pykruise("crds").stdout)
    # then
    assert documents == build_crds()
    assert {doc["kind"] for doc in documents} == {"CustomResourceDefinition"}


def test_the_demo_runs_to_its_summary() -> None:
    # when
    done = pykruise("demo")
    # then
    assert done.returncode == 0, done.stderr
    assert "summary" in done.stdout
    assert "update the other pods" in done.stdout
    assert "4 pods kept their names, uids and IPs; 4 containers restarted" in " ".join(done.stdout.split())


def test_a_demo_step_that_times_out_ends_the_demo_with_the_reason(tmp_path: Path) -> None:
    # given a CloneSet whose pods fit on no node
    doc = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {"name": "huge"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10000"}}}]
                },
            },
        },
    }
    manifest = tmp_path / "huge.yaml"
    manifest.write_text(yaml.safe_dump(doc))
    # when
    done = pykruise("demo", "--step-timeout", "1", "--file", str(manifest))
    # then
    assert done.returncode == 1
    line = one_line(done.stderr)
    assert "did not finish within 1 s" in line
    assert "Insufficient cpu" in line


def test_a_port_in_use_is_reported_in_one_line() -> None:
    # given
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        # when
        done = pykruise("up", "--port", str(port))
    # then
    assert done.returncode == 1
    assert one_line(done.stderr) == (
        f"error: port {port} on 127.0.0.1 is in use; choose another port, or 0 for a free port"
    )


def test_an_unwritable_kubeconfig_is_reported_in_one_line(tmp_path: Path) -> None:
    # given a file where a folder should be
    (tmp_path / "file").write_text("")
    # when
    done = pykruise("up", "--kubeconfig", str(tmp_path / "file" / "kubeconfig"))
    # then
    assert done.returncode == 1
    assert "the kubeconfig cannot be written" in one_line(done.stderr)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "the file does not exist"),
        ("a: [", "malformed YAML at line 2"),
        ("[]", "kubeconfig"),
        ("apiVersion: v1\nkind: Config\n", "the file has no contexts"),
    ],
)
def test_an_unusable_kubeconfig_is_reported_in_one_line(
    tmp_path: Path, text: str | None, problem: str
) -> None:
    # given
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    # when
    done = pykruise("manager", "--kubeconfig", str(path))
    # then
    assert done.returncode == 1
    line = one_line(done.stderr)
    assert problem in line
    assert str(path) in line


def test_an_unreachable_cluster_is_reported_in_one_line(tmp_path: Path) -> None:
    # given a kubeconfig of a server that has gone
    path = tmp_path / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
                "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:1"}}],
                "users": [{"name": "x", "user": {}}],
            }
        )
    )
    # when
    done = pykruise("manager", "--kubeconfig", str(path))
    # then
    assert done.returncode == 1
    assert "127.0.0.1:1" in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "line 1: not valid YAML"),
        ("- a\n", "document 1: is a list, not a Kubernetes object"),
        ("kind: X\nmetadata: {name: a}\n", "document 1: apiVersion is missing"),
        ("apiVersion: v1\nkind: X\n", "document 1: metadata.name is missing"),
        (
            "apiVersion: v1\nkind: X\nmetadata: {name: a}\n---\n5\n",
            "document 2: is a number, not a Kubernetes object",
        ),
    ],
)
def test_a_broken_manifest_is_an_error_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(CommandError, match=problem):
        load_documents(text, source="x.yaml")


def test_empty_documents_of_a_manifest_are_left_out() -> None:
    assert len(load_documents("---\n---\napiVersion: v1\nkind: X\nmetadata: {name: a}\n", source="x")) == 1


def test_a_missing_manifest_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"nothing\.yaml: No such file"):
        read_documents(tmp_path / "nothing.yaml")
