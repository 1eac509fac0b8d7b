"""Revisions: equal templates, names, and the revision in use."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kube.values.hashing import hash_text
from pykruise.pods.view import keys
from pykruise.pods.view.names import shorten_hash
from pykruise.pods.workload.revisions import (
    RevisionView,
    UpdateChoice,
    build_revision_body,
    choose_current,
    choose_update,
    encode_meaning,
    encode_revision_data,
    hash_revision,
    make_candidate,
    project_revision,
    sort_revisions,
    to_truncate,
)
from support.cloneset_builder import NAMESPACE, revision, template

VECTORS = json.loads((Path(__file__).parent / "data" / "revisions_written_by_go.json").read_text())
A, B, C = template("nginx:1"), template("nginx:2"), template("nginx:3")


def view(document: dict[str, Any]) -> RevisionView:
    return project_revision(orjson.dumps(document))


def views(*documents: dict[str, Any]) -> list[RevisionView]:
    return sort_revisions(map(view, documents))


def choose(wanted: dict[str, Any], *stored: RevisionView, **arguments: Any) -> UpdateChoice:
    body = partial(
        build_revision_body,
        namespace=NAMESPACE,
        labels={"app": "web"},
        annotations={"kubernetes.io/change-cause": "a test"},
        owner={"uid": "owner-uid", "controller": True},
    )
    given = {"owner": "web", "collision_count": 0, "others": {}, "annotations": {"hash": ""}, "body": body}
    return choose_update(make_candidate(wanted), stored, **{**given, **arguments})


@pytest.mark.parametrize("vector", VECTORS)
def test_revision_data_and_names_are_byte_for_byte_those_of_go(vector: dict[str, Any]) -> None:
    data = encode_revision_data(vector["template"])
    assert data.decode() == vector["data"]
    assert hash_revision(data, 0) == vector["hash"]


def test_the_collision_count_is_part_of_the_hash() -> None:
    assert hash_revision(b"data", 0) != hash_revision(b"data", 1)
    assert hash_revision(b"", 12) == hash_text(
        ((((2166136261 * 16777619) & 0xFFFFFFFF) ^ ord("1")) * 16777619 & 0xFFFFFFFF) ^ ord("2")
    )


def test_equal_templates_in_another_spelling_are_one_revision() -> None:
    """cloneset case 59"""
    plain = template("nginx:1")
    container = plain["spec"]["containers"][0]
    elaborate = {
        "metadata": {**plain["metadata"], "creationTimestamp": None, "annotations": {}},
        "spec": {
            "containers": [
                {
                    **container,
                    "resources": {},
                    "env": [],
                    "command": None,
                    "stdin": False,
                    "workingDir": "",
                    "securityContext": {},
                }
            ],
            "hostNetwork": False,
            "nodeSelector": {},
            "affinity": None,
        },
        "$patch": "replace",
    }
    assert encode_meaning(elaborate) == encode_meaning(plain)


@pytest.mark.parametrize(
    "empty",
    [
        *({"hostNetwork": None}, {"hostNetwork": False}, {"volumes": []}, {"nodeSelector": {}}),
        *({"priorityClassName": ""}, {"containers": None}, {"overhead": {}}, {"tolerations": None}),
    ],
)
def test_fields_that_go_omits_do_not_change_the_revision_name(empty: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"metadata": {"labels": {"app": "web"}}, "spec": {"dnsPolicy": "Default"}}
    assert encode_revision_data({**plain, "spec": {**plain["spec"], **empty}}) == encode_revision_data(plain)


@pytest.mark.parametrize(
    "kept", [{"securityContext": {}}, {"priority": 0}, {"enableServiceLinks": False}, {"hostNetwork": True}]
)
def test_fields_that_go_writes_when_empty_change_the_revision_name(kept: dict[str, Any]) -> None:
    plain: dict[str, Any] = {"metadata": {"labels": {"app": "web"}}, "spec": {"dnsPolicy": "Default"}}
    assert encode_revision_data({**plain, "spec": {**plain["spec"], **kept}}) != encode_revision_data(plain)


@pytest.mark.parametrize("given", [{"periodSeconds": 0}, {"periodSeconds": None}, {"periodSeconds": 10}])
def test_a_probe_is_equal_with_and_without_a_default(given: dict[str, Any]) -> None:
    """A change of such a template starts no rollout."""
    plain, other = template("nginx:1"), template("nginx:1")
    plain["spec"]["containers"][0]["livenessProbe"] = {"exec": {"command": ["a"]}}
    other["spec"]["containers"][0]["livenessProbe"] = {"exec": {"command": ["a"]}, **given}
    assert encode_meaning(other) == encode_meaning(plain)


def with_spec(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": spec}


def with_volume(kind: str, **source: Any) -> dict[str, Any]:
    return with_spec(volumes=[{"name": "v", kind: source}])


def with_container(**container: Any) -> dict[str, Any]:
    return with_spec(containers=[{"name": "main", "image": "nginx:1", **container}])


TOKEN = {"path": "token", "expirationSeconds": 3600}


@pytest.mark.parametrize(
    ("written", "omitted"),
    [
        (
            with_spec(tolerations=[{"key": "", "operator": "Exists", "value": "", "effect": ""}]),
            with_spec(tolerations=[{"operator": "Exists"}]),
        ),
        (
            with_container(ports=[{"name": "", "containerPort": 80}]),
            with_container(ports=[{"containerPort": 80}]),
        ),
        (
            with_volume("projected", sources=[{"serviceAccountToken": {**TOKEN, "audience": ""}}]),
            with_volume("projected", sources=[{"serviceAccountToken": TOKEN}]),
        ),
        (
            with_spec(
                securityContext={"seLinuxOptions": {"level": "s0", "role": "", "type": "", "user": ""}}
            ),
            with_spec(securityContext={"seLinuxOptions": {"level": "s0"}}),
        ),
        (
            with_container(
                env=[{"name": "A", "value": ""}], livenessProbe={"httpGet": {"port": 1, "path": ""}}
            ),
            with_container(env=[{"name": "A"}], livenessProbe={"httpGet": {"port": 1}}),
        ),
        (
            with_volume("csi", driver="d", volumeAttributes={}),
            with_volume("csi", driver="d"),
        ),
        (
            with_volume("nfs", server="s", path="/", readOnly=False),
            with_volume("nfs", server="s", path="/"),
        ),
    ],
)
def test_empty_values_with_omitempty_are_left_out(written: dict[str, Any], omitted: dict[str, Any]) -> None:
    """`omitempty` in core/v1/types.go"""
    assert encode_revision_data(written) == encode_revision_data(omitted)
    assert encode_meaning(written) == encode_meaning(omitted)


@pytest.mark.parametrize(
    ("written", "other"),
    [
        (
            with_volume("csi", driver="d", readOnly=False, fsType=""),
            with_volume("csi", driver="d"),
        ),
        (
            with_volume("azureDisk", diskName="d", diskURI="u", readOnly=False, fsType=""),
            with_volume("azureDisk", diskName="d", diskURI="u"),
        ),
        (
            with_volume("csi", driver="d", volumeAttributes={"host": "", "sizeLimit": "1000m"}),
            with_volume("csi", driver="d", volumeAttributes={"sizeLimit": "1"}),
        ),
        (
            with_volume("flexVolume", driver="d", options={"image": "", "limits": "1"}),
            with_volume("flexVolume", driver="d", options={"limits": "1"}),
        ),
        (
            with_volume("rbd", image="", monitors=["m"]),
            with_volume("rbd", monitors=["m"]),
        ),
        (
            with_container(
                livenessProbe={"httpGet": {"port": 1, "httpHeaders": [{"name": "A", "value": ""}]}}
            ),
            with_container(livenessProbe={"httpGet": {"port": 1, "httpHeaders": [{"name": "A"}]}}),
        ),
    ],
)
def test_empty_values_of_pointers_maps_and_required_fields_are_kept(
    written: dict[str, Any], other: dict[str, Any]
) -> None:
    """Pointers, maps and fields without `omitempty` in core/v1/types.go"""
    assert encode_revision_data(written) != encode_revision_data(other)
    spec = json.loads(encode_revision_data(written))["spec"]["template"]["spec"]
    for container in spec.get("containers") or ():
        del container["resources"]
    assert spec == written["spec"]


def test_empty_values_below_a_field_of_a_later_kubernetes_are_kept() -> None:
    source = {"readOnly": False, "labels": {"a": ""}, "value": "", "size": 0}
    spec = {
        "volumes": [{"name": "v", "laterSource": {**source, "annotations": {}, "items": [], "other": None}}]
    }
    data = json.loads(encode_revision_data(with_spec(**spec)))
    (volume,) = data["spec"]["template"]["spec"]["volumes"]
    assert volume["laterSource"] == source


AMOUNTS = [("1", "1000m"), ("0.5Gi", "512Mi"), (1, "1"), ("1e3", "1k"), ("1Gi", "1073741824")]


@pytest.mark.parametrize(("left", "right"), AMOUNTS)
def test_quantities_are_compared_by_amount(left: Any, right: Any) -> None:
    def with_cpu(amount: Any) -> dict[str, Any]:
        cpu = template()
        cpu["spec"]["containers"][0]["resources"] = {"limits": {"x": amount}}
        return cpu

    def with_size(amount: Any) -> dict[str, Any]:
        return template(volumes=[{"name": "v", "emptyDir": {"sizeLimit": amount}}])

    assert encode_meaning(with_cpu(left)) == encode_meaning(with_cpu(right)) != encode_meaning(with_cpu("7"))
    assert (
        encode_meaning(with_size(left)) == encode_meaning(with_size(right)) != encode_meaning(with_size("7"))
    )


@pytest.mark.parametrize(("left", "right"), AMOUNTS)
@pytest.mark.parametrize("field", ["annotations", "labels"])
def test_a_quantity_in_a_label_is_compared_as_text(field: str, left: Any, right: Any) -> None:
    def with_text(value: Any) -> dict[str, Any]:
        return {"metadata": {field: {"sizeLimit": str(value)}}, "spec": {}}

    assert (encode_meaning(with_text(left)) == encode_meaning(with_text(right))) is (str(left) == str(right))


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("azureDisk", {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"}),
        ("iscsi", {"iscsiInterface": "default"}),
        ("rbd", {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
        ("scaleIO", {"storageMode": "ThinProvisioned", "fsType": "xfs"}),
    ],
)
def test_a_volume_with_the_defaults_of_openkruise_1_8_has_the_same_meaning(
    kind: str, default: dict[str, Any]
) -> None:
    def meaning(**fields: Any) -> bytes:
        return encode_meaning(
            with_spec(volumes=[{"name": "v", kind: {"secretRef": {"name": "key"}, **fields}}])
        )

    field = next(iter(default))
    assert meaning() == meaning(**default)
    assert meaning() != meaning(**{**default, field: "other"})


def test_empty_fields_of_other_kinds_do_not_change_the_meaning() -> None:
    """A SidecarSet's revision holds fields of its spec."""
    plain = {"containers": [{"name": "proxy"}]}
    assert encode_meaning(
        {**plain, "volumes": None, "initContainers": [], "injectionStrategy": {}}
    ) == encode_meaning(plain)


