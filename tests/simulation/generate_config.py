"""A random script: a CloneSet that follows a ConfigMap, and users who change, delete and create the ConfigMap.

seed ──▶ generate() ──▶ Script of kind `rollonconfig`
"""

import random
from typing import Any

import msgspec

from simulation import generate_cloneset
from simulation.script import Operation, Script

__all__ = ["generate"]

KIND = "rollonconfig"


def generate(seed: int) -> Script:
    """The script of this seed, always the same."""
    script = generate_cloneset.generate(seed)
    rng = random.Random(f"config-{seed}")
    length_s = max((operation.at for operation in script.operations), default=20.0)
    operations = [Operation(0.0, "write_config", {"value": 0}), *_config_operations(rng, length_s)]
    return msgspec.structs.replace(
        script,
        kind=KIND,
        object=_following(rng, script.object),
        operations=tuple(sorted([*script.operations, *operations], key=lambda operation: operation.at)),
    )


def _config_operations(rng: random.Random, length_s: float) -> list[Operation]:
    operations = [
        Operation(round(rng.uniform(1, length_s + 5), 2), "write_config", {"value": rng.randrange(4)})
        for _ in range(rng.choice((1, 2, 4)))
    ]
    if rng.random() < 0.3:
        operations.append(Operation(round(rng.uniform(1, length_s), 2), "delete_config"))
        operations.append(Operation(round(length_s + 6, 2), "write_config", {"value": rng.randrange(4)}))
    return operations


def _following(rng: random.Random, document: dict[str, Any]) -> dict[str, Any]:
    """The CloneSet with the option, and a container that mounts the ConfigMap, or reads it when it starts."""
    metadata = document["metadata"]
    annotations = {**metadata.get("annotations", {}), "pykruise.io/roll-on-config": "all"}
    template = document["spec"]["template"]
    pod = {**template["spec"], "containers": [dict(item) for item in template["spec"]["containers"]]}
    if rng.random() < 0.5:
        pod["containers"][0]["envFrom"] = [{"configMapRef": {"name": "app"}}]
    else:
        pod["volumes"] = [{"name": "config", "configMap": {"name": "app"}}]
        pod["containers"][0]["volumeMounts"] = [{"name": "config", "mountPath": "/etc/app"}]
    spec = {**document["spec"], "template": {**template, "spec": pod}}
    return {**document, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
