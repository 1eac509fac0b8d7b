"""Flux reads an object between its creation and its first status, before a controller has handled it.

The CRDs are copied into another group without a controller and webhooks, with and without a default for the status.
docs/gitops.md (Before the first status) describes the consequences.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from others.client_work import NAMESPACE, Document, Place
from others.gitops_objects import every_sample
from others.test_gitops_tools import flux, real, runs_flux
from pykruise.kinds import build_crds
from pykruise.kube.documents import deep_copy

__all__ = ["flux"]

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]

GROUP: Final = "without-controllers.example.com"
WITHOUT_GENERATION: Final = {
    "AdvancedCronJob",
    "BroadcastJob",
    "ContainerRecreateRequest",
    "EphemeralJob",
    "ImageListPullJob",
    "ImagePullJob",
}
"""Kinds whose status has no observedGeneration, so that no default can mark it as old."""
ZEROS: Final = {"integer": 0, "string": ""}


def copied(crd: Document, *, has_default: bool) -> Document:
    """The definition in the other group, in the stored version only."""
    spec = deep_copy(crd["spec"])
    spec["group"] = GROUP
    spec.pop("conversion", None)
    spec["versions"] = [version for version in spec["versions"] if version["storage"]]
    status = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    if has_default and "observedGeneration" in status["properties"]:
        required = {name: ZEROS[status["properties"][name]["type"]] for name in status.get("required", ())}
        status["default"] = {**required, "observedGeneration": -1}
    spec["names"].pop("categories", None)
    return {
        "apiVersion": crd["apiVersion"],
        "kind": crd["kind"],
        "metadata": {"name": f"{spec['names']['plural']}.{GROUP}"},
        "spec": spec,
    }


def define(place: Place, definitions: Iterable[Document]) -> None:
    """Create or replace definitions, and return when they are served."""
    items = {"apiVersion": "v1", "kind": "List", "items": list(definitions)}
    place.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=json.dumps(items))
    names = [f"crd/{item['metadata']['name']}" for item in items["items"]]
    place.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)


def statuses(place: Place, program: Any, objects: list[Document]) -> dict[str, str]:
    """Return the state that kstatus reads from each object now, by kind."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    read = json.loads(place.kubectl("get", "-o", "json", "-f", "-", text=text))["items"]
    return dict(zip((item["kind"] for item in read), program(read, "status"), strict=True))


@real
@runs_flux(
    "every kind before a controller has written its status, with and without a default status in the CRD"
)
def test_before_its_first_status_an_object_is_ready_unless_its_definition_has_a_default(
    flux: Any, place: Place, tmp_path: Path
) -> None:
    # given
    kinds = [crd["spec"]["names"]["kind"] for crd in build_crds()]
    objects = []
    for document in every_sample(place, "new"):
        version = document["apiVersion"].partition("/")[2]
        stored = next(crd for crd in build_crds() if crd["spec"]["names"]["kind"] == document["kind"])
        assert any(item["name"] == version and item["storage"] for item in stored["spec"]["versions"])
        metadata = {"name": "new"}
        if stored["spec"]["scope"] == "Namespaced":
            metadata["namespace"] = NAMESPACE
        objects.append({**document, "apiVersion": f"{GROUP}/{version}", "metadata": metadata})
    created = {item["kind"] for item in objects}
    assert created < set(kinds)
    try:
        define(place, (copied(crd, has_default=False) for crd in build_crds()))
        items = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        # when nothing has written a status
        place.kubectl("create", "-f", "-", text=items)
        # then
        assert statuses(place, flux, objects) == dict.fromkeys(created, "Current")
        # when the definitions have a default, it applies to stored and to new objects
        define(place, (copied(crd, has_default=True) for crd in build_crds()))
        assert statuses(place, flux, objects) == {
            kind: "Current" if kind in WITHOUT_GENERATION else "InProgress" for kind in created
        }
        place.kubectl("delete", "-f", "-", text=items)
        place.kubectl("create", "-f", "-", text=items)
        assert statuses(place, flux, objects) == {
            kind: "Current" if kind in WITHOUT_GENERATION else "InProgress" for kind in created
        }
        # and the default is not stored: without it, the states are as before
        define(place, (copied(crd, has_default=False) for crd in build_crds()))
        assert statuses(place, flux, objects) == dict.fromkeys(created, "Current")
    finally:
        names = [copied(crd, has_default=False)["metadata"]["name"] for crd in build_crds()]
        place.kubectl("delete", "crd", "--ignore-not-found", "--wait=false", *names)
