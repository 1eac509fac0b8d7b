"""Built-in kinds: behaviour that the recorded answers do not cover (addresses, generations, rare input)."""

from typing import Any

import pytest

from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.pod_rules import field_errors as causes
from pykruise.kube.resources import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    JOBS,
    NAMESPACES,
    NODES,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from pykruise.kube.schemas.builtin_types import fields_of, find_decoder
from pykruise.kube.schemas.releases import release_of
from pykruise.sandbox.apiserver.builtin import DecodeError, find_strategy
from pykruise.sandbox.apiserver.builtin.cluster_objects import finalize_namespace


def made(resource: Resource, *, uid: str = "u-1", **members: Any) -> Document:
    """A new object as it is stored."""
    strategy = find_strategy(resource)
    metadata = {"name": "x", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}
    doc, unknown = strategy.decode(
        {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **members}
    )
    assert unknown == []
    return strategy.prepare_create(strategy.default(doc))


def updated(resource: Resource, old: Document, new: Document) -> Document:
    strategy = find_strategy(resource)
    doc, _ = strategy.decode(new)
    return strategy.prepare_update(strategy.default(doc), old)


def service(uid: str = "u-1", **spec: Any) -> Document:
    return made(SERVICES, uid=uid, spec={"ports": [{"port": 80}], **spec})


def template(image: str = "i:1") -> Document:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": image}]}}


SELECTOR = {"matchLabels": {"a": "b"}}


def test_a_service_gets_its_own_stable_address() -> None:
    # given
    first, second = service("u-1"), service("u-2")
    # then
    assert first["spec"]["clusterIP"].startswith("10.96.")
    assert first["spec"]["clusterIPs"] == [first["spec"]["clusterIP"]]
    assert (first["spec"]["ipFamilies"], first["spec"]["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    assert first["spec"]["clusterIP"] != second["spec"]["clusterIP"]
    assert service("u-1") == first


def test_an_update_without_the_address_keeps_it_and_another_is_refused() -> None:
    # given
    old = service()
    bare = {**old, "spec": {"ports": [{"port": 81}]}}
    # when
    kept = updated(SERVICES, old, bare)
    # then
    assert kept["spec"]["clusterIP"] == old["spec"]["clusterIP"]
    assert find_strategy(SERVICES).validate_update(kept, old) == []
    # when the update has another address
    other = updated(
        SERVICES,
        old,
        {**old, "spec": {**old["spec"], "clusterIP": "10.96.0.99", "clusterIPs": ["10.96.0.99"]}},
    )
    # then
    (cause,) = find_strategy(SERVICES).validate_update(other, old)
    assert cause.field == "spec.clusterIPs[0]"


def test_a_headless_service_has_no_address() -> None:
    assert service(clusterIP="None")["spec"]["clusterIPs"] == ["None"]


def test_an_external_name_has_neither_address_nor_family() -> None:
    # when
    spec = made(SERVICES, spec={"type": "ExternalName", "externalName": "a.b"})["spec"]
    # then
    assert spec.keys().isdisjoint({"clusterIP", "clusterIPs", "ipFamilies", "internalTrafficPolicy"})


def test_a_service_that_becomes_an_external_name_loses_its_addresses() -> None:
    # given
    old = service(type="NodePort")
    outside = {"type": "ExternalName", "externalName": "example.com"}
    # when
    new = updated(SERVICES, old, {**old, "spec": {**old["spec"], **outside}})
    # then only what the user sets remains
    assert find_strategy(SERVICES).validate_update(new, old) == []
    ports = [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert new["spec"] == {**outside, "ports": ports, "sessionAffinity": "None"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 29999}]}, "spec.ports[0].nodePort"),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 32768}]}, "spec.ports[0].nodePort"),
        ({"ipFamilyPolicy": "RequireDualStack", "selector": {"a": "b"}}, "spec.ipFamilyPolicy"),
        ({"ipFamilyPolicy": "RequireDualStack", "clusterIP": "None"}, None),
        ({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30000}]}, None),
    ],
)
def test_a_service_may_only_have_what_the_cluster_has(spec: Document, field: str | None) -> None:
    errors = find_strategy(SERVICES).validate_create(service(**spec))
    assert [error.field for error in errors] == ([field] if field else [])


