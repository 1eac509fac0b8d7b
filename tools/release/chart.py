"""The chart packed as Helm does, and as an OCI artifact that `helm install oci://…` pulls from a registry.

charts/pykruise ──▶ pykruise-VERSION.tgz ──▶ pykruise-chart-VERSION.oci.tar

Rule: a chart is an OCI image. Its configuration is Chart.yaml as JSON, and its only layer is the packed chart.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any, Final

import yaml

from testbed.images import MANIFEST_TYPE, Image, build_archive, digest_of
from tools.release.staging import Sources

__all__ = ["CONFIG_TYPE", "CONTENT_TYPE", "build", "pack"]

CONFIG_TYPE: Final = "application/vnd.cncf.helm.config.v1+json"
CONTENT_TYPE: Final = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_LEFT_OUT: Final = frozenset({".helmignore", "icon.svg"})


def build(sources: Sources, folder: Path) -> list[Path]:
    """Write both files."""
    chart = sources.root / "charts/pykruise"
    packed = pack(chart, time_s=sources.time_s)
    plain = folder / f"pykruise-{sources.chart_version}.tgz"
    plain.write_bytes(packed)
    about = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))
    name = f"{sources.registry or 'docker.io/pykruise'}/charts/pykruise:{sources.chart_version}"
    artifact = folder / f"pykruise-chart-{sources.version}.oci.tar"
    artifact.write_bytes(build_archive(artifact_of(packed, about), name))
    return [plain, artifact]


def pack(chart: Path, *, time_s: int) -> bytes:
    """Return the chart packed as Helm does: all files in a folder with the chart's name, sorted, with the same time."""
    name = yaml.safe_load((chart / "Chart.yaml").read_text("utf-8"))["name"]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for file in sorted(path for path in chart.rglob("*") if path.is_file()):
            path = file.relative_to(chart).as_posix()
            if path in _LEFT_OUT:
                continue
            content = file.read_bytes()
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mode, entry.mtime = len(content), 0o644, time_s
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), 9, mtime=time_s)


def artifact_of(packed: bytes, about: dict[str, Any]) -> Image:
    """Return the packed chart as registries store it."""
    config = json.dumps(about, sort_keys=True).encode()
    annotations = {
        "org.opencontainers.image.title": about["name"],
        "org.opencontainers.image.version": about["version"],
        "org.opencontainers.image.description": about["description"],
    }
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {"mediaType": CONFIG_TYPE, "digest": digest_of(config), "size": len(config)},
            "layers": [{"mediaType": CONTENT_TYPE, "digest": digest_of(packed), "size": len(packed)}],
            "annotations": annotations,
        }
    ).encode()
    return Image(manifest, {digest_of(config): config, digest_of(packed): packed})
