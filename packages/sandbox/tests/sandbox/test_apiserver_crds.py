"""CRDs: from a definition to a served resource, and the rules for its objects."""

from typing import Any

import pytest

from support.api import CRDS, JSON_PATCH, STRATEGIC, WIDGETS, Api, Document, widget, widget_crd

WIDGET_CRD = f"{CRDS}/widgets.example.com"


async def with_widgets(**options: Any) -> Api:
    api = Api.fresh()
    reply = await api.post(CRDS, widget_crd(**options))
    assert reply.status == 201, reply.doc
    return api


def conditions(doc: Document) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in doc["status"]["conditions"]}


async def test_a_crd_is_served_as_soon_as_its_creation_is_answered() -> None:
    # given
    api = await with_widgets()
    # when
    listed = await api.get(WIDGETS)
    crd = await api.get(WIDGET_CRD)
    # then
    assert (listed.status, listed.names, listed.doc["kind"]) == (200, [], "WidgetList")
    assert conditions(crd.doc) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert crd.doc["status"]["acceptedNames"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
    }
    assert crd.doc["status"]["storedVersions"] == ["v1"]
    assert crd.doc["spec"]["conversion"] == {"strategy": "None"}


def _without(path: str) -> Any:
    def change(spec: Document) -> None:
        *parents, last = path.split(".")
        result: Any = spec
        for step in parents:
            result = result[int(step)] if step.isdigit() else result[step]
        result.pop(last)

    return change


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        (_without("scope"), "spec.scope", "Required value"),
        (
            lambda spec: spec.update(scope="Galaxy"),
            "spec.scope",
            'Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
        ),
        (_without("names.kind"), "spec.names.kind", "Required value"),
        (lambda spec: spec["names"].update(shortNames=["UP"]), "spec.names.shortNames[0]", "DNS-1035"),
        (
            lambda spec: spec.update(versions=[]),
            "spec.versions",
            "must have exactly one version marked as storage version",
        ),
        (
            lambda spec: spec["versions"][1].update(storage=True),
            "spec.versions",
            "must have exactly one version marked as storage version",
        ),
        (
            lambda spec: spec["versions"][1].update(name="v1"),
            "spec.versions",
            "must contain unique version names",
        ),
        (_without("versions.0.schema"), "spec.versions[0].schema.openAPIV3Schema", "schemas are required"),
        (
            _without("versions.0.schema.openAPIV3Schema.properties.spec.type"),
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].type",
            "must not be empty",
        ),
        (
            lambda spec: spec["versions"][0]["subresources"]["scale"].update(specReplicasPath=".status.x"),
            "spec.versions[0].subresources.scale.specReplicasPath",
            "should be a json path under .spec",
        ),
        (
            lambda spec: spec["versions"][0].update(
                additionalPrinterColumns=[{"name": "a", "type": "blob", "jsonPath": ".x"}]
            ),
            "spec.versions[0].additionalPrinterColumns[0].type",
            "must be one of boolean,date,integer,number,string",
        ),
        (
            lambda spec: spec.update(conversion={"strategy": "Magic"}),
            "spec.conversion.strategy",
            "Unsupported value",
        ),
        (
            lambda spec: spec.update(conversion={"strategy": "Webhook"}),
            "spec.conversion.webhookClientConfig",
            "required when strategy is set to Webhook",
        ),
    ],
)
async def test_a_crd_that_breaks_a_rule_is_refused_with_the_field(change: Any, field: str, text: str) -> None:
    # given
    api = Api.fresh()
    crd = widget_crd()
    change(crd["spec"])
    # when
    reply = await api.post(CRDS, crd)
    # then
    assert (reply.status, reply.reason) == (422, "Invalid"), reply.doc
    assert any(cause["field"] == field and text in cause["message"] for cause in reply.causes), reply.causes
    assert (await api.get(WIDGETS)).status == 404


async def test_the_name_of_a_crd_follows_from_its_plural_and_group() -> None:
    # given
    api = Api.fresh()
    # when
    reply = await api.post(CRDS, {**widget_crd(), "metadata": {"name": "gadgets.example.com"}})
    # then
    assert reply.message == (
        'CustomResourceDefinition.apiextensions.k8s.io "gadgets.example.com" is invalid: '
        "metadata.name: Invalid value: "
        '"gadgets.example.com": must be spec.names.plural+"."+spec.group'
    )


