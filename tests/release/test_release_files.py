"""The files of a release in empty environments: `make release VERSION=…`, then `make check-release VERSION=…`.

PYKRUISE_RELEASE, a folder ──▶ new environments and homes ──▶ the commands of docs/install.md

Only these tests are from this checkout. pip downloads packages of other projects from its usual source.
"""

import contextlib
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
import yaml

from pykruise.testing.http import HttpSandbox
from support.bills_of_materials import list_schema_violations
from support.helm import build as build_helm
from support.up import pauses
from tools.go import find_program
from tools.release.pushing import Registry, read_archive

RELEASE: Final = Path(os.environ.get("PYKRUISE_RELEASE", "/none"))
VERSION: Final = RELEASE.name

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not RELEASE.is_dir(), reason="make check-release VERSION=… looks at a release"),
]

CLONESET = """
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "nginx:1"}]}
"""


class Place:
    """An empty home, and a PATH with only kubectl and the system's programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.bin = folder / "bin"
        self.home.mkdir(parents=True)
        self.bin.mkdir()
        kubectl = shutil.which("kubectl")
        if kubectl is not None:
            (self.bin / "kubectl").symlink_to(kubectl)
        self.path: list[Path] = [self.bin]
        self.environ: dict[str, str] = {}

    def run(self, *command: str, stdin: str = "", code: int = 0) -> str:
        """Standard output of a command; fails for another exit code."""
        path = ":".join([*map(str, self.path), "/usr/local/bin", "/usr/bin", "/bin"])
        pip = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**pip, "HOME": str(self.home), "PATH": path, **self.environ},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A new environment with everything of the release for a laptop."""
    place = Place(tmp_path_factory.mktemp("pip"))
    venv.create(place.folder / "venv", with_pip=True)
    place.path.insert(0, place.folder / "venv/bin")
    wanted = (f"pykruise[testing]=={VERSION}", f"pykruise-dashboard=={VERSION}")
    pip_install(place, *wanted, "mypy")
    return place


def pip_install(place: Place, *wanted: str) -> None:
    python = str(place.folder / "venv/bin/python")
    options = ("--quiet", "--disable-pip-version-check", "--find-links", str(RELEASE), "--pre")
    place.run(python, "-m", "pip", "install", *options, *wanted)


def test_pykruise_without_extras_explains_and_names_missing_packages(tmp_path: Path) -> None:
    place = Place(tmp_path)
    venv.create(tmp_path / "venv", with_pip=True)
    place.path.insert(0, tmp_path / "venv/bin")
    pip_install(place, f"pykruise=={VERSION}")
    assert place.run("pykruise", "version").strip() == VERSION
    place.run("pykruise", "install")
    place.run("pykruise", "demo", code=1)
    with HttpSandbox(tmp_path / "kubeconfig") as server:
        place.environ["KUBECONFIG"] = server.kubeconfig
        place.run("kubectl", "apply", "--server-side", "-f", str(RELEASE / "crds.yaml"))
        place.run("kubectl", "apply", "-f", "-", stdin=CLONESET)
        said = place.run("pykruise", "explain", "clonesets/web", code=2)
    assert said.startswith("CloneSet default/web: Progressing")


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[HttpSandbox]:
    """A cluster without OpenKruise's kinds."""
    with HttpSandbox(tmp_path / "kubeconfig") as sandbox:
        yield sandbox


# ── the files ────────────────────────────────────────────────────────────────


def test_every_file_has_its_checksum() -> None:
    lines = dict(reversed(line.split("  ")) for line in (RELEASE / "SHA256SUMS").read_text().splitlines())
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in RELEASE.iterdir()}
    del files["SHA256SUMS"]
    assert lines == files


def test_every_bill_of_materials_is_valid() -> None:
    bills = list(RELEASE.glob("*.cdx.json"))
    assert len(bills) == 3 * 2 + 5 + 3
    for bill in bills:
        assert list_schema_violations(bill.read_text()) is None, bill.name


