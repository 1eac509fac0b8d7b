"""Defaults and validation of CloneSets."""

import copy
from typing import Any

import pytest

from pykruise.kinds import crds_of
from pykruise.kinds.cloneset.admission import (
    build_mutating_review,
    build_validating_review,
    mutate_cloneset,
    validate_cloneset,
)
from pykruise.kinds.cloneset.defaults import add_defaults
from pykruise.kinds.cloneset.kind import KIND
from pykruise.kinds.cloneset.snapshot import read_spec
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer
from pykruise.kube.errors import Cause
from pykruise.kube.resources import Resource
from pykruise.pods.template.defaults import DefaultingSettings
from pykruise.pods.workload.selector_guard import SELECTOR_MISMATCH
from support.cloneset_builder import template
from support.cloneset_rules import ACCEPTED, BLOCK, REFUSED, bad_container, document, rolling
from support.reviews import recorded


def request(
    doc: dict[str, Any] | None,
    *,
    operation: str = "CREATE",
    old: dict[str, Any] | None = None,
    resource: Resource = CLONE_SETS,
    subresource: str = "",
) -> AdmissionRequest:
    return AdmissionRequest(
        uid="r",
        operation=operation,
        resource=resource,
        subresource=subresource,
        namespace="shop",
        name="web",
        object=doc,
        old_object=old,
    )


def ask(review: Reviewer, request: AdmissionRequest) -> AdmissionAnswer:
    """The answer of a review. Fails if the review waits."""
    asked = review(request)
    try:
        asked.__await__().send(None)  # type: ignore[attr-defined]
    except StopIteration as done:
        answer: AdmissionAnswer = done.value
        return answer
    raise AssertionError("the review waits")


REVIEW = build_validating_review(recorded({"matchLabels": {"app": "web"}}))
"""The validating review for an owner whose pods are managed by that selector."""


def causes(doc: dict[str, Any], *, old: dict[str, Any] | None = None) -> tuple[Cause, ...]:
    """The field errors of the validating review, after the mutating one."""
    operation = "UPDATE" if old is not None else "CREATE"
    mutated = ask(mutate_cloneset, request(doc, operation=operation, old=old)).object or doc
    answer = ask(REVIEW, request(mutated, operation=operation, old=old))
    if answer.refusal is None:
        return ()
    assert (answer.refusal.code, answer.refusal.reason) == (422, "Invalid")
    assert answer.refusal.details is not None
    return answer.refusal.details.causes


# Defaults


def test_an_object_without_a_strategy_gets_all_defaults() -> None:
    """cloneset case 1"""
    doc = document()
    del doc["spec"]["replicas"]
    result = add_defaults(doc)["spec"]
    assert (result["replicas"], result["revisionHistoryLimit"]) == (1, 10)
    assert result["updateStrategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "podUpdatePolicy": "ReCreate",
            "partition": 0,
            "maxUnavailable": "20%",
            "maxSurge": 0,
        },
    }
    (crd,) = crds_of([CLONE_SETS])
    schema = crd["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert schema["scaleStrategy"]["properties"]["enablePVCReuse"]["default"] is False


def test_existing_values_are_not_defaulted() -> None:
    given = {"podUpdatePolicy": "InPlaceOnly", "partition": "10%", "maxUnavailable": 3, "maxSurge": 0}
    result = add_defaults(document(replicas=0, revisionHistoryLimit=0, **rolling(**given)))["spec"]
    assert (result["replicas"], result["revisionHistoryLimit"]) == (0, 0)
    assert result["updateStrategy"]["rollingUpdate"] == {**given, "inPlaceUpdateStrategy": {}}


def test_nothing_is_defaulted_under_on_delete() -> None:
    strategy = {"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}}
    assert add_defaults(document(updateStrategy=strategy))["spec"]["updateStrategy"] == strategy


def test_a_scatter_term_without_a_value_gets_an_empty_one() -> None:
    result = add_defaults(document(**rolling(scatterStrategy=[{"key": "a"}])))
    terms = result["spec"]["updateStrategy"]["rollingUpdate"]["scatterStrategy"]
    assert terms == [{"key": "a", "value": ""}]


def test_defaulting_does_not_modify_the_given_document() -> None:
    doc = document(**rolling(scatterStrategy=[{"key": "a"}]))
    before = copy.deepcopy(doc)
    add_defaults(doc)
    assert doc == before


def test_templates_get_the_defaults_of_pods_but_images_are_always_pulled() -> None:
    """cloneset case 18"""
    given = template(
        "nginx:1.25",
        initContainers=[{"name": "init", "image": "busybox:1.36"}, {"name": "last", "image": "r:5000/x"}],
        volumes=[
            {"name": "scratch"},
            {"name": "host", "hostPath": {"path": "/x"}},
            {"name": "conf", "configMap": {"name": "c"}},
            {
                "name": "token",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "t"}},
                        {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "x"}}]}},
                    ]
                },
            },
        ],
    )
    given["spec"]["containers"][0] |= {
        "ports": [{"containerPort": 80}],
        "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "livenessProbe": {"httpGet": {"port": 80}},
        "lifecycle": {"preStop": {"httpGet": {"port": 81}}},
        "resources": {"requests": {"cpu": "100u", "memory": "1Gi"}},
    }
    spec = add_defaults(document(template=given))["spec"]["template"]["spec"]
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["securityContext"] == {}
    assert spec["schedulerName"] == "default-scheduler"
    assert "enableServiceLinks" not in spec
    assert spec["containers"] == [
        {
            "name": "main",
            "image": "nginx:1.25",
            "imagePullPolicy": "Always",
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "env": [
                {
                    "name": "N",
                    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
                }
            ],
            "livenessProbe": {
                "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                "timeoutSeconds": 1,
                "periodSeconds": 10,
                "successThreshold": 1,
                "failureThreshold": 3,
            },
            "lifecycle": {"preStop": {"httpGet": {"port": 81, "path": "/", "scheme": "HTTP"}}},
            "resources": {"requests": {"cpu": "1m", "memory": "1Gi"}},
        }
    ]
    assert [container["imagePullPolicy"] for container in spec["initContainers"]] == [
        "IfNotPresent",
        "Always",
    ]
    scratch, host, conf, token = spec["volumes"]
    assert scratch == {"name": "scratch", "emptyDir": {}}
    assert host["hostPath"] == {"path": "/x", "type": ""}
    assert conf["configMap"] == {"name": "c", "defaultMode": 420}
    assert token["projected"]["sources"] == [
        {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
        {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}]}},
    ]


