"""kubectl changes from client-side to server-side apply: fields that it may change without a conflict."""

from typing import Any

import orjson
import pytest

from support.api import CONFIG_MAPS, Api

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}


async def applied_by_kubectl(api: Api, **data: str) -> None:
    """Create the object as `kubectl apply` does on the client side."""
    doc = config_map(**data)
    text = orjson.dumps(doc).decode()
    doc["metadata"] = {"name": "a", "annotations": {LAST_APPLIED: text}}
    reply = await api.post(CONFIG_MAPS, doc, fieldManager="kubectl-client-side-apply")
    assert reply.status == 201


async def apply(api: Api, **data: str) -> Any:
    return await api.patch(f"{CONFIG_MAPS}/a", config_map(**data), kind=APPLY, fieldManager="kubectl")


async def test_fields_that_still_have_the_value_it_applied_are_taken_over() -> None:
    api = Api.fresh()
    await applied_by_kubectl(api, x="1", y="1")
    reply = await apply(api, x="2", y="1")
    assert reply.status == 200
    assert reply.doc["data"] == {"x": "2", "y": "1"}


async def test_a_field_that_another_client_changed_since_is_a_conflict() -> None:
    # given
    api = Api.fresh()
    await applied_by_kubectl(api, x="1", y="1")
    await api.patch(f"{CONFIG_MAPS}/a", {"data": {"x": "7"}}, kind=MERGE, fieldManager="kubectl-edit")
    # when
    reply = await apply(api, x="2", y="2")
    # then only that field conflicts
    assert reply.status == 409
    assert [cause["field"] for cause in reply.doc["details"]["causes"]] == [".data.x"]


@pytest.mark.parametrize("version", ["v2", None])
async def test_an_object_last_applied_in_another_version_is_ignored(version: str | None) -> None:
    api = Api.fresh()
    await applied_by_kubectl(api, x="1")
    text = orjson.dumps({**config_map(x="1"), "apiVersion": version}).decode()
    patch = {"metadata": {"annotations": {LAST_APPLIED: text}}}
    await api.patch(f"{CONFIG_MAPS}/a", patch, kind=MERGE, fieldManager="kubectl-client-side-apply")
    assert (await apply(api, x="2")).status == 409
