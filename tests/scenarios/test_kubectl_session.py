"""A person with kubectl against a running `pykruise up`: everything in one process, over TLS on loopback.

On the real control plane: the same, against its API server with `pykruise kubelets` and `pykruise manager`.
"""

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.up import Kubectl, Up, running_real, running_up

pytestmark = pytest.mark.real_time

EXAMPLES = Path(__file__).parents[2] / "examples"
CLONESET = str(EXAMPLES / "cloneset.yaml")


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    if request.config.getoption("--cluster") == "real":
        with running_real(request.getfixturevalue("plane"), nodes=4) as kubectl:
            yield kubectl
    else:
        yield request.getfixturevalue("up")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    with running_up(tmp_path_factory.mktemp("up"), "--nodes", "4") as up:
        yield up


@pytest.fixture
def web(cluster: Kubectl) -> Iterator[Kubectl]:
    """The example CloneSet, ready, and gone afterwards."""
    cluster.says("apply", "-f", CLONESET)
    cluster.until("get", "clonesets", "web", "-o", "jsonpath={.status.availableReplicas}", shows="5")
    yield cluster
    cluster.says("delete", "clonesets", "web", "--ignore-not-found", "--wait")
    cluster.until("get", "pods", "-o", "name", "--ignore-not-found", shows="")


@pytest.mark.sandbox_only
def test_the_kubeconfig_is_for_its_owner_only(up: Up) -> None:
    assert stat.S_IMODE(up.kubeconfig.stat().st_mode) == 0o600
    assert f"export KUBECONFIG={up.kubeconfig}" in up.greeting


def test_the_requested_nodes_are_ready(cluster: Kubectl) -> None:
    lines = cluster.until("get", "nodes", "--no-headers", shows="node-4").splitlines()
    assert len(lines) == 4
    assert all(" Ready " in line for line in lines)


def test_clonesets_are_listed_with_their_columns(web: Kubectl) -> None:
    # when
    head, row = web.says("get", "clonesets").splitlines()
    # then
    assert head.split() == [
        "NAME",
        "DESIRED",
        "UPDATED",
        "UPDATED_READY",
        "UPDATED_AVAILABLE",
        "READY",
        "TOTAL",
        "AGE",
    ]
    assert row.split()[:7] == ["web", "5", "5", "5", "5", "5", "5"]
    assert "nginx:1.27" in web.says("get", "clone", "web", "-o", "wide")


def test_pods_are_listed_as_a_real_cluster_lists_them(web: Kubectl) -> None:
    # when
    head, *rows = web.says("get", "pods", "-o", "wide", "-l", "app=web").splitlines()
    # then
    assert head.split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert len(rows) == 5
    assert all(row.split()[1:3] == ["1/1", "Running"] for row in rows)


def test_scaling_with_kubectl_scale(web: Kubectl) -> None:
    # when
    web.says("scale", "clonesets/web", "--replicas", "7")
    # then
    web.until("get", "clonesets", "web", "-o", "jsonpath={.status.availableReplicas}", shows="7")


def test_patching_the_image_rolls_the_pods(web: Kubectl) -> None:
    # given
    before = web.says("get", "pods", "-l", "app=web", "-o", "name").split()
    # when
    patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "nginx:1.28"}]
    web.says("patch", "clonesets", "web", "--type", "json", "-p", json.dumps(patch))
    # then
    for name in before:
        web.says("wait", "--for=delete", name, "--timeout=30s")
    images = web.says("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.containers[0].image}")
    assert set(images.split()) == {"nginx:1.28"}


