"""Defaults and validation of StatefulSets. Rule and case numbers are the specification's."""

import copy
from typing import Any

import pytest

from pykruise.admission.protection import Protection, add_protection
from pykruise.kinds import list_conversions
from pykruise.kinds.statefulset.admission import build_mutating_review
from pykruise.kinds.statefulset.defaults import StatefulSetDefaultingSettings
from pykruise.kinds.statefulset.kind import KIND
from pykruise.kube.admission import ALLOWED, Reviewer
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import convert
from pykruise.pods.view import keys
from pykruise.pods.workload.derived_names import warnings_of_names
from support.statefulset_builder import claim_template, statefulset, template
from support.statefulset_reviews import BLOCK, VALIDATE, causes, document, fields, review

GATE: dict[str, Any] = {"readinessGates": [{"conditionType": keys.IN_PLACE_READY}]}


# ── defaults ─────────────────────────────────────────────────────────────────


def defaulted(doc: Document, *, old: Document | None = None, **settings: bool) -> Document:
    answer = review(build_mutating_review(StatefulSetDefaultingSettings(**settings)), doc, old=old)
    return answer.object or doc


def bare() -> Document:
    bare = copy.deepcopy(statefulset(3).document)
    spec = bare["spec"]
    bare["spec"] = {field: spec[field] for field in ("selector", "template")}
    return bare


def test_missing_fields_get_defaults() -> None:
    spec = defaulted(bare())["spec"]
    assert spec["podManagementPolicy"] == "OrderedReady"
    assert spec["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "partition": 0,
            "maxUnavailable": 1,
            "podUpdatePolicy": "ReCreate",
            "minReadySeconds": 0,
        },
    }
    assert (spec["replicas"], spec["revisionHistoryLimit"]) == (1, 10)
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert "volumeClaimUpdateStrategy" not in spec
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "Always"


def test_given_fields_are_kept() -> None:
    doc = document(parallel=True, rolling={"partition": 2, "maxUnavailable": "30%"}, replicas=7)
    spec = defaulted(doc)["spec"]
    assert (spec["replicas"], spec["podManagementPolicy"]) == (7, "Parallel")
    assert spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "30%"
    # and so do the policies of pods and claims
    given = {
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
        "volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"},
    }
    doc = document(rolling={"podUpdatePolicy": "InPlaceOnly"}, **given)
    spec = defaulted(doc, auto_resize_claims=True)["spec"]
    assert spec["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"] == "InPlaceOnly"
    assert {field: spec[field] for field in given} == given


def test_a_statefulset_without_a_template_gets_no_template() -> None:
    assert "template" not in defaulted({**bare(), "spec": None})["spec"]
    assert "template" not in defaulted({**bare(), "spec": None}, old=bare())["spec"]


def test_nothing_is_filled_in_under_on_delete() -> None:
    doc = bare()
    doc["spec"]["updateStrategy"] = {"type": "OnDelete"}
    assert defaulted(doc)["spec"]["updateStrategy"] == {"type": "OnDelete"}


def test_gates_decide_about_claims() -> None:
    spec = defaulted(bare(), auto_delete_claims=False, auto_resize_claims=True)["spec"]
    assert "persistentVolumeClaimRetentionPolicy" not in spec
    assert spec["volumeClaimUpdateStrategy"] == {"type": "OnDelete"}


def test_claim_templates_get_defaults_only_with_the_pod_template() -> None:
    """An upgrade of the manager must not roll pods."""
    # given a stored object without defaults, and only another number of replicas
    old = bare() | {"spec": {**bare()["spec"], "volumeClaimTemplates": [claim_template()]}}
    new = copy.deepcopy(old)
    new["spec"]["replicas"] = 5
    # then
    spec = defaulted(new, old=old)["spec"]
    assert spec["template"] == old["spec"]["template"]
    assert spec["volumeClaimTemplates"] == old["spec"]["volumeClaimTemplates"]
    # but with another pod template, both get defaults
    new["spec"]["template"] = template("nginx:2")
    spec = defaulted(new, old=old)["spec"]
    assert spec["volumeClaimTemplates"][0]["status"] == {"phase": "Pending"}
    assert "volumeMode" not in spec["volumeClaimTemplates"][0]["spec"]
    assert "dnsPolicy" in spec["template"]["spec"]


