"""--allow-privileged=false: no template of any kind can have a new privileged container."""

import copy
from pathlib import Path
from typing import Any

import pytest

from pykruise.admission.reviewers import build_reviewers
from pykruise.admission.settings import make_admission_settings
from pykruise.kinds import list_kinds
from pykruise.kinds.gates import Gates
from pykruise.kube.resources import Resource
from pykruise.kube.yaml_documents import read_yaml_documents
from support.reviews import after_both

EXAMPLES = Path(__file__).parents[4] / "examples"
TEMPLATES = {
    "advancedcronjob": "spec.template.broadcastJobTemplate.spec.template.spec.containers[0]",
    "broadcastjob": "spec.template.spec.containers[0]",
    "cloneset": "spec.template.spec.containers[0]",
    "daemonset": "spec.template.spec.containers[0]",
    "ephemeraljob": "spec.template.ephemeralContainers[0]",
    "sidecarset": "spec.containers[0]",
    "statefulset": "spec.template.spec.containers[0]",
    "uniteddeployment": "spec.template.cloneSetTemplate.spec.template.spec.containers[0]",
}
"""Kinds with containers, and the path of a container in the example of the kind."""
ALLOWED = build_reviewers()
FORBIDDEN = build_reviewers(make_admission_settings(Gates(), allow_privileged=False))


def example(kind: str) -> tuple[Resource, dict[str, Any]]:
    resource = next(each.resource for each in list_kinds() if each.name == kind)
    documents = read_yaml_documents((EXAMPLES / f"{kind}.yaml").read_text())
    return resource, next(doc for doc in documents if doc["kind"] == resource.kind)


def container_at(document: dict[str, Any], path: str) -> dict[str, Any]:
    """The container at a path such as `spec.containers[0]`."""
    value: Any = document
    for part in path.removesuffix("[0]").split("."):
        value = value[part]
    container: dict[str, Any] = value[0]
    return container


def privileged(document: dict[str, Any], path: str) -> dict[str, Any]:
    """The document with a privileged container at the path."""
    changed = copy.deepcopy(document)
    container_at(changed, path)["securityContext"] = {"privileged": True}
    return changed


@pytest.mark.parametrize(("kind", "path"), TEMPLATES.items())
def test_a_privileged_container_is_rejected_only_if_the_flag_forbids_it(kind: str, path: str) -> None:
    resource, document = example(kind)
    doc = privileged(document, path)
    assert after_both(ALLOWED, resource, doc).refusal is None
    assert after_both(FORBIDDEN, resource, document).refusal is None
    refusal = after_both(FORBIDDEN, resource, doc).refusal
    assert refusal is not None
    assert (refusal.code, refusal.message) == (
        422,
        f'{resource.kind}.{resource.group} "{doc["metadata"]["name"]}" is invalid: '
        f"{path}.securityContext.privileged: Forbidden: disallowed by cluster policy",
    )


def test_the_error_is_listed_beside_the_errors_of_the_kind() -> None:
    resource, document = example("cloneset")
    doc = privileged(document, TEMPLATES["cloneset"])
    doc["spec"]["replicas"] = -1
    refusal = after_both(FORBIDDEN, resource, doc).refusal
    assert refusal is not None
    assert refusal.details is not None
    assert [cause.field for cause in refusal.details.causes] == [
        "spec.replicas",
        "spec.template.spec.containers[0].securityContext.privileged",
    ]


def test_an_update_is_rejected_only_because_of_new_privileged_containers() -> None:
    resource, document = example("cloneset")
    stored = privileged(document, TEMPLATES["cloneset"])
    changed = copy.deepcopy(stored)
    changed["spec"]["replicas"] = 5
    containers = changed["spec"]["template"]["spec"]["containers"]
    containers.insert(0, {**containers[0], "name": "first", "securityContext": {}})
    assert after_both(FORBIDDEN, resource, changed, old=stored).refusal is None
    containers[0]["securityContext"] = {"privileged": True}
    refusal = after_both(FORBIDDEN, resource, changed, old=stored).refusal
    assert refusal is not None
    assert "spec.template.spec.containers[0].securityContext.privileged: Forbidden" in refusal.message
