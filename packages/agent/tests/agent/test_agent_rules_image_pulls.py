"""Decisions of an agent about the pulls of its NodeImage."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from pykruise.agent.rules.image_pulls import (
    AgentNodeImageView,
    Attempt,
    Pull,
    PullStatusPace,
    Report,
    WantedPull,
    advance_pulls,
    events_of,
    project_node_image,
    report_of,
    shift_times,
    status_of,
)
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import encode
from pykruise.kube.values.image_pulls import Pulled, PullFailure
from pykruise.kube.values.image_references import ImageName
from pykruise.sandbox.nodes.faults import Rule, pull_of
from pykruise.sandbox.nodes.images import ImageTable

NGINX = ImageName("nginx", "1")
GOOD = Attempt(5.0, Pulled("docker.io/library/nginx@sha256:1"))
BAD = Attempt(5.0, PullFailure("ErrImagePull", "no such image"))


def view(*tags: Mapping[str, Any], status: Mapping[str, Any] | None = None) -> AgentNodeImageView:
    document = {
        "metadata": {"name": "n1", "uid": "u", "resourceVersion": "1"},
        "spec": {"images": {"nginx": {"tags": list(tags)}}} if tags else {},
        "status": status or {},
    }
    return project_node_image(encode(document))


class Agent:
    """One agent; the test gives the time."""

    def __init__(self, *outcomes: Attempt, most: int = 0) -> None:
        self.outcomes = outcomes
        self.most = most
        self.pulls: dict[ImageName, Pull] = {}
        self.tries: list[int] = []

    def until(self, asked: AgentNodeImageView, now: Instant) -> Instant:
        """Advance the pulls to this time; return the time of the agent's next look."""

        def attempt(_image: ImageName, _wanted: WantedPull, number: int) -> Attempt:
            self.tries.append(number)
            return self.outcomes[min(number, len(self.outcomes)) - 1]

        self.pulls, look_at = advance_pulls(self.pulls, asked, attempt=attempt, most=self.most, now=now)
        return look_at

    def phase(self, image: ImageName = NGINX) -> str:
        return self.pulls[image].phase


def test_a_pull_takes_as_long_as_needed_and_reports_its_result() -> None:
    agent, asked = Agent(GOOD), view({"tag": "1"})
    assert agent.until(asked, 100.0) == 105.0
    assert agent.phase() == "Pulling"
    assert agent.until(asked, 105.0) == math.inf
    status = status_of(asked, agent.pulls)
    (tag,) = status["imageStatuses"]["nginx"]["tags"]
    assert (tag["phase"], tag["progress"], tag["imageID"]) == ("Succeeded", 100, "nginx@sha256:1")
    assert status["firstSyncStatus"] == {"syncAt": format_time(105.0), "status": "Succeeded"}


def test_a_pull_that_fails_is_tried_again_after_one_and_two_seconds() -> None:
    """images case 52"""
    agent, asked = Agent(BAD), view({"tag": "1", "pullPolicy": {"backoffLimit": 2}})
    agent.until(asked, 0.0)
    times = [agent.until(asked, when) for when in (5.0, 6.0, 11.0, 13.0)]
    assert times == [6.0, 11.0, 13.0, 18.0]
    assert agent.until(asked, 18.0) == math.inf
    assert agent.phase() == "Failed"
    assert agent.pulls[NGINX].attempt == 3
    assert agent.pulls[NGINX].message == "no such image"


def test_a_pull_that_hangs_ends_with_its_time_out() -> None:
    """images case 53"""
    agent = Agent(Attempt(math.inf, GOOD.answer))
    asked = view({"tag": "1", "pullPolicy": {"backoffLimit": 0, "timeoutSeconds": 50}})
    assert agent.until(asked, 0.0) == 50.0
    agent.until(asked, 50.0)
    assert agent.pulls[NGINX].message == "context deadline exceeded"


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"timeoutSeconds": 50, "activeDeadlineSeconds": 80}, "timeoutSeconds is 50"),
        ({"timeoutSeconds": 600, "activeDeadlineSeconds": 50}, "activeDeadlineSeconds is 50"),
    ],
)
def test_a_try_that_hangs_names_the_limit_that_ended_it(limits: dict[str, int], named: str) -> None:
    agent = Agent(Attempt(math.inf, GOOD.answer))
    agent.until(view({"tag": "1", "pullPolicy": limits}), 0.0)
    agent.until(view({"tag": "1", "pullPolicy": limits}), 50.0)
    assert agent.pulls[NGINX].message.endswith(f"context deadline exceeded (pullPolicy.{named})")


