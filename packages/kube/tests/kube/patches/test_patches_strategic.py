"""Strategic merge patches, applied as an API server applies them."""

from typing import Any

import pytest

from pykruise.kube.documents import deep_copy
from pykruise.kube.patches import PatchError, apply_strategic_merge

Doc = dict[str, Any]

POD = "io.k8s.api.core.v1.Pod"
DEPLOYMENT = "io.k8s.api.apps.v1.Deployment"
REVISION = "io.k8s.api.apps.v1.ControllerRevision"


def containers(*names: str) -> list[Doc]:
    return [{"name": name, "image": f"{name}:1"} for name in names]


def pod(**spec: Any) -> Doc:
    return {"metadata": {"name": "p"}, "spec": spec}


def merged_spec(old: Doc, patch: Doc) -> Doc:
    spec: Doc = apply_strategic_merge(pod(**old), {"spec": patch}, definition=POD)["spec"]
    return spec


def order(items: list[Doc], key: str = "name") -> list[Any]:
    return [item[key] for item in items]


# --- maps, scalars, lists without a strategy ---


def test_maps_merge_null_deletes_and_plain_lists_are_replaced() -> None:
    # given
    old = {"nodeSelector": {"a": "1", "b": "2"}, "priority": 1, "tolerations": [{"key": "x"}]}
    # when
    spec = merged_spec(
        old, {"nodeSelector": {"a": None, "c": "3"}, "priority": None, "tolerations": [{"key": "y"}]}
    )
    # then
    assert spec == {"nodeSelector": {"b": "2", "c": "3"}, "tolerations": [{"key": "y"}]}


def test_a_null_for_something_absent_leaves_nothing_behind_at_any_depth() -> None:
    # when
    spec = merged_spec(
        {},
        {"hostname": None, "affinity": {"podAffinity": None}, "containers": [{"name": "a", "image": None}]},
    )
    # then
    assert spec == {"affinity": {}, "containers": [{"name": "a"}]}


def test_a_value_of_another_type_replaces() -> None:
    assert merged_spec({"affinity": [1]}, {"affinity": {"a": 1}}) == {"affinity": {"a": 1}}
    assert merged_spec({"hostname": "x"}, {"hostname": {"a": 1}}) == {"hostname": {"a": 1}}


def test_fields_that_are_not_known_merge_as_plain_json() -> None:
    # given
    old = {
        "futureMap": {"a": {"b": 1}},
        "futureList": [{"name": "a"}],
        "containers": [{"name": "a", "x": [1]}],
    }
    # when
    spec = merged_spec(
        old,
        {
            "futureMap": {"a": {"c": 2}},
            "futureList": [{"name": "b"}],
            "containers": [{"name": "a", "x": [2]}],
        },
    )
    # then
    assert spec == {
        "futureMap": {"a": {"b": 1, "c": 2}},
        "futureList": [{"name": "b"}],
        "containers": [{"name": "a", "x": [2]}],
    }


