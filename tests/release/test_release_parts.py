"""A small release: each part is built twice with the same result, has its version, and is labelled.

`make release` builds the complete release, and `make check-release` checks it.
"""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.bills_of_materials import list_schema_violations
from support.sources import ROOT
from testbed.images import Image, build_files_layer, build_image, index_of
from testbed.product_images import AGENT, DASHBOARD, MANAGER, Package, bill_of, parts_of
from tools.release import bills, chart, distributions, manifests, papers, plugin
from tools.release.images import ReleasedImage
from tools.release.pushing import read_archive
from tools.release.staging import DISTRIBUTIONS, ReleaseError, Sources, stage

pytestmark = pytest.mark.real_time


@pytest.fixture(scope="module")
def wheels(sources: Sources, folder: Path) -> dict[str, Path]:
    return distributions.build(sources, folder)


def metadata_of(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        name = next(text for text in archive.namelist() if text.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


# ── staging ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.3", "1.2.3-rc1", "1.2.3 "])
def test_a_version_that_indexes_would_refuse_is_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(ReleaseError, match=r"is no version; write 1\.2\.3"):
        stage(ROOT, tmp_path, version=version)


def test_an_unknown_commit_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"git rev-parse failed: .*no-such-commit"):
        stage(ROOT, tmp_path, version="1.2.3", commit="no-such-commit")


def test_no_old_version_and_no_place_is_left_in_what_is_staged(sources: Sources) -> None:
    chart_file = yaml.safe_load((sources.root / "charts/pykruise/Chart.yaml").read_text())
    assert (chart_file["version"], chart_file["appVersion"]) == ("1.2.3-rc.1", "1.2.3rc1")
    values = yaml.safe_load((sources.root / "charts/pykruise/values.yaml").read_text())
    assert values["image"]["registry"] == "registry.example.com/team"
    for name in DISTRIBUTIONS:
        pins = re.findall(
            r"pykruise[-\w]*(?:\[\w+\])?==([^\"]+)",
            (sources.root / "packages" / name / "pyproject.toml").read_text(),
        )
        assert set(pins) <= {"1.2.3rc1"}


def test_only_committed_files_are_part_of_a_release(sources: Sources) -> None:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-tree", "-r", "--name-only", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    )
    staged = {path.relative_to(sources.root).as_posix() for path in sources.root.rglob("*") if path.is_file()}
    assert staged - {text for text in staged if "__pycache__" in text} == set(listed.stdout.splitlines())


# ── packages ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_distribution_has_its_version_classifiers_and_absolute_links(
    wheels: Mapping[str, Path], name: str
) -> None:
    about = metadata_of(wheels[name])
    assert "\nVersion: 1.2.3rc1\n" in about
    for field in (
        "Keywords:",
        "Classifier: Typing :: Typed",
        "License-Expression: Apache-2.0",
        "License-File: LICENSE",
    ):
        assert f"\n{field}" in about, field
    links = dict(re.findall(r"^Project-URL: (\w+), (\S+)$", about, re.MULTILINE))
    assert set(links) == {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    assert not re.search(r"\]\((?!https?:|#)", about), "a link of the page that an index shows is relative"
    assert set(re.findall(r"Requires-Dist: pykruise[-\w]*(?:\[\w+\])?==([^;\s]+)", about)) <= {"1.2.3rc1"}


def test_distributions_are_the_same_bytes_each_time(
    sources: Sources, folder: Path, wheels: Mapping[str, Path], tmp_path: Path
) -> None:
    distributions.build(sources, tmp_path)
    made = sorted(tmp_path.iterdir())
    assert len(made) == 2 * len(DISTRIBUTIONS)
    assert [path.name for path in made if path.read_bytes() != (folder / path.name).read_bytes()] == []


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_source_distribution_can_be_unpacked_and_makes_the_same_wheel(
    sources: Sources, folder: Path, wheels: Mapping[str, Path], tmp_path: Path, name: str
) -> None:
    file = next(folder.glob(f"{wheels[name].name.partition('-')[0]}-*.tar.gz"))
    with tarfile.open(file) as tar:
        tar.extractall(tmp_path, filter="data")  # refuses links that lead out of it
    (unpacked,) = tmp_path.iterdir()
    program = (
        "import sys; from hatchling.builders.wheel import WheelBuilder;"
        "print(next(WheelBuilder(sys.argv[1]).build(directory=sys.argv[2], versions=['standard'])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(unpacked), str(tmp_path / "again")],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(sources.time_s)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()).read_bytes() == wheels[name].read_bytes()


# ── the chart, manifests ─────────────────────────────────────────────────────


def test_the_chart_is_packed_the_same_each_time_and_is_an_artifact(sources: Sources, tmp_path: Path) -> None:
    packed, artifact = chart.build(sources, tmp_path)
    assert packed.name == "pykruise-1.2.3-rc.1.tgz"
    assert chart.pack(sources.root / "charts/pykruise", time_s=sources.time_s) == packed.read_bytes()
    with tarfile.open(packed) as tar:
        names = tar.getnames()
    assert {"Chart.yaml", "values.yaml", "values.schema.json", "README.md", "templates/NOTES.txt"} <= {
        name.removeprefix("pykruise/") for name in names
    }
    layout = read_archive(artifact)
    manifest = json.loads(layout.blobs[layout.root["digest"]])
    assert (layout.name, layout.tag) == ("pykruise", "1.2.3-rc.1")
    assert manifest["config"]["mediaType"] == chart.CONFIG_TYPE
    assert json.loads(layout.blobs[manifest["config"]["digest"]])["version"] == "1.2.3-rc.1"
    (layer,) = manifest["layers"]
    assert layer["mediaType"] == chart.CONTENT_TYPE
    assert layout.blobs[layer["digest"]] == packed.read_bytes()


def test_manifests_name_the_images_of_the_registry_and_need_no_note(
    wheels: Mapping[str, Path], tmp_path: Path
) -> None:
    install, crds = manifests.build(tmp_path, wheels)
    images = re.findall(r"^ +image: (\S+)$", install.read_text(), re.MULTILINE)
    assert images == [
        f"registry.example.com/team/kruise-{literal}:v1.2.3rc1" for literal in ("manager", "daemon")
    ]
    kinds = {doc["kind"] for doc in yaml.load_all(crds.read_text(), yaml.CSafeLoader)}
    assert kinds == {"CustomResourceDefinition"}


# ── kubectl kruise ───────────────────────────────────────────────────────────


def test_the_single_file_runs_the_program_of_its_name(
    sources: Sources, wheels: Mapping[str, Path], tmp_path: Path
) -> None:
    # given the file for this Python, without third-party packages, which this environment has
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    own = list(wheels.values())
    content = plugin.build_single_file(own, {python: []})
    assert content == plugin.build_single_file(own, {python: []})
    home = tmp_path / "home"
    place = tmp_path / "a b"
    place.mkdir()
    environ = {"HOME": str(home), "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": ""}

    def run(name: str, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
        file = place / name
        file.write_bytes(content)
        file.chmod(0o755)
        return subprocess.run(
            [str(file), *arguments], env={**environ, **more}, capture_output=True, text=True, check=False
        )

    # then
    assert run("pykruise", "version").stdout == "1.2.3rc1\n"
    (unpacked,) = (home / ".cache/pykruise").iterdir()
    client = run("kubectl-kruise", "version", "--client")
    assert "1.2.3rc1" in client.stdout, client.stderr
    assert "explain" in run("kubectl_complete-kruise", "expl").stdout
    assert list((home / ".cache/pykruise").iterdir()) == [unpacked]
    # and without a supported Python it reports the problem
    missing = run("pykruise", "version", PATH="/nowhere")
    assert missing.returncode == 1
    assert re.search(rf"needs Python {re.escape(python)}", missing.stderr)


def test_files_common_to_several_pythons_are_in_the_single_file_once(wheels: Mapping[str, Path]) -> None:
    own, common, special = wheels["kube"], wheels["agent"], wheels["sandbox"]
    content = plugin.build_single_file([own], {"3.12": [common, special], "3.13": [common]})
    with zipfile.ZipFile(io.BytesIO(content)) as outer:
        parts = {
            name: set(zipfile.ZipFile(io.BytesIO(outer.read(name))).namelist())
            for name in outer.namelist()
            if name.endswith(".zip")
        }
    assert set(parts) == {"common.zip", "cp312.zip", "cp313.zip"}
    assert parts["cp313.zip"] == set()
    assert "pykruise/agent/__init__.py" in parts["common.zip"]
    assert "pykruise/sandbox/__init__.py" in parts["cp312.zip"]


def test_the_manifest_of_krew_has_the_hash_of_each_archive(sources: Sources, tmp_path: Path) -> None:
    files = {}
    for platform in plugin.PLATFORMS:
        files[platform] = tmp_path / f"kubectl-kruise-{platform.name}"
        files[platform].write_bytes(platform.name.encode())
    result = yaml.safe_load(plugin.format_krew_manifest(sources, files))
    assert result["spec"]["version"] == "v1.2.3-rc.1"
    for platform, entry in zip(plugin.PLATFORMS, result["spec"]["platforms"], strict=True):
        archive = (tmp_path / f"kubectl-kruise-{platform.name}.tar.gz").read_bytes()
        assert entry["selector"]["matchLabels"] == {"os": platform.os, "arch": platform.architecture}
        assert entry["sha256"] == hashlib.sha256(archive).hexdigest()
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive))) as tar:
            assert [(tar_info.name, tar_info.mode) for tar_info in tar] == [
                ("kubectl-kruise", 0o755),
                ("LICENSE", 0o644),
            ]