@pytest.mark.parametrize(
    ("minor", "fields"), [("1.32", ["spec"]), ("1.37", ["spec.serviceName", "spec.podManagementPolicy"])]
)
def test_each_fixed_field_of_a_stateful_set_is_refused(minor: str, fields: list[str]) -> None:
    # given
    strategy = find_strategy(STATEFUL_SETS, release_of(minor))
    old = made(STATEFUL_SETS, spec={"serviceName": "s", "selector": SELECTOR, "template": template()})
    # when
    changes = {"serviceName": "t", "podManagementPolicy": "Parallel", "minReadySeconds": 1}
    errors = strategy.validate_update({**old, "spec": {**old["spec"], **changes}}, old)
    # then
    assert [error.field for error in errors] == fields


@pytest.mark.parametrize(("minor", "is_allowed"), [("1.32", False), ("1.37", True)])
def test_the_history_limit_of_a_stateful_set_may_change(minor: str, is_allowed: bool) -> None:
    strategy = find_strategy(STATEFUL_SETS, release_of(minor))
    old = made(STATEFUL_SETS, spec={"serviceName": "s", "selector": SELECTOR, "template": template()})
    new = {**old, "spec": {**old["spec"], "revisionHistoryLimit": 3}}
    assert (strategy.validate_update(new, old) == []) is is_allowed


def test_a_stateful_set_cannot_roll_out_without_an_unavailable_pod() -> None:
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0}}
    spec = {"serviceName": "s", "selector": SELECTOR, "template": template(), "updateStrategy": update}
    (error,) = find_strategy(STATEFUL_SETS).validate_create(made(STATEFUL_SETS, spec=spec))
    assert (error.field, error.message) == (
        "spec.updateStrategy.rollingUpdate.maxUnavailable",
        "Invalid value: 0: cannot be 0",
    )


@pytest.mark.parametrize(
    ("rules", "field"),
    [
        ({"stabilizationWindowSeconds": 3601}, "stabilizationWindowSeconds"),
        ({"stabilizationWindowSeconds": -1}, "stabilizationWindowSeconds"),
        ({"selectPolicy": "Sometimes"}, "selectPolicy"),
        ({"policies": [{"type": "Some", "value": 1, "periodSeconds": 1}]}, "policies[0].type"),
        ({"policies": [{"type": "Pods", "value": 0, "periodSeconds": 1}]}, "policies[0].value"),
        ({"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1801}]}, "policies[0].periodSeconds"),
    ],
)
def test_the_behavior_of_an_autoscaler_must_be_valid(rules: Document, field: str) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 5, "behavior": {"scaleUp": rules}}
    doc = made(HORIZONTAL_POD_AUTOSCALERS, spec=spec)
    errors = find_strategy(HORIZONTAL_POD_AUTOSCALERS).validate_create(doc)
    assert [error.field for error in errors] == [f"spec.behavior.scaleUp.{field}"]


@pytest.mark.parametrize(("minor", "is_valid"), [("1.32", True), ("1.37", False)])
def test_the_target_of_an_autoscaler_names_a_group(minor: str, is_valid: bool) -> None:
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 5}
    strategy = find_strategy(HORIZONTAL_POD_AUTOSCALERS, release_of(minor))
    doc = made(HORIZONTAL_POD_AUTOSCALERS, spec=spec)
    assert (strategy.validate_create(doc) == []) is is_valid
    # and a stored target may stay
    assert strategy.validate_update({**doc, "spec": {**doc["spec"], "maxReplicas": 6}}, doc) == []


def test_node_ports_are_allocated_once_and_kept() -> None:
    # given
    old = service(type="NodePort", ports=[{"name": "a", "port": 80}, {"name": "b", "port": 81}])
    given = [port["nodePort"] for port in old["spec"]["ports"]]
    assert all(30000 <= port <= 32767 for port in given)
    assert len(set(given)) == 2
    # when
    new = deep_copy(old)
    for port in new["spec"]["ports"]:
        del port["nodePort"]
    # then
    assert [port["nodePort"] for port in updated(SERVICES, old, new)["spec"]["ports"]] == given


