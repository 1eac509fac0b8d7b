"""Keys of the pods that the waits of an explanation name."""

import pytest

from pykruise.cli.insight.optional_reads import find_pod_key
from pykruise.kube.ids import Key


@pytest.mark.parametrize(
    ("name", "namespace", "expected"),
    [
        ("web-0", "shop", Key("shop", "web-0")),
        ("team-a/web-0", "", Key("team-a", "web-0")),
        ("nginx:1", "", None),
        ("shop/app:1", "", None),
        ("registry.example.com/shop/app:1", "", None),
        ("node-1", "", None),
    ],
)
def test_only_names_of_pods_have_a_pods_key(name: str, namespace: str, expected: Key | None) -> None:
    assert find_pod_key(name, namespace) == expected
