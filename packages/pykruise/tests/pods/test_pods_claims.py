"""Volume claims: made from templates, bound to pods by their id, reused, handed over, deleted."""

import copy
from typing import Any

import orjson
import pytest

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document
from pykruise.kube.patches import apply_strategic_merge
from pykruise.kube.values.hashing import bytes_hash
from pykruise.kube.values.owners import controller_of, owner_reference
from pykruise.pods.view import keys
from pykruise.pods.view.names import IdSource, InstanceId
from pykruise.pods.workload.claims import (
    ClaimFate,
    ClaimView,
    OwnerFacts,
    choose_ids,
    claim_documents,
    claim_name,
    claims_of,
    clean_up,
    hand_over_patch,
    leave_with_patch,
    leaving,
    missing_claims,
    project_claim,
    templates_hash,
    with_claim_volumes,
)
from pykruise.pods.workload.revisions import candidate, choose_update, project_revision, revision_data

OWNER = owner_reference(api_version="apps.kruise.io/v1beta1", kind="CloneSet", name="web", uid="owner-uid")
SOURCE = IdSource(1)


def template(name: str = "data", **fields: Any) -> Document:
    return {
        "metadata": {"name": name, **fields},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }


def claims(*templates: Document, suffix: str = "abcde") -> list[Document]:
    return claim_documents(
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


# Making them


def test_a_claim_is_named_after_template_owner_and_id() -> None:
    """cloneset 6.7"""
    assert claim_name("data", owner="web", suffix="abcde") == "data-web-abcde"


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
def test_a_template_that_says_nothing_makes_a_claim_all_the_same(given: Document) -> None:
    (result,) = claim_documents([given], owner="db", namespace="shop", suffix="0", labels={"app": "db"})
    assert result["metadata"] == {"name": "-db-0", "namespace": "shop", "labels": {"app": "db"}}
    assert result["spec"] == {}


def test_a_claim_has_the_finalizers_of_its_template() -> None:
    (finalizers,) = claims(template(finalizers=["example.com/keep"]))
    assert finalizers["metadata"]["finalizers"] == ["example.com/keep"]


def test_a_claim_of_an_ordinal_has_no_owner_unless_one_is_given() -> None:
    (result,) = claim_documents([template()], owner="db", namespace="shop", suffix="0", labels={"app": "db"})
    assert result["metadata"] == {"name": "data-db-0", "namespace": "shop", "labels": {"app": "db"}}


def test_a_pod_mounts_its_claims_in_place_of_volumes_of_the_same_name() -> None:
    """cloneset 6.7"""
    spec = {"containers": [], "volumes": [{"name": "data", "emptyDir": {}}, {"name": "cfg", "emptyDir": {}}]}
    before = copy.deepcopy(spec)
    claims = with_claim_volumes(spec, {"data": "data-web-abcde", "log": "log-web-abcde"})
    assert claims["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-abcde"}},
        {"name": "log", "persistentVolumeClaim": {"claimName": "log-web-abcde"}},
        {"name": "cfg", "emptyDir": {}},
    ]
    assert spec == before
    assert with_claim_volumes({"containers": []}, {}) == {"containers": []}
    odd = with_claim_volumes({"volumes": [{}]}, {"data": "data-web-abcde"})["volumes"]
    none = with_claim_volumes({"volumes": None}, {"data": "data-web-abcde"})["volumes"]
    assert odd == [*none, {}] == [claims["volumes"][0], {}]


# Ids


def ids(count: int, *stored_claims: ClaimView, **pods: str) -> tuple[list[str], list[str]]:
    """Chosen ids and those waited for; `active`, `terminating`, `finished`: ids of pods, with spaces."""
    id_choice = choose_ids(
        count,
        claims=stored_claims,
        active=pods.get("active", "").split(),
        terminating=pods.get("terminating", "").split(),
        finished=pods.get("finished", "").split(),
        source=SOURCE,
    )
    return list(id_choice.ids), list(id_choice.waiting)


def test_a_replacement_takes_the_id_and_claim_of_a_pod_that_is_gone() -> None:
    """cloneset case 45"""
    assert ids(1, view("aaaaa"), view("bbbbb"), active="bbbbb") == (["aaaaa"], [])


def test_a_replacement_waits_while_the_last_pod_of_the_id_terminates() -> None:
    """cloneset 6.7: the name is taken, and a fresh id would leave the claim without a pod"""
    assert ids(1, view("aaaaa"), terminating="aaaaa") == ([], ["aaaaa"])
    chosen, waiting = ids(3, view("aaaaa"), view("bbbbb"), terminating="aaaaa")
    assert "bbbbb" in chosen
    assert (len(chosen), waiting) == (2, ["aaaaa"])


