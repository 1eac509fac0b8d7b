"""ResourceDistributions through an API server: what is refused, where, and that the manager has the rights to ask."""

import base64
from typing import Any

import msgspec
import pytest

from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kube.documents import decode
from pykruise.kube.errors import InvalidError
from pykruise.kube.patches import PatchType
from pykruise.kube.resources import Resource
from support.scenario import Object, Stage

pytestmark = pytest.mark.needs_admission

OLD = msgspec.structs.replace(RESOURCE_DISTRIBUTIONS, version="v1alpha1")


def secret(name: str = "pull", **fields: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, **fields}


async def write(
    stage: Stage, resource: Object, *, version: Resource = RESOURCE_DISTRIBUTIONS, **targets: Any
) -> Object:
    doc = {
        "apiVersion": version.api_version,
        "kind": version.kind,
        "metadata": {"name": stage.namespace},
        "spec": {"resource": resource, "targets": targets or {"allNamespaces": True}},
    }
    return decode(await stage.client.create(version, "", doc))


async def fields_refused(stage: Stage, resource: Object, **options: Any) -> list[str]:
    with pytest.raises(InvalidError) as refused:
        await write(stage, resource, **options)
    return [cause.field for cause in refused.value.causes]


async def test_only_what_could_be_created_is_distributed(stage: Stage) -> None:
    """admission case 46; rule 6 needs the manager's right to try it in its own namespace"""
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    assert await fields_refused(stage, deployment) == ["spec.resource"]
    data = {"not a key!": base64.b64encode(b"x").decode()}
    assert await fields_refused(stage, secret(data=data)) == ["spec.resource"]


async def test_the_distributed_resources_identity_is_immutable_and_its_namespace_ignored(
    stage: Stage,
) -> None:
    """admission cases 47 and 48"""
    resource = secret()
    resource["metadata"]["namespace"] = "foo"
    await write(stage, resource)
    # when
    patch = {"spec": {"resource": {"metadata": {"name": "other"}}}}
    with pytest.raises(InvalidError, match="immutable"):
        await stage.client.patch(
            RESOURCE_DISTRIBUTIONS, "", stage.namespace, patch, patch_type=PatchType.MERGE
        )
    # then what it holds may change
    patch = {"spec": {"resource": {"data": {"a": "Yg=="}}}}
    await stage.client.patch(RESOURCE_DISTRIBUTIONS, "", stage.namespace, patch, patch_type=PatchType.MERGE)
    await stage.client.delete(RESOURCE_DISTRIBUTIONS, "", stage.namespace)


async def test_errors_name_the_fields_of_the_written_version(stage: Stage) -> None:
    """admission case 57, only the errors"""
    selector = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    for version, name in ((RESOURCE_DISTRIBUTIONS, "namespaceSelector"), (OLD, "namespaceLabelSelector")):
        refused = await fields_refused(stage, secret(), version=version, **{name: selector})
        assert refused == [f"spec.targets.{name}"]
