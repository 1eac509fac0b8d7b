"""The pytest plugin: it works as its page describes, and failures explain themselves."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from pykruise.kube.errors import NotFoundError
from pykruise.testing.sandbox import Sandbox

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "testing.md"
MANIFEST = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)

SOURCES = os.pathsep.join(str(ROOT / "packages" / name / "src") for name in ("kube", "sandbox"))
"""All that the plugin needs."""

PLUGIN = ("-p", "pykruise.testing")

ALL_SOURCES = os.pathsep.join((SOURCES, str(ROOT / "packages" / "pykruise" / "src")))
KRUISE_PLUGINS = (*PLUGIN, "-p", "pykruise.fixtures")

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]  # the first test waits for both runs


def run_pytest(folder: Path, *options: str, path: str) -> "subprocess.CompletedProcess[str]":
    """Run the tests of a folder as a user does, in a process and a project of their own."""
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_page_has_an_example_of_each_kind() -> None:
    assert len(EXAMPLES) == 8  # the last example needs real nodes


def test_the_first_example_is_ten_lines() -> None:
    body = EXAMPLES[0].split("def test_")[1].splitlines()[1:]
    assert len([line for line in body if line.strip()]) <= 10


def test_the_operator_with_its_test_is_fifteen_lines() -> None:
    lines = [line for line in EXAMPLES[2].split("WORKER =")[0].splitlines() if line.strip()]
    assert len([line for line in lines if not line.startswith(("from", "import"))]) <= 15


CLIENT = """
import json, ssl, urllib.request

def test_it(kruise_server):
    trust = ssl.create_default_context(cafile=kruise_server.ca_file)
    path = f"{kruise_server.url}/apis/apps.kruise.io/v1beta1/clonesets"
    request = urllib.request.Request(path, headers={"Authorization": f"Bearer {kruise_server.token}"})
    with urllib.request.urlopen(request, context=trust) as answer:
        assert json.load(answer)["kind"] == "CloneSetList"
"""
FAILURES = """
import time
from kubernetes import client, config

POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "shop:2"}]}}

def test_it(sandbox_server):
    sandbox_server.fail({"image": "shop:2", "image_pull_error": True})
    with config.new_client_from_config(sandbox_server.kubeconfig) as api:
        pods = client.CoreV1Api(api)
        pods.create_namespaced_pod("default", POD)
        until(lambda: waiting(pods) in ("ErrImagePull", "ImagePullBackOff"))
        sandbox_server.fail()
        pods.delete_namespaced_pod("a", "default", grace_period_seconds=0)
        until(lambda: not pods.list_namespaced_pod("default").items)
        pods.create_namespaced_pod("default", POD)
        until(lambda: pods.read_namespaced_pod("a", "default").status.phase == "Running")

def waiting(pods):
    found = pods.read_namespaced_pod("a", "default").status.container_statuses or []
    return next((one.state.waiting.reason for one in found if one.state.waiting), "")

def until(claim):
    end = time.monotonic() + 20
    while not claim():
        assert time.monotonic() < end
        time.sleep(0.02)
"""
UNKNOWN_OPTION = "import pytest\n@pytest.mark.sandbox(colour='red')\ndef test_it(sandbox): pass\n"

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
"""

CRDS = """
import pytest

PLUGIN = ("-p", "pykruise.testing")

pytestmark = pytest.mark.sandbox(manifests="crd.yaml", nodes=0)

def test_it(sandbox):
    sandbox.apply("{apiVersion: example.com/v1, kind: Thing, metadata: {name: a}}")
    assert [doc["metadata"]["name"] for doc in sandbox.list("things.example.com")] == ["a"]
    sandbox.delete("Thing", "a")
    assert sandbox.list("things") == []
"""


class Case(NamedTuple):
    """A test file in a user's project."""

    text: str
    plugins: tuple[str, ...] = PLUGIN
    path: str = SOURCES