def test_ephemeral_containers_get_no_pull_and_message_defaults() -> None:
    given = template(
        ephemeralContainers=[{"name": "debug", "image": "busybox", "ports": [{"containerPort": 1}]}]
    )
    (result,) = add_defaults(document(template=given))["spec"]["template"]["spec"]["ephemeralContainers"]
    assert result == {
        "name": "debug",
        "image": "busybox",
        "ports": [{"containerPort": 1, "protocol": "TCP"}],
    }


def test_claim_templates_get_defaults_only_where_they_change() -> None:
    """cloneset case 17"""
    # given
    old = document(volumeClaimTemplates=[{"metadata": {"name": "data"}}])
    # then
    same = document(volumeClaimTemplates=[{"metadata": {"name": "data"}}], replicas=7)
    assert add_defaults(same, old=old)["spec"]["volumeClaimTemplates"] == [{"metadata": {"name": "data"}}]
    new = document(volumeClaimTemplates=[{"metadata": {"name": "logs"}}])
    (claim,) = add_defaults(new, old=old)["spec"]["volumeClaimTemplates"]
    assert claim["status"] == {"phase": "Pending"}


def test_removed_templates_are_not_restored() -> None:
    old = document(volumeClaimTemplates=[{"metadata": {"name": "data"}}])
    assert "volumeClaimTemplates" not in add_defaults(document(), old=old)["spec"]
    assert "template" not in add_defaults({**document(), "spec": None}, old=old)["spec"]


def test_claim_templates_get_a_phase_and_whole_amounts_but_no_volume_mode() -> None:
    claims = [{"metadata": {"name": "d"}, "spec": {"resources": {"requests": {"storage": "1500u"}}}}]
    (result,) = add_defaults(document(volumeClaimTemplates=claims))["spec"]["volumeClaimTemplates"]
    assert result == {
        "metadata": {"name": "d"},
        "spec": {"resources": {"requests": {"storage": "2m"}}},
        "status": {"phase": "Pending"},
    }


def test_an_unchanged_template_gets_no_defaults() -> None:
    """cloneset case 17"""
    old = document()
    new = document(replicas=7)
    assert add_defaults(new, old=old)["spec"]["template"] == old["spec"]["template"]
    new["spec"]["template"] = template("nginx:2")
    assert "dnsPolicy" in add_defaults(new, old=old)["spec"]["template"]["spec"]


