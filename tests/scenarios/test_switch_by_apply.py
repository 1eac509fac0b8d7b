"""`pykruise install | kubectl apply --server-side --force-conflicts` over OpenKruise's Deployment of another field
manager: server-side apply keeps the fields that only the other manager sets.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import DEPLOYMENTS
from pykruise.manager.flags import parse
from pykruise.manager.install import MANAGER, POD_LABELS, Installation, build_manifests
from support.scenario import Stage

PORTS = {
    "chart": [
        {"name": "webhook-server", "containerPort": 9876, "protocol": "TCP"},
        {"name": "metrics", "containerPort": 8080, "protocol": "TCP"},
        {"name": "health", "containerPort": 8000, "protocol": "TCP"},
    ],
    "kustomization": [{"name": "webhook-server", "containerPort": 9443, "protocol": "TCP"}],
}


def original(ports: list[dict[str, Any]]) -> dict[str, Any]:
    """OpenKruise's Deployment, with the fields that matter here."""
    container = {
        "name": "manager",
        "image": "openkruise/kruise-manager:v1.9.0",
        "command": ["/manager"],
        "args": ["--enable-leader-election", "--v=5"],
        "ports": ports,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": MANAGER},
        "spec": {
            "selector": {"matchLabels": dict(POD_LABELS)},
            "template": {"metadata": {"labels": dict(POD_LABELS)}, "spec": {"containers": [container]}},
        },
    }


async def applied(stage: Stage, document: Mapping[str, Any], manager: str) -> dict[str, Any]:
    """Apply the Deployment as a field manager; returns its container."""
    raw = await stage.client.patch(
        DEPLOYMENTS,
        stage.namespace,
        MANAGER,
        document,
        patch_type=PatchType.APPLY,
        field_manager=manager,
        force=True,
    )
    [container] = decode(raw)["spec"]["template"]["spec"]["containers"]
    result: dict[str, Any] = container
    return result


@pytest.mark.parametrize("ports", PORTS.values(), ids=PORTS)
async def test_the_manager_starts_although_the_command_of_openkruise_stays(
    stage: Stage, ports: list[dict[str, Any]]
) -> None:
    # given OpenKruise's Deployment, which another program applied
    await applied(stage, original(ports), "helm")
    documents = build_manifests(Installation(namespace=stage.namespace))
    [own] = [doc for doc in documents if doc["kind"] == "Deployment"]
    # when
    container = await applied(stage, own, "kubectl")
    # then /manager accepts the arguments, and the API server accepted the ports
    assert container["command"] == ["/manager"]
    assert parse(container["args"], environ={}).settings.election.namespace == stage.namespace
    assert {port["containerPort"] for port in container["ports"]} >= {9876, 8080, 8000}