def _cases() -> dict[str, Case]:
    cases = {
        f"example_{number}": Case(
            text,
            KRUISE_PLUGINS if "(kruise" in text else PLUGIN,
            ALL_SOURCES if "(kruise" in text else SOURCES,
        )
        for number, text in enumerate(EXAMPLES[:6])
    }
    return cases | {
        "client": Case(CLIENT, KRUISE_PLUGINS, ALL_SOURCES),
        "failures": Case(FAILURES),
        "unknown_option": Case(UNKNOWN_OPTION),
        "crds": Case(CRDS),
    }


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Outcome of each case: empty if it passed. Cases with the same plugins run in one process and project,
    since most of the time is needed to start pytest."""
    outcomes: dict[str, str] = {}
    cases = _cases()
    for plugins in (PLUGIN, KRUISE_PLUGINS):
        folder = tmp_path_factory.mktemp("project")
        (folder / "web.yaml").write_text(MANIFEST)
        (folder / "crd.yaml").write_text(CRD)
        chosen = {name: case for name, case in cases.items() if case.plugins == plugins}
        for name, case in chosen.items():
            (folder / f"test_{name}.py").write_text(case.text)
        done = run_pytest(
            folder,
            *plugins,
            *("-W", "error", "--strict-markers", "--junitxml=report.xml"),
            path=next(case.path for case in chosen.values()),
        )
        try:
            report = ElementTree.parse(folder / "report.xml")
        except FileNotFoundError:
            raise AssertionError(done.stdout + done.stderr) from None
        for element in report.iter("testcase"):
            name = f"{element.get('classname')}.{element.get('name')}".removeprefix("test_").partition(".")[0]
            outcomes[name] = "\n".join(part.text or "" for part in element if part.tag != "system-out")
    return outcomes


@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 5])
def test_the_examples_of_the_page_are_tests_that_pass(outcomes: Mapping[str, str], number: int) -> None:
    if "kubectl" in EXAMPLES[number] and shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    assert outcomes[f"example_{number}"] == ""


def test_a_client_without_a_kubeconfig_has_an_address_a_token_and_a_certificate(
    outcomes: Mapping[str, str],
) -> None:
    assert outcomes["client"] == ""


def test_failures_of_a_served_cluster_change_while_it_runs(outcomes: Mapping[str, str]) -> None:
    assert outcomes["failures"] == ""


def test_an_unknown_option_of_the_marker_is_an_error(outcomes: Mapping[str, str]) -> None:
    assert "unexpected keyword argument 'colour'" in outcomes["unknown_option"]


def test_crds_of_the_test_exist_from_the_beginning(outcomes: Mapping[str, str]) -> None:
    assert outcomes["crds"] == ""


@pytest.mark.parametrize("options", [(), PLUGIN])
def test_the_installed_plugin_is_loaded_automatically(tmp_path: Path, options: tuple[str, ...]) -> None:
    # given the metadata that an installation writes beside the package
    project = tomllib.loads((ROOT / "packages" / "sandbox" / "pyproject.toml").read_text())["project"]
    entries = project["entry-points"]["pytest11"]
    installed = tmp_path / "site" / "pykruise-0.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: pykruise\nVersion: 0\n")
    lines = [f"{name} = {module}" for name, module in entries.items()]
    (installed / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines]))
    text = "def test_it(sandbox): assert sandbox.list('nodes')\n"
    # then
    path = os.pathsep.join((SOURCES, str(installed.parent)))
    (tmp_path / "test_mine.py").write_text(text)
    done = run_pytest(tmp_path, *options, path=path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_an_operator_that_dies_fails_the_test() -> None:
    async def operator() -> None:
        raise RuntimeError("my bug")

    with Sandbox(nodes=0) as sandbox:
        sandbox.start(operator())
        with pytest.raises(RuntimeError, match="my bug"):
            sandbox.advance(1)


def test_a_claim_that_stays_false_fails_after_its_time() -> None:
    with Sandbox(nodes=0) as sandbox:
        with pytest.raises(AssertionError, match="not true within 100 s"):
            sandbox.until(lambda: sandbox.get("pods", "none"), within_s=100)
        assert sandbox.now >= 100
        with pytest.raises(LookupError, match="'nonsense'"):
            sandbox.get("nonsense", "a")
        with pytest.raises(NotFoundError):
            sandbox.get("pods", "none")


def test_equal_seeds_give_equal_runs() -> None:
    def names(seed: int) -> list[str]:
        with Sandbox(seed=seed) as sandbox:
            template = {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
            spec = {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template}
            sandbox.apply(
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "x"}, "spec": spec}
            )
            sandbox.advance(10)
            return [doc["metadata"]["name"] for doc in sandbox.list("pods")]

    assert names(1) == names(1)
    assert names(1) != names(2)