def test_the_gates_switch_template_defaults_off_and_host_ports_on() -> None:
    off = DefaultingSettings(template_no_defaults=True)
    assert add_defaults(document(), settings=off)["spec"]["template"] == template()
    given = template(hostNetwork=True)
    given["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]
    on = DefaultingSettings(host_network_ports=True)
    result = add_defaults(document(template=given), settings=on)["spec"]["template"]["spec"]
    assert result["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]
    result = add_defaults(document(template=given))["spec"]["template"]["spec"]
    assert "hostPort" not in result["containers"][0]["ports"][0]


def test_an_object_with_all_defaults_is_not_changed() -> None:
    doc = add_defaults(document())
    assert ask(mutate_cloneset, request(doc)) == ALLOWED
    assert ask(mutate_cloneset, request(document())).object == doc
    off = build_mutating_review(DefaultingSettings(template_no_defaults=True))
    assert ask(off, request(document())).object != doc


# Validation


@pytest.mark.parametrize("spec", ACCEPTED)
def test_a_valid_spec_is_accepted(spec: dict[str, Any]) -> None:
    """cloneset cases 12 and 13; 9.2.2 (surge counts), 9.2.3 (OnDelete is not checked for amounts)"""
    assert causes(document(**spec)) == ()


@pytest.mark.parametrize(("spec", "field", "reason"), REFUSED)
def test_each_rule_names_its_field(spec: dict[str, Any], field: str, reason: str) -> None:
    """cloneset cases 9, 12, 13, 14; section 5.1"""
    result = causes(document(**spec))
    assert [(cause.field, cause.reason) for cause in result] == [(field, f"FieldValue{reason}")], result


def test_all_errors_are_reported_in_one_message() -> None:
    doc = document(replicas=-1, **rolling(partition="x", maxUnavailable="y"))
    answer = ask(validate_cloneset, request(doc))
    assert answer.refusal is not None
    assert answer.refusal.details is not None
    assert [cause.field for cause in answer.refusal.details.causes] == [
        "spec.replicas",
        f"{BLOCK}.partition",
        f"{BLOCK}.maxUnavailable",
    ]
    assert answer.refusal.message.startswith('CloneSet.apps.kruise.io "web" is invalid: [spec.replicas: ')
    assert 'Invalid value: "x": ' in answer.refusal.message


def test_missing_required_fields_are_named() -> None:
    answer = ask(validate_cloneset, request({"metadata": None, "spec": None}))
    assert answer.refusal is not None
    assert answer.refusal.details is not None
    assert [cause.field for cause in answer.refusal.details.causes] == [
        "metadata.name",
        "spec.selector",
        "spec.template",
    ]


def test_each_pod_that_is_listed_twice_is_named_once() -> None:
    result = causes(document(scaleStrategy={"podsToDelete": ["b", "a", "b", "c", "a", "b"]}))
    assert [cause.message for cause in result] == [
        f'Invalid value: "{name}": is listed more than once' for name in ("b", "a")
    ]


def test_a_very_long_list_of_weights_is_refused_unless_it_is_stored_already() -> None:
    # given
    terms = [{"weight": 1, "matchSelector": {"matchLabels": {"a": f"v{number}"}}} for number in range(257)]
    doc = document(**rolling(priorityStrategy={"weightPriority": terms}))
    # then
    (cause,) = causes(doc)
    assert cause.field == f"{BLOCK}.priorityStrategy.weightPriority"
    assert cause.message == "Too many: 257: must have at most 256 items"
    assert causes(doc, old=doc) == ()


def test_an_unchanged_spec_is_not_checked_again() -> None:
    # given a set that was created with 0 replicas, and that `kubectl scale` has scaled out
    created = document(replicas=3, **rolling(maxUnavailable=0, maxSurge=0))
    stored = ask(mutate_cloneset, request(created)).object or created
    assert [cause.field for cause in causes(stored)] == [f"{BLOCK}.maxUnavailable"]
    # then its labels can change
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"team": "a"}}}
    assert causes(labelled, old=stored) == ()
    labelled["metadata"]["labels"] = {"team": "a b"}
    assert [cause.field for cause in causes(labelled, old=stored)] == ["metadata.labels"]


def test_shares_of_negative_replicas_are_shares_of_zero() -> None:
    shares = causes(document(replicas=-1, **rolling(partition="150%", maxSurge="-150%")))
    assert [cause.field for cause in shares] == ["spec.replicas"]


def test_an_invalid_dns_name_and_invalid_labels_are_refused() -> None:
    doc = document()
    doc["metadata"] |= {"name": "Web_1", "labels": {"a": "no spaces"}, "annotations": {"/": "x"}}
    assert {cause.field for cause in causes(doc)} == {
        "metadata.name",
        "metadata.labels",
        "metadata.annotations",
    }


