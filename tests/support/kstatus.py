"""The status that Flux, Helm 4 and kpt compute for an object: the rules of kstatus for custom resources.

document ──▶ kstatus() ──▶ Terminating, InProgress, Failed or Current: the first rule that applies

Pure. The rules are those of cli-utils, `pkg/kstatus/status/generic.go`, of 2025-10.
"""

from typing import Any, Final

from pykruise.runtime.kstatus import split_kstatus

__all__ = ["CURRENT", "FAILED", "IN_PROGRESS", "TERMINATING", "condition", "kstatus", "other_conditions"]

TERMINATING: Final = "Terminating"
IN_PROGRESS: Final = "InProgress"
FAILED: Final = "Failed"
CURRENT: Final = "Current"


def condition(value: dict[str, Any], kind: str) -> dict[str, Any] | None:
    """The condition of this type, or None."""
    conditions = (value.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind), None)


def other_conditions(status: dict[str, Any]) -> list[dict[str, Any]]:
    """The conditions of a status that are a kind's own."""
    conditions: list[dict[str, Any]] = split_kstatus(status)[0].get("conditions") or []
    return conditions


def kstatus(value: dict[str, Any]) -> str:
    """The kstatus of an object."""
    meta, status = value["metadata"], value.get("status") or {}
    if "deletionTimestamp" in meta:
        return TERMINATING
    if status.get("observedGeneration", meta["generation"]) != meta["generation"]:
        return IN_PROGRESS
    said = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    if said.get("Reconciling") == "True":
        return IN_PROGRESS
    if said.get("Stalled") == "True":
        return FAILED
    return IN_PROGRESS if said.get("Ready", "True") != "True" else CURRENT
