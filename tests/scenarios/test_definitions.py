"""The definitions of all kinds on a cluster: accepted, served in every version, explained."""

import subprocess
from typing import Any

import pytest

from pykruise.kinds import build_crds
from pykruise.kube.documents import Document, decode, get_path
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, PODS, Resource
from pykruise.kube.schemas.conversion import find_section
from support.scenario import Stage
from testbed.control_plane import ControlPlane

CRDS = {crd["metadata"]["name"]: crd for crd in build_crds()}

SELECTOR = {"matchLabels": {"app": "a"}}
TEMPLATE = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
JOB_TEMPLATE = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
PROBE = {"name": "p", "containerName": "main", "probe": {"exec": {"command": ["true"]}}}

SPECS: dict[str, Document] = {
    "AdvancedCronJob": {
        "schedule": "0 * * * *",
        "template": {
            "broadcastJobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": JOB_TEMPLATE}}
        },
    },
    "BroadcastJob": {"template": JOB_TEMPLATE},
    "CloneSet": {"selector": SELECTOR, "template": TEMPLATE, "replicas": 0},
    "ContainerRecreateRequest": {"podName": "a", "containers": [{"name": "main"}]},
    "DaemonSet": {"selector": SELECTOR, "template": TEMPLATE},
    "EphemeralJob": {
        "selector": SELECTOR,
        "template": {
            "ephemeralContainers": [
                {
                    "name": "e",
                    "image": "i",
                    "imagePullPolicy": "Always",
                    "terminationMessagePolicy": "File",
                }
            ]
        },
    },
    "ImageListPullJob": {"images": ["nginx"], "completionPolicy": {}},
    "ImagePullJob": {"image": "nginx", "completionPolicy": {}},
    "NodeImage": {
        "images": {"nginx": {"tags": [{"tag": "1", "pullPolicy": {"ttlSecondsAfterFinished": 60}}]}}
    },
    "NodePodProbe": {
        "podProbes": [{"name": "a", "namespace": "b", "uid": "c", "IP": "", "probes": [PROBE]}],
    },
    "PodProbeMarker": {"selector": SELECTOR, "probes": [{**PROBE, "podConditionType": "a.b/c"}]},
    "PodUnavailableBudget": {"selector": SELECTOR, "maxUnavailable": 1},
    "ResourceDistribution": {
        "resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}},
        "targets": {"allNamespaces": False},
    },
    "SidecarSet": {
        "selector": SELECTOR,
        "containers": [{"name": "s", "image": "i", "podInjectPolicy": "BeforeAppContainer"}],
    },
    "StatefulSet": {"selector": SELECTOR, "template": TEMPLATE, "replicas": 0},
    "UnitedDeployment": {
        "selector": SELECTOR,
        "template": {
            "cloneSetTemplate": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"selector": SELECTOR, "template": TEMPLATE},
            }
        },
    },
    "WorkloadSpread": {"targetRef": TARGET, "subsets": [{"name": "a", "maxReplicas": 1}]},
}
"""The smallest spec of each kind that its schema and admission accept."""

KEYS = {"v1alpha1": "nodeTopologyKeys", "v1beta1": "keys"}


def least_of(kind: str, version: str) -> Document:
    if kind != "PersistentPodState":
        return SPECS[kind]
    topology = {KEYS[version]: ["kubernetes.io/hostname"]}
    return {"targetRef": {**TARGET, "kind": "StatefulSet"}, "requiredPersistentTopology": topology}


async def established(stage: Stage, name: str) -> list[str] | None:
    """The versions in which a definition's objects are stored, once it is served."""
    doc = decode(await stage.client.get(CUSTOM_RESOURCE_DEFINITIONS, "", name))
    conditions = {
        condition["type"]: condition["status"]
        for condition in get_path(doc, "status", "conditions", default=[])
    }
    assert "NonStructuralSchema" not in conditions
    assert conditions.get("NamesAccepted") != "False"
    return doc["status"]["storedVersions"] if conditions.get("Established") == "True" else None


async def test_every_definition_is_established_under_its_names(stage: Stage) -> None:
    for name in CRDS:
        stored = await stage.until(lambda name=name: established(stage, name))
        assert stored == [version["name"] for version in CRDS[name]["spec"]["versions"] if version["storage"]]


@pytest.mark.parametrize("name", CRDS)
async def test_the_minimal_object_of_a_kind_is_stored_as_it_was_sent(stage: Stage, name: str) -> None:
    """No field of the spec is pruned, and only defaults are added."""
    spec = CRDS[name]["spec"]
    kind = spec["names"]["kind"]
    if kind == "ContainerRecreateRequest":
        await _run_pod(stage, spec=TEMPLATE["spec"])
    for version in spec["versions"]:
        # given
        resource = Resource(
            spec["group"],
            version["name"],
            spec["names"]["plural"],
            kind,
            namespaced=spec["scope"] == "Namespaced",
        )
        namespace = stage.namespace if resource.namespaced else ""
        own = f"{stage.namespace}-{version['name']}"
        doc = {
            "apiVersion": resource.api_version,
            "kind": kind,
            "metadata": {"name": own},
            "spec": least_of(kind, version["name"]),
        }
        # when
        stored = decode(await stage.client.create(resource, namespace, doc))
        # then
        assert missing(stored["spec"], doc["spec"]) == []
        await stage.client.delete(resource, namespace, own)


async def _run_pod(stage: Stage, *, spec: Document) -> None:
    """The pod `a`, with its containers started."""
    await stage.create({"metadata": {"name": "a"}, "spec": spec}, resource=PODS)

    async def runs() -> bool:
        return bool((await stage.get("a", resource=PODS))["status"].get("phase") == "Running")

    await stage.until(runs)


def missing(result: Any, wanted: Any, path: str = "spec") -> list[str]:
    if isinstance(wanted, dict) and isinstance(result, dict):
        return [
            problem
            for field, value in wanted.items()
            for problem in missing(result.get(field), value, f"{path}.{field}")
        ]
    if isinstance(wanted, list) and isinstance(result, list) and len(wanted) == len(result):
        return [
            problem
            for index, value in enumerate(wanted)
            for problem in missing(result[index], value, f"{path}[{index}]")
        ]
    return [] if result == wanted else [path]


@pytest.mark.real
@pytest.mark.parametrize("name", CRDS)
def test_kubectl_explains_every_kind_in_every_version(plane: ControlPlane, name: str) -> None:
    spec = CRDS[name]["spec"]
    for version in spec["versions"]:
        # when
        done = subprocess.run(
            [
                plane.find_binary("kubectl"),
                f"--kubeconfig={plane.kubeconfig}",
                "explain",
                "--recursive=false",
                f"--api-version={spec['group']}/{version['name']}",
                f"{spec['names']['plural']}.spec",
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        # then
        assert done.returncode == 0, done.stderr
        assert "<empty>" not in done.stdout
        for field in (
            find_section(version, "schema", "openAPIV3Schema", "properties", "spec", "properties") or {}
        ):
            assert f"\n  {field}\t" in done.stdout
