"""Volume claims: made from templates, bound to pods by their id, reused, given to other pods, deleted."""

import copy
from typing import Any

import orjson
import pytest

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document
from pykruise.kube.values.hashing import hash_bytes
from pykruise.kube.values.owners import build_owner_reference
from pykruise.pods.view import keys
from pykruise.pods.view.names import IdSource, InstanceId
from pykruise.pods.workload.claims import (
    ClaimView,
    OwnerFacts,
    add_claim_volumes,
    build_claim_documents,
    format_claim_name,
    hash_templates,
    project_claim,
)
from pykruise.pods.workload.revisions import (
    choose_update,
    encode_revision_data,
    make_candidate,
    project_revision,
)

OWNER = build_owner_reference(
    api_version="apps.kruise.io/v1beta1", kind="CloneSet", name="web", uid="owner-uid"
)
SOURCE = IdSource(1)


def template(name: str = "data", **fields: Any) -> Document:
    return {
        "metadata": {"name": name, **fields},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }


def claims(*templates: Document, suffix: str = "abcde") -> list[Document]:
    return build_claim_documents(
        templates,
        owner="web",
        namespace="shop",
        suffix=suffix,
        labels={"app": "web", keys.INSTANCE_ID_LABEL: suffix},
        owner_references=[OWNER],
    )


def stored(document: Document, *, deleting: bool = False, **metadata: Any) -> ClaimView:
    result = copy.deepcopy(document)
    result["metadata"] |= {"uid": f"uid-{result['metadata']['name']}", "resourceVersion": "3", **metadata}
    if deleting:
        result["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    return project_claim(orjson.dumps(result | {"status": {"phase": "Bound"}}))


def view(instance_id: str, name: str = "data", *, deleting: bool = False) -> ClaimView:
    return stored(claims(template(name), suffix=instance_id)[0], deleting=deleting)


# Making claims


def test_a_claim_is_named_after_template_owner_and_id() -> None:
    """cloneset 6.7"""
    assert format_claim_name("data", owner="web", suffix="abcde") == "data-web-abcde"


def test_a_claim_carries_labels_of_template_selector_and_id_in_this_order() -> None:
    """cloneset 6.7"""
    given = template(labels={"app": "other", "tier": "db"}, annotations={"note": "x"})
    (labels,) = claims(given)
    assert labels["metadata"] == {
        "name": "data-web-abcde",
        "namespace": "shop",
        "labels": {"app": "web", "tier": "db", keys.INSTANCE_ID_LABEL: "abcde"},
        "annotations": {"note": "x"},
        "ownerReferences": [OWNER],
    }
    assert labels["spec"] == given["spec"]
    assert (labels["apiVersion"], labels["kind"]) == ("v1", "PersistentVolumeClaim")


def test_the_status_of_a_template_is_not_part_of_a_claim_and_nothing_is_shared_with_it() -> None:
    given = {**template(), "status": {"phase": "Pending"}}
    (result,) = claims(given)
    assert "status" not in result
    result["spec"]["accessModes"].append("ReadWriteMany")
    assert given["spec"]["accessModes"] == ["ReadWriteOnce"]


@pytest.mark.parametrize(
    "given",
    [
        {"metadata": None, "spec": None},
        {},
        {"metadata": {"name": None, "labels": None, "annotations": {}, "finalizers": []}},
    ],
)
def test_an_empty_template_builds_a_claim(given: Document) -> None:
    (result,) = build_claim_documents([given], owner="db", namespace="shop", suffix="0", labels={"app": "db"})
    assert result["metadata"] == {"name": "-db-0", "namespace": "shop", "labels": {"app": "db"}}
    assert result["spec"] == {}


def test_a_claim_has_the_finalizers_of_its_template() -> None:
    (finalizers,) = claims(template(finalizers=["example.com/keep"]))
    assert finalizers["metadata"]["finalizers"] == ["example.com/keep"]


def test_a_claim_of_an_ordinal_has_no_owner_unless_one_is_given() -> None:
    (result,) = build_claim_documents(
        [template()], owner="db", namespace="shop", suffix="0", labels={"app": "db"}
    )
    assert result["metadata"] == {"name": "data-db-0", "namespace": "shop", "labels": {"app": "db"}}


def test_a_pod_mounts_its_claims_in_place_of_volumes_of_the_same_name() -> None:
    """cloneset 6.7"""
    spec = {"containers": [], "volumes": [{"name": "data", "emptyDir": {}}, {"name": "cfg", "emptyDir": {}}]}
    before = copy.deepcopy(spec)
    claims = add_claim_volumes(spec, {"data": "data-web-abcde", "log": "log-web-abcde"})
    assert claims["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-abcde"}},
        {"name": "log", "persistentVolumeClaim": {"claimName": "log-web-abcde"}},
        {"name": "cfg", "emptyDir": {}},
    ]
    assert spec == before
    assert add_claim_volumes({"containers": []}, {}) == {"containers": []}
    odd = add_claim_volumes({"volumes": [{}]}, {"data": "data-web-abcde"})["volumes"]
    none = add_claim_volumes({"volumes": None}, {"data": "data-web-abcde"})["volumes"]
    assert odd == [*none, {}] == [claims["volumes"][0], {}]