def test_a_gate_leaves_templates_alone() -> None:
    assert defaulted(bare(), template_no_defaults=True)["spec"]["template"] == template()


def test_defaults_are_stable() -> None:
    once = defaulted(bare())
    assert review(build_mutating_review(StatefulSetDefaultingSettings()), once) == ALLOWED


# ── validation ───────────────────────────────────────────────────────────────


def test_a_valid_one_is_accepted() -> None:
    assert fields(document()) == []
    assert fields(document(parallel=True, rolling={"maxUnavailable": "1%"})) == []


@pytest.mark.parametrize(
    ("value", "parallel", "accepted"),
    [
        (1, False, True),
        (2, False, False),
        (-1, False, False),
        ("100%", False, False),
        (2, True, True),
        ("1%", True, True),
        (0, True, False),
        ("0%", True, False),
        ("5", True, False),
        (-1, True, False),
        ("x%", True, False),
    ],
)
@pytest.mark.parametrize("field", [f"{BLOCK}.maxUnavailable", "spec.scaleStrategy.maxUnavailable"])
def test_max_unavailable_is_at_least_one_and_exactly_one_for_ordered_pods(
    field: str, value: int | str, parallel: bool, accepted: bool
) -> None:
    """statefulset case 77; rules 7 and 14"""
    if field.startswith(BLOCK):
        doc = document(parallel=parallel, rolling={"maxUnavailable": value})
    else:
        doc = document(parallel=parallel, scaleStrategy={"maxUnavailable": value})
    assert fields(doc) == ([] if accepted else [field])


