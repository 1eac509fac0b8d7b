"""The page of health: managers, and the findings of `pykruise doctor`.

user's own client ──▶ build_manager_rows(), build_finding_rows() ──▶ rows

The requests use the user's permissions, so the user sees only data that the user could request directly.
"""

from collections.abc import Sequence
from typing import Any, Final

from pykruise.cli.doctor import examine_cluster
from pykruise.cli.errors import CommandError
from pykruise.cli.kubectl.pods import format_ready_count, restarts_of, state_of
from pykruise.kube.client.client import Client
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import LEASES, PODS
from pykruise.manager.doctor.findings import Finding

LEASE: Final = "kruise-manager"
_MANAGERS: Final = "control-plane=controller-manager"


async def build_health_rows(client: Client, *, namespace: str) -> list[dict[str, Any]]:
    """Return all rows of the page. Raises no errors of the API server."""
    try:
        findings, note = await examine_cluster(client, namespace=namespace)
    except (CommandError, KubeError) as error:
        return [{"id": "note", "note": str(error)}]
    try:
        pods = [decode(raw) for raw in (await client.list(PODS, namespace, label_selector=_MANAGERS)).items]
        lease = decode(await client.get(LEASES, namespace, LEASE)) if pods else {}
    except KubeError:
        pods, lease = [], {}
    rows = [*build_manager_rows(pods, lease), *build_finding_rows(findings)]
    return [{"id": "note", "note": note}, *rows] if note else rows


def build_manager_rows(pods: Sequence[Document], lease: Document) -> list[dict[str, Any]]:
    """Return a row per manager. The holderIdentity of the Lease begins with the name of the leader's pod."""
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    return [
        {
            "id": f"manager/{pod['metadata']['name']}",
            "manager": pod["metadata"]["name"],
            "state": state_of(pod),
            "ready": format_ready_count(pod),
            "restarts": restarts_of(pod),
            "node": str((pod.get("spec") or {}).get("nodeName") or ""),
            "leads": bool(holder) and holder.startswith(pod["metadata"]["name"]),
            "renewed": str((lease.get("spec") or {}).get("renewTime") or ""),
        }
        for pod in pods
    ]


def build_finding_rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return a row per finding, in the order in which a person would check them."""
    return [
        {
            "id": f"finding/{number:03d}",
            "level": finding.level.value,
            "check": finding.check,
            "what": finding.what[:2_000],
            "fix": finding.fix[:2_000],
        }
        for number, finding in enumerate(findings)
    ]
