"""The registry of real nodes responds like any other, and generates images that were not pushed."""

import base64
import json
from pathlib import Path

import pytest

from testbed import images
from testbed.images import build_busybox_image, build_files_layer, build_image, digest_of
from testbed.registry import Answer, Registry, Rule, answer


@pytest.fixture(autouse=True)
def small_busybox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace busybox by a file that exists on every machine."""
    program = tmp_path / "busybox"
    program.write_bytes(b"program")
    monkeypatch.setattr(images, "BUSYBOX", program)
    monkeypatch.setattr(images, "build_busybox", images.build_busybox.__wrapped__)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "registry")


def get(registry: Registry, target: str, authorization: str = "") -> Answer:
    return answer(registry.folder, "GET", target, authorization)


def digest_in(registry: Registry, target: str) -> str:
    result = get(registry, target)
    assert result.status == 200
    return result.headers["Docker-Content-Digest"]


def test_equal_content_has_one_digest_and_other_content_another() -> None:
    assert build_busybox_image("one").digest == build_busybox_image("one").digest
    assert build_busybox_image("one").digest != build_busybox_image("two").digest


def test_an_image_is_pulled_piece_by_piece(registry: Registry) -> None:
    # given
    made = build_image([build_files_layer({"etc/page": b"hello"})], command=["/bin/page"])
    registry.push(made, "team/web:1")
    # when
    manifest = get(registry, "/v2/team/web/manifests/1")
    parts = json.loads(manifest.body)
    blobs = [
        get(registry, f"/v2/team/web/blobs/{part['digest']}") for part in (parts["config"], *parts["layers"])
    ]
    # then
    assert (
        digest_of(manifest.body)
        == made.digest
        == digest_in(registry, "/v2/team/web/manifests/" + made.digest)
    )
    assert [digest_of(blob.body) for blob in blobs] == list(made.blobs)
    assert json.loads(blobs[0].body)["config"]["Entrypoint"] == ["/bin/page"]


def test_two_tags_may_be_one_digest(registry: Registry) -> None:
    registry.push(build_busybox_image("same"), "web:1", "web:2")
    assert digest_in(registry, "/v2/web/manifests/1") == digest_in(registry, "/v2/web/manifests/2")


def test_an_image_that_was_not_pushed_is_generated_and_differs_per_tag(registry: Registry) -> None:
    text, two = (digest_in(registry, f"/v2/library/nginx/manifests/{tag}?ns=docker.io") for tag in (1, 2))
    assert text != two
    assert digest_in(registry, "/v2/nginx/manifests/1") == text


@pytest.mark.parametrize("repository", ["missing", "missing/web", "team/broken"])
def test_repositories_with_reserved_names_do_not_exist(registry: Registry, repository: str) -> None:
    assert get(registry, f"/v2/{repository}/manifests/1").status == 404


def test_credentials_are_required_where_a_rule_demands_them(registry: Registry) -> None:
    # given
    registry.set_rule("private/", Rule(credentials="me:secret"))
    good, bad = (f"Basic {base64.b64encode(text).decode()}" for text in (b"me:secret", b"me:wrong"))
    # then
    refused = get(registry, "/v2/private/web/manifests/1")
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"].startswith("Basic ")
    assert get(registry, "/v2/private/web/manifests/1", bad).status == 401
    assert get(registry, "/v2/private/web/manifests/1", good).status == 200
    assert get(registry, "/v2/web/manifests/1").status == 200
    # when the rule is removed
    registry.set_rule("private/", None)
    assert get(registry, "/v2/private/web/manifests/1").status == 200


def test_a_slow_repository_sends_its_own_content_slowly(registry: Registry) -> None:
    registry.set_rule("slow/", Rule(bytes_per_second=1000))
    layers = json.loads(get(registry, "/v2/slow/web/manifests/1").body)["layers"]
    blob = get(registry, f"/v2/slow/web/blobs/{layers[-1]['digest']}")
    assert blob.bytes_per_second == 1000
    assert len(blob.body) > 4000


def test_a_registry_may_be_out_of_order(registry: Registry) -> None:
    registry.set_rule("", Rule(status=503))
    assert get(registry, "/v2/web/manifests/1").status == 503
