"""The registry of real nodes: a folder of images, and the responses to requests of nodes.

    Registry.push(image, "web:1") ──▶ folder ◀── answer(folder, request) ◀── gateway.py ◀── containerd

It serves as every registry for the nodes: "nginx:1" and "registry.test/web:1" are both looked up here. An image that
was not pushed is built from busybox on demand: each name and tag gives another image, which runs until it gets a
signal to end. Only repositories whose path has a part "missing" or "broken" do not exist (in the sandbox: those whose
last part is "broken"). Repositories may have rules (`Registry.set_rule`): credentials, slow responses, errors. There is
no push over HTTP: the folder is the complete state.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from testbed.images import MANIFEST_TYPE, Image, build_busybox_image

RULES = "rules.json"
LOG = "requests.jsonl"
MISSING = {"missing", "broken"}
SLOW_SECONDS = 5

_PATH = re.compile(r"/v2/(?P<repository>.+)/(?P<what>manifests|blobs)/(?P<reference>[^/]+)")


@dataclass(frozen=True)
class Rule:
    """Rule for the responses of repositories below a prefix."""

    credentials: str = ""
    """Credentials that a pull needs, as "name:password"; empty: no credentials."""
    bytes_per_second: int = 0
    """Speed at which blobs are sent; 0: no limit. With a limit, images that are built on demand take SLOW_SECONDS."""
    status: int = 0
    """An HTTP status for the response to every request; 0: the usual response."""


class Registry:
    """The registry for tests: push images and count pulls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "blobs").mkdir(parents=True)
        (folder / "tags").mkdir()
        self._rules: dict[str, Rule] = {}
        self._write_rules()

    def push(self, image: Image, *names: str) -> str:
        """Store an image under these names, such as "web:1" or "team/app:2", and return its digest.

        Several names are several tags of one digest. Pods may write "web:1", "registry.test/web:1" or any other host.
        """
        return _store(self.folder, image, names)

    def set_rule(self, prefix: str, rule: Rule | None) -> None:
        """Apply a rule to repositories whose path begins with this prefix; None removes the rule."""
        self._rules.pop(prefix, None)
        if rule:
            self._rules[prefix] = rule
        self._write_rules()

    def list_requests(self) -> list[dict[str, str]]:
        """Return the requests so far, oldest first: "method", "path", and the "status" of the response."""
        log = self.folder / LOG
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def count_pulls(self, name: str) -> int:
        """Return how often nodes resolved "web:1" successfully. They do so once for each pull."""
        repository, _, tag = name.rpartition(":")
        path = f"/v2/{repository}/manifests/{tag}"
        paths = (path, path.replace("/v2/", "/v2/library/"))
        return sum(
            request["path"] in paths and request["status"] == "200" for request in self.list_requests()
        )

    def _write_rules(self) -> None:
        rules = {prefix: asdict(rule) for prefix, rule in self._rules.items()}
        _write(self.folder / RULES, json.dumps(rules).encode())


@dataclass(frozen=True)
class Answer:
    """One HTTP response."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    bytes_per_second: int = 0


def answer(folder: Path, method: str, target: str, authorization: str) -> Answer:
    """Respond to a GET or HEAD of `target` (path and query). `authorization` is the value of that header."""
    path = urlsplit(target).path
    if path.rstrip("/") == "/v2":
        return Answer(200)
    match = _PATH.fullmatch(path)
    if method not in ("GET", "HEAD") or not match:
        return _answer_error(404, "UNSUPPORTED")
    repository = _strip_library(match["repository"], target)
    rule = _rule_for(folder, repository)
    if rule.credentials and authorization != f"Basic {base64.b64encode(rule.credentials.encode()).decode()}":
        return _answer_error(401, "UNAUTHORIZED", {"WWW-Authenticate": 'Basic realm="registry"'})
    if rule.status:
        return _answer_error(rule.status, "UNKNOWN")
    if match["what"] == "blobs":
        return _answer_blob(folder, match["reference"], "application/octet-stream", rule)
    reference = match["reference"]
    digest = reference if ":" in reference else _find_digest(folder, repository, reference, rule)
    if not digest:
        return _answer_error(404, "MANIFEST_UNKNOWN")
    return _answer_blob(folder, digest, MANIFEST_TYPE, Rule())


def _strip_library(repository: str, target: str) -> str:
    """Remove the prefix "library/": containerd requests "nginx" as "library/nginx" of docker.io."""
    is_docker = parse_qs(urlsplit(target).query).get("ns") == ["docker.io"]
    return repository.removeprefix("library/") if is_docker else repository


def _rule_for(folder: Path, repository: str) -> Rule:
    rules = json.loads((folder / RULES).read_text())
    fitting = [prefix for prefix in rules if repository.startswith(prefix)]
    return Rule(**rules[max(fitting, key=len)]) if fitting else Rule()


def _find_digest(folder: Path, repository: str, tag: str, rule: Rule) -> str:
    file = _tag_file(folder, repository, tag)
    if not file.exists():
        if MISSING & set(repository.split("/")):
            return ""
        name = f"{repository}:{tag}"
        # Nodes have busybox's layer after the first pull, so a slow image needs additional content.
        padding = rule.bytes_per_second * SLOW_SECONDS
        return _store(folder, build_busybox_image(name, padding=padding), [name])
    return file.read_text()


def _store(folder: Path, image: Image, names: Iterable[str]) -> str:
    for digest, blob in {**image.blobs, image.digest: image.manifest}.items():
        _write(folder / "blobs" / digest, blob)
    for name in names:
        repository, _, tag = name.rpartition(":")
        _write(_tag_file(folder, repository, tag), image.digest.encode())
    return image.digest


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically, because another process reads it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.rename(path)


def _answer_blob(folder: Path, digest: str, media_type: str, rule: Rule) -> Answer:
    file = folder / "blobs" / digest.replace("/", "")
    if not file.exists():
        return _answer_error(404, "BLOB_UNKNOWN")
    headers = {"Content-Type": media_type, "Docker-Content-Digest": digest}
    return Answer(200, file.read_bytes(), headers, rule.bytes_per_second)


def _answer_error(status: int, code: str, headers: dict[str, str] | None = None) -> Answer:
    body = json.dumps({"errors": [{"code": code, "message": f"the registry says {status}"}]}).encode()
    return Answer(status, body, {"Content-Type": "application/json", **(headers or {})})


def _tag_file(folder: Path, repository: str, tag: str) -> Path:
    return folder / "tags" / f"{repository.replace('/', '%')}:{tag}"
