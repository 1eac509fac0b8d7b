"""Mutations of workloads that follow the content of ConfigMaps and Secrets; see mutations.py."""

from typing import Any

from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.plans import config_content
from pykruise.pods.in_place import difference
from simulation.mutating import Change, always

__all__ = ["ROLLONCONFIG"]


def _optional(original: Any) -> Any:
    """An object that does not exist counts as absent, although pods need it."""

    async def read(use: Any, *given: Any) -> Any:
        digest, _ = await original(use, *given)
        return digest, ""

    return read


ROLLONCONFIG: dict[str, tuple[Change, ...]] = {
    "RollOnConfig: a changed ConfigMap enqueues nothing": (
        (CLONE_SET.control, "wakes", lambda original: lambda settings: original(settings)[:-2]),
    ),
    "RollOnConfig: a deleted ConfigMap begins a rollout": ((config_content, "_read_digest", _optional),),
    "RollOnConfig: the content is never read again": ((config_content, "digest_content", always("0" * 32)),),
    "RollOnConfig: a container that reads at the start is updated in place": (
        (difference, "_explain_content", always("")),
    ),
}