def test_a_claim_in_a_template_is_written_as_go_writes_it() -> None:
    def written(claim: dict[str, Any]) -> Any:
        volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}
        data = orjson.loads(encode_revision_data(template(volumes=[volume])))
        return data["spec"]["template"]["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]

    empty = {"metadata": {"creationTimestamp": None}, "spec": {"resources": {}}}
    assert written({}) == written({"spec": {"resources": None}, "metadata": None}) == empty
    full = {"metadata": {"labels": {"a": "b"}}, "spec": {"resources": {"requests": {"storage": "1024Mi"}}}}
    assert written(full) == {
        "metadata": {"creationTimestamp": None, "labels": {"a": "b"}},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}},
    }


@pytest.mark.parametrize("odd", ["x", 5, None, ["x"], {"value": ""}])
def test_a_malformed_template_does_not_crash_the_encoding(odd: Any) -> None:
    result = template()
    result["spec"]["containers"][0]["env"] = [odd]
    assert encode_meaning(result) != encode_meaning(template())
    assert encode_revision_data(result) != encode_revision_data(template())


def test_a_candidate_is_the_template_without_its_directive() -> None:
    assert make_candidate({**A, "$patch": "replace"}) == make_candidate(A)
    assert make_candidate(A).template == A


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"app": "web", "new": ""}}},
        {"metadata": {"labels": {"app": "web", "image": ""}}},
        {"metadata": {"labels": {"app": "web"}, "annotations": {"note": ""}}},
        {"spec": {"containers": [{"name": "main", "image": "nginx:1"}], "hostNetwork": True}},
        {"spec": {"containers": [{"name": "main", "image": "nginx:1"}], "enableServiceLinks": False}},
        {"spec": {"containers": [{"name": "main", "image": "nginx:1", "args": [""]}]}},
        {"spec": {"containers": [{"name": "main", "image": "nginx:1", "aFieldOfTomorrow": 1}]}},
    ],
)
def test_a_different_template_is_another_revision(change: dict[str, Any]) -> None:
    assert encode_meaning({**template("nginx:1"), **change}) != encode_meaning(template("nginx:1"))


