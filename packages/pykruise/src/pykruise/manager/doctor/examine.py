"""All checks, in the order in which a person would search for a fault.

Live ──▶ all of CHECKS, concurrently ──▶ Findings in the order of CHECKS
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from pykruise.kube.errors import KubeError
from pykruise.manager.doctor import access, budgets, holds, images, kinds, pods, slots, webhooks, workload
from pykruise.manager.doctor.apply_command import find_apply_command
from pykruise.manager.doctor.findings import Finding, make_unknown
from pykruise.manager.doctor.live import Live

Check = Callable[[Live], Awaitable[Sequence[Finding]]]

CHECKS: Sequence[tuple[str, Check]] = (
    ("cluster", workload.check_cluster),
    ("namespace", workload.check_namespace),
    ("crds", kinds.check_crds),
    ("manager", workload.check_manager),
    ("drains", budgets.check_drains),
    ("gates", workload.check_gates),
    ("lease", workload.check_lease),
    ("slots", slots.check_slots),
    ("clock", workload.check_clock),
    ("rbac", access.check_rights),
    ("service", webhooks.check_service),
    ("certificate", webhooks.check_certificate),
    ("webhooks", webhooks.check_configurations),
    ("admission", webhooks.check_admission),
    ("conversion", kinds.check_conversion),
    ("pods", pods.check_injection),
    ("budgets", budgets.check_budgets),
    ("images", images.check_images),
    ("requests", holds.check_holds),
)


async def examine(live: Live) -> list[Finding]:
    """Run all checks and return their findings. Raises no error of the API server: a check that fails is a finding
    too.
    """
    live.apply = await find_apply_command(live)
    result = await asyncio.gather(*(_run_check(name, check, live) for name, check in CHECKS))
    return [finding for findings in result for finding in findings]


async def _run_check(name: str, check: Check, live: Live) -> Sequence[Finding]:
    try:
        return await check(live)
    except KubeError as error:
        return [make_unknown(name, f"cannot be checked: {error}")]
