"""The OpenAPI file for kustomize, compared with the definitions and the facts about Kubernetes behind it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pykruise.kinds import build_crds
from pykruise.kube.patches.schemas import merge_keys
from pykruise.manager.kustomize import build_openapi_document

DOCUMENT = build_openapi_document()
DEFINITIONS: Mapping[str, Any] = DOCUMENT["definitions"]


def kinds_of(part: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for kind in part.get("x-kubernetes-group-version-kind", ()):
        yield kind["group"], kind["version"], kind["kind"]


def named() -> dict[tuple[str, str, str], Mapping[str, Any]]:
    return {kind: part for part in DEFINITIONS.values() for kind in kinds_of(part)}


def merged(part: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Paths of merged lists, references included."""
    if "$ref" in part:
        part = {**DEFINITIONS[part["$ref"].removeprefix("#/definitions/")], **part}
    if "x-kubernetes-patch-merge-key" in part:
        yield path
    for name, child in part.get("properties", {}).items():
        yield from merged(child, f"{path}.{name}" if path else name)
    if "items" in part:
        yield from merged(part["items"], f"{path}[]")


def merged_by_apply(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    if schema.get("x-kubernetes-list-type") == "map" and path.startswith("spec"):
        yield path
    for name, child in schema.get("properties", {}).items():
        yield from merged_by_apply(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from merged_by_apply(schema["items"], f"{path}[]")


def test_every_version_of_every_kind_merges_like_an_apply() -> None:
    there = named()
    for crd in build_crds():
        spec = crd["spec"]
        for version in spec["versions"]:
            part = there[spec["group"], version["name"], spec["names"]["kind"]]
            wanted = set(merged_by_apply(version["schema"]["openAPIV3Schema"]))
            assert wanted <= set(merged(part)), spec["names"]["kind"]


def test_variables_and_ports_are_merged_too_as_a_patch_refuses_nothing() -> None:
    result = set(merged(named()["apps.kruise.io", "v1beta1", "CloneSet"]))
    containers = "spec.template.spec.containers"
    assert {f"{containers}[].env", f"{containers}[].ports", "spec.template.spec.imagePullSecrets"} <= result
    sidecars = set(merged(named()["apps.kruise.io", "v1beta1", "SidecarSet"]))
    assert {"spec.containers", "spec.containers[].env", "spec.initContainers", "spec.volumes"} <= sidecars


def test_built_in_kinds_are_listed_because_the_file_replaces_those_of_kustomize() -> None:
    there = named()
    for kind in (
        ("apps", "v1", "Deployment"),
        ("batch", "v1", "CronJob"),
        ("", "v1", "Pod"),
        ("", "v1", "Service"),
    ):
        assert list(merged(there[kind])), kind


def test_each_directive_of_kubernetes_is_in_its_definition() -> None:
    for definition, rules in merge_keys().items():
        if definition not in DEFINITIONS:
            continue
        for field, rule in rules.items():
            if rule.patch_merge_key:
                part = DEFINITIONS[definition]["properties"][field]
                assert part["x-kubernetes-patch-merge-key"] == rule.patch_merge_key
                assert part["x-kubernetes-patch-strategy"] == rule.patch_strategy


def test_every_reference_leads_somewhere() -> None:
    references = set(re.findall(r'"#/definitions/([^"]+)"', json.dumps(DEFINITIONS)))
    assert references <= DEFINITIONS.keys()


def test_kinds_of_the_cluster_have_no_namespace() -> None:
    scopes = {
        (crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd["spec"]["scope"] == "Namespaced"
        for crd in build_crds()
    }
    for path, item in DOCUMENT["paths"].items():
        kind = item["get"]["x-kubernetes-group-version-kind"]
        assert ("{namespace}" in path) == scopes[kind["group"], kind["kind"]]