async def test_names_that_are_taken_keep_a_crd_from_being_served_until_they_are_free() -> None:
    # given
    api = await with_widgets()
    # when
    await api.post(CRDS, widget_crd(plural="gadgets", kind="Widget"))
    waiting = await api.get(f"{CRDS}/gadgets.example.com")
    unserved = await api.get("/apis/example.com/v1/gadgets")
    await api.delete(WIDGET_CRD)
    served = await api.get("/apis/example.com/v1/gadgets")
    # then
    assert conditions(waiting.doc)["NamesAccepted"] == ("False", "ListKindConflict")
    assert conditions(waiting.doc)["Established"] == ("False", "NotAccepted")
    assert unserved.status == 404
    assert served.status == 200


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"spec": {"scope": "Cluster"}}, "spec.scope"),
        ({"spec": {"names": {"kind": "Gizmo"}}}, "spec.names.kind"),
        ({"spec": {"group": "other.com"}}, "spec.group"),
        ({"spec": {"names": {"plural": "gizmos"}}}, "spec.names.plural"),
    ],
)
async def test_the_names_and_scope_of_a_crd_are_immutable(patch: Document, field: str) -> None:
    # given
    api = await with_widgets()
    # when
    reply = await api.patch(WIDGET_CRD, patch)
    # then
    assert reply.status == 422
    assert [cause["field"] for cause in reply.causes] == [field]
    assert reply.causes[0]["message"].endswith("field is immutable")


async def test_a_version_among_the_stored_ones_cannot_be_removed() -> None:
    # given
    api = await with_widgets()
    move = [
        {"op": "replace", "path": "/spec/versions/1/storage", "value": True},
        {"op": "remove", "path": "/spec/versions/0"},
    ]
    # when
    reply = await api.patch(WIDGET_CRD, move, JSON_PATCH)
    # then
    assert reply.causes[0]["field"] == "status.storedVersions[0]"
    assert reply.causes[0]["message"] == 'Invalid value: "v1": must appear in spec.versions'


async def test_a_new_storage_version_leaves_stored_objects_readable_in_every_version() -> None:
    # given
    api = await with_widgets()
    await api.post(WIDGETS, widget("old"))
    move = [
        {"op": "replace", "path": "/spec/versions/0/storage", "value": False},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": True},
    ]
    # when
    crd = await api.patch(WIDGET_CRD, move, JSON_PATCH)
    await api.post(WIDGETS, widget("new"))
    listed = {
        version: [item["apiVersion"] for item in (await api.get(WIDGETS.replace("v1", version))).doc["items"]]
        for version in ("v1", "v1beta1")
    }
    # then
    assert crd.doc["status"]["storedVersions"] == ["v1", "v1beta1"]
    assert listed == {"v1": ["example.com/v1"] * 2, "v1beta1": ["example.com/v1beta1"] * 2}


async def test_a_version_can_be_stopped_serving() -> None:
    # given
    api = await with_widgets()
    # when
    await api.patch(
        WIDGET_CRD, [{"op": "replace", "path": "/spec/versions/1/served", "value": False}], JSON_PATCH
    )
    # then
    assert (await api.get(WIDGETS)).status == 200
    assert (await api.get(WIDGETS.replace("v1", "v1beta1"))).status == 404


# --- objects


async def test_an_object_is_the_same_in_all_versions() -> None:
    # given
    api = await with_widgets()
    beta = WIDGETS.replace("v1", "v1beta1")
    stream = await api.watch(WIDGETS, resourceVersion=api.now())
    # when
    made = await api.post(beta, widget("w", version="v1beta1"))
    reply = await api.get(f"{WIDGETS}/w")
    line = await anext(stream)
    await stream.aclose()
    # then
    assert made.doc["apiVersion"] == "example.com/v1beta1"
    assert reply.doc == {**made.doc, "apiVersion": "example.com/v1"}
    assert b'"apiVersion":"example.com/v1",' in line


