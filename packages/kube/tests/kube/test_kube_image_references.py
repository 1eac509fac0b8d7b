"""All spellings of an image mean one name."""

import pytest

from pykruise.kube.values.image_references import ImageName, parse_image

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "name", "tag"),
    [
        ("nginx", "nginx", "latest"),
        ("docker.io/library/nginx:1.9", "nginx", "1.9"),
        ("index.docker.io/nginx", "nginx", "latest"),
        ("docker.io/foo/bar", "foo/bar", "latest"),
        ("foo/bar", "foo/bar", "latest"),
        ("library/nginx", "nginx", "latest"),
        ("localhost:5000/a/b:v1", "localhost:5000/a/b", "v1"),
        ("localhost/a", "localhost/a", "latest"),
        ("gcr.io/p/app:1", "gcr.io/p/app", "1"),
        (f"nginx:1.9@{DIGEST}", "nginx", DIGEST),
        (f"gcr.io/p/app@{DIGEST}", "gcr.io/p/app", DIGEST),
        ("ab__c-d/e--f.g:X_y.z-1", "ab__c-d/e--f.g", "X_y.z-1"),
    ],
)
def test_a_reference_has_a_name_and_a_tag(text: str, name: str, tag: str) -> None:
    """images, normalisation"""
    assert parse_image(text) == ImageName(name, tag)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "UPPER/case",
        "Nginx",
        "a" * 64,
        "nginx:",
        "nginx:.tag",
        f"nginx:{'t' * 129}",
        "nginx@sha256:12",
        "nginx@",
        "/nginx",
        "nginx/",
        "a//b",
        "a b",
        "x.io/" + "a" * 255,
        "nginx:1\n",
    ],
)
def test_an_invalid_image_reference_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_image(text)


def test_an_image_is_pulled_by_its_tag_or_by_its_digest() -> None:
    """images case 64"""
    assert parse_image("nginx:1.9").reference == "nginx:1.9"
    assert parse_image(f"nginx:1.9@{DIGEST}").reference == f"nginx@{DIGEST}"
    assert parse_image("nginx").repository == "docker.io/library/nginx"
    assert parse_image("gcr.io/p/app").repository == "gcr.io/p/app"