def test_a_namespace_is_finalized_through_its_own_subresource_only() -> None:
    # given
    old = made(NAMESPACES)
    assert old["spec"]["finalizers"] == ["kubernetes"]
    assert old["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}
    new = deep_copy(old)
    new["spec"]["finalizers"] = []
    # then
    assert updated(NAMESPACES, old, new)["spec"]["finalizers"] == ["kubernetes"]
    assert finalize_namespace(new, old)["spec"] == {}
    assert old["spec"]["finalizers"] == ["kubernetes"]


def test_a_node_may_be_created_with_its_status() -> None:
    # when
    node = made(NODES, status={"capacity": {"cpu": "4"}})
    # then
    assert node["status"]["allocatable"] == {"cpu": "4"}


def test_string_data_of_a_secret_becomes_data_and_wins() -> None:
    # when
    secret = made(SECRETS, data={"a": "b2xk", "c": "Yw=="}, stringData={"a": "new"})
    # then
    assert secret["data"] == {"a": "bmV3", "c": "Yw=="}
    assert "stringData" not in secret
    assert secret["type"] == "Opaque"


def test_null_in_binary_data_of_a_config_map_counts_as_no_bytes() -> None:
    # given
    config = made(CONFIG_MAPS, binaryData={"a": None})
    # then
    assert find_strategy(CONFIG_MAPS).validate_create(config) == []


def test_a_job_selects_its_pods_by_its_uid() -> None:
    # when
    job = made(
        JOBS,
        spec={"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]}}},
    )
    # then
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}}
    labels = job["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/controller-uid"] == labels["controller-uid"] == "u-1"
    assert labels["job-name"] == "x"
    assert find_strategy(JOBS).validate_create(job) == []


def test_a_job_with_a_manual_selector_is_not_changed() -> None:
    # given
    spec = {
        "manualSelector": True,
        "selector": SELECTOR,
        "template": {**template(), "spec": {**template()["spec"], "restartPolicy": "Never"}},
    }
    # then
    assert made(JOBS, spec=spec)["spec"]["selector"] == SELECTOR


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ({"spec": {"replicas": 9}}, True),
        ({"metadata": {"annotations": {"a": "b"}}}, True),
        ({"metadata": {"labels": {"a": "b"}}}, False),
        ({"status": {"replicas": 3}}, False),
    ],
)
def test_the_generation_of_a_deployment_counts_spec_and_annotations(change: Document, counts: bool) -> None:
    # given
    old = made(DEPLOYMENTS, spec={"selector": SELECTOR, "template": template()})
    new = deep_copy(old)
    for member, fields in change.items():
        new[member] |= fields
    # then
    assert find_strategy(DEPLOYMENTS).is_spec_changed(new, old) is counts


@pytest.mark.parametrize(
    ("resource", "kept"), [(NODES, None), (SERVICES, None), (STATEFUL_SETS, False), (DAEMON_SETS, False)]
)
def test_kinds_without_a_generation_report_no_spec_change(resource: Resource, kept: bool | None) -> None:
    assert find_strategy(resource).is_spec_changed({"spec": {}}, {"spec": {}}) is kept


def test_a_daemon_set_counts_the_changes_of_its_template() -> None:
    # given
    key = "deprecated.daemonset.template.generation"
    old = made(DAEMON_SETS, spec={"selector": SELECTOR, "template": template()})
    assert old["metadata"]["annotations"][key] == "1"
    # when
    same = updated(DAEMON_SETS, old, {**old, "spec": {**old["spec"], "minReadySeconds": 5}})
    changed = updated(DAEMON_SETS, old, {**old, "spec": {**old["spec"], "template": template("i:2")}})
    forged = updated(DAEMON_SETS, old, {**old, "metadata": {**old["metadata"], "annotations": {key: "77"}}})
    # then
    assert [doc["metadata"]["annotations"][key] for doc in (same, changed, forged)] == ["1", "2", "1"]


