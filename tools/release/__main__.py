"""`python -m tools.release VERSION`: build all parts of a release from the last commit.

stage ──▶ build each part ──▶ bills, checksums, provenance, notes ──▶ dist/release/VERSION

Two runs on the same commit build the same bytes while the package indexes serve the same packages. `--twice` checks
it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from testbed.build import BuildError
from tools.release import bills, chart, distributions, images, manifests, papers, plugin
from tools.release.staging import ReleaseError, Sources, stage

__all__ = ["main", "release"]

T = TypeVar("T")

_CHECKOUT: Final = Path(__file__).resolve().parents[2]


def release(sources: Sources, folder: Path, *, builder: str, cache: Path) -> list[Path]:
    """Build all files of a release in a folder, and return them. Raises ReleaseError, BuildError."""
    folder.mkdir(parents=True)
    print(f"release {sources.version} of {sources.commit[:12]} into {folder}")
    wheels = _said("wheels and source distributions", distributions.build(sources, folder))
    _said("the chart", chart.build(sources, folder))
    _said("manifests", manifests.build(folder, wheels))
    plugins = _said("kubectl kruise", plugin.build(sources, folder, wheels, cache))
    made = _said("images", images.build(sources, folder, wheels))
    programs = [plugin for plugin in plugins if plugin.suffix != ".yaml"]
    _said("bills of materials", bills.build(sources, folder, wheels=wheels, images=made, plugins=programs))
    digests = {item.name: item.image.digest for item in made}
    (folder / "images.txt").write_text(
        "".join(
            f"{sources.registry or 'docker.io/pykruise'}/{name}:{sources.tag}@{digest}\n"
            for name, digest in sorted(digests.items())
        ),
        "utf-8",
    )
    (folder / "RELEASE_NOTES.md").write_text(papers.format_notes(sources, digests), "utf-8")
    files = sorted(folder.iterdir())
    statement = papers.build_provenance(sources, files, builder=builder, images=digests)
    (folder / "provenance.intoto.json").write_text(json.dumps(statement, indent=2) + "\n", "utf-8")
    (folder / papers.CHECKSUMS).write_text(papers.format_checksums(sorted(folder.iterdir())), "utf-8")
    return sorted(folder.iterdir())


def _said(what: str, made: T) -> T:
    print(f"  made {what}", flush=True)
    return made


def main(argv: Sequence[str]) -> int:
    """Build a release, or build it twice and compare."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description="Make a release.")
    parser.add_argument("version")
    parser.add_argument("--out", type=Path, default=_CHECKOUT / "dist/release")
    parser.add_argument("--registry", default="", help="where it is published: registry.example.com/team")
    parser.add_argument("--repository", default="", help="the repository's address in a browser")
    parser.add_argument("--builder", default="https://example.com/make-release", help="who builds, as a URI")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--twice", action="store_true", help="make it twice, and compare")
    options = parser.parse_args(argv)
    folder = options.out / options.version
    try:
        options.commit = _commit_named(options.commit)  # resolve once: HEAD may change before the second run
        made = _made(options, folder)
        if options.twice:
            again = _made(options, options.out / f"{options.version}-again")
            differing = [
                value.name
                for value, other in zip(made, again, strict=True)
                if value.name != other.name or value.read_bytes() != other.read_bytes()
            ]
            if differing:
                raise ReleaseError(f"two runs differ in {', '.join(differing)}")
            print(f"{len(made)} files are the same in both runs")
    except (ReleaseError, BuildError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{len(made)} files, {sum(item.stat().st_size for item in made) / 1e6:.0f} MB: {folder}")
    return 0


def _commit_named(name: str) -> str:
    """Return the hash of the commit that the name refers to now."""
    done = subprocess.run(
        ["git", "-C", str(_CHECKOUT), "rev-parse", "--verify", f"{name}^{{commit}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ReleaseError(f"--commit {name}: {done.stderr.strip()}")
    return done.stdout.strip()


def _made(options: argparse.Namespace, folder: Path) -> list[Path]:
    if folder.exists():
        raise ReleaseError(f"{folder} already exists; remove it, or give another --out")
    with tempfile.TemporaryDirectory(prefix="pykruise-release-") as name:
        sources = stage(
            _CHECKOUT,
            Path(name) / "sources",
            version=options.version,
            registry=options.registry,
            repository=options.repository,
            commit=options.commit,
        )
        return release(sources, folder, builder=options.builder, cache=Path(name) / "downloads")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