def test_maps_of_objects_merge_each_object() -> None:
    # given a map of definitions: the items of a nested merged list are found through it
    crd = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    old = {"properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}}
    # when
    new = apply_strategic_merge(
        old, {"properties": {"spec": {"properties": {"b": {"type": "integer"}}}}}, definition=crd
    )
    # then
    assert new["properties"]["spec"]["properties"] == {"a": {"type": "string"}, "b": {"type": "integer"}}


# --- merged lists of objects ---


def test_items_are_matched_by_their_merge_key_and_others_stay() -> None:
    # when
    spec = merged_spec(
        {"containers": containers("a", "b")}, {"containers": [{"name": "b", "image": "b:2"}, {"name": "c"}]}
    )
    # then
    assert spec["containers"] == [
        {"name": "a", "image": "a:1"},
        {"name": "b", "image": "b:2"},
        {"name": "c"},
    ]


def test_lists_inside_items_merge_too() -> None:
    # given
    old = [{"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "1"}], "args": ["1"]}]
    # when
    spec = merged_spec(
        {"containers": old},
        {"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}], "args": ["2"]}]},
    )
    # then
    assert spec["containers"] == [
        {"name": "a", "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "1"}], "args": ["2"]}
    ]


def test_the_merge_key_may_be_a_number_and_is_compared_with_its_type() -> None:
    # given
    old = [{"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]
    # when
    spec = merged_spec(
        {"containers": old}, {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "web"}]}]}
    )
    # then
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "name": "web"}]


def test_an_item_can_be_deleted_by_its_key() -> None:
    # when
    spec = merged_spec(
        {"containers": containers("a", "b", "c")},
        {"containers": [{"$patch": "delete", "name": "b"}, {"$patch": "delete", "name": "missing"}]},
    )
    # then
    assert order(spec["containers"]) == ["a", "c"]


def test_deleting_takes_all_items_with_that_key() -> None:
    # given two ports of one number
    ports = [{"containerPort": 53, "protocol": "TCP"}, {"containerPort": 53, "protocol": "UDP"}]
    # when
    spec = merged_spec(
        {"containers": [{"name": "a", "ports": ports}]},
        {"containers": [{"name": "a", "ports": [{"$patch": "delete", "containerPort": 53}]}]},
    )
    # then
    assert spec["containers"] == [{"name": "a", "ports": []}]


def test_one_item_with_replace_replaces_the_whole_list() -> None:
    # when
    spec = merged_spec(
        {"containers": containers("a", "b")},
        {"containers": [{"$patch": "replace"}, {"name": "z"}, {"name": "b"}]},
    )
    # then
    assert spec["containers"] == [{"name": "z"}, {"name": "b"}]


def test_a_delete_directive_on_a_missing_list_leaves_an_empty_list() -> None:
    assert merged_spec({}, {"containers": [{"$patch": "delete", "name": "a"}]}) == {"containers": []}


# --- $patch in maps ---


def test_replace_in_a_map_takes_the_rest_of_the_patch_as_the_value() -> None:
    # given
    old = {"securityContext": {"runAsUser": 1, "fsGroup": 2}}
    # when
    spec = merged_spec(old, {"securityContext": {"$patch": "replace", "runAsUser": 5, "fsGroup": None}})
    # then
    assert spec == {"securityContext": {"runAsUser": 5}}


def test_delete_in_a_map_empties_it_and_leaves_nothing_where_nothing_was() -> None:
    assert merged_spec({"securityContext": {"runAsUser": 1}}, {"securityContext": {"$patch": "delete"}}) == {
        "securityContext": {}
    }
    assert merged_spec({}, {"securityContext": {"$patch": "delete"}}) == {}
    assert merged_spec({}, {"securityContext": {"$patch": "replace", "runAsUser": 5}}) == {}


# --- $retainKeys ---


def test_retain_keys_drops_what_it_does_not_name() -> None:
    # given a volume that changes its source
    old = {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]}
    # when
    spec = merged_spec(
        old, {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}
    )
    # then
    assert spec["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}, {"name": "w", "emptyDir": {}}]


def test_retain_keys_works_on_a_map_too_and_never_reaches_the_result() -> None:
    # given
    old = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    # then
    assert apply_strategic_merge(old, patch, definition=DEPLOYMENT) == {
        "spec": {"strategy": {"type": "Recreate"}}
    }
    assert apply_strategic_merge({"spec": {}}, patch, definition=DEPLOYMENT) == {
        "spec": {"strategy": {"type": "Recreate"}}
    }


@pytest.mark.parametrize("keys", ["type", [], ["other"]])
def test_retain_keys_must_be_a_list_that_names_every_field_of_the_patch(keys: Any) -> None:
    # given
    old = {"spec": {"strategy": {"type": "RollingUpdate"}}}
    patch = {"spec": {"strategy": {"$retainKeys": keys, "type": "Recreate"}}}
    # then
    with pytest.raises(PatchError, match="invalid patch format of retainKeys") as caught:
        apply_strategic_merge(old, patch, definition=DEPLOYMENT)
    assert caught.value.code == 400


# --- order ---


def test_patch_items_keep_their_order_between_items_of_the_server() -> None:
    # given
    old = {"containers": containers("a", "b", "c", "d")}
    # then
    assert order(merged_spec(old, {"containers": containers("d", "b")})["containers"]) == ["a", "c", "d", "b"]
    assert order(merged_spec(old, {"containers": containers("x", "a")})["containers"]) == [
        "x",
        "a",
        "b",
        "c",
        "d",
    ]
    assert order(merged_spec(old, {"containers": containers("a", "x")})["containers"]) == [
        "a",
        "x",
        "b",
        "c",
        "d",
    ]


def by_name(*names: str) -> list[Doc]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("live", "change", "wanted", "result"),
    [
        (["a", "b", "c"], [], ["c", "a", "b"], ["c", "a", "b"]),
        (["a", "b", "c"], [], ["c", "a"], ["b", "c", "a"]),
        (["a", "b", "c"], [], ["b"], ["a", "b", "c"]),
        (["injected", "a", "b"], [], ["b", "a"], ["injected", "b", "a"]),
        (["a", "b", "injected"], [], ["b", "a"], ["b", "a", "injected"]),
        (["a", "b"], ["n"], ["n", "a", "b"], ["n", "a", "b"]),
        (["a", "injected"], ["n"], ["a", "n"], ["a", "n", "injected"]),
        (["a"], [], ["gone", "a"], ["a"]),
    ],
)
def test_set_element_order_orders_named_items_and_interleaves_the_others(
    live: list[str], change: list[str], wanted: list[str], result: list[str]
) -> None:
    # given
    patch: Doc = {"$setElementOrder/containers": by_name(*wanted)}
    if change:
        patch["containers"] = containers(*change)
    # when
    spec = merged_spec({"containers": containers(*live)}, patch)
    # then
    assert order(spec["containers"]) == result


