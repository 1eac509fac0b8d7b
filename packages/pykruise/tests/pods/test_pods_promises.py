"""Reasons of waits that end by themselves promise a time; the simulator checks the promise."""

import math

import pytest

from pykruise.pods.reasons import AT_REST, CODES, Code, compute_longest_wait_s


@pytest.mark.parametrize("code", CODES)
def test_a_wait_has_something_that_helps_or_a_time_within_which_it_moves(code: Code) -> None:
    meaning = CODES[code]
    is_wait = not meaning.helps and code not in AT_REST
    assert (meaning.moves_in_s > 0) is is_wait


def test_no_wait_but_those_that_the_spec_times_may_last_for_ever() -> None:
    timed = {code for code, meaning in CODES.items() if 0 < meaning.moves_in_s < math.inf}
    assert {
        Code.CREATING,
        Code.STARTING,
        Code.SCHEDULING,
        Code.UPDATING,
        Code.DELETING,
        Code.SUBSETS,
    } <= timed
    assert max(CODES[code].moves_in_s for code in timed) <= 600.0


def test_a_wait_that_the_spec_times_ends_after_the_seconds_of_the_spec() -> None:
    spec = {
        "minReadySeconds": 300,
        "template": {"spec": {"terminationGracePeriodSeconds": 60, "containers": [{"name": "a"}]}},
    }
    assert (
        compute_longest_wait_s(Code.MIN_READY_SECONDS, spec)
        == compute_longest_wait_s(Code.STARTING, spec) + 360
    )
    assert compute_longest_wait_s(Code.IMAGE_PULL, spec) == 0


def test_every_transient_wait_has_a_finite_longest_time() -> None:
    assert all(compute_longest_wait_s(code, {}) < math.inf for code in CODES)
