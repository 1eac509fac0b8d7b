"""Discovery and OpenAPI: descriptions of the served resources."""

import json
import random
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from pykruise.kube.resources import Resource
from pykruise.sandbox.apiserver.builtin import BuiltinStrategy, find_strategy
from pykruise.sandbox.apiserver.catalog import (
    Catalog,
    CatalogEntry,
    ServedColumn,
    Subresource,
    list_builtin_entries,
)
from pykruise.sandbox.apiserver.requests.discovery import answer_discovery
from pykruise.sandbox.apiserver.requests.openapi import answer_openapi

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
ROOT = Path(__file__).parents[4]
RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    (files("pykruise.sandbox") / "data" / "discovery.json").read_bytes()
)


def catalog(*extra: CatalogEntry) -> Catalog:
    catalog = Catalog(list_builtin_entries(find_strategy))
    catalog.install(extra)
    return catalog


def widgets(version: str = "v1", **schema: Any) -> CatalogEntry:
    scale = Subresource(
        name="scale", group="autoscaling", version="v1", kind="Scale", verbs=("get", "patch", "update")
    )
    return CatalogEntry(
        resource=Resource("example.com", version, "widgets", "Widget"),
        strategy=BuiltinStrategy(),
        shelf="widgets.example.com",
        storage_version="v1",
        singular="widget",
        list_kind="WidgetList",
        short_names=("wd",),
        categories=("all",),
        verbs=("get", "list", "create", "patch", "update", "delete"),
        subresources={"scale": scale},
        columns=(ServedColumn(name="x"),),
        crd="widgets.example.com",
        schema={"type": "object", "properties": {"spec": {"type": "object", **schema}}},
    )


def answer(path: str, accept: str = "application/json", *extra: CatalogEntry) -> Any:
    return answer_discovery(path, accept, catalog(*extra))


@pytest.mark.parametrize("group_version", RECORDED)
def test_the_resources_of_a_group_version_are_those_of_kubernetes(group_version: str) -> None:
    # given
    path = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    # when
    result = answer(path)
    # then
    recorded = [
        {key: value for key, value in resource.items() if key != "definition"}
        for resource in RECORDED[group_version]
    ]
    assert (result["kind"], result["groupVersion"]) == ("APIResourceList", group_version)
    assert sorted(result["resources"], key=lambda each: each["name"]) == sorted(
        recorded, key=lambda each: each["name"]
    )


