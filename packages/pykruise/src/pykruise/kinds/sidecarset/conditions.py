"""Pod condition that reports for each of the pod's SidecarSets whether its sidecars can be upgraded in place.

ManagedPod ──▶ build_condition_patch() ──▶ a patch of the pod's status; None: the condition is up to date

Pure. The message is a JSON map: name of a SidecarSet → whether the pod can be upgraded in place to its current
sidecars. A SidecarSet gets an entry when it has upgraded the pod for the first time, or when it cannot upgrade the pod.
Each SidecarSet writes its own entry and keeps the others. It drops the entries of SidecarSets that injected no sidecars
into the pod.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from pykruise.kinds.sidecarset.managed_pod import ManagedPod
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document
from pykruise.kube.values.go_text import encode_go_json
from pykruise.pods.view import keys
from pykruise.pods.view.sidecars import list_injected_sets

ALL_UPGRADABLE = "AllSidecarsetUpgradable"
NOT_ALL = "UpdateImmutableField"


def build_condition_patch(managed: ManagedPod, name: str, *, is_stuck: bool, now: Instant) -> Document | None:
    """Patch that updates the condition. `is_stuck`: the pod cannot be upgraded in place to the current sidecars. An
    unreadable message is replaced.
    """
    pod = managed.pod
    condition = pod.find_condition(keys.SIDECARSET_UPGRADABLE)
    before = _parse_entries(condition.message) if condition is not None else {}
    listed = list_injected_sets(pod.annotations)
    entries = {part: value for part, value in before.items() if part in listed}
    if is_stuck:
        entries[name] = False
    elif managed.is_updated and (name in before or (managed.states and name in managed.states)):
        entries[name] = True
    if entries == before:
        return None
    status = "True" if all(entries.values()) else "False"
    result: dict[str, Any] = {
        "type": keys.SIDECARSET_UPGRADABLE,
        "status": status,
        "reason": ALL_UPGRADABLE if status == "True" else NOT_ALL,
        "message": encode_go_json(entries, sort_keys=True),
    }
    if condition is None or condition.status != status:
        result["lastTransitionTime"] = format_time(now)
    return {"status": {"conditions": [result]}}


def _parse_entries(message: str | None) -> Mapping[str, bool]:
    try:
        entries = orjson.loads(message or "{}")
    except orjson.JSONDecodeError:
        return {}
    if not isinstance(entries, dict):
        return {}
    return {name: value for name, value in entries.items() if isinstance(value, bool)}
