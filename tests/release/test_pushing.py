"""A registry gets complete archives: blobs before manifests, once each, with the login of docker or podman."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from testbed.images import build_archive, build_files_layer, build_image, index_of
from tools.release.pushing import PushError, Registry, credentials_of, read_archive

pytestmark = pytest.mark.real_time


class StrictRegistry(ThreadingHTTPServer):
    """Rejects manifests whose parts it does not have, and requests without a token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        self.uploads = 0
        self.login = ""
        """The login that gets a token; empty: any login."""

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: StrictRegistry
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def is_allowed(self) -> bool:
        if self.headers.get("Authorization") == "Bearer t":
            return True
        realm = f'Bearer realm="http://{self.server.place}/token",service="here"'
        self.answer(401, WWW_Authenticate=realm)
        return False

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        is_known = not self.server.login or base64.b64decode(given).decode() == self.server.login
        self.answer(200 if is_known else 401, b'{"token": "t"}' if is_known else b"")

    def do_HEAD(self) -> None:
        if self.is_allowed():
            self.answer(200 if self.path.rpartition("/")[2] in self.server.blobs else 404)

    def do_POST(self) -> None:
        if self.is_allowed():
            self.answer(202, Location=f"{self.path}upload?state=1")

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.is_allowed():
            return
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if "/uploads/" in self.path:
            assert self.path.endswith(f"state=1&digest={digest.replace(':', '%3A')}")
            self.server.uploads += 1
            self.server.blobs[digest] = body
            self.answer(201)
            return
        manifest = json.loads(body)
        parts = [*manifest.get("layers", ()), *([manifest["config"]] if "config" in manifest else ())]
        assert self.headers["Content-Type"] == manifest["mediaType"]
        is_whole = all(part["digest"] in self.server.blobs for part in parts) and all(
            item["digest"] in self.server.manifests for item in manifest.get("manifests", ())
        )
        self.server.manifests |= {digest: body, self.path.removeprefix("/v2/"): body} if is_whole else {}
        self.answer(201 if is_whole else 400)


@pytest.fixture
def server() -> Iterator[StrictRegistry]:
    with StrictRegistry() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An archive for two architectures with a common layer."""
    common = build_files_layer({"etc/same": b"same"})
    both = {
        name: build_image([common, build_files_layer({"etc/arch": name.encode()})], architecture=name)
        for name in ("amd64", "arm64")
    }
    path = tmp_path / "web.tar"
    path.write_bytes(build_archive(index_of(both), "docker.io/team/web:v1"))
    return path


def test_an_archive_of_two_architectures_arrives_whole(server: StrictRegistry, file: Path) -> None:
    registry = Registry(f"{server.place}/mirror", environ={})
    pushed = registry.push(read_archive(file))
    root = server.manifests["mirror/web/manifests/v1"]
    assert pushed == f"{server.place}/mirror/web:v1@sha256:{hashlib.sha256(root).hexdigest()}"
    assert [manifest["platform"]["architecture"] for manifest in json.loads(root)["manifests"]] == [
        "amd64",
        "arm64",
    ]
    assert server.uploads == len(server.blobs) == 5  # a common layer, a layer and a configuration of each
    registry.push(read_archive(file), tag="v2")
    assert server.uploads == 5
    assert server.manifests["mirror/web/manifests/v2"] == root


@pytest.mark.parametrize(
    ("path", "variable"), [(".docker/config.json", "HOME"), ("auth.json", "REGISTRY_AUTH_FILE")]
)
def test_the_login_of_docker_and_podman_is_used(
    server: StrictRegistry, file: Path, tmp_path: Path, path: str, variable: str
) -> None:
    server.login = "me:secret"
    with pytest.raises(PushError, match=r"refuses the login.*docker login"):
        Registry(server.place, environ={"HOME": str(tmp_path / "none")}).push(read_archive(file))
    config = tmp_path / path
    config.parent.mkdir(exist_ok=True)
    auth = base64.b64encode(b"me:secret").decode()
    config.write_text(json.dumps({"auths": {server.place: {"auth": auth}}}))
    environ = {"HOME": str(tmp_path), **({variable: str(config)} if variable != "HOME" else {})}
    Registry(server.place, environ=environ).push(read_archive(file))
    assert "web/manifests/v1" in server.manifests


def test_the_credential_helper_of_the_registry_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "docker-credential-test"
    helper.write_text('#!/bin/sh\necho "{\\"Username\\": \\"me\\", \\"Secret\\": \\"$(cat)\\"}"\n')
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "config.json").write_text('{"credHelpers": {"r.example": "test"}}')
    assert credentials_of("r.example", {"DOCKER_CONFIG": str(tmp_path)}) == "me:r.example"
    assert credentials_of("other.example", {"DOCKER_CONFIG": str(tmp_path)}) == ""


def test_an_invalid_archive_and_an_unreachable_registry_are_reported_in_one_line(
    file: Path, tmp_path: Path
) -> None:
    (tmp_path / "none.tar").write_bytes(b"nothing")
    with pytest.raises(PushError, match=r"none\.tar: not an OCI archive"):
        read_archive(tmp_path / "none.tar")
    with pytest.raises(PushError, match=r"127.0.0.1:1/v2/.*refused"):
        Registry("127.0.0.1:1", environ={}).push(read_archive(file))