def test_the_core_group_is_at_api_and_the_others_at_apis() -> None:
    assert answer("/api")["versions"] == ["v1"]
    groups = answer("/apis")["groups"]
    assert {group["name"] for group in groups} == {name.partition("/")[0] for name in RECORDED if "/" in name}
    assert answer("/apis/apps")["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}


def test_the_page_of_the_sandbox_lists_the_groups_of_kubernetes_that_it_does_not_serve() -> None:
    # given
    sessions = [
        json.loads((ROOT / f"tests/scenarios/recorded/kubectl_session_{minor}.json").read_bytes())
        for minor in ("1.32", "1.37")
    ]
    of_kubernetes = {
        name for session in sessions for name in session["api-versions"]["out"] if "kruise.io" not in name
    }
    # when
    page = (ROOT / "docs/sandbox.md").read_text("utf-8")
    listed = set(re.findall(r"^\| `([a-z0-9.]+/v\w+)` \|", page, re.MULTILINE))
    # then
    assert listed == of_kubernetes - RECORDED.keys() | {"metrics.k8s.io/v1beta1"}


def test_newer_clients_get_aggregated_discovery_in_one_answer() -> None:
    # when
    result = answer("/apis", AGGREGATED, widgets())
    core = answer("/api", AGGREGATED)
    # then
    assert (result["kind"], result["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    group = next(item for item in result["items"] if item["metadata"]["name"] == "example.com")
    assert group["versions"] == [
        {
            "version": "v1",
            "freshness": "Current",
            "resources": [
                {
                    "resource": "widgets",
                    "responseKind": {"group": "example.com", "version": "v1", "kind": "Widget"},
                    "scope": "Namespaced",
                    "singularResource": "widget",
                    "verbs": ["get", "list", "create", "patch", "update", "delete"],
                    "shortNames": ["wd"],
                    "categories": ["all"],
                    "subresources": [
                        {
                            "subresource": "scale",
                            "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                            "verbs": ["get", "patch", "update"],
                        }
                    ],
                }
            ],
        }
    ]
    pods = next(each for each in core["items"][0]["versions"][0]["resources"] if each["resource"] == "pods")
    assert pods["responseKind"] == {"group": "", "version": "", "kind": "Pod"}
    assert {each["subresource"] for each in pods["subresources"]} >= {"status", "binding", "eviction"}


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", "v2beta1"),
        ("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", "v2"),
        ("application/json", ""),
        ("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", ""),
        ("*/*", ""),
        ("", ""),
        ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json", ""),
    ],
)
def test_discovery_has_the_version_that_the_client_accepts(accept: str, version: str) -> None:
    # when
    result = answer("/apis", accept)
    # then
    expected = f"apidiscovery.k8s.io/{version}" if version else "v1"
    assert result["apiVersion"] == expected


def test_the_preferred_version_is_listed_first() -> None:
    # when
    result = answer("/apis/example.com", "", widgets("v1alpha1"), widgets("v1beta1"), widgets("v1"))
    # then
    assert [version["version"] for version in result["versions"]] == ["v1", "v1beta1", "v1alpha1"]


@pytest.mark.parametrize(
    "path", ["/apis/none", "/apis/none/v1", "/apis/apps/v9", "/api/v2", "/apis/", "/x", "/apis//v1"]
)
def test_an_unserved_path_has_no_discovery(path: str) -> None:
    assert answer(path) is None or path == "/apis/"


def test_the_version_can_be_read_by_clients() -> None:
    # when
    version = answer("/version")
    # then
    assert version["gitVersion"].startswith("v1.37.0")
    assert (version["major"], version["minor"]) == ("1", "37")


# --- OpenAPI ---


def openapi(path: str, *extra: CatalogEntry) -> Any:
    data = answer_openapi(path, catalog(*extra))
    assert data is not None
    return json.loads(data)


def test_the_index_of_openapi_names_every_group_version() -> None:
    # when
    paths = openapi("/openapi/v3", widgets())["paths"]
    # then
    assert {"api/v1", "apis/apps/v1", "apis/example.com/v1"} <= paths.keys()
    assert paths["apis/apps/v1"]["serverRelativeURL"].startswith("/openapi/v3/apis/apps/v1?hash=")


def test_the_hash_of_a_document_changes_with_its_schemas_only() -> None:
    # given
    def hashes(*extra: CatalogEntry) -> dict[str, str]:
        paths = openapi("/openapi/v3", *extra)["paths"]
        return {name: entry["serverRelativeURL"] for name, entry in paths.items()}

    before, after = hashes(widgets()), hashes(widgets(description="changed"))
    # then
    assert before == hashes(widgets())
    assert {name for name in before if before[name] != after[name]} == {"apis/example.com/v1"}


def test_schemas_of_built_in_kinds_have_types_and_merge_keys() -> None:
    # when
    schemas = openapi("/openapi/v3/api/v1")["components"]["schemas"]
    # then
    pod = schemas["io.k8s.api.core.v1.Pod"]
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "kind": "Pod", "version": "v1"}]
    spec = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert spec["containers"]["x-kubernetes-patch-merge-key"] == "name"
    assert spec["containers"]["x-kubernetes-patch-strategy"] == "merge"
    assert spec["containers"]["items"]["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}
    ]
    assert spec["hostNetwork"] == {"type": "boolean"}
    assert spec["terminationGracePeriodSeconds"] == {"type": "integer", "format": "int64"}
    ports = schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"]
    assert ports["x-kubernetes-patch-merge-key"] == "containerPort"
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]


@pytest.mark.parametrize("group_version", [*RECORDED, "example.com/v1"])
def test_every_reference_in_a_document_leads_somewhere(group_version: str) -> None:
    # given
    path = f"apis/{group_version}" if "/" in group_version else f"api/{group_version}"
    document = openapi(f"/openapi/v3/{path}", widgets())
    schemas = document["components"]["schemas"]
    # when
    result = set(references(document))
    # then
    assert result
    assert {name.removeprefix("#/components/schemas/") for name in result} <= schemas.keys()


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [name for value in node.values() for name in references(value)]
    return [name for item in node for name in references(item)] if isinstance(node, list) else []


def test_patches_advertise_field_validation_so_that_kubectl_leaves_it_to_the_server() -> None:
    # when
    paths = openapi("/openapi/v3/apis/apps/v1")["paths"]
    # then
    patch = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "apps",
        "kind": "Deployment",
        "version": "v1",
    }
    scale = paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"]["kind"] == "Scale"


def test_a_custom_resource_has_the_schema_of_its_definition_and_the_common_fields() -> None:
    # given
    spec = {"properties": {"size": {"type": "integer", "description": "how large"}}}
    # when
    schemas = openapi("/openapi/v3/apis/example.com/v1", widgets(**spec))["components"]["schemas"]
    # then
    widget = schemas["com.example.v1.Widget"]
    assert widget["properties"]["spec"]["properties"] == spec["properties"]
    assert set(widget["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" in schemas
    kinds = schemas["com.example.v1.WidgetList"]["x-kubernetes-group-version-kind"]
    assert kinds == [{"group": "example.com", "kind": "WidgetList", "version": "v1"}]


@pytest.mark.parametrize(
    "path", ["/openapi/v2", "/openapi", "/openapi/v3/apis/none/v1", "/openapi/v3/api", "/openapi/v3/x"]
)
def test_other_openapi_paths_have_no_answer(path: str) -> None:
    assert answer_openapi(path, catalog()) is None


def test_discovery_is_the_same_in_any_order_of_installation() -> None:
    # given
    extra = [widgets("v1"), widgets("v1beta1")]
    random.Random(3).shuffle(extra)
    # then
    assert answer("/apis/example.com", "", *extra) == answer("/apis/example.com", "", *reversed(extra))
