"""Check for pods that were created while the webhooks did not work, and that therefore lack the changes of the pod
webhook.
"""

from collections.abc import Sequence

from pykruise.kube.documents import Document, get_path
from pykruise.kube.resources import PODS
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.owners import controller_of
from pykruise.manager.doctor.findings import Finding, make_fine, make_warning
from pykruise.manager.doctor.live import Live

READINESS = "KruisePodReady"
SHOWN = 3


async def check_injection(live: Live) -> Sequence[Finding]:
    """Check that pods of OpenKruise's workloads have the readiness gate KruisePodReady."""
    if not (await live.read_gates())["PodWebhook"]:
        return [make_fine("pods", "PodWebhook is off: pods do not pass the webhooks")]
    result = await live.list(PODS)
    own = [pod for pod in result if _is_ours(pod) and not pod["metadata"].get("deletionTimestamp")]
    missed = [pod for pod in own if not _has_gate(pod)]
    if missed:
        names = ", ".join(
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in missed[:SHOWN]
        )
        more = f" and {len(missed) - SHOWN} more" if len(missed) > SHOWN else ""
        count = format_count(len(missed), "pod lacks", "pods lack")
        users = "lifecycle hooks (markPodNotReady) and ContainerRecreateRequests"
        what = f"{count} the readiness gate {READINESS}, so {users} do not take them out"
        fix = "recreate the pods: they were created while the webhooks did not respond, or by another manager"
        return [make_warning("pods", f"{what} of service: {names}{more}", fix)]
    return [
        make_fine("pods", f"nothing is wrong with {format_count(len(own), 'pod')} of OpenKruise's workloads")
    ]


def _is_ours(pod: Document) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner.api_version.startswith("apps.kruise.io/")


def _has_gate(pod: Document) -> bool:
    gates = get_path(pod, "spec", "readinessGates", default=[]) or ()
    return any(gate.get("conditionType") == READINESS for gate in gates)
