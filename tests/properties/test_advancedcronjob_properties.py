"""Invariants of every AdvancedCronJob, for any clocks, children, managers and specs.

A small world carries out plans, some of them only partly, as if the manager was killed. The schedules have a period,
so the test does not parse cron.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.clock import parse_time
from support.cron_world import START, CronWorld
from support.examples import examples

PERIODS = {"*/1 * * * *": 60, "*/5 * * * *": 300, "0 * * * *": 3600}

specs = st.fixed_dictionaries(
    {
        "concurrencyPolicy": st.sampled_from(["Allow", "Forbid", "Replace"]),
        "successfulJobsHistoryLimit": st.integers(0, 3),
        "failedJobsHistoryLimit": st.integers(0, 2),
    },
    optional={"startingDeadlineSeconds": st.sampled_from([0, 20, 400])},
)
events = st.sampled_from(
    ["pass", "pass", "pass", "jump", "back", "end", "fail", "delete", "pause", "resume", "forget"]
)
steps = st.lists(
    st.tuples(events, st.integers(0, 4000), st.none() | st.integers(0, 3)), min_size=5, max_size=20
)


def happen(world: CronWorld, event: str, number: int) -> None:
    """Apply the event; `number`: seconds, or the index of a child."""
    active = [name for name, child in world.children.items() if "status" not in child]
    # A deleted child that the status does not know yet leaves no trace: its second creation is correct.
    known = [name for name in sorted(world.children) if int(name.rpartition("-")[2]) <= last_of(world)]
    match event:
        case "pass":
            world.now += number
        case "jump":
            world.now += 20 * number
        case "back":
            world.now -= number
        case "end" | "fail" if active:
            name = active[number % len(active)]
            world.end(name, kind="Complete" if event == "end" else "Failed")
        case "delete" if known:
            del world.children[known[number % len(known)]]
        case "pause" | "resume":
            world.spec(paused=event == "pause")
        case "forget" if known:  # the annotation of a child is damaged
            child = world.children[known[number % len(known)]]
            child["metadata"]["annotations"]["apps.kruise.io/scheduled-at"] = "long ago"
        case _:
            pass


def last_of(world: CronWorld) -> float:
    said = world.status.get("lastScheduleTime")
    return parse_time(said) if said else 0.0


@given(st.sampled_from(sorted(PERIODS)), specs, steps)
@examples(1)
def test_only_scheduled_times_start_a_job_and_each_time_starts_one_at_most(
    schedule: str, spec: dict[str, Any], story: list[tuple[str, int, int | None]]
) -> None:
    world = CronWorld(schedule, **spec)
    period, served = PERIODS[schedule], last_of(world)
    for event, number, writes in story:
        happen(world, event, number)
        before, paused = list(world.made), bool(world.document["spec"].get("paused"))
        active = {name for name, child in world.children.items() if "status" not in child}
        plan = world.plan()
        assert plan == world.plan(), "the same world gives the same plan"
        world.carry_out(plan, writes=writes)
        new = [int(name.rpartition("-")[2]) for name in world.made[len(before) :]]
        assert len(new) <= 1, "never several at a time"
        for tick in new:
            assert tick % period == 0, "only times of the schedule"
            assert world.now - period < tick <= world.now, "the latest one, and none before its time"
            assert not paused
            assert spec["concurrencyPolicy"] != "Forbid" or not active
            assert tick + spec.get("startingDeadlineSeconds", 1e9) >= world.now
        assert last_of(world) >= served, "the last time never goes back"
        served = last_of(world)
    assert len(set(world.made)) == len(world.made), "no time is served twice"


@given(st.sampled_from(sorted(PERIODS)), specs, steps)
@examples(0.5)
def test_the_next_time_is_served_after_any_disturbance_and_the_history_is_short(
    schedule: str, spec: dict[str, Any], story: list[tuple[str, int, int | None]]
) -> None:
    world = CronWorld(schedule, **{**spec, "startingDeadlineSeconds": None})
    for event, number, writes in story:
        happen(world, event, number)
        world.carry_out(world.plan(), writes=writes)
    world.spec(paused=False)
    world.now = max(world.now, last_of(world), START)
    before = set(world.made)
    world.end().sync(5)
    period = PERIODS[schedule]
    world.now = world.now // period * period + period + 1

    world.end().sync(5)

    assert set(world.made) - before, "one more is made"
    world.end().sync(5)
    kinds = [child["status"]["conditions"][0]["type"] for child in world.children.values()]
    assert kinds.count("Complete") <= spec["successfulJobsHistoryLimit"]
    assert kinds.count("Failed") <= spec["failedJobsHistoryLimit"]
    assert world.plan().is_settled
