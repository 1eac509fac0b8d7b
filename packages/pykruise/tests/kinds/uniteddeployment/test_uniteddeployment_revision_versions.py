"""Revisions of UnitedDeployments in the bytes of each release, and templates that mean the same in all of them."""

import json
from typing import Any

import pytest

from pykruise.kinds import build_crds
from pykruise.kinds.uniteddeployment.defaults import add_defaults
from pykruise.kinds.uniteddeployment.revisions import candidate_of, convert_revision
from pykruise.kube.documents import Document, deep_copy, encode
from pykruise.pods.workload.revisions import RevisionView, project_revision

POD: Document = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
}
CLAIM: Document = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
NESTED: Document = {
    "type": "RollingUpdate",
    "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "partition": 1},
}

TEMPLATES: dict[str, Document] = {
    "clone set": {"cloneSetTemplate": {"spec": {"template": POD}}},
    "clone set with a strategy": {
        "cloneSetTemplate": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "template": POD,
                "updateStrategy": NESTED,
                "scaleStrategy": {"enablePVCReuse": True},
                "volumeClaimTemplates": [CLAIM],
                "lifecycle": {"preDelete": {"labelsHandler": {"a": "b"}}},
            },
        }
    },
    "clone set that is updated on deletion": {
        "cloneSetTemplate": {"spec": {"template": POD, "updateStrategy": {"type": "OnDelete"}}}
    },
    "stateful set": {"statefulSetTemplate": {"spec": {"template": POD, "volumeClaimTemplates": [CLAIM]}}},
    "advanced stateful set": {
        "advancedStatefulSetTemplate": {
            "spec": {
                "template": POD,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            }
        }
    },
    "deployment": {"deploymentTemplate": {"spec": {"template": POD, "minReadySeconds": 3}}},
}


def stored(data: bytes, *, version: str) -> RevisionView:
    """The revision as a manager stored it for a UnitedDeployment of this version."""
    owner = {
        "apiVersion": f"apps.kruise.io/{version}",
        "kind": "UnitedDeployment",
        "name": "web",
        "uid": "u",
        "controller": True,
    }
    metadata = {
        "name": "web-1",
        "namespace": "d",
        "uid": "r",
        "resourceVersion": "1",
        "ownerReferences": [owner],
    }
    return convert_revision(
        project_revision(encode({"metadata": metadata, "revision": 1, "data": json.loads(data)}))
    )


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_a_stored_revision_equals_the_template_it_was_built_from(name: str, version: str) -> None:
    template = TEMPLATES[name]
    revision = stored(candidate_of(template, version=version).data, version=version)
    assert revision.meaning == candidate_of(template).meaning


def test_a_cloneset_is_stored_as_by_the_release_with_only_v1alpha1() -> None:
    data = json.loads(candidate_of(TEMPLATES["clone set with a strategy"], version="v1alpha1").data)
    spec = data["spec"]["template"]["cloneSetTemplate"]["spec"]
    assert spec["updateStrategy"] == {"type": "InPlaceIfPossible", "partition": 1}
    assert spec["scaleStrategy"] == {}
    assert spec["volumeClaimTemplates"][0]["metadata"] == {"creationTimestamp": None, "name": "data"}


def test_a_default_of_the_definition_is_not_in_the_bytes() -> None:
    """OpenKruise's types leave `enablePVCReuse: false` out; its definitions write it."""
    template = deep_copy(TEMPLATES["clone set"])
    before = candidate_of(template)
    template["cloneSetTemplate"]["spec"]["scaleStrategy"] = {"enablePVCReuse": False}
    after = candidate_of(template)
    assert (after.data, after.meaning) == (before.data, before.meaning)


def defaults_in(schema: Document, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """All defaults of a schema with their paths; lists are skipped."""
    defaults = [(path, schema["default"])] if "default" in schema else []
    for name, part in (schema.get("properties") or {}).items():
        defaults += defaults_in(part, (*path, name))
    return defaults


def with_default(template: Document, path: tuple[str, ...], default: Any) -> Document:
    result = deep_copy(template)
    part = result
    for step in path[:-1]:
        part = part.setdefault(step, {})
    part.setdefault(path[-1], default)
    return result


def test_no_default_of_our_definitions_makes_another_revision() -> None:
    crd = next(crd for crd in build_crds() if crd["spec"]["names"]["kind"] == "UnitedDeployment")
    hub = next(version for version in crd["spec"]["versions"] if version["storage"])
    schema = hub["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["template"]
    defaults = [
        (path, default)
        for path, default in defaults_in(schema)
        if path[0] in {next(iter(template)) for template in TEMPLATES.values()}
    ]
    assert defaults
    for template in TEMPLATES.values():
        for path, default in defaults:
            if path[0] in template and path[-1] not in json.dumps(template):
                changed = candidate_of(with_default(template, path, default))
                assert changed.meaning == candidate_of(template).meaning, path


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_default_of_our_webhook_makes_another_revision(name: str) -> None:
    template = TEMPLATES[name]
    spec = add_defaults({"spec": {"template": template}})["spec"]
    assert candidate_of(spec["template"]).meaning == candidate_of(template).meaning