def test_claims_of_a_stateful_set_are_full_objects() -> None:
    # given
    claim = {"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    # when
    stateful = made(
        STATEFUL_SETS, spec={"selector": SELECTOR, "template": template(), "volumeClaimTemplates": [claim]}
    )
    # then
    (stored,) = stateful["spec"]["volumeClaimTemplates"]
    assert (stored["kind"], stored["apiVersion"]) == ("PersistentVolumeClaim", "v1")
    assert stored["spec"]["volumeMode"] == "Filesystem"
    assert stored["status"] == {"phase": "Pending"}


def test_events_about_cluster_objects_belong_to_the_default_namespace() -> None:
    # given
    strategy = find_strategy(EVENTS)
    event = {"metadata": {"namespace": "default"}, "involvedObject": {"kind": "Node", "name": "n"}}
    # then
    assert strategy.validate_create(event) == []
    assert strategy.validate_create({**event, "metadata": {"namespace": "other"}})


def test_a_status_update_changes_neither_spec_nor_anything_else_of_the_object() -> None:
    # given
    old = {"metadata": {}, "spec": {"a": 1}, "status": {"x": 1}, "data": {"k": "v"}}
    new = {"metadata": {"labels": {"l": "1"}}, "spec": {"a": 2}, "status": {"x": 2}, "extra": 1}
    # when
    kept = find_strategy(NODES).prepare_status_update(deep_copy(new), old)
    # then
    assert kept == {**old, "metadata": new["metadata"], "status": {"x": 2}}


# --- the decoder ---


def test_decoding_leaves_the_body_alone_and_shares_nothing_with_it() -> None:
    # given
    decoder = find_decoder("io.k8s.api.apps.v1.ControllerRevision")
    assert decoder is not None
    body: Document = {"metadata": {"name": "x"}, "data": {"a": [1]}, "bogus": 1}
    before = deep_copy(body)
    # when
    read, unknown = decoder.decode(body)
    read["data"]["a"].append(2)
    # then
    assert body == before
    assert unknown == ["bogus"]


def test_empty_fields_are_dropped_and_those_that_go_always_writes_are_added() -> None:
    # given
    decoder = find_decoder("io.k8s.api.core.v1.Pod")
    assert decoder is not None
    body = {
        "metadata": {"name": "x", "labels": {}, "generation": 0, "annotations": None},
        "spec": {
            "hostNetwork": False,
            "nodeName": "",
            "containers": [{"name": "a", "env": []}],
            "priority": 0,
        },
    }
    # when
    read, _ = decoder.decode(body)
    # then
    assert read == {
        "metadata": {"name": "x"},
        "spec": {"containers": [{"name": "a", "resources": {}}], "priority": 0},
        "status": {},
    }


def test_a_decoded_document_is_decoded_to_itself() -> None:
    # given
    decoder = find_decoder("io.k8s.api.apps.v1.Deployment")
    assert decoder is not None
    body = {"spec": {"template": template(), "selector": SELECTOR, "replicas": 0}}
    # when
    once, _ = decoder.decode(body)
    # then
    assert decoder.decode(once) == (once, [])


def test_kinds_that_refer_to_themselves_are_read() -> None:
    # given a schema in a schema in a schema
    decoder = find_decoder("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")
    assert decoder is not None
    body = {"properties": {"a": {"properties": {"b": {"type": "string", "nope": 1}}}}}
    # when
    _, unknown = decoder.decode(body)
    # then
    assert unknown == ["properties.a.properties.b.nope"]


@pytest.mark.parametrize("body", [[], "text", 3, None, True])
def test_a_document_that_is_not_an_object_is_an_error(body: Any) -> None:
    decoder = find_decoder("io.k8s.api.core.v1.Pod")
    assert decoder is not None
    with pytest.raises(DecodeError, match=r"into Go value of type v1\.Pod"):
        decoder.decode(body)


def test_an_unknown_definition_has_no_decoder_and_no_fields() -> None:
    assert find_decoder("io.k8s.api.core.v1.Nonsense") is None
    assert fields_of("io.k8s.api.core.v1.Nonsense") is None


# --- messages ---


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, '"null"'),
        ('say "hi"\n', '"say \\"hi\\"\\n"'),
        (True, "true"),
        (3, "3"),
        (1.5, "1.5"),
        (3.0, "3"),
        (1e21, "1e+21"),
        (1e-5, "1e-05"),
        (12345678901234567890.0, "12345678901234567000"),
        (
            {"b": [1, None, "x"], "a": {}},
            'map[string]interface {}{"a":map[string]interface {}{}, "b":[]interface {}{1, interface {}(nil), "x"}}',
        ),
    ],
)
def test_values_in_messages_are_formatted_as_in_go(value: Any, shown: str) -> None:
    assert causes.format_shown(value) == shown