@pytest.mark.parametrize(
    ("entry", "accepted"),
    [("5-2", False), ("a-b", False), (-1, False), ("3-3", True), (4, True), ("4", False), ("1-2-3", False)],
)
def test_reserved_ordinals_are_numbers_and_ranges(entry: int | str, accepted: bool) -> None:
    """statefulset case 78; rules 4 to 6"""
    expected = [] if accepted else ["spec.reserveOrdinals[1]"]
    assert fields(document(reserveOrdinals=[0, entry])) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"podManagementPolicy": ""}, ["spec.podManagementPolicy"]),  # 2
        ({"podManagementPolicy": "Sometimes"}, ["spec.podManagementPolicy"]),  # 3
        ({"updateStrategy": {"type": ""}}, ["spec.updateStrategy"]),  # 8
        ({"updateStrategy": {"type": "Sometimes"}}, ["spec.updateStrategy"]),  # 9
        ({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}}, [BLOCK]),  # 10, statefulset case 42
        ({"rolling": {"partition": -1}}, [f"{BLOCK}.partition"]),  # 11
        ({"rolling": {"minReadySeconds": 301}}, [f"{BLOCK}.minReadySeconds"]),  # 12, statefulset case 80
        ({"rolling": {"minReadySeconds": -1}}, [f"{BLOCK}.minReadySeconds"]),  # 12, statefulset case 80
        ({"rolling": {"minReadySeconds": 300}}, []),
        ({"rolling": {"minReadySeconds": 0}}, []),
        ({"updateStrategy": {"type": "OnDelete"}}, []),
        ({"updateStrategy": {"type": "RollingUpdate"}}, []),
        ({"scaleStrategy": {}}, []),
        ({"rolling": {"maxUnavailable": None}}, [f"{BLOCK}.maxUnavailable"]),  # 13
        ({"rolling": {"podUpdatePolicy": ""}}, [f"{BLOCK}.podUpdatePolicy"]),  # 15
        ({"rolling": {"podUpdatePolicy": "Hot"}}, [f"{BLOCK}.podUpdatePolicy"]),  # 16
        (
            {"rolling": {"podUpdatePolicy": "InPlaceOnly"}},
            ["spec.template.spec.readinessGates"],
        ),  # 17, statefulset case 81
        ({"rolling": {"unorderedUpdate": {}}}, [f"{BLOCK}.unorderedUpdate"]),  # 18, statefulset case 45
        (
            {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Keep", "whenScaled": "Delete"}},
            ["spec.persistentVolumeClaimRetentionPolicy.whenDeleted"],
        ),  # 20
        (
            {"persistentVolumeClaimRetentionPolicy": {}},
            [
                "spec.persistentVolumeClaimRetentionPolicy.whenDeleted",
                "spec.persistentVolumeClaimRetentionPolicy.whenScaled",
            ],
        ),  # 20
        ({"replicas": -1}, ["spec.replicas"]),  # 21
        ({"selector": None}, ["spec.selector"]),  # 22
        ({"selector": {}}, ["spec.selector"]),  # 23
        ({"selector": {"matchLabels": {"app": "x"}}}, ["spec.template.metadata.labels"]),  # 24
        ({"template": template(restartPolicy="Never")}, ["spec.template.spec.restartPolicy"]),  # 26
        ({"template": template(activeDeadlineSeconds=5)}, ["spec.template.spec.activeDeadlineSeconds"]),  # 27
        ({"ordinals": {"start": -1}}, ["spec.ordinals.start"]),
        ({"revisionHistoryLimit": -1}, ["spec.revisionHistoryLimit"]),
        ({"volumeClaimUpdateStrategy": {"type": "Now"}}, ["spec.volumeClaimUpdateStrategy.type"]),
        (
            {"volumeClaimTemplates": [claim_template(), claim_template()]},
            ["spec.volumeClaimTemplates[1].metadata.name"],
        ),
        ({"volumeClaimTemplates": [{"spec": {}}]}, ["spec.volumeClaimTemplates[0].metadata.name"]),
    ],
)
def test_each_rule_names_its_field(changes: dict[str, Any], expected: list[str]) -> None:
    """statefulset case 42, 45, 80 and 81"""
    assert fields(document(**changes)) == expected


@pytest.mark.parametrize("policy", ["InPlaceIfPossible", "InPlaceOnly"])
def test_policies_in_place_are_accepted_with_the_gate(policy: str) -> None:
    """statefulset case 81"""
    assert fields(document(rolling={"podUpdatePolicy": policy}, template=template(**GATE))) == []


@pytest.mark.parametrize(
    "strategy",
    [
        {
            "weightPriority": [{"weight": 1, "matchSelector": {"matchLabels": {"a": "1"}}}],
            "orderPriority": [{"orderedKey": "a"}],
        },  # statefulset case 45
        {"weightPriority": [{"weight": 101, "matchSelector": {"matchLabels": {"a": "1"}}}]},
        {"weightPriority": [{"weight": 1, "matchSelector": {}}]},
        {"orderPriority": [{"orderedKey": ""}]},
    ],
)
def test_priorities_are_one_list_of_sensible_terms(strategy: dict[str, Any]) -> None:
    """statefulset case 45; rule 19"""
    doc = document(parallel=True, rolling={"unorderedUpdate": {"priorityStrategy": strategy}})
    assert fields(doc) == [f"{BLOCK}.unorderedUpdate.priorityStrategy"]


@pytest.mark.parametrize(
    ("name", "accepted"), [("web", True), ("web.x", False), ("w" * 64, False), ("Web", False)]
)
def test_the_name_is_a_host_name(name: str, accepted: bool) -> None:
    """Rule 1"""
    doc = document()
    doc["metadata"]["name"] = name
    assert fields(doc) == ([] if accepted else ["metadata.name"])


def test_the_name_of_a_stored_statefulset_is_not_checked_again() -> None:
    doc = document()
    doc["metadata"]["name"] = "web.x"
    assert fields(doc, old=doc) == []


