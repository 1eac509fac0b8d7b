"""The merge metadata of built-in kinds."""

import pytest

from pykruise.kube import resources
from pykruise.kube.patches.schemas import find_definition, has_definition, merge_keys, schema_of
from pykruise.kube.resources import POD_GROUPS, WORKLOADS, Resource


@pytest.mark.parametrize(
    ("resource", "definition"),
    [
        (resources.PODS, "io.k8s.api.core.v1.Pod"),
        (resources.CONTROLLER_REVISIONS, "io.k8s.api.apps.v1.ControllerRevision"),
        (resources.LEASES, "io.k8s.api.coordination.v1.Lease"),
        (
            resources.CUSTOM_RESOURCE_DEFINITIONS,
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
        ),
        (Resource("apps.kruise.io", "v1beta1", "clonesets", "CloneSet"), None),
        (Resource("apps.example", "v1", "pods", "Pod"), None),
        (Resource("", "v2", "pods", "Pod"), None),
    ],
)
def test_built_in_resources_have_a_definition_and_custom_ones_have_not(
    resource: Resource, definition: str | None
) -> None:
    assert find_definition(resource) == definition


def test_built_in_resources_that_this_project_names_have_a_definition() -> None:
    # given
    built_in = [value for value in vars(resources).values() if isinstance(value, Resource)]
    assert len(built_in) > 15
    # then: the OpenAPI document of a server without further feature gates does not contain the others
    without = {resource for resource in built_in if find_definition(resource) is None}
    assert without == {POD_GROUPS, WORKLOADS}


def test_a_field_is_found_through_the_definitions_above_it() -> None:
    # given
    spec = schema_of("io.k8s.api.core.v1.Pod").find_field_rule("spec").value_schema
    # when
    containers, volumes = spec.find_field_rule("containers"), spec.find_field_rule("volumes")
    # then
    assert (containers.patch_merge_key, containers.merges_list) == ("name", True)
    assert volumes.merges_list
    assert containers.value_schema.find_field_rule("ports").patch_merge_key == "containerPort"
    assert not spec.find_field_rule("tolerations").merges_list
    assert spec.find_field_rule("no-such-field").patch_strategy == ""


def test_every_merged_list_of_objects_has_a_merge_key() -> None:
    for fields in merge_keys().values():
        for rule in fields.values():
            if rule.merges_list and rule.ref:
                assert rule.patch_merge_key


def test_an_unknown_definition_is_an_error() -> None:
    assert not has_definition("Pod")
    with pytest.raises(KeyError):
        schema_of("Pod")
