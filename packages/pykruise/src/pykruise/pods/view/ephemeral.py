"""Ephemeral containers of a pod: the facts that the job that added them needs.

spec.ephemeralContainers + status.ephemeralContainerStatuses ──▶ decode_ephemeral_views() ──▶ EphemeralViews

Pure. Kubernetes allows no change or removal of an existing ephemeral container.
"""

from enum import StrEnum
from typing import Final

import msgspec

from pykruise.pods.view.containers import NOT_CONFIGURED

JOB_ENV: Final = "KRUISE_EJOB_ID"
"""Environment variable with the uid of the EphemeralJob that added the container."""

_NEVER_STARTED: Final = "RunContainerError"
"""Waiting reason of a container whose program cannot be run: it will never start."""


class EphemeralState(StrEnum):
    """State of an ephemeral container."""

    UNKNOWN = "unknown"
    """The kubelet has not reported the container yet."""
    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class EphemeralView(msgspec.Struct, frozen=True, gc=False):
    """An ephemeral container. `job`: uid of the EphemeralJob that added it; empty if no job did."""

    name: str
    job: str = ""
    state: EphemeralState = EphemeralState.UNKNOWN
    reason: str = ""
    """The kubelet's reason why the container waits or why it ended."""
    exit_code: int = 0
    """Exit code of an ended container."""
    lacks: str = ""
    """The kubelet's message about what prevents the creation of the container; empty if nothing does."""


class _Env(msgspec.Struct, gc=False):
    name: str = ""
    value: str | None = None


class _Container(msgspec.Struct, gc=False):
    name: str = ""
    env: tuple[_Env, ...] | None = None


class _Waiting(msgspec.Struct, gc=False):
    reason: str | None = None
    message: str | None = None


class _Terminated(msgspec.Struct, gc=False, rename="camel"):
    reason: str | None = None
    exit_code: int = 0
    finished_at: str | None = None


class _Running(msgspec.Struct, gc=False):
    pass


class _State(msgspec.Struct, gc=False):
    waiting: _Waiting | None = None
    running: _Running | None = None
    terminated: _Terminated | None = None


class _Status(msgspec.Struct, gc=False):
    name: str = ""
    state: _State | None = None


_decode_containers = msgspec.json.Decoder(tuple[_Container, ...] | None).decode
_decode_statuses = msgspec.json.Decoder(tuple[_Status, ...] | None).decode


def decode_ephemeral_views(containers: msgspec.Raw, statuses: msgspec.Raw) -> tuple[EphemeralView, ...]:
    """Decode views from the JSON texts of both lists; an empty text is an empty list. Raises msgspec.DecodeError."""
    if not len(containers):
        return ()
    states = {status.name: status.state for status in _decode_statuses(statuses) or ()} if statuses else {}
    return tuple(
        _build_view(container, states.get(container.name))
        for container in _decode_containers(containers) or ()
    )


def _build_view(container: _Container, state: _State | None) -> EphemeralView:
    ended = state.terminated if state is not None else None
    waiting = state.waiting if state is not None else None
    said = ended or waiting
    return EphemeralView(
        container.name,
        _find_job_uid(container),
        _compute_state(state),
        (said.reason or "") if said is not None else "",
        ended.exit_code if ended is not None else 0,
        (waiting.message or "") if waiting is not None and waiting.reason == NOT_CONFIGURED else "",
    )


def _find_job_uid(container: _Container) -> str:
    return next((variable.value or "" for variable in container.env or () if variable.name == JOB_ENV), "")


def _compute_state(state: _State | None) -> EphemeralState:
    """State of the container. This is the rule of OpenKruise's EphemeralJob."""
    if state is None:
        return EphemeralState.UNKNOWN
    if (ended := state.terminated) is not None:
        if ended.exit_code:
            return EphemeralState.FAILED
        return EphemeralState.SUCCEEDED if ended.finished_at else EphemeralState.UNKNOWN
    if state.running is not None:
        return EphemeralState.RUNNING
    if state.waiting is not None:
        return EphemeralState.FAILED if state.waiting.reason == _NEVER_STARTED else EphemeralState.WAITING
    return EphemeralState.UNKNOWN