def test_a_name_may_be_left_to_the_api_server() -> None:
    doc = document()
    doc["metadata"] = {"generateName": "web-"}
    assert review(VALIDATE, doc) == ALLOWED


@pytest.mark.parametrize(
    ("spec", "is_warned_of"),
    [
        ({"replicas": 10}, False),
        ({"replicas": 11}, True),
        ({"replicas": 0}, False),
        ({"replicas": 0, "ordinals": {"start": 9}}, False),
        ({"replicas": 0, "ordinals": {"start": 10}}, False),
        ({"replicas": 9, "reserveOrdinals": [3]}, False),
        ({"replicas": 9, "reserveOrdinals": ["2-3"]}, True),
        ({"replicas": 2**31 - 1}, True),
        ({"replicas": 1, "ordinals": {"start": 9}}, False),
        ({"replicas": 2, "ordinals": {"start": 9}}, True),
    ],
)
def test_names_of_pods_that_are_too_long_are_a_warning(spec: Document, is_warned_of: bool) -> None:
    """The name of the last pod has at most 63 characters"""
    doc = document(**spec)
    doc["metadata"]["name"] = "w" * 61
    warnings = [name for name in warnings_of_names(doc, KIND.derived, None) if "its last pod" in name]
    assert [warning.partition(":")[0] for warning in warnings] == (["metadata.name"] if is_warned_of else [])


def test_all_errors_are_reported_together() -> None:
    doc = document(rolling={"partition": -1, "maxUnavailable": 2}, reserveOrdinals=["x"], replicas=-1)
    assert len(fields(doc)) == 4


def test_an_object_without_defaults_is_refused_with_its_missing_fields() -> None:
    assert set(fields(bare())) == {"spec.podManagementPolicy", "spec.updateStrategy"}
    assert "spec.template" in fields({**document(), "spec": {}})
    assert fields({"metadata": None, "spec": None}) == [
        "metadata.name",
        "spec.podManagementPolicy",
        "spec.updateStrategy",
        "spec.selector",
        "spec.template",
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"podManagementPolicy": ""}, "Required value"),
        ({"updateStrategy": {"type": ""}}, "Required value: type is required"),
        ({"rolling": {"podUpdatePolicy": ""}}, "Required value"),
        (
            {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Keep", "whenScaled": "Retain"}},
            'Unsupported value: "Keep": supported values: "Delete", "Retain"',
        ),
    ],
)
def test_missing_values_are_reported_as_required_and_unknown_ones_with_the_known_values(
    changes: Document, message: str
) -> None:
    """statefulset rules 2, 8, 15 and 20"""
    assert [cause.message for cause in causes(document(**changes))] == [message]


@pytest.mark.parametrize(
    ("claims", "volumes", "mounted", "expected"),
    [
        (["data"], [], "data", []),
        (["data"], ["data"], "data", []),
        (["data"], ["logs"], "data", []),
        (["data", "data"], [], "data", ["spec.volumeClaimTemplates[1].metadata.name"]),
        (["data", ""], [], "data", ["spec.volumeClaimTemplates[1].metadata.name"]),
    ],
    ids=[
        "of a claim",
        "of both",
        "beside another",
        "of two claims",
        "beside one without a name",
    ],
)
def test_containers_mount_volumes_of_claims_which_replace_those_of_the_template(
    claims: list[str], volumes: list[str], mounted: str, expected: list[str]
) -> None:
    """statefulset rule 25"""
    main = {"name": "main", "image": "a", "volumeMounts": [{"name": mounted, "mountPath": "/x"}]}
    pod = template(containers=[main], volumes=[{"name": name, "emptyDir": {}} for name in volumes])
    doc = document(template=pod, volumeClaimTemplates=list(map(claim_template, claims)))
    assert fields(doc) == expected
    assert review(VALIDATE, doc).warnings == ()


