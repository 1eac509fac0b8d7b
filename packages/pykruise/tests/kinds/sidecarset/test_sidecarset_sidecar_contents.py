"""Fields that are read from a SidecarSet's sidecars, and unreadable ones."""

from typing import Any

import pytest

from pykruise.kinds.sidecarset.hashes import Hashes, hashes_of
from pykruise.kinds.sidecarset.sidecar_contents import SidecarSetContents, contents_of
from pykruise.kube.documents import Document


def read(**spec: Any) -> SidecarSetContents:
    contents, problem = contents_of(spec)
    assert contents is not None, problem
    return contents


def test_a_sidecar_without_settings_is_cold_and_regular_ones_precede_the_pods_containers() -> None:
    """The SidecarSet was stored without defaults; section 2.3"""
    contents = read(containers=[{}], initContainers=[{}])
    (regular,), (init,) = contents.containers, contents.init_containers
    for sidecar in (regular, init):
        assert (sidecar.name, sidecar.image, sidecar.empty_image, sidecar.is_hot) == ("", "", "", False)
    assert (regular.goes_before, init.goes_before) == (True, False)


def test_only_an_init_container_is_a_native_sidecar() -> None:
    always = {"name": "a", "restartPolicy": "Always"}
    contents = read(containers=[always], initContainers=[{**always, "name": "b"}, {"name": "c"}])
    assert [container.is_native for container in (*contents.containers, *contents.init_containers)] == [
        False,
        True,
        False,
    ]
    assert contents.names == ("a", "b")


def test_names_are_recorded_in_their_order() -> None:
    """section 3.3"""
    assert read(containers=[{"name": name} for name in "hgfedcba"]).names == tuple("abcdefgh")


@pytest.mark.parametrize("nothing", [{}, {"containers": None, "initContainers": None, "volumes": None}])
def test_a_missing_list_is_empty(nothing: Document) -> None:
    contents = read(**nothing)
    assert (contents.containers, contents.init_containers, contents.volumes) == ((), (), {})


def test_known_hashes_are_not_computed_again() -> None:
    spec = {"containers": [{"name": "a"}]}
    known = Hashes("full", "imageless")
    contents, _ = contents_of(spec, hashes=known)
    assert contents is not None
    assert contents.hashes == known
    assert read(**spec).hashes == hashes_of(spec)


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"containers": ["text"]}, "spec.containers[0]"),
        ({"initContainers": [{"name": 5}]}, "spec.initContainers[0]"),
        ({"containers": [{}, {"env": "text"}]}, "spec.containers[1].env"),
        ({"containers": [{"ports": [80]}]}, "spec.containers[0].ports"),
        ({"containers": [{"ports": 80}]}, "spec.containers[0].ports"),
        ({"containers": [{"volumeMounts": [{}, "text"]}]}, "spec.containers[0].volumeMounts"),
        ({"containers": [{"volumeDevices": {}}]}, None),
        ({"containers": [{"volumeDevices": {"a": {}}}]}, "spec.containers[0].volumeDevices"),
        ({"containers": [{"shareVolumePolicy": {"type": 1}}]}, "spec.containers[0].shareVolumePolicy.type"),
        ({"patchPodMetadata": [{"annotations": 1}]}, "spec.patchPodMetadata[0].annotations"),
        ({"volumes": ["text"]}, "spec.volumes[0]"),
    ],
)
def test_an_unreadable_container_is_reported_with_its_path(spec: Document, where: str | None) -> None:
    contents, problem = contents_of(spec)
    assert (contents is None) is (where is not None)
    assert problem.partition(": ")[0] == (where or "")