async def test_schemas_default_prune_and_validate() -> None:
    # given
    api = await with_widgets()
    # when
    made = await api.post(WIDGETS, widget("w", colour="red"))
    strict = await api.call("POST", WIDGETS, widget("s", colour="red"), query={"fieldValidation": "Strict"})
    invalid = await api.post(WIDGETS, widget("i", size="huge", replicas="many"))
    # then
    assert made.doc["spec"] == {"size": "small", "replicas": 1}
    assert made.headers["warning"] == '299 - "unknown field \\"spec.colour\\""'
    assert strict.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown '
        'field "spec.colour"'
    )
    assert {cause["field"] for cause in invalid.causes} >= {"spec.size", "spec.replicas"}
    assert invalid.message.startswith('Widget.example.com "i" is invalid: [')
    assert invalid.doc["details"]["group"] == "example.com"
    assert invalid.doc["details"]["kind"] == "Widget"


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"kind": ""}, 400, "Object 'Kind' is missing in"),
        (
            {"apiVersion": ""},
            400,
            "the API version in the data () does not match the expected API version (example.com/v1)",
        ),
        (
            {"apiVersion": "example.com/v1beta1"},
            400,
            "the API version in the data (example.com/v1beta1) does not match",
        ),
        (
            {"kind": "Gadget"},
            422,
            'Gadget.example.com "w" is invalid: kind: Invalid value: "Gadget": must be Widget',
        ),
        (
            {"metadata": {"name": 5}},
            400,
            "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string",
        ),
        ({"metadata": {"name": "Up_per"}}, 422, "metadata.name: Invalid value"),
        ({"metadata": "x"}, 400, "json: cannot unmarshal string into"),
    ],
)
async def test_a_custom_object_needs_its_kind_and_api_version(
    change: Document, status: int, text: str
) -> None:
    # given
    api = await with_widgets()
    # when
    reply = await api.post(WIDGETS, {**widget("w"), **change})
    # then
    assert reply.status == status, reply.doc
    assert text in reply.message


async def test_status_and_spec_are_written_through_their_own_endpoints() -> None:
    # given
    api = await with_widgets()
    made = await api.post(WIDGETS, widget("w", status={"replicas": 7}))
    # when
    main = await api.patch(f"{WIDGETS}/w", {"spec": {"replicas": 3}, "status": {"replicas": 8}})
    status = await api.patch(
        f"{WIDGETS}/w/status",
        {"spec": {"replicas": 9}, "metadata": {"labels": {"a": "b"}}, "status": {"replicas": 2}},
    )
    # then
    assert "status" not in made.doc
    assert (made.meta["generation"], main.meta["generation"], status.meta["generation"]) == (1, 2, 2)
    assert "status" not in main.doc
    assert status.doc["spec"]["replicas"] == 3
    assert status.doc["status"] == {"replicas": 2}
    assert "labels" not in status.meta


async def test_the_status_is_a_normal_field_without_the_subresource() -> None:
    # given
    api = await with_widgets(subresources=False)
    # when
    made = await api.post(WIDGETS, widget("w", status={"replicas": 7}))
    changed = await api.patch(f"{WIDGETS}/w", {"status": {"replicas": 8}})
    endpoint = await api.get(f"{WIDGETS}/w/status")
    # then
    assert made.doc["status"] == {"replicas": 7}
    assert (changed.doc["status"], changed.meta["generation"]) == ({"replicas": 8}, 2)
    assert (endpoint.status, endpoint.message) == (404, 'widgets.example.com "w" not found')


async def test_custom_resources_do_not_support_strategic_merge() -> None:
    # given
    api = await with_widgets()
    await api.post(WIDGETS, widget("w"))
    # when
    reply = await api.patch(f"{WIDGETS}/w", {"spec": {"replicas": 3}}, STRATEGIC)
    # then
    assert (reply.status, reply.reason) == (415, "UnsupportedMediaType")
    assert reply.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


async def test_custom_objects_are_replaced_only_with_their_resource_version() -> None:
    # given
    api = await with_widgets()
    made = await api.post(WIDGETS, widget("w"))
    # when
    blind = await api.put(f"{WIDGETS}/w", widget("w"))
    seeing = await api.put(
        f"{WIDGETS}/w",
        {**widget("w", replicas=4), "metadata": {"name": "w", "resourceVersion": made.revision}},
    )
    # then
    assert "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update" in blind.message
    assert seeing.doc["spec"]["replicas"] == 4


async def test_an_unqualified_finalizer_is_advised_against() -> None:
    # given
    api = await with_widgets()
    # when
    reply = await api.post(WIDGETS, {**widget("w"), "metadata": {"name": "w", "finalizers": ["mine"]}})
    # then
    assert reply.status == 201
    assert "prefer a domain-qualified finalizer name" in reply.headers["warning"]


