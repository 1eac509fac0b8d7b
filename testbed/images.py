"""Container images made by a few lines: files in, an OCI image out. Nothing is downloaded.

    busybox() ─┐
    files() ───┴▶ layers ──▶ image(layers, command=…) ──▶ Image: its blobs by digest, for a registry

Pure, but for reading the programs that go into a layer. The same arguments make the same bytes, so the same digests.
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
"""Runs until it is asked to end, and then ends at once."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
HOST_ARCHITECTURE = _ARCHITECTURES.get(platform.machine(), platform.machine())
"""As OCI names it."""


@dataclass(frozen=True)
class Layer:
    """One layer: what is transferred, and the digest of what is unpacked."""

    blob: bytes
    diff_id: str


@dataclass(frozen=True)
class Image:
    """An image as a registry stores it."""

    manifest: bytes
    blobs: Mapping[str, bytes]
    """By digest: the configuration and the layers."""

    @property
    def digest(self) -> str:
        """What it is pulled by, and what a pod's imageID ends with."""
        return digest_of(self.manifest)


def image(
    layers: Sequence[Layer],
    *,
    command: Sequence[str] = WAIT,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    user: str = "",
    architecture: str = HOST_ARCHITECTURE,
    labels: Mapping[str, str] | None = None,
) -> Image:
    """An image of these layers, which runs `command` with `arguments` where a container says nothing else.

    `environment` is besides PATH; `user` as in a Dockerfile ("1000:1000").
    """
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", **(environment or {})}
    config = _json(
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
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": _descriptor(CONFIG_TYPE, config),
            "layers": [_descriptor(LAYER_TYPE, layer.blob) for layer in layers],
        }
    )
    blobs = {digest_of(blob): blob for blob in (config, *(layer.blob for layer in layers))}
    return Image(manifest, blobs)


def busybox_image(
    marker: str = "",
    *,
    command: Sequence[str] = WAIT,
    files: Mapping[str, bytes] | None = None,
    padding: int = 0,
) -> Image:
    """Busybox, and a file /etc/marker that says `marker`: images of different markers have different digests.

    `files` are by path ("etc/page"), `padding` is how many bytes more there are to pull.
    """
    content = {"etc/marker": marker.encode(), **(files or {})}
    if padding:
        content["var/padding"] = os.urandom(padding)
    return image([busybox(), files_layer(content)], command=command)


@functools.cache
def busybox() -> Layer:
    """A layer with busybox, its commands as links, and what a root folder needs."""
    entries = [_folder(name) for name in FOLDERS]
    entries.append(_file("bin/busybox", BUSYBOX.read_bytes(), mode=0o755))
    for command in COMMANDS.split():
        link = tarfile.TarInfo(f"bin/{command}")
        link.type, link.linkname = tarfile.SYMTYPE, "busybox"
        entries.append((link, b""))
    entries.append(_file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"))
    entries.append(_file("etc/group", b"root:x:0:\nuser:x:1000:\n"))
    entries.append(_file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n"))
    return _layer(entries)


def files_layer(files: Mapping[str, bytes]) -> Layer:
    """A layer of files by their paths."""
    return _layer([_file(path, content) for path, content in sorted(files.items())])


def packed_layer(tar: bytes) -> Layer:
    """A layer of a tar archive that was made elsewhere."""
    return Layer(gzip.compress(tar, 1, mtime=0), digest_of(tar))


def index_of(images: Mapping[str, Image]) -> Image:
    """Images of several architectures under one digest; the manifest of what is returned is an index."""
    entries = [
        {**_descriptor(MANIFEST_TYPE, made.manifest), "platform": {"os": "linux", "architecture": name}}
        for name, made in sorted(images.items())
    ]
    manifest = _json({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries})
    blobs = {digest: blob for made in images.values() for digest, blob in made.blobs.items()}
    return Image(manifest, {**blobs, **{made.digest: made.manifest for made in images.values()}})


def archive(made: Image, name: str) -> bytes:
    """The image as an OCI archive, a tar file that runtimes import; `name` in full, with its tag."""
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    media_type = json.loads(made.manifest)["mediaType"]
    entry = {**_descriptor(media_type, made.manifest), "annotations": names}
    files = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "manifests": [entry]}),
    }
    for digest, blob in {**made.blobs, made.digest: made.manifest}.items():
        files[f"blobs/{digest.replace(':', '/')}"] = blob
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in files.items():
            file, data = _file(path, content)
            tar.addfile(file, io.BytesIO(data))
    return buffer.getvalue()


def digest_of(blob: bytes) -> str:
    """As OCI writes it."""
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _layer(entries: Sequence[tuple[tarfile.TarInfo, bytes]]) -> Layer:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for entry, content in entries:
            tar.addfile(entry, io.BytesIO(content))
    return packed_layer(buffer.getvalue())


def _folder(path: str) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
    return entry, b""


def _file(path: str, content: bytes, *, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(content), mode
    return entry, content


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": digest_of(blob), "size": len(blob)}


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