# ── images, papers ───────────────────────────────────────────────────────────

PACKAGES = (
    Package("deb", "libc6", "2.36-9+deb12u14", "1" * 64, "amd64"),
    Package("pypi", "msgspec", "0.22.0", "2" * 64),
    Package("pypi", "pykruise-kube", "1.2.3rc1", "3" * 64),
)


def small_image() -> Image:
    item = {
        name: build_image([build_files_layer({"a": name.encode()})], architecture=name)
        for name in ("amd64", "arm64")
    }
    return index_of(item)


def test_an_image_has_every_distribution_that_its_program_needs() -> None:
    assert parts_of(MANAGER.part) == ("kube", "agent", "pykruise")
    assert parts_of(AGENT.part) == ("kube", "agent")
    assert set(parts_of(DASHBOARD.part)) == set(DISTRIBUTIONS)


def problems_of(document: Mapping[str, Any]) -> object:
    return list_schema_violations(json.dumps(document))


def test_every_bill_of_materials_is_valid_and_the_same_each_time(
    sources: Sources, wheels: Mapping[str, Path], tmp_path: Path
) -> None:
    released = [
        ReleasedImage(recipe, small_image(), {"amd64": PACKAGES}) for recipe in (MANAGER, AGENT, DASHBOARD)
    ]
    file = tmp_path / "kubectl-kruise-1.2.3rc1-linux-amd64"
    file.write_bytes(b"program")

    def made() -> dict[str, bytes]:
        files = bills.build(sources, tmp_path, wheels=wheels, images=released, plugins=[file])
        return {file.name: file.read_bytes() for file in files}

    result = made()
    assert len(result) == 3 + len(DISTRIBUTIONS) + 1
    assert {
        name: problem for name, text in result.items() if (problem := problems_of(json.loads(text)))
    } == {}
    assert made() == result
    assert problems_of({**bill_of(MANAGER, PACKAGES), "components": [{"nonsense": 1}]})  # the check works