def test_a_mount_of_a_volume_that_a_webhook_may_add_is_accepted_with_a_warning() -> None:
    """statefulset rule 25: the volume may come from a SidecarSet."""
    # given
    mount, device = {"name": "logs", "mountPath": "/x"}, {"name": "raw", "devicePath": "/dev/x"}
    main = {"name": "main", "image": "a", "volumeMounts": [mount], "volumeDevices": [device]}
    first = {"name": "first", "image": "a", "volumeMounts": [mount]}
    pod = template(containers=[main], initContainers=[first])
    # when
    answer = review(VALIDATE, document(template=pod, volumeClaimTemplates=[claim_template()]))
    # then
    assert answer.refusal is None
    assert [warning.partition(":")[0] for warning in answer.warnings] == [
        "spec.template.spec.initContainers[0].volumeMounts[0].name",
        "spec.template.spec.containers[0].volumeMounts[0].name",
        "spec.template.spec.containers[0].volumeDevices[0].name",
    ]
    assert answer.warnings[0].endswith(
        'neither the template nor a claim template defines volume "logs": pods can be created only if a webhook '
        "adds the volume"
    )
    # and not all of very many mounts are named
    first["volumeMounts"] = [{"name": "logs", "mountPath": f"/{number}"} for number in range(100)]
    assert len(review(VALIDATE, document(template=pod)).warnings) == 16
    first["volumeMounts"] = [mount]
    # and another error of the mount is still reported
    mount["mountPath"] = ""
    assert set(fields(document(template=pod))) == {
        "spec.template.spec.initContainers[0].volumeMounts[0].mountPath",
        "spec.template.spec.containers[0].volumeMounts[0].mountPath",
    }


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"ordinals": {"start": -1}}, "spec.ordinals.start"),
        ({"volumeClaimUpdateStrategy": {"type": "Never"}}, "spec.volumeClaimUpdateStrategy.type"),
        ({"revisionHistoryLimit": -1}, "spec.revisionHistoryLimit"),
    ],
)
def test_a_stored_error_that_openkruise_accepts_does_not_block_other_changes(
    change: Document, field: str
) -> None:
    """OpenKruise accepts these values, so clusters have them."""
    # given
    stored, labelled = document(**change), document(**change)
    assert fields(stored) == [field]
    # then the labels and other fields can change
    labelled["metadata"]["labels"] = {"team": "a"}
    assert fields(labelled, old=stored) == []
    assert fields(document(**change, replicas=7), old=stored) == []
    # but not to such a value
    assert fields(document(**change), old=document()) == [field]


def test_an_unchanged_spec_is_not_checked_again() -> None:
    stored = document(rolling={"partition": -1})
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"team": "a"}}}
    assert fields(labelled, old=stored) == []
    labelled["metadata"]["labels"] = {"team": "a b"}
    assert fields(labelled, old=stored) == ["metadata.labels"]


def test_an_unreadable_object_is_a_bad_request() -> None:
    refused = review(VALIDATE, document(replicas="many")).refusal
    assert refused is not None
    assert refused.code == 400


@pytest.mark.parametrize("reviewer", [build_mutating_review(StatefulSetDefaultingSettings()), VALIDATE])
@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"metadata": "data"}, "PersistentVolumeClaim.metadata of type v1.ObjectMeta"),
        ({"spec": {"accessModes": "ReadWriteOnce"}}, "PersistentVolumeClaimSpec.spec.accessModes"),
    ],
)
def test_a_claim_template_with_a_value_of_a_wrong_type_is_a_bad_request_that_names_it(
    reviewer: Reviewer, wrong: Document, place: str
) -> None:
    doc = document(volumeClaimTemplates=[claim_template(), {**claim_template("logs"), **wrong}])
    refused = review(reviewer, doc).refusal
    assert refused is not None
    assert refused.code == 400
    assert refused.message.startswith("spec.volumeClaimTemplates[1]: json: cannot unmarshal string into Go ")
    assert place in refused.message
    # but a stored template with this error does not block other changes
    assert (
        review(
            build_mutating_review(StatefulSetDefaultingSettings()),
            {**doc, "metadata": {"name": "web"}},
            old=doc,
        ).refusal
        is None
    )