def test_an_item_that_replaces_a_deleted_one_stays_behind_injected_ones() -> None:
    # given a sidecar that someone injected in front, as `kubectl apply` meets it
    patch = {
        "$setElementOrder/containers": by_name("new"),
        "containers": [*containers("new"), {"$patch": "delete", "name": "old"}],
    }
    # when
    spec = merged_spec({"containers": containers("injected", "old")}, patch)
    # then
    assert order(spec["containers"]) == ["injected", "new"]


def test_patch_items_must_have_the_order_of_set_element_order() -> None:
    # given
    patch = {"$setElementOrder/containers": by_name("a", "b"), "containers": by_name("b", "a")}
    # then
    with pytest.raises(PatchError) as caught:
        merged_spec({"containers": containers("a", "b")}, patch)
    assert str(caught.value) == (
        "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:\n"
        "[map[name:a] map[name:b]]\n"
    )
    assert caught.value.code == 500


def test_an_order_for_a_list_that_is_neither_in_the_document_nor_in_the_patch_is_ignored() -> None:
    assert merged_spec({}, {"$setElementOrder/containers": by_name("a")}) == {}


def test_set_element_order_applies_to_a_new_list() -> None:
    # given
    patch = {"$setElementOrder/containers": by_name("b", "a"), "containers": containers("b", "a")}
    # then
    assert order(merged_spec({}, patch)["containers"]) == ["b", "a"]


# --- lists of scalars ---


def merged_finalizers(live: list[str] | None, patch: Doc) -> Any:
    metadata: Doc = {"name": "p"} if live is None else {"name": "p", "finalizers": live}
    result = apply_strategic_merge({"metadata": metadata}, {"metadata": patch}, definition=POD)
    return result["metadata"].get("finalizers")


def test_merged_scalars_are_a_set_in_the_order_of_the_patch() -> None:
    assert merged_finalizers(["a", "b"], {"finalizers": ["c", "a"]}) == ["c", "a", "b"]
    assert merged_finalizers(["a"], {"finalizers": []}) == ["a"]
    assert merged_finalizers(None, {"finalizers": ["x"]}) == ["x"]


def test_scalars_can_be_taken_out_and_ordered() -> None:
    # given
    live = ["a", "b", "c"]
    # then
    assert merged_finalizers(live, {"$deleteFromPrimitiveList/finalizers": ["b", "z"]}) == ["a", "c"]
    assert merged_finalizers(live, {"$setElementOrder/finalizers": ["c", "a"]}) == ["b", "c", "a"]
    assert merged_finalizers(
        live,
        {
            "finalizers": ["n"],
            "$setElementOrder/finalizers": ["n", "c", "a"],
            "$deleteFromPrimitiveList/finalizers": ["b"],
        },
    ) == ["n", "c", "a"]
    assert merged_finalizers(None, {"$deleteFromPrimitiveList/finalizers": ["b"]}) is None