def test_the_deadline_ends_all_tries() -> None:
    agent = Agent(BAD)
    asked = view({"tag": "1", "pullPolicy": {"backoffLimit": 99, "activeDeadlineSeconds": 20}})
    agent.until(asked, 0.0)
    agent.until(asked, 100.0)
    assert agent.phase() == "Failed"
    assert agent.pulls[NGINX].completed_at is not None
    assert agent.pulls[NGINX].completed_at <= 24.0


def test_a_pull_ends_after_the_clock_was_set_back() -> None:
    # given a try that began an hour ahead of the present time
    agent, asked = Agent(Attempt(math.inf, None), BAD, GOOD), view({"tag": "1"})
    agent.until(asked, 3_700.0)
    # when its failure is known
    agent.outcomes = (BAD, BAD, GOOD)
    assert agent.until(asked, 100.0) == 105.0
    assert agent.until(asked, 105.0) == 106.0
    # and the clock is set back again during the pause before the next try
    agent.until(asked, 106.0 - 90.0)
    # then the next try begins, and the last one succeeds
    assert agent.tries[-1] == 2
    agent.until(asked, 106.0)
    assert agent.phase() == "Succeeded"
    pull = agent.pulls[NGINX]
    assert (pull.started_at, pull.completed_at) == (16.0, 28.0)


@pytest.mark.parametrize("step_s", [-2700.0, 700.0, 2700.0])
def test_a_step_of_the_clock_does_not_count_in_the_limits_of_a_pull(step_s: float) -> None:
    # given a try that runs for five seconds
    agent, asked = Agent(Attempt(math.inf, None)), view({"tag": "1"})
    agent.until(asked, 10_000.0)
    agent.until(asked, 10_005.0)
    # when the clock is set
    agent.pulls = shift_times(agent.pulls, step_s)
    due = agent.until(asked, 10_005.0 + step_s)
    # then the same try has the rest of its time
    assert set(agent.tries) == {1}
    assert due == 10_000.0 + step_s + 600.0


def test_a_step_of_the_clock_leaves_ended_and_waiting_pulls() -> None:
    agent, asked = Agent(GOOD, most=1), view({"tag": "1"}, {"tag": "2"})
    agent.until(asked, 10_000.0)
    agent.until(asked, 10_005.0)
    ended = {image: pull for image, pull in agent.pulls.items() if pull.completed_at is not None}
    assert len(ended) == 1
    assert shift_times(ended, 60.0) == ended


def test_a_status_is_written_after_the_clock_was_set_back() -> None:
    pace = PullStatusPace(filled_at=3_700.0)
    assert pace.wait_s(100.0) == 0.0
    pace.tokens, pace.filled_at = 0.0, 3_700.0
    assert pace.wait_s(100.0) == 2.0


def test_a_removed_image_entry_ends_its_pull_and_leaves_no_status() -> None:
    """images case 54"""
    agent = Agent(GOOD)
    agent.until(view({"tag": "1"}), 0.0)
    agent.until(view(), 1.0)
    assert agent.pulls == {}
    assert "imageStatuses" not in status_of(view(), agent.pulls)


def test_another_version_of_an_entry_is_pulled_again() -> None:
    agent = Agent(GOOD)
    agent.until(view({"tag": "1"}), 0.0)
    agent.until(view({"tag": "1"}), 5.0)
    agent.until(view({"tag": "1", "version": 1}), 6.0)
    assert (agent.phase(), agent.pulls[NGINX].version) == ("Pulling", 1)


def test_no_more_images_are_pulled_in_parallel_than_the_limit() -> None:
    """images case 56"""
    agent, asked = Agent(GOOD, most=2), view(*({"tag": str(number)} for number in range(5)))
    agent.until(asked, 0.0)
    phases = [pull.phase for pull in agent.pulls.values()]
    assert (phases.count("Pulling"), phases.count("Waiting")) == (2, 3)
    assert status_of(asked, agent.pulls)["waiting"] == 3
    now = 0.0
    while (now := agent.until(asked, now)) < math.inf:
        assert sum(pull.phase == "Pulling" for pull in agent.pulls.values()) <= 2
    assert {pull.phase for pull in agent.pulls.values()} == {"Succeeded"}


def test_a_pull_that_ended_before_a_restart_is_not_repeated() -> None:
    """images case 58"""
    done = {"tag": "1", "phase": "Succeeded", "version": 3, "completionTime": format_time(1.0)}
    status = {"desired": 1, "succeeded": 1, "imageStatuses": {"nginx": {"tags": [done]}}}
    asked = view({"tag": "1", "version": 3}, status=status)
    agent = Agent(GOOD)
    assert agent.until(asked, 100.0) == math.inf
    assert agent.pulls == {}
    assert status_of(asked, agent.pulls)["imageStatuses"] == status["imageStatuses"]