def test_fewer_pods_than_unused_claims_wait_for_no_terminating_pod() -> None:
    assert ids(1, view("aaaaa"), view("bbbbb"), terminating="aaaaa") == (["bbbbb"], [])


def test_a_finished_pod_that_stays_gets_a_replacement_with_a_fresh_id() -> None:
    """cloneset 6.7"""
    (text,), waiting = ids(1, view("aaaaa"), finished="aaaaa")
    assert text != "aaaaa"
    assert waiting == []


def test_a_claim_that_is_being_deleted_gives_its_id_to_no_pod() -> None:
    """cloneset case 51"""
    drawn = SOURCE.fresh_ids(1, used=())[0]
    (text,), _ = ids(1, view(drawn, deleting=True), view(drawn, "log"))
    assert text != drawn


def test_fresh_ids_avoid_every_id_in_use() -> None:
    """cloneset 6.7"""
    drawn = SOURCE.fresh_ids(3, used=())
    for taken in ("active", "terminating", "finished"):
        result, _ = ids(2, **{taken: " ".join(drawn)})
        assert not set(result) & set(drawn)
    choice = choose_ids(2, claims=(), active=(), terminating=(), finished=(), source=SOURCE, taken=drawn)
    assert not set(choice.ids) & set(drawn)


@pytest.mark.parametrize("count", [0, -1])
def test_without_pods_to_make_no_id_is_chosen(count: int) -> None:
    given = [view("aaaaa"), view("bbbbb"), view("ccccc"), view("ddddd")]
    assert ids(count, *given, terminating="bbbbb ccccc") == ([], [])


def test_chosen_ids_are_sorted_and_fresh_ones_avoid_those_of_claims_in_use() -> None:
    drawn = SOURCE.fresh_ids(2, used=())
    given = [view("zzzzz"), *(view(instance_id) for instance_id in drawn)]
    result, waiting = ids(3, *given, active=drawn[0], finished=drawn[1])
    assert result == sorted(result)
    assert "zzzzz" in result
    assert not {*result} & {*drawn}
    assert waiting == []


def test_the_same_claims_and_source_give_the_same_ids() -> None:
    given = [view("ccccc"), view("aaaaa"), view("bbbbb")]
    assert ids(2, *given) == ids(2, *reversed(given)) == (["aaaaa", "bbbbb"], [])


def test_a_claim_without_an_id_belongs_to_no_pod() -> None:
    """cloneset 6.6: never match on an empty id"""
    bare = stored(claims(template(), suffix="")[0])
    (text,), _ = ids(1, bare)
    assert text
    assert claims_of([bare], "") == []


def test_only_what_is_missing_of_a_reused_id_is_made() -> None:
    """cloneset cases 49, 50"""
    wanted = claims(template("data"), template("log"))
    missing = missing_claims(wanted, [stored(wanted[0])])
    assert [entry["metadata"]["name"] for entry in missing] == ["log-web-abcde"]
    assert missing_claims(wanted, map(stored, wanted)) == []


# What becomes of them


def test_a_pod_that_its_owner_deletes_takes_its_claims_along() -> None:
    """cloneset case 48"""
    given = [view("aaaaa"), view("aaaaa", "log"), view("aaaaa", "old", deleting=True), view("bbbbb")]
    assert [claim.name for claim in claims_of(given, "aaaaa")] == ["data-web-aaaaa", "log-web-aaaaa"]


def fates(*given: ClaimView, active: str = "", inactive: str = "") -> dict[str, ClaimFate]:
    pods = {part: (f"web-{part}", f"uid-{part}") for part in inactive.split()}
    return {item.claim.name: item.fate for item in clean_up(given, active=active.split(), inactive=pods)}


def test_without_reuse_a_claim_goes_with_the_pod_that_terminates() -> None:
    """cloneset case 46"""
    clean_ups = clean_up([view("aaaaa")], active=(), inactive={"aaaaa": ("web-aaaaa", "pod-uid")})
    assert [(clean_up.fate, clean_up.pod, clean_up.pod_uid) for clean_up in clean_ups] == [
        (ClaimFate.HAND_OVER, "web-aaaaa", "pod-uid")
    ]


def test_handing_a_claim_over_makes_the_pod_its_only_manager() -> None:
    """cloneset case 46"""
    claim = claims(template())[0]
    claim["metadata"]["uid"] = "claim-uid"
    patch = hand_over_patch(owner_uid="owner-uid", pod="web-abcde", pod_uid="pod-uid", uid="claim-uid")
    result = apply_strategic_merge(claim, patch, definition="io.k8s.api.core.v1.PersistentVolumeClaim")
    assert len(result["metadata"]["ownerReferences"]) == 1
    controller = controller_of(result)
    assert controller is not None
    assert (controller.api_version, controller.kind, controller.name, controller.uid) == (
        "v1",
        "Pod",
        "web-abcde",
        "pod-uid",
    )