def test_the_selector_cannot_be_changed() -> None:
    """cloneset case 7"""
    new = document(selector={"matchLabels": {"app": "web", "tier": "x"}})
    new["spec"]["template"]["metadata"]["labels"] = {"app": "web", "tier": "x"}
    result = causes(new, old=document())
    assert [(cause.field, cause.reason) for cause in result] == [("spec", "FieldValueForbidden")]
    same = document(selector={"matchLabels": {"app": "web"}, "matchExpressions": []})
    assert causes(same, old=document()) == ()
    expression = {"key": "app", "operator": "Exists"}
    stored = document(selector={"matchExpressions": [expression]})
    same = document(selector={"matchExpressions": [{**expression, "values": []}]})
    assert causes(same, old=stored) == ()


@pytest.mark.parametrize(
    ("selector", "is_admitted"),
    [
        ({"matchLabels": {"app": "web"}, "matchExpressions": []}, True),
        ({"matchLabels": {"app": "third"}}, False),
    ],
)
def test_a_changed_selector_may_only_return_to_the_managed_one(
    selector: dict[str, Any], is_admitted: bool
) -> None:
    """daemonset cases 66 and 67, for CloneSet"""
    # given a stored object whose selector was changed past admission, and the controller's condition
    labels = {"app": "web", "tier": "x"} if is_admitted else selector["matchLabels"]
    stored = document(selector={"matchLabels": {"app": "web", "tier": "x"}})
    stored["status"] = {"conditions": [{"type": SELECTOR_MISMATCH, "status": "True", "message": "words"}]}
    # when
    new = document(selector=selector)
    new["spec"]["template"]["metadata"]["labels"] = labels
    # then
    result = [(cause.field, cause.reason) for cause in causes(new, old=stored)]
    assert result == ([] if is_admitted else [("spec", "FieldValueForbidden")])