# ── updates ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "change",
    [
        {"serviceName": "other"},
        {"podManagementPolicy": "Parallel"},
        {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
    ],
)
def test_immutable_fields_cannot_be_changed(change: dict[str, Any]) -> None:
    """statefulset case 79"""
    assert fields(document(**change), old=document()) == ["spec"]


def test_a_set_that_is_stored_without_a_spec_gets_no_other_one() -> None:
    assert fields(document(), old={**document(), "spec": None}) == ["spec"]


@pytest.mark.parametrize(
    "change",
    [
        {"replicas": 5},
        {"ordinals": {"start": 2}},
        {"template": template("nginx:2")},
        {"reserveOrdinals": [1]},
        {"lifecycle": {"preDelete": {"labelsHandler": {"a": "1"}}}},
        {"revisionHistoryLimit": 3},
        {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}},
        {"volumeClaimTemplates": [claim_template()]},
        {"volumeClaimUpdateStrategy": {"type": "OnPodRollingUpdate"}},
        {"rolling": {"partition": 1}},
        {"serviceName": ""},
    ],
)
def test_mutable_fields_can_be_changed(change: dict[str, Any]) -> None:
    assert fields(document(**change), old=document()) == []


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ({"image": "nginx:2"}, True),
        ({"imagePullPolicy": "Never"}, False),
        ({"command": ["sleep"]}, False),
    ],
)
def test_under_in_place_only_just_images_change(change: dict[str, Any], accepted: bool) -> None:
    """statefulset case 47"""
    before = template("nginx:1", **GATE)
    before["spec"]["containers"][0]["imagePullPolicy"] = "Always"
    after = copy.deepcopy(before)
    after["spec"]["containers"][0] |= change
    after["metadata"]["annotations"] = {"free": "to change"}
    rolling = {"podUpdatePolicy": "InPlaceOnly"}
    result = causes(document(rolling=rolling, template=after), old=document(rolling=rolling, template=before))
    assert [cause.field for cause in result] == ([] if accepted else ["spec.template.spec"])
    if not accepted:
        assert f"/spec/containers/0/{next(iter(change))}" in result[0].message


def test_under_in_place_only_templates_are_compared_by_meaning() -> None:
    """A webhook of OpenKruise writes empty `resources` and canonical quantities into stored templates, and clients do
    not.
    """
    rolling = {"podUpdatePolicy": "InPlaceOnly"}
    before, after = template("nginx:1", **GATE), template("nginx:2", **GATE)
    before["spec"]["containers"] += [{"name": "side", "image": "side:1", "resources": {}}]
    after["spec"]["containers"] += [{"name": "side", "image": "side:1"}]
    before["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    after["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1000m"}}
    old = document(rolling=rolling, template=before)
    assert not causes(document(rolling=rolling, template=after), old=old)


def test_an_update_that_completes_a_deletion_is_allowed() -> None:
    stored = document(replicas=-1)
    stored["metadata"] |= {"deletionTimestamp": "2026-01-31T12:00:00Z", "finalizers": ["example.com/x"]}
    assert fields({**stored, "metadata": {**stored["metadata"], "finalizers": []}}, old=stored) == []


# ── deletion, versions ───────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "replicas", "is_on", "allowed"),
    [
        ("Cascading", 0, True, True),
        ("Cascading", 1, True, False),
        ("Cascading", 1, False, True),
        ("Always", 0, True, False),
        ("other", 3, True, True),
    ],
)
def test_a_protected_statefulset_cannot_be_deleted(
    value: str, replicas: int, is_on: bool, allowed: bool
) -> None:
    """statefulset case 83"""
    old = document(replicas=replicas)
    old["metadata"]["labels"] = {"policy.kruise.io/delete-protection": value}
    refused = review(add_protection(Protection(is_on=is_on), VALIDATE), None, old=old).refusal
    assert (refused is None) is allowed
    assert refused is None or refused.code == 403


