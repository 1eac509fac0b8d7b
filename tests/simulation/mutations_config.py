"""Mutations of workloads that follow the content of ConfigMaps and Secrets; see mutations.py."""

from typing import Any

import msgspec

from pykruise.kinds.cloneset import working_set
from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.plans import config_content
from pykruise.pods.in_place import difference
from simulation.mutating import Change, always

__all__ = ["ROLLONCONFIG"]

replace = msgspec.structs.replace


def _optional(original: Any) -> Any:
    """An object that does not exist counts as absent, although pods need it."""

    async def read(use: Any, *given: Any) -> Any:
        digest, _ = await original(use, *given)
        return digest, ""

    return read


def _without_lifecycle(original: Any) -> Any:
    """Whether an update surges is decided without regard to the inPlaceUpdate hook."""

    def is_surging(snapshot: Any, *given: Any, **named: Any) -> Any:
        spec = replace(snapshot.cloneset.spec, lifecycle=None)
        return original(replace(snapshot, cloneset=replace(snapshot.cloneset, spec=spec)), *given, **named)

    return is_surging


ROLLONCONFIG: dict[str, tuple[Change, ...]] = {
    "RollOnConfig: a changed ConfigMap enqueues nothing": (
        (CLONE_SET.control, "wakes", lambda original: lambda settings: original(settings)[:-2]),
    ),
    "RollOnConfig: a deleted ConfigMap begins a rollout": ((config_content, "_read_digest", _optional),),
    "RollOnConfig: the content is never read again": ((config_content, "digest_content", always("0" * 32)),),
    "RollOnConfig: a container that reads at the start is updated in place": (
        (difference, "_explain_content", always("")),
    ),
    "RollOnConfig: an update of metadata does not surge for a hook": (
        (working_set, "is_surging", _without_lifecycle),
    ),
}