def test_the_provenance_names_every_file_but_itself_and_the_checksums() -> None:
    statement = json.loads((RELEASE / "provenance.intoto.json").read_text())
    digests = {item["name"]: item["digest"]["sha256"] for item in statement["subject"]}
    for file in RELEASE.iterdir():
        if file.name not in ("provenance.intoto.json", "SHA256SUMS"):
            assert digests[file.name] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_the_manifest_of_krew_has_the_hashes_of_its_archives() -> None:
    manifest = yaml.safe_load((RELEASE / "kruise.krew.yaml").read_text())
    assert len(manifest["spec"]["platforms"]) == 3
    for entry in manifest["spec"]["platforms"]:
        file = RELEASE / entry["uri"].rpartition("/")[2]
        assert entry["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


# ── pip, uv ──────────────────────────────────────────────────────────────────


def test_pip_installs_the_programs(installed: Place) -> None:
    assert installed.run("pykruise", "version").strip() == VERSION
    assert VERSION in installed.run("kubectl", "kruise", "version", "--client")
    assert "summary" in installed.run("pykruise", "demo")
    assert "--open" in installed.run("pykruise", "dashboard", "-h")


def test_a_project_tests_its_operator_and_has_types(installed: Place) -> None:
    project = installed.folder / "project"
    project.mkdir()
    (project / "test_mine.py").write_text(
        "from pykruise.fixtures.kruise import KruiseSandbox\n"
        "from pykruise.models import LabelSelector, v1beta1\n\n"
        f"WEB = '''{CLONESET}'''\n\n"
        "def test_it(kruise: KruiseSandbox) -> None:\n"
        "    kruise.apply(WEB)\n"
        "    kruise.wait('clonesets/web')\n"
        "    spec = v1beta1.cloneset.CloneSetSpec(replicas=3, selector=LabelSelector(), template={})\n"
        "    assert spec.replicas == 3\n"
    )
    python = str(installed.folder / "venv/bin/python")
    assert "1 passed" in installed.run(
        python, "-W", "error", "-m", "pytest", "-q", "-W", "error", str(project)
    )
    assert "Success" in installed.run(python, "-m", "mypy", "--strict", str(project / "test_mine.py"))
    wrong = project / "wrong.py"
    wrong.write_text(
        "from pykruise.models import LabelSelector, v1beta1\n"
        "v1beta1.cloneset.CloneSetSpec(replicas='3', selector=LabelSelector(), template={})\n"
    )
    assert "incompatible type" in installed.run(python, "-m", "mypy", "--strict", str(wrong), code=1)


def test_uv_installs_it_as_a_tool(tmp_path: Path) -> None:
    place = Place(tmp_path)
    venv.create(tmp_path / "uv", with_pip=True)
    place.run(str(tmp_path / "uv/bin/python"), "-m", "pip", "install", "--quiet", "uv")
    uv = str(tmp_path / "uv/bin/uv")
    options = ("--quiet", "--find-links", str(RELEASE), "--prerelease=allow", "--python", sys.executable)
    place.run(uv, "tool", "install", *options, f"pykruise=={VERSION}")
    place.path.insert(0, place.home / ".local/bin")
    assert place.run("pykruise", "version").strip() == VERSION
    assert VERSION in place.run("kubectl", "kruise", "version", "--client")


# ── the plugin, manifests, Helm ──────────────────────────────────────────────


def test_the_file_of_the_plugin_works_against_a_cluster_with_the_manifests(
    sandbox: HttpSandbox, tmp_path: Path
) -> None:
    # given a home with kubectl and the file of this platform
    place = Place(tmp_path / "place")
    place.environ["KUBECONFIG"] = sandbox.kubeconfig
    venv.create(tmp_path / "python")  # a Python without packages, which the file must find
    place.path.append(tmp_path / "python/bin")
    shutil.copy(RELEASE / f"kubectl-kruise-{VERSION}-linux-amd64", place.bin / "kubectl-kruise")
    assert VERSION in place.run("kubectl", "kruise", "version", "--client")
    # when the manifests are applied as they are
    place.run("kubectl", "apply", "--server-side", "-f", str(RELEASE / "install.yaml"))
    place.run("kubectl", "get", "clonesets")
    # then a workload can be created without webhooks, because the pod of the manager is only simulated
    for kind in ("mutating", "validating"):
        name = f"kruise-{kind}-webhook-configuration"
        place.run("kubectl", "delete", f"{kind}webhookconfiguration", name)
    place.run("kubectl", "apply", "-f", "-", stdin=CLONESET)
    shutil.copy(place.bin / "kubectl-kruise", place.bin / "pykruise")
    assert "summary" in place.run("pykruise", "demo")
    assert "--open" in place.run("pykruise", "dashboard", "-h")
    place.run("pykruise", "plan", "clonesets/web", "--set", "replicas=3", code=2)
    said = place.run("kubectl", "kruise", "explain", "clonesets/web", code=2)
    assert said.startswith("CloneSet default/web: Progressing")
    assert "clonesets.apps.kruise.io" in place.run(
        "kubectl", "get", "-f", str(RELEASE / "crds.yaml"), "-o", "name"
    )


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    """An HTTP registry with the images of the release; yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [find_program("crane"), "registry", "serve", "--address", f"127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for wait in pauses():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None
            time.sleep(wait)
        place = f"127.0.0.1:{port}/team"
        for archive in RELEASE.glob("kruise-*.oci.tar"):
            Registry(place, environ={}).push(read_archive(archive))
        for archive in RELEASE.glob("pykruise-chart-*.oci.tar"):
            Registry(f"{place}/charts", environ={}).push(read_archive(archive))
        yield place
    finally:
        process.terminate()
        process.wait()


def test_images_are_valid_for_two_architectures(registry: str) -> None:
    for name in ("manager", "daemon", "dashboard"):
        image = f"{registry}/kruise-{name}:v{VERSION}"
        index = json.loads(crane("manifest", image))
        platforms = [manifest["platform"] for manifest in index["manifests"]]
        assert [platform["architecture"] for platform in platforms] == ["amd64", "arm64"]
        for platform in platforms:
            crane("validate", "--remote", image, "--platform", f"linux/{platform['architecture']}")
            config = json.loads(crane("config", image, "--platform", f"linux/{platform['architecture']}"))
            assert config["architecture"] == platform["architecture"]
            assert config["config"]["Labels"]["org.opencontainers.image.version"] == VERSION


def crane(*arguments: str) -> str:
    done = subprocess.run([find_program("crane"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_helm_installs_the_chart_from_a_registry(sandbox: HttpSandbox, registry: str, tmp_path: Path) -> None:
    place = Place(tmp_path / "place")
    place.environ["KUBECONFIG"] = sandbox.kubeconfig
    helm = str(build_helm())
    chart = next(RELEASE.glob("pykruise-*.tgz")).name.removeprefix("pykruise-").removesuffix(".tgz")
    options = ("--plain-http", "--version", chart)
    where = f"oci://{registry}/charts/pykruise"
    own = image_options(registry)
    said = place.run(helm, "install", "kruise", where, *options, *own)
    assert f"pykruise {VERSION} is installed" in said
    images = place.run(
        "kubectl",
        "get",
        "deployments,daemonsets",
        "-A",
        "-o",
        "jsonpath={.items[*].spec.template.spec.containers[*].image}",
    )
    assert set(images.split()) == {
        f"{registry}/kruise-manager:v{VERSION}",
        f"{registry}/kruise-daemon:v{VERSION}",
    }
    place.run(helm, "upgrade", "kruise", where, *options, *own, "--set", "manager.replicas=3")
    place.run(helm, "uninstall", "kruise", "--no-hooks")


def image_options(registry: str) -> Sequence[str]:
    """Options of Helm that set the registry of the images."""
    return ("--set", f"image.registry={registry}")