def test_a_client_of_v1alpha1_loses_nothing() -> None:
    """statefulset case 82"""
    # given a stored object with newer fields, as a client of the older version reads it
    stored = document(reserveOrdinals=[1, "3-4"], ordinals={"start": 2}, scaleStrategy={"maxUnavailable": 1})
    stored["apiVersion"] = "apps.kruise.io/v1beta1"
    known = list_conversions()
    older = convert(copy.deepcopy(stored), "apps.kruise.io/v1alpha1", known)
    assert "reserveOrdinals" not in older["spec"]
    # when it changes something and writes it back
    older["spec"]["replicas"] = 5
    again = convert(older, "apps.kruise.io/v1beta1", known)
    # then
    assert again["spec"] == {**stored["spec"], "replicas": 5}
    assert again["metadata"] == stored["metadata"]


def _pod(**spec: Any) -> Document:
    pod = copy.deepcopy(template())
    pod["spec"] |= spec
    return pod


@pytest.mark.parametrize(
    "stored",
    [
        _pod(containers=[{"name": "main"}]),
        _pod(containers=[]),
        _pod(containers=[{"name": "main", "image": "a", "volumeMounts": [{"name": "x"}]}]),
    ],
    ids=["no image", "no containers", "a mount without a path"],
)
def test_a_template_that_was_stored_with_an_error_can_be_changed_elsewhere(stored: Document) -> None:
    """OpenKruise accepts such templates, so clusters have them."""
    # given
    old, new = document(template=stored), document(template=copy.deepcopy(stored))
    new["spec"]["template"]["metadata"]["annotations"] = {"team": "a"}
    # then a new object is refused; a stored one can be changed, but without another error
    assert fields(new)
    assert fields(new, old=old) == []
    new["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    assert fields(new, old=old) == ["spec.template.spec.restartPolicy"]


def test_an_unknown_field_of_kubernetes_is_kept_and_named_in_a_warning() -> None:
    # given
    unknown = _pod(newThing={"a": 1})
    unknown["spec"]["containers"][0]["odd"] = "b"
    doc = document(template=unknown)
    # when
    answer = review(VALIDATE, doc)
    changed = review(build_mutating_review(StatefulSetDefaultingSettings()), doc).object or doc
    # then
    assert answer.refusal is None
    assert answer.warnings == (
        'unknown field "spec.template.spec.containers[0].odd"',
        'unknown field "spec.template.spec.newThing"',
    )
    assert changed["spec"]["template"]["spec"]["newThing"] == {"a": 1}
    assert changed["spec"]["template"]["spec"]["containers"][0]["odd"] == "b"


def test_a_very_long_list_of_weights_is_refused_unless_it_is_stored_already() -> None:
    # given
    terms = [{"weight": 1, "matchSelector": {"matchLabels": {"a": f"v{number}"}}} for number in range(257)]
    rolling = {"unorderedUpdate": {"priorityStrategy": {"weightPriority": terms}}}
    doc = document(parallel=True, rolling=rolling)
    # then
    (cause,) = causes(doc)
    assert cause.field == f"{BLOCK}.unorderedUpdate.priorityStrategy.weightPriority"
    assert cause.message == "Too many: 257: must have at most 256 items"
    assert fields(doc, old=doc) == []


@pytest.mark.parametrize("amount", ["9" * 5_000 + "%", "9" * 5_000])
def test_amounts_with_very_many_digits_are_field_errors(amount: str) -> None:
    """Python refuses to read numbers of more than 4,300 digits, which led to an answer 500."""
    assert fields(document(rolling={"maxUnavailable": amount})) == [f"{BLOCK}.maxUnavailable"]
    entries = {"reserveOrdinals": [f"1-{'9' * 5_000}"]}
    assert fields(document(**entries)) == ["spec.reserveOrdinals[0]"]
    limits = {"resources": {"limits": {"cpu": amount}}}
    wrong = _pod(containers=[{"name": "main", "image": "a", **limits}])
    assert fields(document(template=wrong)) == ["spec.template.spec.containers[0].resources.limits[cpu]"]
