"""A random script: a workload whose pods are a group of the scheduler.

seed ──▶ generate() ──▶ Script of kind `podgroups`: a CloneSet
     ──▶ generate_job() ──▶ Script of kind `podgroupjobs`: a BroadcastJob
     ──▶ generate_set() ──▶ Script of kind `podgroupsets`: an Advanced StatefulSet
"""

import random
from typing import Any

import msgspec

from simulation import generate_broadcastjob, generate_cloneset, generate_statefulset
from simulation.script import Operation, Script

__all__ = ["generate", "generate_job", "generate_set"]

KIND = "podgroups"
_REFUSED = ("limit_scaling", "strategy")
"""Operations that admission refuses for a group."""


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    script = generate_cloneset.generate(seed)
    rng = random.Random(f"groups-{seed}")
    document = _grouped(rng, script.object)
    surges = "maxSurge" in document["spec"]["updateStrategy"]["rollingUpdate"]
    return msgspec.structs.replace(
        script,
        kind=KIND,
        object=document,
        operations=tuple(
            operation
            for operation in script.operations
            # While it is paused, no surge pod could replace a pod that is specified for deletion.
            if _is_allowed(operation) and not (surges and operation.do in ("list_to_delete", "mark"))
        ),
    )


def generate_set(seed: int) -> Script:
    """The script of this seed for an Advanced StatefulSet, always the same."""
    script = generate_statefulset.generate(seed)
    return msgspec.structs.replace(
        script,
        kind="podgroupsets",
        object=_grouped_set(script.object),
        operations=tuple(operation for operation in script.operations if _is_allowed(operation)),
    )


def generate_job(seed: int) -> Script:
    """The script of this seed for a BroadcastJob, always the same."""
    script = generate_broadcastjob.generate(seed)
    rng = random.Random(f"groups-{seed}")
    document = script.object
    annotations = {"pykruise.io/gang-min-count": rng.choice(("all", "all", "1", "2", "50%"))}
    spec = {name: value for name, value in document["spec"].items() if name != "parallelism"}
    return msgspec.structs.replace(
        script,
        kind="podgroupjobs",
        object={**document, "metadata": {**document["metadata"], "annotations": annotations}, "spec": spec},
        operations=tuple(item for item in script.operations if "parallelism" not in item.args),
    )


def _is_allowed(operation: Operation) -> bool:
    if operation.do == "rolling":
        return bool({"paused", "podUpdatePolicy"} & set(operation.args))
    return operation.do not in _REFUSED


def _grouped(rng: random.Random, document: dict[str, Any]) -> dict[str, Any]:
    """The CloneSet with the option, and a strategy with which all pods are updated together."""
    metadata, spec = document["metadata"], {**document["spec"]}
    annotations = {**metadata.get("annotations", {}), "pykruise.io/gang-min-count": "all"}
    rolling = {**spec["updateStrategy"]["rollingUpdate"], "maxUnavailable": "100%"}
    for field in ("partition", "maxSurge"):
        rolling.pop(field, None)
    if rolling["podUpdatePolicy"] != "InPlaceOnly" and rng.random() < 0.4:
        rolling |= {"maxUnavailable": 0, "maxSurge": "100%"}
    spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    spec["scaleStrategy"] = {
        name: value for name, value in (spec.get("scaleStrategy") or {}).items() if name != "maxUnavailable"
    }
    return {**document, "metadata": {**metadata, "annotations": annotations}, "spec": spec}


def _grouped_set(document: dict[str, Any]) -> dict[str, Any]:
    """The StatefulSet with the option, and a strategy with which all pods are updated together."""
    metadata, spec = document["metadata"], {**document["spec"], "podManagementPolicy": "Parallel"}
    annotations = {**metadata.get("annotations", {}), "pykruise.io/gang-min-count": "all"}
    rolling = {**spec["updateStrategy"].get("rollingUpdate", {}), "maxUnavailable": "100%"}
    rolling.pop("partition", None)
    spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    spec.pop("scaleStrategy", None)
    return {**document, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
