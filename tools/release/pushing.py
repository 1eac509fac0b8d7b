"""Pushes OCI archives to a registry, without a container engine.

archive ──▶ Layout: blobs by digest ──▶ Registry.push(): missing blobs, manifests, the tag
    python -m tools.release.pushing registry.example.com/team build/images/*.tar

It uses the login of docker or podman, from their configuration files and credential helpers. Rule: OCI distribution
specification 1.1, push; tokens as Docker's registries use them.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import re
import subprocess
import sys
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from testbed.images import Image

__all__ = ["Layout", "PushError", "Registry", "credentials_of", "read_archive", "read_image"]

_TIMEOUT_S: Final = 120.0
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


class PushError(Exception):
    """The registry rejected the push or could not be reached; the message gives the reason."""


@dataclass(frozen=True)
class Layout:
    """An archive: its blobs, and the manifest to which its index refers."""

    name: str
    """Name in the index: the last part of the repository, such as `kruise-manager`."""
    repository: str
    """The complete repository, without the host."""
    tag: str
    root: Mapping[str, Any]
    """Descriptor of the manifest, or of an index of several manifests."""
    blobs: Mapping[str, bytes]
    """Blobs by digest."""


def read_archive(file: Path) -> Layout:
    """Read an OCI archive with one image. Raises PushError."""
    try:
        with tarfile.open(file) as tar:
            members = {
                getmember.name: _content(tar, getmember)
                for getmember in tar.getmembers()
                if getmember.isfile()
            }
        (root,) = json.loads(members["index.json"])["manifests"]
    except (OSError, tarfile.TarError, KeyError, ValueError) as error:
        raise PushError(f"{file}: not an OCI archive with one image: {error}") from error
    named = root.get("annotations", {}).get("io.containerd.image.name", "")
    repository, _, tag = named.rpartition(":")
    blobs = {
        name.removeprefix("blobs/").replace("/", ":"): content
        for name, content in members.items()
        if name.startswith("blobs/")
    }
    return Layout(repository.rpartition("/")[2], repository.partition("/")[2], tag, root, blobs)


def read_image(layout: Layout, architecture: str) -> Image:
    """Return the image of one architecture. Raises PushError if the archive does not contain it."""
    for entry in json.loads(layout.blobs[layout.root["digest"]]).get("manifests", ()):
        if entry["platform"]["architecture"] == architecture:
            manifest = layout.blobs[entry["digest"]]
            parts = json.loads(manifest)
            digests = [parts["config"]["digest"], *(layer["digest"] for layer in parts["layers"])]
            return Image(manifest, {digest: layout.blobs[digest] for digest in digests})
    raise PushError(f"the archive has no image of {layout.name} for {architecture}")


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    return file.read() if file is not None else b""


# ── the login ────────────────────────────────────────────────────────────────


def credentials_of(host: str, environ: Mapping[str, str]) -> str:
    """Return `name:password` that docker or podman store for a registry; empty: no login."""
    for file in _login_files(environ):
        try:
            config = json.loads(file.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        helper = config.get("credHelpers", {}).get(host) or config.get("credsStore")
        if helper and (credentials := _from_helper(helper, host)):
            return credentials
        entry = config.get("auths", {}).get(host) or config.get("auths", {}).get(f"https://{host}") or {}
        if entry.get("auth"):
            return base64.b64decode(entry["auth"]).decode()
    return ""


def _login_files(environ: Mapping[str, str]) -> Iterable[Path]:
    home = Path(environ.get("HOME", "/"))
    if named := environ.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime) / "containers/auth.json"
    yield home / ".config/containers/auth.json"
    yield Path(environ.get("DOCKER_CONFIG", str(home / ".docker"))) / "config.json"


def _from_helper(helper: str, host: str) -> str:
    try:
        done = subprocess.run(
            [f"docker-credential-{helper}", "get"], input=host, capture_output=True, text=True, check=True
        )
        result = json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return ""
    return f"{result['Username']}:{result['Secret']}"


# ── the registry ─────────────────────────────────────────────────────────────


class Registry:
    """A registry and the path for all pushed repositories: `registry.example.com/team`."""

    def __init__(self, place: str, *, environ: Mapping[str, str], is_plain: bool | None = None) -> None:
        self.host, _, self.path = place.strip("/").partition("/")
        name = self.host.rsplit(":", 1)[0] if not self.host.endswith("]") else self.host
        scheme = "http" if (name in _LOOPBACK if is_plain is None else is_plain) else "https"
        self._base = f"{scheme}://{self.host}"
        self._basic = credentials_of(self.host, environ)
        self._authorization = ""

    def push(self, layout: Layout, *, name: str = "", tag: str = "") -> str:
        """Push an archive, and return its name with its digest. Raises PushError."""
        repository = "/".join(filter(None, (self.path, name or layout.name)))
        self._push_manifest(repository, layout, layout.root, tag or layout.tag)
        return f"{self.host}/{repository}:{tag or layout.tag}@{layout.root['digest']}"

    def _push_manifest(
        self, repository: str, layout: Layout, descriptor: Mapping[str, Any], reference: str
    ) -> None:
        """Push a manifest after its parts: registries reject a manifest with missing parts."""
        content = layout.blobs[descriptor["digest"]]
        manifest = json.loads(content)
        for child in manifest.get("manifests", ()):
            self._push_manifest(repository, layout, child, child["digest"])
        for blob in (*([manifest["config"]] if "config" in manifest else ()), *manifest.get("layers", ())):
            self._push_blob(repository, blob["digest"], layout.blobs[blob["digest"]])
        headers = {"Content-Type": descriptor["mediaType"]}
        self._ask(repository, "PUT", f"/v2/{repository}/manifests/{reference}", content, headers)

    def _push_blob(self, repository: str, digest: str, content: bytes) -> None:
        if (
            self._ask(repository, "HEAD", f"/v2/{repository}/blobs/{digest}", missing_is_fine=True)
            is not None
        ):
            return
        begun = self._ask(repository, "POST", f"/v2/{repository}/blobs/uploads/", b"")
        assert begun is not None
        place = urllib.parse.urljoin(self._base, begun["Location"])
        sign = "&" if "?" in place else "?"
        headers = {"Content-Type": "application/octet-stream"}
        self._ask(repository, "PUT", f"{place}{sign}digest={urllib.parse.quote(digest)}", content, headers)

    def _ask(
        self,
        repository: str,
        method: str,
        path: str,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        missing_is_fine: bool = False,
    ) -> Mapping[str, str] | None:
        """Return the headers of the answer; None: the object does not exist. Logs in when the registry requires it."""
        url = path if "://" in path else f"{self._base}{path}"
        for is_second in (False, True):
            request = urllib.request.Request(url, data=content, method=method, headers=dict(headers or {}))
            if self._authorization:
                request.add_header("Authorization", self._authorization)
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                    return dict(answer.headers)
            except urllib.error.HTTPError as error:
                if error.code == 404 and missing_is_fine:
                    return None
                if error.code == 401 and not is_second:
                    self._log_in(error.headers.get("WWW-Authenticate", ""), repository)
                    continue
                text = error.read(500).decode(errors="replace")
                raise PushError(f"{method} {url}: {error.code} {error.reason} {text}") from error
            except OSError as error:
                raise PushError(f"{method} {url}: {error}") from error
        raise AssertionError("the second answer returns or raises")

    def _log_in(self, challenge: str, repository: str) -> None:
        kind, _, rest = challenge.partition(" ")
        basic = base64.b64encode(self._basic.encode()).decode()
        if kind.lower() != "bearer":
            if not self._basic:
                raise PushError(f"{self.host} wants a login: docker login {self.host}")
            self._authorization = f"Basic {basic}"
            return
        fields = dict(re.findall(r'(\w+)="([^"]*)"', rest))
        query = {"service": fields.get("service", ""), "scope": f"repository:{repository}:pull,push"}
        request = urllib.request.Request(f"{fields['realm']}?{urllib.parse.urlencode(query)}")
        if self._basic:
            request.add_header("Authorization", f"Basic {basic}")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                given = json.load(answer)
        except (OSError, ValueError) as error:
            raise PushError(f"{self.host} refuses the login: {error}; docker login {self.host}") from error
        self._authorization = f"Bearer {given.get('token') or given.get('access_token')}"


def main(argv: Sequence[str]) -> int:
    """Push archives, and print the name of each with its digest."""
    parser = argparse.ArgumentParser(description="Push OCI archives to a registry.")
    parser.add_argument("registry", help="registry.example.com/team")
    parser.add_argument("archives", nargs="+", type=Path)
    parser.add_argument("--tag", default="", help="instead of the archive's")
    parser.add_argument("--plain-http", action="store_true", default=None)
    options = parser.parse_args(argv)
    try:
        for file in options.archives:
            registry = Registry(options.registry, environ=os.environ, is_plain=options.plain_http)
            print(registry.push(read_archive(file), tag=options.tag))
    except PushError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
