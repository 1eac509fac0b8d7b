"""The official Python client, unchanged, with every kind in every version."""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import kubernetes
import pytest
import yaml
from kubernetes.dynamic import DynamicClient

from others.cluster import Cluster, Document
from others.conftest import Loop
from pykruise.kinds import conversions, crds
from pykruise.kube.schemas.conversion import convert

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(600)]

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
NAMESPACE: Final = "clients"
CREATED: Final = (
    *("cloneset", "statefulset", "daemonset", "uniteddeployment", "workloadspread", "podunavailablebudget"),
    *(
        "podprobemarker",
        "broadcastjob",
        "imagepulljob",
        "imagelistpulljob",
        "advancedcronjob",
    ),
)
"""Examples that are created; of the other kinds objects are made by agents, or are about all pods."""


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[DynamicClient]:
    cluster.kubectl("create", "namespace", NAMESPACE)
    with kubernetes.config.new_client_from_config(str(cluster.plane.kubeconfig)) as api:
        yield DynamicClient(api)
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def served() -> Iterator[tuple[str, str, Document]]:
    """apiVersion, kind and definition of each version that is served."""
    for crd in crds():
        for item in crd["spec"]["versions"]:
            yield f"{crd['spec']['group']}/{item['name']}", crd["spec"]["names"]["kind"], item


def example(kind: str) -> Document | None:
    path = EXAMPLES / f"{kind.lower()}.yaml"
    if kind.lower() not in CREATED:
        return None
    document: Document = next(item for item in yaml.safe_load_all(path.read_text()) if item["kind"] == kind)
    return document


def in_version(document: Document, api_version: str) -> Document:
    group, _, name = api_version.rpartition("/")
    if document["apiVersion"] == api_version:
        return document
    return convert(document, f"{group}/{name}", conversions())


@pytest.mark.program(
    "kubernetes (Python client)",
    version("kubernetes"),
    "every kind in every version: list; where users make objects: create, patch, watch, status, delete; scale",
)
def test_the_dynamic_client_works_with_every_kind_in_every_version(
    client: DynamicClient, cluster: Cluster, loop: Loop
) -> None:
    tried: set[tuple[str, str]] = set()
    for api_version, kind, item in served():
        resource = client.resources.get(api_version=api_version, kind=kind)
        assert resource.get().kind == f"{kind}List"
        document = example(kind)
        if document is None:
            continue
        tried.add((api_version, kind))
        # create, in this version
        name = f"{document['metadata']['name']}-{api_version.rpartition('/')[2]}"
        document = in_version(document, api_version)
        document["metadata"] = {**document["metadata"], "name": name, "namespace": NAMESPACE}
        resource.create(body=document, namespace=NAMESPACE)
        # patch
        patch: dict[str, Any] = {"metadata": {"labels": {"seen-by": "python"}}}
        resource.patch(
            body=patch, name=name, namespace=NAMESPACE, content_type="application/merge-patch+json"
        )
        # watch, from the beginning
        events = resource.watch(namespace=NAMESPACE, name=name, timeout=30)
        assert next(iter(events))["object"].metadata.labels["seen-by"] == "python"
        # scale
        if "scale" in item["subresources"]:
            scale = {"spec": {"replicas": 1}}
            answer = resource.scale.patch(
                body=scale, name=name, namespace=NAMESPACE, content_type="application/merge-patch+json"
            )
            assert (answer.kind, answer.spec.replicas) == ("Scale", 1)
        # status, which the manager writes
        assert resource.status.get(name=name, namespace=NAMESPACE).metadata.name == name
        resource.delete(name=name, namespace=NAMESPACE)
    assert len(tried) >= 20
