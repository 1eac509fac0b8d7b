"""The bench of attacks in brief, in the sandbox: each attack reaches its goal, and legitimate users get responses.

Times and memory are for a machine that does nothing else: they are printed, and these tests do not check them.
"""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from bench.attacks import AT_AGENT, AT_DASHBOARD, ATTACKS
from bench.attacks_on_agents import REPORTED, REQUESTED, SMUGGLED
from bench.attacks_on_dashboards import LOGINS, OPENED
from bench.attacks_on_plans import CHURNED, MOST_CHURNED
from bench.bench_attacks import Outcome, page, run
from bench.lone_node import FLOODED

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(400),
    pytest.mark.alone,  # other tests would take the processor time of legitimate requests
    pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc"),
]

BRIEF_S = 6.0
PATIENT_S = 60.0
"""Time limit of legitimate requests. It is long, because other tests use the same processors."""


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """All attacks at once, for a moment."""
    folder = Path(__file__).parents[2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, (folder, folder.parent))))
        return asyncio.run(run(list(ATTACKS), seconds=BRIEF_S, cluster="sandbox", answer_s=PATIENT_S))


def test_every_program_has_a_row_without_attacks_and_one_with_all(outcomes: list[Outcome]) -> None:
    rows = [(outcome.attack, outcome.program) for outcome in outcomes]
    assert rows == [
        (attack, name) for attack in ("none", "all") for name in ("manager", "agent", "dashboard")
    ]


def test_honest_requests_are_not_refused_and_the_lease_is_kept(outcomes: list[Outcome]) -> None:
    requests = [outcome for outcome in outcomes if outcome.program != "agent"]  # its probes are only late
    assert [(outcome.program, outcome.refused) for outcome in requests if outcome.refused] == []
    assert all(outcome.lease_kept for outcome in outcomes)
    assert all(outcome.asked for outcome in outcomes)


def test_attacks_reach_their_aim_and_get_no_more_than_they_may(outcomes: list[Outcome]) -> None:
    counts = {words: count for outcome in outcomes for words, count in outcome.counts.items()}
    assert counts.keys() == {REQUESTED, REPORTED, CHURNED, LOGINS, OPENED, FLOODED}
    assert SMUGGLED not in counts
    assert counts[CHURNED] <= MOST_CHURNED


def test_the_page_has_the_figures_of_all_programs(outcomes: list[Outcome]) -> None:
    all_at_once, single = page(outcomes).split("\n\n")
    assert [row.split("|")[2].strip() for row in all_at_once.splitlines()[2:]] == [
        "manager",
        "agent",
        "dashboard",
    ]
    assert len(single.splitlines()) == 2 + 3
    assert "| kept |" in all_at_once


def test_each_attack_has_one_aim() -> None:
    assert ATTACKS.keys() > AT_AGENT | AT_DASHBOARD
    assert AT_AGENT.isdisjoint(AT_DASHBOARD)