def test_an_empty_selector_of_an_affinity_term_is_not_an_absent_one() -> None:
    def with_term(term: dict[str, Any]) -> bytes:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term}]}
        return encode_meaning(template(affinity={"podAntiAffinity": required}))

    assert with_term({"labelSelector": {}}) != with_term({})


def test_the_template_of_a_stored_revision_is_returned_without_its_directive() -> None:
    stored = view(revision(A, 1))
    assert stored.template["spec"]["containers"][0]["image"] == "nginx:1"
    assert "$patch" not in stored.template
    assert stored.meaning == encode_meaning(A)
    assert (stored.number, stored.controller_uid) == (1, "owner-uid")


@pytest.mark.parametrize("data", [None, {}, {"spec": {"template": "x"}}, [1]])
def test_data_of_another_shape_is_an_empty_template_and_no_crash(data: Any) -> None:
    assert view({**revision(A, 1), "data": data}).template == {}


def test_a_stored_revision_is_read_with_what_it_has() -> None:
    full = view(revision(A, 1, controller=""))
    assert (full.namespace, full.resource_version, full.controller_uid) == (NAMESPACE, 7, "")
    assert full.labels["app"] == "web"
    owners = [{"uid": "first"}, {"uid": "second", "controller": True}]
    assert view(revision(A, 1, controller="", ownerReferences=owners)).controller_uid == "second"
    bare = view({"metadata": {"name": "web-1", "labels": None, "annotations": None}})
    assert (bare.labels, bare.annotations, bare.created_at) == ({}, {}, None)
    assert (bare.resource_version, bare.number, bare.is_deleting) == (0, 0, False)