# --- refusals ---


@pytest.mark.parametrize(
    ("spec", "patch", "says", "code"),
    [
        (
            {"containers": containers("a")},
            {"containers": [{"image": "x", "ports": [{"containerPort": 80}]}]},
            "map: map[image:x ports:[map[containerPort:80]]] does not contain declared merge key: name",
            500,
        ),
        (
            {"containers": containers("a")},
            {"containers": [{"$patch": "delete"}]},
            "map: map[$patch:delete] does not contain declared merge key: name",
            500,
        ),
        (
            {"containers": containers("a")},
            {"containers": [{"$patch": "merge", "name": "a"}]},
            "merging lists cannot yet be specified in the patch",
            500,
        ),
        (
            {"containers": containers("a")},
            {"containers": [{"$patch": "drop", "name": "a"}]},
            "unknown patch type: drop in map: map[$patch:drop name:a]",
            500,
        ),
        (
            {"securityContext": {}},
            {"securityContext": {"$patch": "merge"}},
            "unknown patch type: merge in map: map[$patch:merge]",
            500,
        ),
        (
            {"containers": containers("a")},
            {"containers": ["a"]},
            "list element types are not identical: [[map[image:a:1 name:a]] [a]]",
            500,
        ),
        ({"containers": []}, {"containers": [[1]]}, "lists of lists are not supported", 422),
        (
            {"containers": []},
            {"containers": ["a"]},
            "expected a map[string]interface {}, but received a string",
            500,
        ),
        ({}, {"$setElementOrder": []}, "invalid patch format of setElementOrder list", 400),
        ({}, {"$setElementOrderX/a": []}, "invalid patch format of setElementOrder list", 400),
        ({}, {"$deleteFromPrimitiveList": []}, "invalid patch format of primitive list", 400),
        (
            {"containers": containers("a")},
            {"$setElementOrder/containers": "a"},
            "expected a []interface {}, but received a string",
            500,
        ),
        (
            {"containers": containers("a")},
            {"$setElementOrder/containers": [{"image": "a"}]},
            "map: map[image:a] does not contain declared merge key: name",
            500,
        ),
    ],
)
def test_a_malformed_patch_is_refused_in_kubernetes_words(
    spec: Doc, patch: Doc, says: str, code: int
) -> None:
    with pytest.raises(PatchError) as caught:
        merged_spec(spec, patch)
    assert str(caught.value) == says
    assert caught.value.code == code


def test_custom_resources_take_no_strategic_merge() -> None:
    with pytest.raises(PatchError, match="strategic merge patch format is not supported"):
        apply_strategic_merge({}, {}, definition="io.kruise.apps.v1beta1.CloneSet")


def test_a_patch_that_is_not_an_object_is_refused() -> None:
    with pytest.raises(PatchError, match="invalid JSON document"):
        apply_strategic_merge({}, [], definition=POD)  # type: ignore[arg-type]


# --- what must not happen ---


def test_inputs_are_not_changed_and_not_shared_with_the_result() -> None:
    # given
    doc = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers("a", "b")}}
    patch = {
        "spec": {
            "$setElementOrder/containers": by_name("c", "a"),
            "$retainKeys": ["containers"],
            "containers": [{"name": "c", "args": ["x"]}, {"name": "a", "$patch": "delete"}],
        }
    }
    before = deep_copy([doc, patch])
    # when
    result = apply_strategic_merge(doc, patch, definition=POD)
    result["metadata"]["labels"]["a"] = "changed"
    for item in result["spec"]["containers"]:
        item.setdefault("args", []).append("changed")
    # then
    assert [doc, patch] == before


def test_directives_inside_revision_data_are_kept_as_content() -> None:
    """The data of a revision is a patch: it holds `$patch: replace` as plain content."""
    # given
    data = {"spec": {"template": {"$patch": "replace", "metadata": {"x": None}}}}
    revision = {"metadata": {"name": "r"}, "data": data, "revision": 1}
    # when
    patched = apply_strategic_merge(
        revision, {"revision": 2, "metadata": {"labels": {"a": "b"}}}, definition=REVISION
    )
    # then
    assert patched == {"metadata": {"name": "r", "labels": {"a": "b"}}, "data": data, "revision": 2}
