"""Ephemeral containers from the view of the job that added them."""

from typing import Any

import msgspec
import orjson
import pytest

from pykruise.pods.view.ephemeral import EphemeralState, EphemeralView, decode_ephemeral_views


def views(containers: Any, statuses: Any) -> tuple[EphemeralView, ...]:
    return decode_ephemeral_views(*(msgspec.Raw(orjson.dumps(item)) for item in (containers, statuses)))


def test_a_missing_or_null_list_of_ephemeral_containers_is_empty() -> None:
    some = msgspec.Raw(b'[{"name":"debug"}]')
    assert decode_ephemeral_views(msgspec.Raw(), msgspec.Raw()) == ()
    assert decode_ephemeral_views(some, msgspec.Raw()) == (EphemeralView("debug"),)
    assert views(None, None) == ()
    assert views([{"name": "debug"}], None) == (EphemeralView("debug"),)


@pytest.mark.parametrize(
    ("env", "job"),
    [
        (None, ""),
        ([], ""),
        ([{"name": "A", "value": "x"}], ""),
        ([{"name": "A", "value": "x"}, {"name": "KRUISE_EJOB_ID", "value": "u-1"}], "u-1"),
        ([{"name": "KRUISE_EJOB_ID", "value": None}], ""),
    ],
)
def test_a_container_names_the_job_that_it_is_from(env: Any, job: str) -> None:
    assert views([{"name": "debug", "env": env}], [])[0].job == job


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (None, EphemeralState.UNKNOWN),
        ({}, EphemeralState.UNKNOWN),
        ({"running": {"startedAt": None}}, EphemeralState.RUNNING),
        ({"waiting": {"reason": "ContainerCreating"}}, EphemeralState.WAITING),
        ({"waiting": {}}, EphemeralState.WAITING),
        ({"waiting": {"reason": "RunContainerError"}}, EphemeralState.FAILED),
        ({"terminated": {"exitCode": 1}}, EphemeralState.FAILED),
        ({"terminated": {"exitCode": 0, "finishedAt": "2026-01-31T12:00:00Z"}}, EphemeralState.SUCCEEDED),
        ({"terminated": {"exitCode": 0, "finishedAt": None}}, EphemeralState.UNKNOWN),
    ],
)
def test_the_state_of_an_ephemeral_container_follows_its_status(state: Any, expected: EphemeralState) -> None:
    statuses = [{"name": "other", "state": {"running": {}}}, {"name": "debug", "state": state}]
    said = state or {}
    reason = said.get("waiting", {}).get("reason", "")
    code = said.get("terminated", {}).get("exitCode", 0)
    assert views([{"name": "debug"}], statuses) == (EphemeralView("debug", "", expected, reason, code),)
    assert views([{"name": "third"}], statuses)[0].state == EphemeralState.UNKNOWN