async def test_cluster_scoped_resources_have_no_namespace() -> None:
    # given
    api = await with_widgets(scope="Cluster")
    path = "/apis/example.com/v1/widgets"
    # when
    made = await api.post(path, {**widget("w"), "metadata": {"name": "w", "namespace": "default"}})
    # then
    assert made.status == 201
    assert "namespace" not in made.meta
    assert (await api.get(f"{path}/w")).status == 200
    assert (await api.get(f"{WIDGETS}/w")).status == 404


# --- the end


async def test_the_objects_of_a_crd_are_deleted_with_it() -> None:
    # given
    api = await with_widgets()
    await api.post(WIDGETS, widget("w"))
    stream = await api.watch(WIDGETS, resourceVersion=api.now())
    # when
    reply = await api.delete(WIDGET_CRD)
    lines = [line async for line in stream]
    # then
    assert reply.doc["kind"] == "CustomResourceDefinition"
    assert reply.meta["deletionTimestamp"]
    assert len(lines) == 1
    assert lines[0].startswith(b'{"type":"DELETED"')
    assert (await api.get(WIDGET_CRD)).status == 404
    assert (await api.get(WIDGETS)).status == 404


async def test_a_terminating_crd_waits_for_finalizers_and_accepts_no_new_objects() -> None:
    # given
    api = await with_widgets()
    await api.post(WIDGETS, {**widget("w"), "metadata": {"name": "w", "finalizers": ["a.b/c"]}})
    # when
    await api.delete(WIDGET_CRD)
    waiting = await api.get(WIDGET_CRD)
    refused = await api.post(WIDGETS, widget("x"))
    marked = await api.get(f"{WIDGETS}/w")
    await api.patch(f"{WIDGETS}/w", {"metadata": {"finalizers": None}})
    # then
    assert waiting.meta["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(waiting.doc)["Terminating"] == ("True", "InstanceDeletionInProgress")
    assert (refused.status, refused.message) == (
        405,
        "create not allowed while custom resource definition is terminating",
    )
    assert marked.meta["deletionTimestamp"]
    assert (await api.get(WIDGET_CRD)).status == 404


async def test_a_recreated_crd_has_no_objects() -> None:
    # given
    api = await with_widgets()
    await api.post(WIDGETS, widget("w"))
    await api.delete(WIDGET_CRD)
    # when
    reply = await api.post(CRDS, widget_crd())
    # then
    assert reply.status == 201
    assert (await api.get(WIDGETS)).names == []


async def test_a_server_over_a_storage_with_crds_serves_them() -> None:
    # given
    first = await with_widgets()
    await first.post(WIDGETS, widget("w"))
    # when
    second = Api.fresh(seed=2, storage=first.server.storage)
    # then
    assert (await second.get(WIDGETS)).names == ["w"]
    assert second.now() == first.now()


APPROVED = "api-approved.kubernetes.io"


@pytest.mark.parametrize(
    ("group", "approval", "is_created"),
    [
        ("x.k8s.io", "", False),
        ("k8s.io", "", False),
        ("apps.kubernetes.io", "later", False),
        ("x.k8s.io", "unapproved, only for tests", True),
        ("x.k8s.io", "https://[", False),
        ("x.k8s.io", "https://example.com/approval", True),
        ("notk8s.io", "", True),
    ],
)
async def test_a_crd_in_a_group_of_kubernetes_needs_an_approval(
    group: str, approval: str, is_created: bool
) -> None:
    # given
    crd = widget_crd()
    crd["metadata"] = {"name": f"widgets.{group}", "annotations": {APPROVED: approval} if approval else {}}
    crd["spec"]["group"] = group
    # when
    reply = await Api.fresh().post(CRDS, crd)
    # then
    assert reply.status == (201 if is_created else 422)
    if not is_created:
        (cause,) = reply.doc["details"]["causes"]
        assert cause["field"] == f"metadata.annotations[{APPROVED}]"


async def test_a_crd_without_an_approval_may_stay_so_and_keeps_the_one_it_has() -> None:
    # given a CRD in a group of Kubernetes that is approved
    api, crd = Api.fresh(), widget_crd()
    crd["metadata"] = {"name": "widgets.x.k8s.io", "annotations": {APPROVED: "unapproved, only for tests"}}
    crd["spec"]["group"] = "x.k8s.io"
    await api.post(CRDS, crd)
    path = f"{CRDS}/widgets.x.k8s.io"
    # when
    other = await api.patch(path, {"metadata": {"labels": {"a": "b"}}})
    without = await api.patch(path, {"metadata": {"annotations": {APPROVED: None}}})
    # then
    assert (other.status, without.status) == (200, 422)