def test_the_bill_of_the_plugin_names_everything_that_is_locked(sources: Sources) -> None:
    lock = (sources.root / "supply/dashboard.txt").read_text()
    first_lines = [line for line in lock.splitlines() if not line.startswith((" ", "#"))]
    assert len(bills.list_locked_packages(lock)) == len(first_lines) > 10


def test_the_provenance_names_every_file_the_commit_and_the_locks(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a")
    statement = papers.build_provenance(
        sources, [tmp_path / "a.txt"], builder="https://ci.example/1", images={"kruise-manager": "sha256:ff"}
    )
    assert statement["_type"] == papers.STATEMENT_TYPE
    assert statement["predicateType"] == papers.PREDICATE_TYPE
    assert statement["subject"] == [
        {"name": "a.txt", "digest": {"sha256": hashlib.sha256(b"a").hexdigest()}},
        {"name": "kruise-manager", "digest": {"sha256": "ff"}},
    ]
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["version"] == "1.2.3rc1"
    source, *locks = definition["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": sources.commit}
    assert {lock["uri"] for lock in locks} == {
        f"supply/{path.name}" for path in (ROOT / "supply").glob("*.txt")
    }
    assert statement["predicate"]["runDetails"]["builder"]["id"] == "https://ci.example/1"


def test_checksums_are_lines_that_sha256sum_checks(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    (tmp_path / papers.CHECKSUMS).write_text(papers.format_checksums([tmp_path / "b", tmp_path / "a"]))
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", papers.CHECKSUMS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "a: OK\nb: OK\n")


CHANGELOG = """# Changelog

## 2.0.0, unreleased

- New.

## 1.0.0, 2026-01-02

- First.
"""


def test_notes_of_a_version_are_those_below_its_heading() -> None:
    assert papers.changes_of(CHANGELOG, "1.0.0") == "- First."
    assert papers.changes_of(CHANGELOG, "2.0.0") == papers.changes_of(CHANGELOG, "2.0.0rc1") == "- New."
    with pytest.raises(ReleaseError, match="no heading '## 3"):
        papers.changes_of(CHANGELOG.replace(", unreleased", ""), "3.0.0")


def test_release_notes_have_the_install_commands_of_the_release(sources: Sources) -> None:
    text = papers.format_notes(sources, {"kruise-manager": "sha256:ff"})
    assert "pip install 'pykruise[sandbox]==1.2.3rc1'" in text
    assert "oci://registry.example.com/team/charts/pykruise --version 1.2.3-rc.1" in text
    assert "| `kruise-manager` | `sha256:ff` |" in text