# Reading claims


def test_a_stored_claim_is_read() -> None:
    claim = view("aaaaa")
    assert (claim.namespace, claim.name, claim.instance_id) == ("shop", "data-web-aaaaa", "aaaaa")
    assert (claim.controller_uid, claim.phase, claim.resource_version) == ("owner-uid", "Bound", 3)
    assert not claim.is_deleting


def test_a_stored_claim_is_read_with_what_it_has() -> None:
    since = "2026-01-31T12:00:00Z"
    claim = project_claim(
        orjson.dumps(
            {
                "metadata": {
                    "name": "data-web-0",
                    "annotations": {
                        keys.LEAVES_WITH_ANNOTATION: "pod-uid",
                        keys.OWNED_BY_STATEFULSET_ANNOTATION: "web",
                    },
                    "ownerReferences": [
                        {"kind": "Pod", "name": "web-0", "uid": "p"},
                        {"kind": "StatefulSet", "name": "web", "uid": "s", "controller": True},
                    ],
                },
                "spec": {
                    "storageClassName": "fast",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1k"}},
                },
                "status": {
                    "phase": "Bound",
                    "capacity": {"storage": "500"},
                    "conditions": [
                        {"type": "Resizing", "status": "True", "lastTransitionTime": "2026-01-30T12:00:00Z"},
                        {"type": "FileSystemResizePending", "status": "True", "lastTransitionTime": since},
                    ],
                },
            }
        )
    )
    assert (claim.leaves_with, claim.grown_by, claim.controller_uid) == ("pod-uid", "web", "s")
    assert claim.owners == (OwnerFacts("Pod", "web-0", "p"), OwnerFacts("StatefulSet", "web", "s"))
    assert (claim.storage_class, claim.access_modes, claim.phase) == ("fast", ("ReadWriteOnce",), "Bound")
    assert (claim.requested, claim.capacity) == (1000 * 10**9, 500 * 10**9)
    assert claim.resize_pending_since == parse_time(since)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"spec": None, "status": None},
        {
            "spec": {"storageClassName": None, "accessModes": None, "resources": None},
            "status": {"phase": None, "capacity": None, "conditions": None},
        },
        {
            "spec": {"resources": {"requests": {"storage": "much"}}},
            "status": {"capacity": {"storage": None, "inodes": "1"}},
        },
        {"spec": {"resources": {"requests": None}}, "status": {"capacity": {"storage": ["1"]}}},
    ],
)
def test_missing_and_unreadable_fields_of_a_claim_are_absent(fields: Document) -> None:
    metadata = {"name": "x", "labels": None, "annotations": None, "ownerReferences": None}
    claim = project_claim(orjson.dumps({"metadata": metadata, **fields}))
    assert claim == ClaimView(
        namespace="", name="x", uid="", resource_version=0, instance_id=InstanceId(""), labels={}
    )


@pytest.mark.parametrize(
    ("condition", "since"),
    [
        ({"type": "FileSystemResizePending", "status": "True"}, 0),
        ({"type": "FileSystemResizePending", "status": "False"}, None),
        ({"type": "Resizing", "status": "True"}, None),
    ],
)
def test_a_file_system_is_pending_while_its_condition_is_true(condition: Document, since: int | None) -> None:
    document = {"metadata": {"name": "x"}, "status": {"conditions": [condition]}}
    assert project_claim(orjson.dumps(document)).resize_pending_since == since


def test_a_claim_of_another_owner_is_read_too() -> None:
    claim = project_claim(b'{"metadata":{"name":"x","ownerReferences":[{"uid":"u"}]},"status":null}')
    assert (claim.controller_uid, claim.instance_id) == ("", InstanceId(""))


# The hash of the templates

PVC_1: Document = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "pvc-1", "labels": {"not": "counted"}},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}},
    },
    "status": {"phase": "Pending"},
}


def test_the_claim_template_hash_equals_gos() -> None:
    """cloneset 6.3, test vectors"""
    assert hash_templates([PVC_1]) == "1129974074"
    assert hash_templates([]) == ""
    assert hash_templates(None) == ""


def test_only_name_and_spec_count_and_the_order_of_templates_does_not() -> None:
    """cloneset 6.3"""
    other = template("a")
    assert hash_templates([PVC_1, other]) == hash_templates([other, PVC_1])
    assert hash_templates([{**PVC_1, "metadata": {"name": "pvc-1"}}]) == "1129974074"
    amounts = {"requests": {"storage": "1024Mi"}, "limits": {"storage": "2Gi"}}
    assert hash_templates([{**PVC_1, "spec": {**PVC_1["spec"], "resources": amounts}}]) == "1129974074"


