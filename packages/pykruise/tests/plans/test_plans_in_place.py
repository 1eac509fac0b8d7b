"""What is remembered of pods whose update in place waits: the same as would be found again."""

from typing import Any

import msgspec
import pytest

from pykruise.kube.clock import Instant
from pykruise.plans import in_place
from pykruise.plans.in_place import Progress, Seen
from pykruise.pods.in_place import NotInPlace, PodPatch, Settings, Template, UpdateSpec
from pykruise.pods.revisions import RevisionView
from pykruise.pods.views import PodView

POD = PodView(namespace="default", name="web-a", uid="uid-a", resource_version=5)
WAITS = Progress(waits="its update in place is under way")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the pods that were really looked at; all of them wait, and web-later only until 20."""
    names: list[str] = []

    def go_on(pod: PodView, *, now: Instant, settings: Settings) -> Progress:
        names.append(pod.name)
        if pod.name == "web-done":
            return Progress(is_complete=True)
        return Progress(waits=WAITS.waits, look_at=20.0) if pod.name == "web-later" else WAITS

    monkeypatch.setattr(in_place, "go_on", go_on)
    return names


def look(seen: Seen, *pods: PodView, now: Instant = 10.0, settings: Settings | None = None) -> list[Progress]:
    found = [seen.go_on(pod, now=now, settings=settings or Settings()) for pod in pods]
    seen.forget_others()
    return found


def pod(name: str, *, version: int = 5) -> PodView:
    return PodView(namespace="default", name=name, uid=f"uid-{name}", resource_version=version)


def test_a_pod_that_waits_is_looked_at_again_when_it_has_changed(asked: list[str]) -> None:
    # given
    seen = Seen()
    assert look(seen, POD) == look(seen, POD) == look(seen, POD) == [WAITS]
    assert asked == ["web-a"]
    # when there is another version of it
    look(seen, PodView(namespace="default", name="web-a", uid="uid-a", resource_version=6))
    # then
    assert asked == ["web-a", "web-a"]


def test_a_pod_that_waits_for_a_time_is_looked_at_again_when_it_has_come(asked: list[str]) -> None:
    # given
    seen, later = Seen(), pod("web-later")
    look(seen, later)
    look(seen, later, now=19.9)
    assert len(asked) == 1
    # when / then
    look(seen, later, now=20.0)
    assert len(asked) == 2


def test_other_settings_are_another_question(asked: list[str]) -> None:
    seen = Seen()
    look(seen, POD)
    look(seen, POD, settings=Settings(vertical_scaling=True))
    assert len(asked) == 2


def test_what_is_written_to_is_looked_at_every_time(asked: list[str]) -> None:
    """Its writes carry the time, and the version that they insist on."""
    seen, done = Seen(), pod("web-done")
    look(seen, done)
    look(seen, done)
    assert len(asked) == 2


@pytest.mark.parametrize(("is_serving", "insists_on"), [(True, ""), (False, "5")])
def test_an_update_of_a_pod_that_does_not_serve_begins_only_as_it_was_seen(
    is_serving: bool, insists_on: str
) -> None:
    """It may have become ready meanwhile, and then it costs a place in the budget."""
    one = msgspec.structs.replace(POD, is_serving=is_serving)
    writes = [PodPatch(body={}, because="leaves service"), PodPatch(body={}, because="is updated")]
    steps = in_place.begin_steps(one, writes, revision="web-2")
    assert [getattr(step.action, "resource_version", None) for step in steps] == [insists_on, ""]


def test_a_pod_that_was_not_asked_about_is_forgotten(asked: list[str]) -> None:
    # given
    seen, other = Seen(), pod("web-b")
    look(seen, POD, other)
    # when a plan does not ask about it
    look(seen, other)
    # then the next one that does looks at it, and the other is still known
    look(seen, POD, other)
    assert asked == ["web-a", "web-b", "web-a"]


def test_two_revisions_are_compared_once_for_each_way_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    compared: list[str] = []

    def difference(_old: Template | None, _target: Template | None, **options: Any) -> UpdateSpec:
        compared.append(options["revision"])
        return UpdateSpec(revision=options["revision"], grace_seconds=options["grace_seconds"])

    monkeypatch.setattr(in_place, "difference", difference)
    seen, old, new = Seen(), revision_view("web-1"), revision_view("web-2")

    def ask(before: RevisionView | None, *, grace_seconds: int = 0) -> UpdateSpec | NotInPlace:
        return seen.difference(
            before,
            new,
            revision="web-2",
            settings=Settings(),
            grace_seconds=grace_seconds,
            ignore_claims=False,
        )

    # when
    found = [ask(old), ask(old), ask(old, grace_seconds=5), ask(None), ask(revision_view("web-1")), ask(old)]
    # then another value of the same revision is compared anew, and so is what is asked otherwise
    assert len(compared) == 4
    assert found[0] is found[1] is found[5]
    assert isinstance(found[2], UpdateSpec)
    assert found[2].grace_seconds == 5


def revision_view(name: str) -> RevisionView:
    return RevisionView(
        namespace="default", name=name, uid=name, resource_version=1, number=1, template={}, meaning=b""
    )