def test_a_kind_of_other_fields_stores_these() -> None:
    """A SidecarSet's revision holds fields of its spec."""
    fields = {"containers": [{"name": "proxy"}]}
    assert view({**revision(A, 1), "data": {"spec": {**fields, "$patch": "replace"}}}).template == fields


def test_the_first_template_gets_a_new_revision() -> None:
    choice = choose(A)
    assert choice.create is not None
    metadata = choice.create["metadata"]
    assert metadata["name"] == choice.revision.name == f"web-{hash_revision(encode_revision_data(A), 0)}"
    assert metadata["labels"] == {"app": "web", keys.REVISION_HASH_LABEL: choice.revision.hash}
    assert choice.create["revision"] == 1
    assert (choice.revision.uid, choice.revision.resource_version) == ("", 0)
    assert orjson.dumps(choice.create["data"], option=orjson.OPT_SORT_KEYS) == encode_revision_data(A)


def test_a_changed_template_gets_the_next_number() -> None:
    choice = choose(B, *views(revision(A, 4)))
    assert choice.create is not None
    assert choice.create["revision"] == 5


def test_the_latest_revision_is_used_unchanged() -> None:
    choice = choose(A, *views(revision(B, 1), revision(A, 2)))
    assert (choice.revision.number, choice.create, choice.patch) == (2, None, None)


def test_a_rollback_to_an_older_template_reuses_its_revision() -> None:
    """cloneset case 52, cloneset case 58 (the annotation is missing and no crash)"""
    choice = choose(A, *views(revision(A, 1), revision(B, 2)))
    assert choice.create is None
    assert choice.revision.name == view(revision(A, 1)).name
    assert choice.patch == {"revision": 3, "metadata": {"annotations": {"hash": ""}}}


