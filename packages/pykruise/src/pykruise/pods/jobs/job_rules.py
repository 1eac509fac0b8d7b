"""Common admission rules of jobs: their names, and templates of pods that run to completion.

metadata ──▶ find_job_name_errors() ──▶ field errors        template ──▶ add_pod_defaults() ──▶ the template as stored
amounts of a BroadcastJob ──▶ find_broadcast_amount_errors() ──▶ field errors

Pure.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.pod_rules.field_rules import check_not_negative
from pykruise.pods.template import defaults as template_defaults
from pykruise.pods.template.defaults import DefaultingSettings

LONGEST_NAME: Final = 63
_NAME: Final = re.compile(r"[a-zA-Z0-9-]+", re.ASCII)
_PARALLELISM: Final = re.compile(r"[0-9]+(\.[0-9]*)?%?", re.ASCII)


def find_job_name_errors(metadata: Mapping[str, Any]) -> Iterator[Cause]:
    """Errors of a job's name, which becomes a label value on the job's objects. This is the rule of OpenKruise."""
    name = str(metadata.get("name") or "")
    if name and not _NAME.fullmatch(name):
        yield make_invalid_error("metadata.name", name, "must consist of letters, digits and '-'")
    if len(name) > LONGEST_NAME:
        yield make_invalid_error("metadata.name", name, f"must be no more than {LONGEST_NAME} characters")


def find_broadcast_amount_errors(
    path: str,
    *,
    parallelism: int | str | None,
    deadline_s: int | None,
    ttl_s: int | None,
    restart_limit: int | None,
) -> Iterator[Cause]:
    """Errors of the amounts in the spec of a BroadcastJob at `path`. `deadline_s`: activeDeadlineSeconds; `ttl_s`:
    ttlSecondsAfterFinished.
    """
    if isinstance(parallelism, int):
        yield from check_not_negative(parallelism, f"{path}.parallelism")
    elif parallelism is not None and not _PARALLELISM.fullmatch(parallelism):
        why = "must be a number or a percentage of the nodes (e.g. '10%')"
        yield make_invalid_error(f"{path}.parallelism", parallelism, why)
    yield from check_not_negative(deadline_s, f"{path}.completionPolicy.activeDeadlineSeconds")
    yield from check_not_negative(ttl_s, f"{path}.completionPolicy.ttlSecondsAfterFinished")
    yield from check_not_negative(restart_limit, f"{path}.failurePolicy.restartLimit")


def add_pod_defaults(
    template: Mapping[str, Any], *, complete: bool, settings: DefaultingSettings
) -> Document:
    """Template of pods that run to completion: restart policy OnFailure and, with `complete`, all other defaults, if
    the settings do not prevent them.
    """
    spec: Document = dict(template.get("spec") or {})
    spec["restartPolicy"] = spec.get("restartPolicy") or "OnFailure"
    defaults = {**template, "spec": spec}
    if not complete or settings.template_no_defaults:
        return defaults
    return template_defaults.add_defaults(defaults, host_ports=settings.host_network_ports)
