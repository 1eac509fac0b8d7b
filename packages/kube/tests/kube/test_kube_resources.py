"""Paths of resources: a name is one segment of the path, or it is refused."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.errors import InvalidNameError
from pykruise.kube.http.heads import flaw_of_target
from pykruise.kube.resources import DEPLOYMENTS, PODS, Resource, collection_of
from pykruise.kube.values.group_kinds import group_of
from support.examples import examples

HOSTILE = ["..", ".", "a/b", "../../victim/pods/v", "a%2Fb", "%2e%2e", "a\r\nb", "v/status", "\x00"]
NAMES = st.one_of(
    st.sampled_from([*HOSTILE, "a?x=y", "a#b", "a b", "system:node:x", "ü"]), st.text(min_size=1, max_size=8)
)
GROUPS = st.one_of(
    st.sampled_from(["apps", "apps.kruise.io", "apps?x=y", "apps ", "..", "a/b", ""]), st.text(max_size=6)
)


@given(
    group=GROUPS,
    version=GROUPS,
    plural=NAMES,
    namespace=NAMES,
    name=NAMES,
    subresource=st.sampled_from(["", "status"]),
)
@examples(2)
def test_a_resource_path_has_the_names_as_its_segments_or_is_refused(
    group: str, version: str, plural: str, namespace: str, name: str, subresource: str
) -> None:
    try:
        path = Resource(group, version or "v1", plural, "Kind").format_path(namespace, name, subresource)
    except InvalidNameError:
        return
    assert flaw_of_target(path) == ""
    parts = [unquote(part) for part in path.split("/")]
    root = ["", "apis", group, version or "v1"] if group else ["", "api", version or "v1"]
    assert parts == [*root, "namespaces", namespace, plural, name, *filter(None, [subresource])]
    assert not {".", ".."} & set(parts)


@pytest.mark.parametrize("name", HOSTILE)
def test_an_invalid_path_segment_is_refused_in_each_position(name: str) -> None:
    for ask in (
        lambda: PODS.format_path("ns", name),
        lambda: PODS.format_path(name, "a"),
        lambda: Resource("apps", name, "x", "X").format_path("ns"),
        lambda: Resource(name, "v1", "x", "X").format_path("ns"),
        lambda: Resource("apps", "v1", name, "X").format_path("ns"),
    ):
        with pytest.raises(InvalidNameError):
            ask()


@pytest.mark.parametrize(
    "text", ["apps/v1?x=y", "apps /v1", "apps/v1 ", "../v1", "apps/..", "a/b/c", "apps/", "/v1", "", "v1\n"]
)
def test_an_api_version_that_could_change_a_path_has_no_group(text: str) -> None:
    assert group_of(text) is None


@pytest.mark.parametrize(
    ("text", "group"), [("v1", ""), ("apps/v1", "apps"), ("apps.kruise.io/v1beta1", "apps.kruise.io")]
)
def test_the_group_of_an_api_version(text: str, group: str) -> None:
    assert group_of(text) == group


@pytest.mark.parametrize(
    ("path", "collection"),
    [
        (PODS.format_path("ns", "a", "status"), "/api/v1/namespaces/ns/pods"),
        (PODS.format_path("ns"), "/api/v1/namespaces/ns/pods"),
        (PODS.format_path(), "/api/v1/pods"),
        (DEPLOYMENTS.format_path("ns", "a"), "/apis/apps/v1/namespaces/ns/deployments"),
        ("/api/v1/namespaces/ns", "/api/v1/namespaces"),
        ("/api/v1/nodes/n/status", "/api/v1/nodes"),
        ("/version", "/version"),
    ],
)
def test_the_collection_of_a_path(path: str, collection: str) -> None:
    assert collection_of(path) == collection