@pytest.mark.parametrize(
    "change",
    [
        {"storageClassName": ""},
        {"storageClassName": "fast"},
        {"volumeMode": "Block"},
        {"selector": {"matchLabels": {"a": "b"}}},
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
        {"dataSource": {"kind": "PersistentVolumeClaim", "name": "x"}},
        {"volumeName": "pv"},
        {"volumeAttributesClassName": "gold"},
        {"resources": {"requests": {"storage": "2Gi"}}},
    ],
)
def test_every_field_of_the_spec_counts(change: Document) -> None:
    changed = {**PVC_1, "spec": {**PVC_1["spec"], **change}}
    assert hash_templates([changed]) not in ("", "1129974074")


@pytest.mark.parametrize(
    ("claim", "written"),
    [
        ({}, '{"metadata":{"creationTimestamp":null},"spec":{"resources":{}},"status":{}}'),
        (
            {"metadata": None, "spec": {"resources": None, "accessModes": [], "selector": {}}},
            '{"metadata":{"creationTimestamp":null},"spec":{"selector":{},"resources":{}},"status":{}}',
        ),
        (
            {
                "metadata": {"name": "data"},
                "spec": {
                    "volumeAttributesClassName": "gold",
                    "dataSourceRef": {"kind": "K", "name": "n", "namespace": "other"},
                    "dataSource": {"name": "n", "kind": "K", "apiGroup": "g", "namespace": ""},
                    "volumeMode": "Block",
                    "storageClassName": "",
                    "volumeName": "pv",
                    "resources": {
                        "requests": {"storage": "1024Mi", "inodes": "many"},
                        "limits": {"storage": "2Gi"},
                    },
                    "selector": {
                        "matchExpressions": [
                            {"values": ["1"], "operator": "In", "key": "k"},
                            {"key": "e", "operator": "Exists", "values": []},
                            {},
                        ],
                        "matchLabels": {"b": "2", "a": "1"},
                    },
                    "accessModes": ["ReadWriteOnce"],
                },
            },
            '{"metadata":{"name":"data","creationTimestamp":null},"spec":{"accessModes":["ReadWriteOnce"],'
            '"selector":{"matchLabels":{"a":"1","b":"2"},"matchExpressions":['
            '{"key":"k","operator":"In","values":["1"]},{"key":"e","operator":"Exists"},'
            '{"key":"","operator":""}]},'
            '"resources":{"limits":{"storage":"2Gi"},"requests":{"inodes":"many","storage":"1Gi"}},'
            '"volumeName":"pv","storageClassName":"","volumeMode":"Block",'
            '"dataSource":{"apiGroup":"g","kind":"K","name":"n"},'
            '"dataSourceRef":{"apiGroup":null,"kind":"K","name":"n","namespace":"other"},'
            '"volumeAttributesClassName":"gold"},"status":{}}',
        ),
        (
            {"spec": {"dataSource": {}}},
            '{"metadata":{"creationTimestamp":null},"spec":{"resources":{},'
            '"dataSource":{"apiGroup":null,"kind":"","name":""}},"status":{}}',
        ),
    ],
)
def test_the_hashed_claim_text_equals_gos(claim: Document, written: str) -> None:
    """cloneset 6.3: the fields of Go's type in their order, with those that Go always writes"""
    assert hash_templates([claim]) == str(hash_bytes(f"[{written}]".encode()))


def test_null_fields_of_a_claim_do_not_count() -> None:
    fields = ("selector", "volumeName", "storageClassName", "volumeMode", "dataSource", "dataSourceRef")
    nulls = dict.fromkeys((*fields, "volumeAttributesClassName", "accessModes"))
    assert hash_templates([{"spec": nulls}]) == hash_templates([{}])


def revision(name: str, number: int, image: str, **annotations: str) -> Any:
    given = {"spec": {"containers": [{"name": "c1", "image": image}]}}
    document = {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "1"},
        "revision": number,
        "data": orjson.loads(encode_revision_data(given)),
    }
    if annotations:
        document["metadata"]["annotations"] = annotations
    return project_revision(orjson.dumps(document))


def wanted(image: str, *revisions: Any, claim_hash: str) -> Any:
    return choose_update(
        make_candidate({"spec": {"containers": [{"name": "c1", "image": image}]}}),
        revisions,
        owner="web",
        collision_count=0,
        others={},
        body=lambda name, name_hash, number: {"metadata": {"name": name}, "revision": number},
        annotations={keys.CLAIM_TEMPLATES_HASH_ANNOTATION: claim_hash},
    )


def test_changed_claim_templates_alone_create_no_revision_and_keep_the_recorded_hash() -> None:
    """cloneset case 56"""
    latest = revision("web-a", 1, "a:1", **{keys.CLAIM_TEMPLATES_HASH_ANNOTATION: "1"})
    result = wanted("a:1", latest, claim_hash=hash_templates([PVC_1]))
    assert (result.revision.name, result.create, result.patch) == ("web-a", None, None)


def test_a_rollback_records_the_hash_on_a_revision_without_annotations() -> None:
    """cloneset case 58"""
    older, latest = revision("web-a", 1, "a:1"), revision("web-b", 2, "a:2")
    result = wanted("a:1", older, latest, claim_hash=hash_templates([PVC_1]))
    assert result.patch == {
        "revision": 3,
        "metadata": {"annotations": {keys.CLAIM_TEMPLATES_HASH_ANNOTATION: "1129974074"}},
    }
