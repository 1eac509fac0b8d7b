"""Warnings about changes of jobs that have ended: such a job does not run again.

stored object, new object ──▶ warnings_of_ended_job() ──▶ warnings in a response that allows the write

Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kube.documents import get_path, is_same

STILL_USED: Final = frozenset({"completionPolicy", "ttlSecondsAfterFinished", "paused"})
"""Fields of the spec whose change causes no warning after the end of a job. All except `paused` determine when the job
is deleted.
"""

RUN_AGAIN: Final = "delete the job and create it again (kubectl replace --force -f FILE)"
"""Instruction for a job that has ended and must run again."""


NAMES_STAY: Final = (
    "create the job again with another container name: an ephemeral container stays until its pod is replaced"
)
"""Instruction for a job of ephemeral containers: in existing pods the names of the old ones are taken."""


def warnings_of_ended_job(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each changed field of the spec of a job that has ended."""
    if not get_path(old, "status", "completionTime"):
        return
    before, after = old.get("spec") or {}, new.get("spec") or {}
    for field in sorted({*before, *after} - STILL_USED):
        if not is_same(before.get(field), after.get(field)):
            yield f"spec.{field}: the job has ended and does not run again; {RUN_AGAIN}"
