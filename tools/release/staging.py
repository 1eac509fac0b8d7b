"""A copy of the committed sources that contains the version and the places of publication.

git archive ──▶ folder ──▶ stamp(): version.py, pins, chart, links ──▶ Sources

Only committed files are part of a release. All built files have the time of the commit, so that two releases of one
commit are the same bytes.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["DISTRIBUTIONS", "ReleaseError", "Sources", "stage"]

DISTRIBUTIONS: Final = ("kube", "sandbox", "agent", "pykruise", "dashboard")
"""Folders of packages/, each after the folders that it depends on."""

_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?")


class ReleaseError(Exception):
    """A release cannot be built; the message says how to fix it."""


@dataclass(frozen=True)
class Sources:
    """The staged copy."""

    root: Path
    version: str
    commit: str
    time_s: int
    """Time of the commit, which all built files get."""
    registry: str = ""
    """Registry for the images and the chart, such as registry.example.com/team; empty: they are not published."""
    repository: str = ""
    """Web address of the repository; empty: unknown."""

    @property
    def chart_version(self) -> str:
        """The version in the form of semantic versioning: `1.0.0-rc.1` for `1.0.0rc1`."""
        return re.sub(r"(a|b|rc)([0-9]+)$", r"-\1.\2", self.version)

    @property
    def tag(self) -> str:
        """Tag of the images and of the commit."""
        return f"v{self.version}"


def stage(
    checkout: Path,
    folder: Path,
    *,
    version: str,
    registry: str = "",
    repository: str = "",
    commit: str = "HEAD",
) -> Sources:
    """Copy the committed sources into a folder, and write the version and places into them. Raises ReleaseError."""
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"{version!r} is no version; write 1.2.3, or 1.2.3rc1")
    text = _git(checkout, "rev-parse", commit).decode().strip()
    time_s = int(_git(checkout, "show", "--no-patch", "--format=%ct", text))
    with tarfile.open(fileobj=io.BytesIO(_git(checkout, "archive", "--format=tar", text))) as tar:
        tar.extractall(folder, filter="data")
    sources = Sources(folder, version, text, time_s, registry.rstrip("/"), repository.rstrip("/"))
    stamp(sources)
    return sources


def _git(checkout: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(checkout), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]} failed: {done.stderr.decode().strip()}")
    return done.stdout


def stamp(sources: Sources) -> None:
    """Write the version and the places into the staged files. Raises ReleaseError if a file has no line for its
    value.
    """
    root, version = sources.root, sources.version
    code = root / "packages/kube/src/pykruise/kube/version.py"
    old = re.findall(r'^__version__ = "(.*)"$', code.read_text("utf-8"), re.MULTILINE)[0]
    _change(code, {rf'^__version__ = "{re.escape(old)}"$': f'__version__ = "{version}"'})
    _change(code, {r'^REGISTRY: Final = ""$': f'REGISTRY: Final = "{sources.registry}"'})
    chart = root / "charts/pykruise"
    _change(
        chart / "Chart.yaml",
        {
            r"^version: .*$": f"version: {sources.chart_version}",
            r"^appVersion: .*$": f"appVersion: {version}",
        },
    )
    if sources.registry:
        _change(chart / "values.yaml", {r'^  registry: ""$': f"  registry: {sources.registry}"})
        schema = chart / "values.schema.json"
        where = r'("registry": \{[^}]*"default": )""'
        _change(schema, {where: rf'\1"{sources.registry}"'})
    if sources.repository:
        lines = f"home: {sources.repository}\nsources:\n- {sources.repository}\n"
        _change(chart / "Chart.yaml", {r"^keywords:$": f"{lines}keywords:"})
    if "a" not in version and "b" not in version and "rc" not in version and not version.startswith("0."):
        _change(chart / "Chart.yaml", {r'^  artifacthub.io/prerelease: "true"\n': ""})
    for name in DISTRIBUTIONS:
        project = root / "packages" / name / "pyproject.toml"
        text = project.read_text("utf-8")
        project.write_text(re.sub(rf"=={re.escape(old)}(?=[\"\]])", f"=={version}", text), "utf-8")
        if sources.repository:
            _add_urls(project, sources)
            _make_links_absolute(root, root / "packages" / name / "README.md", sources)


def _change(file: Path, changes: Mapping[str, str]) -> None:
    text = file.read_text("utf-8")
    for pattern, replacement in changes.items():
        text, count = re.subn(pattern, replacement, text, count=1, flags=re.MULTILINE)
        if not count:
            raise ReleaseError(f"{file.name} has no place for {replacement.strip()!r}")
    file.write_text(text, "utf-8")


def _add_urls(project: Path, sources: Sources) -> None:
    tree = f"{sources.repository}/blob/{sources.tag}"
    urls = {
        "Homepage": sources.repository,
        "Documentation": f"{tree}/docs/index.md",
        "Source": sources.repository,
        "Issues": f"{sources.repository}/issues",
        "Changelog": f"{tree}/CHANGELOG.md",
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    _change(project, {r"^\[tool\.hatch\.version\]$": f"[project.urls]\n{lines}\n[tool.hatch.version]"})


def _make_links_absolute(root: Path, page: Path, sources: Sources) -> None:
    """Make the links of a page absolute, because package indexes show it without the files around it."""
    base = f"{sources.repository}/blob/{sources.tag}"

    def absolute(link: re.Match[str]) -> str:
        path, hash_sign, heading = link[1].partition("#")
        place = (page.parent / path).resolve().relative_to(root.resolve())
        return f"]({base}/{place.as_posix()}{hash_sign}{heading})"

    _rewrite(page, lambda text: re.sub(r"\]\((?!https?:|#)([^)\s]+)\)", absolute, text))


def _rewrite(file: Path, change: Callable[[str], str]) -> None:
    file.write_text(change(file.read_text("utf-8")), "utf-8")
