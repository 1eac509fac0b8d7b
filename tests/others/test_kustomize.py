"""Kustomize of kubectl, with the file that `pykruise manifests kustomize-schema` prints."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from pykruise.manager.kustomize import build_openapi_document
from testbed.build import CONTROL_PLANE, Part, default_version

pytestmark = pytest.mark.real_time
VERSION: Final = "5.8.1"
"""The version of Kustomize in kubectl 1.37."""

Document = dict[str, Any]
Kustomize = Callable[[Sequence[Document], Document], list[Document]]

CONTAINERS: Final = [
    {"name": "main", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}]},
    {"name": "log", "image": "log:1"},
]
PATCHED: Final = [{"name": "main", "image": "web:2", "env": [{"name": "A", "value": "2"}]}]
WANTED: Final = [
    {"name": "main", "image": "web:2", "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "1"}]},
    {"name": "log", "image": "log:1"},
]

_POD_TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("apps.kruise.io/v1beta1", "CloneSet"): ("template",),
    ("apps.kruise.io/v1alpha1", "CloneSet"): ("template",),
    ("apps.kruise.io/v1beta1", "StatefulSet"): ("template",),
    ("apps.kruise.io/v1alpha1", "DaemonSet"): ("template",),
    ("apps.kruise.io/v1beta1", "BroadcastJob"): ("template",),
    ("apps.kruise.io/v1beta1", "AdvancedCronJob"): ("template", "jobTemplate", "spec", "template"),
    ("apps.kruise.io/v1alpha1", "UnitedDeployment"): ("template", "cloneSetTemplate", "spec", "template"),
    ("apps/v1", "Deployment"): ("template",),
    ("batch/v1", "CronJob"): ("jobTemplate", "spec", "template"),
}
PLACES: Final = {kind: (*path, "spec", "containers") for kind, path in _POD_TEMPLATES.items()} | {
    ("apps.kruise.io/v1beta1", "SidecarSet"): ("containers",),
    ("apps.kruise.io/v1alpha1", "EphemeralJob"): ("template", "ephemeralContainers"),
}
"""Paths of containers in the spec, by kind."""


@pytest.fixture(scope="module")
def kustomize(needed: Callable[[Part, str], Path], tmp_path_factory: pytest.TempPathFactory) -> Kustomize:
    program = needed(CONTROL_PLANE, default_version()) / "kubectl"
    schema = json.dumps(build_openapi_document())

    def built(resources: Sequence[Document], patch: Document) -> list[Document]:
        folder = tmp_path_factory.mktemp("kustomize")
        (folder / "kruise-schema.json").write_text(schema)
        (folder / "all.yaml").write_text(yaml.safe_dump_all(resources))
        kustomization = {
            "resources": ["all.yaml"],
            "namespace": "shop",
            "openapi": {"path": "kruise-schema.json"},
            "patches": [{"patch": yaml.safe_dump(patch)}],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        done = subprocess.run(
            [str(program), "kustomize", str(folder)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return list(yaml.safe_load_all(done.stdout))

    return built


def document(kind: tuple[str, str], containers: Sequence[Document]) -> Document:
    value: Any = list(containers)
    for step in reversed(PLACES[kind]):
        value = {step: value}
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "web"}, "spec": value}


def containers_of(made: Document) -> Any:
    value = made["spec"]
    for step in PLACES[made["apiVersion"], made["kind"]]:
        value = value[step]
    return value


@pytest.mark.program(
    "kustomize", VERSION, "a patch of one container keeps the other containers, in every kind with containers"
)
def test_a_patch_of_one_container_keeps_the_others(kustomize: Kustomize) -> None:
    for kind in PLACES:
        [made] = kustomize([document(kind, CONTAINERS)], document(kind, PATCHED))
        assert containers_of(made) == WANTED, kind


@pytest.mark.program("kustomize", VERSION, "the field `namespace` sets no namespace in cluster-scoped kinds")
def test_kinds_of_the_cluster_get_no_namespace(kustomize: Kustomize) -> None:
    sidecars = document(("apps.kruise.io/v1beta1", "SidecarSet"), CONTAINERS)
    workload = document(("apps.kruise.io/v1beta1", "CloneSet"), CONTAINERS)
    made = kustomize([sidecars, workload], document(("apps.kruise.io/v1beta1", "CloneSet"), PATCHED))
    namespaces = {item["kind"]: item["metadata"].get("namespace") for item in made}
    assert namespaces == {"SidecarSet": None, "CloneSet": "shop"}