def test_applying_again_changes_only_what_changed(web: Kubectl, tmp_path: Path) -> None:
    # given an apply that changes nothing
    generation = web.says("get", "clonesets", "web", "-o", "jsonpath={.metadata.generation}")
    web.says("apply", "-f", CLONESET)
    assert web.says("get", "clonesets", "web", "-o", "jsonpath={.metadata.generation}") == generation
    changed = tmp_path / "cloneset.yaml"
    changed.write_text(Path(CLONESET).read_text().replace("replicas: 5", "replicas: 3"))
    # when
    assert "configured" in web.says("apply", "-f", str(changed))
    # then
    web.until("get", "clonesets", "web", "-o", "jsonpath={.status.replicas}", shows="3")


def test_describe_shows_the_events(web: Kubectl) -> None:
    text = web.until("describe", "clonesets", "web", shows="SuccessfulCreate")
    assert "cloneset-controller" in text


def test_watching_shows_what_happens(web: Kubectl) -> None:
    # given a watch that ends by itself
    watch = web.start(
        "get", "clonesets", "--watch", "--output-watch-events", "--no-headers", "--request-timeout=4s"
    )
    # when
    web.says("scale", "clonesets/web", "--replicas", "6")
    lines = [line.split() for line in watch().splitlines()]
    # then it is there first, and changes to six wanted and six there
    assert lines[0][:2] == ["ADDED", "web"]
    assert ["MODIFIED", "web", "6"] in [line[:3] for line in lines]
    assert lines[-1][7] == "6"


def test_waiting_for_a_field(web: Kubectl) -> None:
    assert "condition met" in web.says(
        "wait", "--for=jsonpath={.status.readyReplicas}=5", "clonesets/web", "--timeout=20s"
    )


def test_explain_shows_the_fields(cluster: Kubectl) -> None:
    text = cluster.says("explain", "clonesets.spec.updateStrategy.rollingUpdate")
    assert "maxUnavailable" in text
    assert "partition" in text


def test_a_deleted_cloneset_deletes_its_pods(web: Kubectl) -> None:
    # when
    web.says("delete", "clonesets", "web")
    # then
    for _ in range(100):
        if not web.says("get", "pods", "-l", "app=web", "-o", "name"):
            return
    pytest.fail("pods are still there")


def test_a_manifest_of_an_unknown_kind_is_reported_in_one_line(cluster: Kubectl) -> None:
    # when
    text = cluster.refuses(
        "apply",
        "-f",
        "-",
        stdin=json.dumps(
            {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSets", "metadata": {"name": "x"}}
        ),
    )
    # then
    assert 'no matches for kind "CloneSets" in version "apps.kruise.io/v1beta1"' in text


@pytest.mark.needs_admission
def test_an_invalid_cloneset_is_refused_with_all_its_fields(cluster: Kubectl) -> None:
    # given a selector that does not match, no containers, and a number in quotes
    doc = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {"name": "bad"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "c"}}, "spec": {"containers": []}},
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "5"}},
        },
    }
    # when
    text = cluster.refuses("create", "-f", "-", stdin=json.dumps(doc))
    # then
    for field in (
        "spec.template.metadata.labels",
        "spec.template.spec.containers",
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
    ):
        assert field in text
    assert "NotFound" in cluster.refuses("get", "clonesets", "bad")


def test_a_field_of_the_wrong_type_is_refused_with_its_path(cluster: Kubectl) -> None:
    # when
    text = cluster.refuses(
        "create",
        "-f",
        "-",
        stdin=Path(CLONESET).read_text().replace("replicas: 5", "replicas: many"),
    )
    # then
    assert "spec.replicas" in text


def test_nothing_is_readable_without_the_token(cluster: Kubectl) -> None:
    assert "Unauthorized" in cluster.refuses("get", "pods", "--token", "wrong")


@pytest.mark.sandbox_only
def test_ctrl_c_ends_it_and_frees_the_port(tmp_path: Path) -> None:
    with running_up(tmp_path) as up:
        url = up.greeting.split("https://")[1].split(",")[0]
        port = url.split(":")[1]
    assert up.process.returncode == 0
    # and the port can be had again at once
    with running_up(tmp_path, "--port", port) as again:
        assert f":{port}," in again.greeting
