"""Container images built by a few lines of code: files in, an OCI image out. Nothing is downloaded.

    build_busybox() ─┐
    files() ───┴▶ layers ──▶ build_image(layers, command=…) ──▶ Image: its blobs by digest, for a registry

Pure, except that it reads the programs for a layer. The same arguments give the same bytes, so the same digests.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"

BUSYBOX = Path("/bin/busybox")
FOLDERS = ("bin", "etc", "tmp", "root", "proc", "sys", "dev", "var", "run")
COMMANDS = """
    sh ash [ test true false echo printf cat head tail tee grep sed awk sort wc cut tr ls mkdir rm cp mv ln touch
    chmod chown stat df du id whoami hostname ip ping nslookup wget nc httpd ps kill killall sleep timeout date env
    expr seq md5sum sha256sum mount umount mktemp dd sync uname vi top free uptime xargs find which
"""

WAIT = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done")
"""Command that runs until it gets a signal to end, and then ends immediately."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
HOST_ARCHITECTURE = _ARCHITECTURES.get(platform.machine(), platform.machine())
"""Architecture of this machine, as OCI names it."""


@dataclass(frozen=True)
class Layer:
    """One layer: its compressed content, and the digest of its unpacked content."""

    blob: bytes
    diff_id: str


@dataclass(frozen=True)
class Image:
    """An image as a registry stores it."""

    manifest: bytes
    blobs: Mapping[str, bytes]
    """Configuration and layers by digest."""

    @property
    def digest(self) -> str:
        """Digest by which it is pulled. A pod's imageID ends with it."""
        return digest_of(self.manifest)


def build_image(
    layers: Sequence[Layer],
    *,
    command: Sequence[str] = WAIT,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    user: str = "",
    architecture: str = HOST_ARCHITECTURE,
    labels: Mapping[str, str] | None = None,
) -> Image:
    """Build an image of these layers. It runs `command` with `arguments` unless a container overrides them.

    `environment` adds to PATH; `user` has the form of a Dockerfile ("1000:1000").
    """
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **(environment or {})}
    config = _to_json(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {
                "Entrypoint": list(command),
                "Cmd": list(arguments),
                "Env": [f"{name}={value}" for name, value in variables.items()],
                "User": user,
                **({"Labels": dict(sorted(labels.items()))} if labels else {}),
            },
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        }
    )
    manifest = _to_json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": _descriptor_of(CONFIG_TYPE, config),
            "layers": [_descriptor_of(LAYER_TYPE, layer.blob) for layer in layers],
        }
    )
    blobs = {digest_of(blob): blob for blob in (config, *(layer.blob for layer in layers))}
    return Image(manifest, blobs)


def build_busybox_image(
    marker: str = "",
    *,
    command: Sequence[str] = WAIT,
    files: Mapping[str, bytes] | None = None,
    padding: int = 0,
) -> Image:
    """Return an image of busybox with a file /etc/marker that contains `marker`. Different markers give different
    digests.

    `files` are by path ("etc/page"). `padding` is the number of further bytes to pull.
    """
    content = {"etc/marker": marker.encode(), **(files or {})}
    if padding:
        content["var/padding"] = os.urandom(padding)
    return build_image([build_busybox(), build_files_layer(content)], command=command)


@functools.cache
def build_busybox() -> Layer:
    """Return a layer with busybox, links for its commands, and the usual folders of a root file system."""
    entries = [_folder_entry(name) for name in FOLDERS]
    entries.append(_file_entry("bin/busybox", BUSYBOX.read_bytes(), mode=0o755))
    for command in COMMANDS.split():
        link = tarfile.TarInfo(f"bin/{command}")
        link.type, link.linkname = tarfile.SYMTYPE, "busybox"
        entries.append((link, b""))
    entries.append(_file_entry("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"))
    entries.append(_file_entry("etc/group", b"root:x:0:\nuser:x:1000:\n"))
    entries.append(_file_entry("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n"))
    return _build_layer(entries)


def build_files_layer(files: Mapping[str, bytes]) -> Layer:
    """Return a layer of files, given by their paths."""
    return _build_layer([_file_entry(path, content) for path, content in sorted(files.items())])


def build_packed_layer(tar: bytes) -> Layer:
    """Return a layer of an existing tar archive."""
    return Layer(gzip.compress(tar, 1, mtime=0), digest_of(tar))


def index_of(images: Mapping[str, Image]) -> Image:
    """Combine images of several architectures under one digest. The manifest of the result is an index."""
    entries = [
        {**_descriptor_of(MANIFEST_TYPE, made.manifest), "platform": {"os": "linux", "architecture": name}}
        for name, made in sorted(images.items())
    ]
    manifest = _to_json({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries})
    blobs = {digest: blob for made in images.values() for digest, blob in made.blobs.items()}
    return Image(manifest, {**blobs, **{made.digest: made.manifest for made in images.values()}})


def build_archive(made: Image, name: str) -> bytes:
    """Return the image as an OCI archive, a tar file that runtimes import. `name` is complete, with its tag."""
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    media_type = json.loads(made.manifest)["mediaType"]
    entry = {**_descriptor_of(media_type, made.manifest), "annotations": names}
    files = {
        "oci-layout": _to_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _to_json({"schemaVersion": 2, "manifests": [entry]}),
    }
    for digest, blob in {**made.blobs, made.digest: made.manifest}.items():
        files[f"blobs/{digest.replace(':', '/')}"] = blob
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in files.items():
            file, data = _file_entry(path, content)
            tar.addfile(file, io.BytesIO(data))
    return buffer.getvalue()


def digest_of(blob: bytes) -> str:
    """Digest of a blob, as OCI writes it."""
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _build_layer(entries: Sequence[tuple[tarfile.TarInfo, bytes]]) -> Layer:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for entry, content in entries:
            tar.addfile(entry, io.BytesIO(content))
    return build_packed_layer(buffer.getvalue())


def _folder_entry(path: str) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
    return entry, b""


def _file_entry(path: str, content: bytes, *, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    return entry, content


def _descriptor_of(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": digest_of(blob), "size": len(blob)}


def _to_json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