def test_the_latest_of_several_equal_older_revisions_is_used() -> None:
    first = revision(A, 1, name="web-x")
    second = revision(A, 2, name="web-y", annotations={"hash": "", "other": "1"})
    choice = choose(A, *views(first, second, revision(B, 3)))
    assert (choice.revision.name, choice.patch) == ("web-y", {"revision": 4})


def test_a_rollback_keeps_correct_annotations() -> None:
    choice = choose(A, *views(revision(A, 1, annotations={"hash": ""}), revision(B, 2)))
    assert choice.patch == {"revision": 3}


def test_a_name_taken_by_something_else_moves_the_collision_count() -> None:
    """cloneset case 54"""
    taken = view(revision(B, 1, name=f"web-{hash_revision(encode_revision_data(A), 0)}"))
    choice = choose(A, taken)
    assert choice.collision_count == 1
    assert choice.revision.name == f"web-{hash_revision(encode_revision_data(A), 1)}"
    assert choice.create is not None
    assert choice.create["metadata"]["labels"][keys.REVISION_HASH_LABEL] == choice.revision.hash


def test_a_name_taken_in_the_namespace_by_another_owner_counts_too() -> None:
    name = f"web-{hash_revision(encode_revision_data(A), 0)}"
    foreign = view(revision(C, 1, name=name, controller="another-owner"))
    assert choose(A, others={name: foreign}).collision_count == 1


def test_an_orphaned_revision_with_the_same_data_is_used() -> None:
    foreign = view(revision(A, 1, controller="former-owner"))
    choice = choose(A, others={foreign.name: foreign})
    assert (choice.revision, choice.create, choice.collision_count) == (foreign, None, 0)


def test_the_current_revision_is_the_one_the_status_names_or_else_the_update_revision() -> None:
    stored = views(revision(A, 1), revision(B, 2))
    assert choose_current(stored, stored[0].name, update=stored[1]) == stored[0]
    assert choose_current(stored, "web-gone", update=stored[1]) == stored[1]


def test_the_oldest_unused_revisions_beyond_the_limit_are_deleted() -> None:
    stored = views(*(revision(template(f"nginx:{number}"), number) for number in range(1, 7)))
    live = {stored[0].hash, stored[5].hash}
    assert [revision.number for revision in to_truncate(stored, live=live, limit=2)] == [2, 3]
    assert to_truncate(stored, live=live, limit=4) == to_truncate(stored, live=live, limit=9) == []
    assert [revision.number for revision in to_truncate(stored, live=live, limit=-1)] == [2, 3, 4, 5]
    # terminating revisions do not count
    leaving = [msgspec.structs.replace(stored[1], is_deleting=True), *stored[2:]]
    assert [revision.number for revision in to_truncate(leaving, live=live, limit=2)] == [3]


def test_a_limit_of_zero_keeps_only_live_revisions() -> None:
    """cloneset case 55"""
    stored = views(revision(A, 1), revision(B, 2), revision(C, 3))
    assert [revision.number for revision in to_truncate(stored, live={stored[2].hash}, limit=0)] == [1, 2]
    assert [
        revision.number for revision in to_truncate(stored, live={stored[0].hash, stored[2].hash}, limit=0)
    ] == [2]


def test_revisions_are_sorted_by_number_then_creation_then_name() -> None:
    older = view(revision(A, 1, creationTimestamp="2020-01-01T00:00:00Z"))
    newer = view(revision(B, 1, creationTimestamp="2021-01-01T00:00:00Z"))
    unknown = view(revision(C, 1, creationTimestamp=None))
    assert sort_revisions([newer, unknown, older]) == [unknown, older, newer]
    twins = [view(revision(A, 1, name=name)) for name in ("web-b", "web-a")]
    assert [revision.name for revision in sort_revisions(twins)] == ["web-a", "web-b"]
    assert sort_revisions([view(revision(A, 2)), newer])[0] == newer


@pytest.mark.parametrize(
    ("text", "expected"), [("web-7c9d", "7c9d"), ("7c9d", "7c9d"), ("a-b-c", "c"), ("", "")]
)
def test_the_hash_of_a_revision_is_what_follows_the_last_dash(text: str, expected: str) -> None:
    assert shorten_hash(text) == expected