def test_a_private_image_is_pulled_with_the_right_credentials_only() -> None:
    """images case 55"""
    table = ImageTable(private={"gcr.io/p/app": "me:right"})
    assert isinstance(table.pull_as("gcr.io/p/app:1", []), PullFailure)
    assert isinstance(table.pull_as("gcr.io/p/app:1", ["me:wrong"]), PullFailure)
    assert isinstance(table.pull_as("gcr.io/p/app:1", ["me:wrong", "me:right"]), Pulled)
    assert isinstance(table.pull_as("nginx", []), Pulled)


@pytest.mark.parametrize("labels", ["", "app=x"])
def test_rules_that_select_pods_do_not_apply_to_image_pulls_of_jobs(labels: str) -> None:
    rule = Rule(image="nginx:*", node="n1", labels=labels, image_pull_error=True, pull_s=3.0, first_runs=2)
    result = [pull_of([rule], "nginx:1", node="n1", attempt=number) for number in (1, 2, 3)]
    assert result == ([(True, 3.0)] * 2 if not labels else [(False, None)] * 2) + [(False, None)]


def test_an_unfinished_pull_attempt_is_polled_again_and_fails_at_its_timeout() -> None:
    """images case 53"""
    running = Attempt(math.inf, None)
    agent = Agent(running, running)
    asked = view({"tag": "1", "pullPolicy": {"timeoutSeconds": 50, "backoffLimit": 0}})
    assert agent.until(asked, 0.0) == 50.0
    assert agent.phase() == "Pulling"
    agent.until(asked, 50.0)
    assert (agent.phase(), agent.pulls[NGINX].message) == ("Failed", "context deadline exceeded")


def test_each_finished_pull_is_one_event_and_failures_are_events_of_the_owners() -> None:
    job = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "namespace": "a",
        "name": "j",
        "uid": "7",
    }
    asked = view({"tag": "1", "ownerReferences": [job]})
    failed = {NGINX: Pull(version=0, phase="Failed", started_at=0.0, completed_at=2.0, message="no")}
    recorded = [(event.reason, event.resource.plural, event.name) for event in events_of(asked, {}, failed)]
    assert recorded == [("PullImageFailed", "nodeimages", "n1"), ("PullImageFailed", "imagepulljobs", "j")]
    assert not list(events_of(asked, failed, failed))
    done = {NGINX: Pull(version=1, phase="Succeeded", started_at=0.0, completed_at=2.0)}
    assert [event.message for event in events_of(asked, failed, done)] == [
        "node n1 pulled image nginx:1 in 2.0 s"
    ]


def test_a_quick_pull_is_reported_only_at_its_end() -> None:
    agent, asked, pace = Agent(Attempt(1.5, GOOD.answer)), view({"tag": "1"}), PullStatusPace()
    agent.until(asked, 100.0)
    assert report_of(asked, agent.pulls, pace=pace, now=100.0) == Report({}, 2.0)
    agent.until(asked, 101.5)
    report = report_of(asked, agent.pulls, pace=pace, now=101.5)
    assert report.patch["succeeded"] == 1
    done = view({"tag": "1"}, status=report.patch)
    assert report_of(done, agent.pulls, pace=pace, now=101.5) == Report({}, math.inf)


def test_a_longer_pull_is_reported_in_progress_and_its_end_immediately() -> None:
    agent, asked, pace = Agent(Attempt(9.0, GOOD.answer)), view({"tag": "1"}, {"tag": "2"}), PullStatusPace()
    agent.until(asked, 100.0)
    assert report_of(asked, agent.pulls, pace=pace, now=102.0).patch["pulling"] == 2
    agent.pulls[NGINX] = msgspec.structs.replace(agent.pulls[NGINX], phase="Succeeded", completed_at=100.5)
    assert report_of(asked, agent.pulls, pace=pace, now=100.5).patch["succeeded"] == 1


def test_a_removed_entry_leaves_the_status_immediately() -> None:
    stored = {
        "desired": 1,
        "pulling": 1,
        "imageStatuses": {"nginx": {"tags": [{"tag": "1", "phase": "Pulling"}]}},
    }
    report = report_of(view(status=stored), {}, pace=PullStatusPace(), now=0.0)
    assert report.patch == {"desired": 0, "pulling": None, "imageStatuses": None}