@pytest.mark.parametrize(
    "change",
    [
        {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
        {"replicas": 9},
        {"lifecycle": {"preDelete": {"finalizersHandler": ["x/y"]}}},
        {"minReadySeconds": 9},
        {"progressDeadlineSeconds": 90},
        {"revisionHistoryLimit": 3},
        {"scaleStrategy": {"podsToDelete": ["gone"]}},
        rolling(paused=True),
        {"template": template("nginx:2")},
    ],
)
def test_all_other_fields_may_change(change: dict[str, Any]) -> None:
    """cloneset cases 8 and 10"""
    assert causes(document(**change), old=document()) == ()


def test_a_deadline_that_can_only_be_missed_is_a_warning() -> None:
    """cloneset case 16 (an error in v1alpha1; a warning in v1beta1, so that stored objects can be changed)"""
    answer = ask(validate_cloneset, request(document(progressDeadlineSeconds=10, minReadySeconds=10)))
    assert answer.refusal is None
    assert answer.warnings[0].startswith("spec.progressDeadlineSeconds: 10 is not greater")


@pytest.mark.parametrize(("deadline_s", "ready_s"), [(11, 10), (2147483647, 2147483647), (None, 10)])
def test_a_satisfiable_or_missing_progress_deadline_gets_no_warning(
    deadline_s: int | None, ready_s: int
) -> None:
    given = document(progressDeadlineSeconds=deadline_s, minReadySeconds=ready_s)
    assert ask(validate_cloneset, request(given)) == ALLOWED


@pytest.mark.parametrize("review", [mutate_cloneset, validate_cloneset])
def test_an_unreadable_object_is_a_bad_request(review: Any) -> None:
    for doc in (document(replicas="five"), {"metadata": {}, "spec": "x"}, None):
        answer = ask(review, request(doc))
        assert answer.refusal is not None
        assert (answer.refusal.code, answer.refusal.reason) == (400, "BadRequest")
    other = Resource("apps.kruise.io", "v9", "clonesets", "CloneSet")
    answer = ask(review, request(document(), resource=other))
    assert answer.refusal is not None
    assert answer.refusal.code == 400


@pytest.mark.parametrize("review", [mutate_cloneset, validate_cloneset])
@pytest.mark.parametrize(
    ("wrong", "place"),
    [
        ({"spec": "x"}, "PodTemplateSpec.spec of type v1.PodSpec"),
        ({"metadata": []}, "PodTemplateSpec.metadata of type v1.ObjectMeta"),
        ({"spec": {"containers": "x"}}, "PodSpec.spec.containers of type []v1.Container"),
        (
            {"spec": {"containers": [{"name": "main", "ports": [{"containerPort": "80"}]}]}},
            "ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
    ],
)
def test_a_template_with_a_value_of_a_wrong_type_is_a_bad_request_that_names_it(
    review: Any, wrong: dict[str, Any], place: str
) -> None:
    """cloneset 4 and 5: a decoding error"""
    refusal = ask(review, request(document(template={**template(), **wrong}))).refusal
    assert refusal is not None
    assert refusal.code == 400
    assert refusal.message.startswith("spec.template: json: cannot unmarshal ")
    assert refusal.message.endswith(place)


def test_a_stored_template_with_a_wrong_type_does_not_block_scaling() -> None:
    # given an object that no webhook reviewed
    stored = document(**bad_container(image=3))
    # then it can be scaled, and corrected
    assert causes(document(**bad_container(image=3), replicas=7), old=stored) == ()
    assert causes(document(), old=stored) == ()
    # but another value of a wrong type is refused
    new = document(**bad_container(image="nginx:1", command="run"))
    refusal = ask(validate_cloneset, request(new, operation="UPDATE", old=stored)).refusal
    assert refusal is not None
    assert refusal.code == 400


@pytest.mark.parametrize(
    "wrong", [{"spec": {"containers": "nginx"}}, {"spec": [None]}, {"metadata": {"labels": 7}}]
)
def test_a_stored_invalid_template_stays_until_it_is_corrected(wrong: dict[str, Any]) -> None:
    stored = document(template={**template(), **wrong})
    # the template does not block scaling, and is kept
    scaled = {**stored, "spec": {**stored["spec"], "replicas": 7}}
    assert causes(scaled, old=stored) == ()
    changed = ask(mutate_cloneset, request(scaled, operation="UPDATE", old=stored)).object or scaled
    assert changed["spec"]["template"] == stored["spec"]["template"]
    # another error is refused
    assert causes({**stored, "spec": {**stored["spec"], "replicas": -1}}, old=stored) != ()
    # and the template can be corrected, with all defaults
    mended = ask(mutate_cloneset, request(document(), operation="UPDATE", old=stored)).object
    assert mended is not None
    assert mended["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert causes(mended, old=stored) == ()


def test_a_stored_template_with_invalid_pods_blocks_only_further_errors() -> None:
    """A rule for pods may be newer than the CloneSet, which then continues as before."""
    context = {"seccompProfile": {"type": "RuntimDefault"}}
    wrong = bad_container(image="nginx:1", securityContext=context)
    place = "spec.template.spec.containers[0].securityContext"
    stored = document(**wrong)
    assert [cause.field for cause in causes(stored)] == [f"{place}.seccompProfile.type"]
    # the stored CloneSet can be scaled, and gets another image
    assert causes(document(**wrong, replicas=7), old=stored) == ()
    assert causes(document(**bad_container(image="nginx:2", securityContext=context)), old=stored) == ()
    # but a further error is refused
    further = document(**bad_container(image="nginx:1", securityContext={**context, "appArmorProfile": {}}))
    assert [cause.field for cause in causes(further, old=stored)] == [f"{place}.appArmorProfile.type"]
    # and the controller does not reject the stored spec
    spec, _ = read_spec(stored["spec"])
    assert KIND.stored is not None
    assert KIND.stored.flaws_of(spec) == ()


def test_a_null_container_counts_as_an_empty_one() -> None:
    doc = document(template={**template(), "spec": {"containers": [None]}})
    stored = ask(mutate_cloneset, request(doc)).object
    assert stored is not None
    assert stored["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"]
    assert [cause.field for cause in causes(doc)][:1] == ["spec.template.spec.containers[0].name"]


@pytest.mark.parametrize("review", [mutate_cloneset, validate_cloneset])
def test_deletions_and_subresources_pass(review: Any) -> None:
    assert ask(review, request(None, operation="DELETE", old=document())) == ALLOWED
    assert ask(review, request(document(replicas=-1), operation="UPDATE", subresource="status")) == ALLOWED


@pytest.mark.parametrize(("changes_spec", "is_allowed"), [(False, True), (True, False)])
def test_an_invalid_object_that_is_being_deleted_can_lose_its_finalizers(
    changes_spec: bool, is_allowed: bool
) -> None:
    """Otherwise the garbage collector could never complete a deletion with --cascade=orphan."""
    # given a stored object that admission would refuse, and that is being deleted
    stored = document(selector={"matchLabels": {"app": "other"}})
    stored["metadata"] |= {"deletionTimestamp": "2026-01-31T12:00:00Z", "finalizers": ["orphan"]}
    # when
    new = document(selector={"matchLabels": {"app": "other"}}, **({"replicas": 9} if changes_spec else {}))
    new["metadata"] |= {"deletionTimestamp": "2026-01-31T12:00:00Z"}
    # then
    assert (causes(new, old=stored) == ()) == is_allowed
