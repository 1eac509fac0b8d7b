"""Documents that accompany the files of a release: checksums, provenance, and release notes.

files ──▶ SHA256SUMS      files, commit ──▶ provenance.intoto.json      CHANGELOG.md ──▶ RELEASE_NOTES.md

Rule: the statement is in-toto's v1, its predicate is SLSA provenance v1. It is not signed here. The pipeline signs a
release with an identity that this machine does not have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tools.release.staging import ReleaseError, Sources

__all__ = ["CHECKSUMS", "build_provenance", "changes_of", "format_checksums", "format_notes"]

CHECKSUMS: Final = "SHA256SUMS"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://slsa.dev/provenance/v1"


def format_checksums(files: Iterable[Path]) -> str:
    """Return the lines that `sha256sum --check` reads."""
    return "".join(f"{_sha256(file)}  {file.name}\n" for file in sorted(files))


def build_provenance(
    sources: Sources, files: Iterable[Path], *, builder: str, images: Mapping[str, str]
) -> dict[str, Any]:
    """Return the statement about all files and images (their digests by name): the commit, and how they were built."""
    where = f"git+{sources.repository}" if sources.repository else "git+file://checkout"
    subjects = [{"name": file.name, "digest": {"sha256": _sha256(file)}} for file in sorted(files)]
    subjects += [
        {"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}
        for name, digest in sorted(images.items())
    ]
    made = datetime.fromtimestamp(sources.time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "_type": STATEMENT_TYPE,
        "subject": subjects,
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": f"{sources.repository or 'https://example.com/pykruise'}/docs/releasing.md",
                "externalParameters": {
                    "version": sources.version,
                    "registry": sources.registry,
                    "repository": sources.repository,
                },
                "internalParameters": {"SOURCE_DATE_EPOCH": sources.time_s},
                "resolvedDependencies": [
                    {"uri": f"{where}@{sources.tag}", "digest": {"gitCommit": sources.commit}},
                    *_locks(sources),
                ],
            },
            "runDetails": {"builder": {"id": builder}, "metadata": {"startedOn": made}},
        },
    }


def _locks(sources: Sources) -> list[dict[str, Any]]:
    return [
        {"uri": f"supply/{path.name}", "digest": {"sha256": _sha256(path)}}
        for path in sorted((sources.root / "supply").glob("*.txt"))
    ]


def changes_of(changelog: str, version: str) -> str:
    """Return the changelog's text for a version: the section of the version, or else the unreleased section."""
    parts = re.split(r"^## (.+)$", changelog, flags=re.MULTILINE)
    by_heading = dict(zip(parts[1::2], parts[2::2], strict=True))
    named = [text for heading, text in by_heading.items() if heading.split(",")[0].strip() == version]
    unreleased = [text for heading, text in by_heading.items() if heading.endswith("unreleased")]
    for text in (*named, *unreleased):
        return text.strip()
    raise ReleaseError(f"CHANGELOG.md has no heading '## {version}', and none that is unreleased")


def format_notes(sources: Sources, images: Mapping[str, str]) -> str:
    """Return the text of a release page: how to install the release, its changes, and how to verify it."""
    registry = sources.registry or "registry.example.com/team"
    changes = changes_of((sources.root / "CHANGELOG.md").read_text("utf-8"), sources.version)
    lines = "\n".join(f"| `{name}` | `{digest}` |" for name, digest in sorted(images.items()))
    return f"""# pykruise {sources.version}

## Install

```sh
pip install 'pykruise[sandbox]=={sources.version}'   # pykruise and kubectl kruise; or: uv tool install
kubectl apply --server-side -f install.yaml   # a file of this release; or, with Helm:
helm install kruise oci://{registry}/charts/pykruise --version {sources.chart_version}
pykruise doctor
```

Upgrading: `docs/upgrading.md`. From OpenKruise: `docs/migration.md`.

| image | digest |
|---|---|
{lines}

## Verify

```sh
sha256sum --check {CHECKSUMS}
gh attestation verify install.yaml --repo OWNER/REPOSITORY
cosign verify {registry}/kruise-manager:{sources.tag} --certificate-identity-regexp '/release.yml@' \\
  --certificate-oidc-issuer https://token.actions.githubusercontent.com
```

## Changes

{changes}
"""


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
