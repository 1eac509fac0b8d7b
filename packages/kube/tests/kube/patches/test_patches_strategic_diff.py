"""The smallest strategic merge patch between two documents."""

from typing import Any

import pytest

from pykruise.kube.documents import deep_copy
from pykruise.kube.patches import PatchError, apply_strategic_merge, diff_strategic

Doc = dict[str, Any]

POD = "io.k8s.api.core.v1.Pod"


def pod(**spec: Any) -> Doc:
    return {"metadata": {"name": "p"}, "spec": spec}


def spec_patch(old: Doc, new: Doc) -> Doc:
    """The patch of the spec. Checks that the patch turns the old pod into the new one."""
    before, after = pod(**old), pod(**new)
    patch = diff_strategic(before, after, definition=POD)
    assert apply_strategic_merge(before, patch, definition=POD) == after
    return patch.get("spec", {})  # type: ignore[no-any-return]


def named(*names: str) -> list[Doc]:
    return [{"name": name, "image": "x"} for name in names]


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"nodeName": "a"}, {"nodeName": "b"}, {"nodeName": "b"}),
        ({"nodeName": "a"}, {}, {"nodeName": None}),
        ({"nodeSelector": {"a": "1", "b": "2"}}, {"nodeSelector": {"a": "1"}}, {"nodeSelector": {"b": None}}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": []}, {"tolerations": []}),
        ({"future": [{"name": "a"}]}, {"future": [{"name": "b"}]}, {"future": [{"name": "b"}]}),
        (
            {"containers": named("a", "b")},
            {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}]},
            {"containers": [{"name": "b", "image": "y"}]},
        ),
        (
            {"containers": named("a", "b")},
            {"containers": named("a")},
            {"containers": [{"$patch": "delete", "name": "b"}]},
        ),
        ({"containers": named("a")}, {}, {"containers": None}),
        ({"containers": []}, {"containers": named("a")}, {"containers": named("a")}),
        (
            {"containers": named("a", "b", "c")},
            {"containers": named("c", "a", "b")},
            {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}]},
        ),
        (
            {"containers": named("a", "b")},
            {"containers": named("a", "b", "c")},
            {
                "containers": named("c"),
                "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
            },
        ),
        ({"containers": named("a")}, {"containers": named("n", "a")}, {"containers": named("n")}),
        (
            {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y"}]}]},
            {"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}, {"name": "Y"}]}]},
            {"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}]}]},
        ),
    ],
)
def test_a_patch_names_only_what_differs(old: Doc, new: Doc, patch: Doc) -> None:
    assert spec_patch(old, new) == patch


def test_a_volume_that_changes_its_source_loses_the_old_one() -> None:
    # given
    old = {"volumes": [{"name": "v", "emptyDir": {}}]}
    new = {"volumes": [{"name": "v", "configMap": {"name": "c"}}]}
    # then
    assert spec_patch(old, new) == {"volumes": [{"name": "v", "emptyDir": None, "configMap": {"name": "c"}}]}


def test_a_list_with_duplicate_merge_keys_is_replaced() -> None:
    # given DNS over TCP and UDP
    def ports(*protocols: str) -> Doc:
        items = [{"containerPort": 53, "protocol": protocol} for protocol in protocols]
        return {"containers": [{"name": "a", "ports": items}]}

    # then
    for old, new in ((ports("TCP"), ports("TCP", "UDP")), (ports("TCP", "UDP"), ports("UDP"))):
        patch = spec_patch(old, new)
        assert patch["containers"][0]["ports"] == [{"$patch": "replace"}, *new["containers"][0]["ports"]]


def test_finalizers_are_added_and_removed_one_by_one() -> None:
    # given
    old = {"metadata": {"finalizers": ["a", "b"]}}
    new = {"metadata": {"finalizers": ["c", "b"]}}
    # when
    patch = diff_strategic(old, new, definition=POD)
    # then
    assert patch["metadata"]["finalizers"] == ["c"]
    assert patch["metadata"]["$deleteFromPrimitiveList/finalizers"] == ["a"]
    assert apply_strategic_merge(old, patch, definition=POD) == new


def test_a_patch_keeps_items_that_another_writer_added() -> None:
    # given
    old, new = pod(containers=named("a", "b")), pod(containers=[{"name": "a", "image": "y"}])
    patch = diff_strategic(old, new, definition=POD)
    live = pod(containers=named("injected", "a", "b"), nodeName="n")
    # when
    result = apply_strategic_merge(live, patch, definition=POD)
    # then
    assert result["spec"] == {
        "containers": [{"name": "injected", "image": "x"}, {"name": "a", "image": "y"}],
        "nodeName": "n",
    }


def test_neither_document_is_changed_or_shared_with_the_patch() -> None:
    # given
    old, new = pod(), pod(containers=named("a"), affinity={"x": {"y": []}})
    before = deep_copy([old, new])
    # when
    patch = diff_strategic(old, new, definition=POD)
    patch["spec"]["affinity"]["x"]["y"].append(1)
    patch["spec"]["containers"][0]["image"] = "changed"
    # then
    assert [old, new] == before


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ({}, {"data": {"$patch": "replace"}}, r'cannot store the field "\$patch"'),
        (
            {"metadata": {"finalizers": ["a"]}},
            {"metadata": {"finalizers": ["b", "b"]}},
            "list with duplicates",
        ),
        (
            {"spec": {"containers": []}},
            {"spec": {"containers": [{"image": "x"}]}},
            "declared merge key: name",
        ),
    ],
)
def test_a_change_that_no_strategic_patch_can_express_is_refused(old: Doc, new: Doc, says: str) -> None:
    with pytest.raises(PatchError, match=says):
        diff_strategic(old, new, definition=POD)


def test_custom_resources_have_no_strategic_patches() -> None:
    with pytest.raises(PatchError, match="not supported"):
        diff_strategic({}, {}, definition="CloneSet")
