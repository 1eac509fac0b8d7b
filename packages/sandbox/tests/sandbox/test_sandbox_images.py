"""Answers of the image table."""

import pytest

from pykruise.kube.values.image_pulls import Pulled, PullFailure
from pykruise.sandbox.nodes.images import ImageTable, expand_name


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("bitnami/redis:7", "docker.io/bitnami/redis:7"),
        ("registry.test:5000/shop/web:2", "registry.test:5000/shop/web:2"),
        ("localhost/web", "localhost/web:latest"),
        (f"nginx:1@sha256:{'ab' * 32}", f"docker.io/library/nginx@sha256:{'ab' * 32}"),
    ],
)
def test_images_have_one_full_name(image: str, expected: str) -> None:
    assert expand_name(image) == expected


def test_an_image_has_the_same_id_always_and_another_than_other_tags() -> None:
    # given
    table, other = ImageTable(), ImageTable()
    # when
    answer = table.pull("nginx:1")
    # then
    assert isinstance(answer, Pulled)
    assert answer.image_id.startswith("docker.io/library/nginx@sha256:")
    assert answer == other.pull("docker.io/library/nginx:1")
    assert answer != table.pull("nginx:2")


def test_several_tags_may_share_a_digest_also_transitively() -> None:
    # given
    table = ImageTable(same_as={"nginx:stable": "nginx:1.27", "nginx:1.27": "nginx:1.27.3"})
    # then
    assert table.pull("nginx:stable") == table.pull("nginx:1.27.3")


def test_tags_that_are_each_others_alias_do_not_hang() -> None:
    # given
    table = ImageTable(same_as={"a:1": "a:2", "a:2": "a:1"})
    # then
    assert isinstance(table.pull("a:1"), Pulled)


def test_an_image_named_by_digest_has_that_digest() -> None:
    # given
    digest = f"sha256:{'0c' * 32}"
    # when
    answer = ImageTable().pull(f"nginx@{digest}")
    # then
    assert answer == Pulled(f"docker.io/library/nginx@{digest}")


@pytest.mark.parametrize("image", ["registry.test/shop/broken:3", "broken", "listed:1"])
def test_broken_images_cannot_be_pulled(image: str) -> None:
    # given
    table = ImageTable(broken=("docker.io/library/listed:1",))
    # when
    answer = table.pull(image)
    # then
    assert isinstance(answer, PullFailure)
    assert answer.reason == "ErrImagePull"
    assert expand_name(image) in answer.message


@pytest.mark.parametrize("image", ["", "UPPER", "two words", "nginx:", "nginx@sha256:12"])
def test_an_invalid_image_name_fails_permanently(image: str) -> None:
    # when
    answer = ImageTable().pull(image)
    # then
    assert isinstance(answer, PullFailure)
    assert answer.reason == "InvalidImageName"