def test_without_reuse_a_claim_whose_pod_is_gone_is_deleted() -> None:
    """cloneset case 47"""
    assert fates(view("aaaaa"), view("bbbbb"), active="bbbbb") == {
        "data-web-aaaaa": ClaimFate.DELETE,
        "data-web-bbbbb": ClaimFate.KEEP,
    }


def test_claims_that_are_being_deleted_or_have_no_id_are_left_alone() -> None:
    """cloneset case 51"""
    bare = stored(claims(template("bare"), suffix="")[0])
    assert fates(view("aaaaa", deleting=True), bare) == {bare.name: ClaimFate.KEEP}


def test_a_claim_follows_the_pod_that_its_owner_has_deleted() -> None:
    """The reconcile after a crash between the two deletions"""

    def marked(uid: str, name: str, *, deleting: bool = False) -> ClaimView:
        patch = leave_with_patch(uid or None)
        assert patch == {"metadata": {"annotations": {keys.LEAVES_WITH_ANNOTATION: uid or None}}}
        return stored(claims(template(name))[0], deleting=deleting, **patch["metadata"])

    given = [marked("gone", "a"), marked("alive", "b"), marked("gone", "c", deleting=True), view("ddddd")]
    assert [claim.name for claim in leaving(given, active_uids={"alive"})] == ["a-web-abcde"]


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
def test_what_a_claim_does_not_say_or_cannot_be_read_is_absent(fields: Document) -> None:
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


def test_the_hash_is_the_one_that_go_computes() -> None:
    """cloneset 6.3, test vectors"""
    assert templates_hash([PVC_1]) == "1129974074"
    assert templates_hash([]) == ""
    assert templates_hash(None) == ""


def test_only_name_and_spec_count_and_the_order_of_templates_does_not() -> None:
    """cloneset 6.3"""
    other = template("a")
    assert templates_hash([PVC_1, other]) == templates_hash([other, PVC_1])
    assert templates_hash([{**PVC_1, "metadata": {"name": "pvc-1"}}]) == "1129974074"
    amounts = {"requests": {"storage": "1024Mi"}, "limits": {"storage": "2Gi"}}
    assert templates_hash([{**PVC_1, "spec": {**PVC_1["spec"], "resources": amounts}}]) == "1129974074"


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
    assert templates_hash([changed]) not in ("", "1129974074")


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
def test_what_is_hashed_is_the_text_that_go_writes(claim: Document, written: str) -> None:
    """cloneset 6.3: the fields of the typed object in their order, with those that it always writes"""
    assert templates_hash([claim]) == str(bytes_hash(f"[{written}]".encode()))


def test_null_fields_of_a_claim_do_not_count() -> None:
    fields = ("selector", "volumeName", "storageClassName", "volumeMode", "dataSource", "dataSourceRef")
    nulls = dict.fromkeys((*fields, "volumeAttributesClassName", "accessModes"))
    assert templates_hash([{"spec": nulls}]) == templates_hash([{}])


def revision(name: str, number: int, image: str, **annotations: str) -> Any:
    given = {"spec": {"containers": [{"name": "c1", "image": image}]}}
    document = {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "1"},
        "revision": number,
        "data": orjson.loads(revision_data(given)),
    }
    if annotations:
        document["metadata"]["annotations"] = annotations
    return project_revision(orjson.dumps(document))


def wanted(image: str, *revisions: Any, claim_hash: str) -> Any:
    return choose_update(
        candidate({"spec": {"containers": [{"name": "c1", "image": image}]}}),
        revisions,
        owner="web",
        collision_count=0,
        others={},
        body=lambda name, name_hash, number: {"metadata": {"name": name}, "revision": number},
        annotations={keys.CLAIM_TEMPLATES_HASH_ANNOTATION: claim_hash},
    )


def test_other_claim_templates_alone_make_no_revision_and_leave_the_recorded_hash() -> None:
    """cloneset case 56"""
    latest = revision("web-a", 1, "a:1", **{keys.CLAIM_TEMPLATES_HASH_ANNOTATION: "1"})
    result = wanted("a:1", latest, claim_hash=templates_hash([PVC_1]))
    assert (result.revision.name, result.create, result.patch) == ("web-a", None, None)


def test_a_rollback_records_the_hash_on_a_revision_without_annotations() -> None:
    """cloneset case 58"""
    older, latest = revision("web-a", 1, "a:1"), revision("web-b", 2, "a:2")
    result = wanted("a:1", older, latest, claim_hash=templates_hash([PVC_1]))
    assert result.patch == {
        "revision": 3,
        "metadata": {"annotations": {keys.CLAIM_TEMPLATES_HASH_ANNOTATION: "1129974074"}},
    }
