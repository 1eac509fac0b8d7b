"""The rollback that `explain` names goes to a revision whose pods serve, and following it ends the trouble."""

import re
from functools import partial

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.insight.way_back import find_way_back
from pykruise.kinds import find_kind
from pykruise.kube.ids import Key
from pykruise.pods.workload.revisions import RevisionView
from pykruise.sandbox.nodes.faults import Rule
from support.kruise import Kruise
from support.scenario import CLONE_SETS, Stage, cloneset, rolling


def revision(number: int) -> RevisionView:
    return RevisionView(
        namespace="shop",
        name=f"web-{number}",
        uid=f"u{number}",
        resource_version=1,
        number=number,
        template={},
        meaning=b"",
    )


@pytest.mark.parametrize(
    ("serving", "current", "number"),
    [
        ({"web-1"}, "web-3", 1),
        ({"web-1", "web-2"}, "web-3", 2),
        ({"web-1", "web-3"}, "web-3", None),
        (set(), "web-3", 2),
        (set(), "web-1", 3),
    ],
    ids=["before the one before", "newest of two", "the current one serves", "none serves", "went back"],
)
def test_the_rollback_remedy_names_the_newest_serving_revision(
    serving: set[str], current: str, number: int | None
) -> None:
    stored = [revision(literal) for literal in (3, 1, 2)]
    text = find_way_back(CLONE_SETS, "web", "shop", revisions=stored, serving=serving, current=current)
    match = re.search(r"--to-revision=(\d+) -n shop", text)
    assert (int(match[1]) if match else None) == number
    assert ("no pod of this revision runs now" in text) is (number is not None and not serving)


def test_a_workload_without_an_older_revision_has_no_way_back() -> None:
    assert find_way_back(CLONE_SETS, "web", revisions=[revision(1)], serving=set(), current="web-1") == ""


async def of(stage: Stage) -> Explanation:
    key = Key(stage.namespace, "web")
    return await read_and_explain(stage.client, key, now=stage.clock(), kind=find_kind("CloneSet"))


async def test_after_two_bad_images_the_rollback_ends_at_the_first_image(stage: Stage) -> None:
    # given a CloneSet that serves, and two images in a row that there are not
    await stage.start_manager()
    await stage.create(cloneset(replicas=4, updateStrategy=rolling(maxUnavailable=1)))
    await stage.settled(replicas=4)
    stage.kubelets.set_rules([Rule(image=f"nginx:{literal}", image_pull_error=True) for literal in (2, 3)])
    for image in ("nginx:2", "nginx:3"):
        await stage.set_image("web", image)
        await stage.until(partial(names_the_image, stage, image))
    # when what explain says is typed
    remedy = (await of(stage)).waits[0].remedy
    command = re.search(r"kubectl kruise (rollout undo .* --to-revision=1 -n \S+)", remedy)
    assert command is not None, remedy
    await Kruise(stage).says(*command[1].split())
    # then all pods are of the first image again
    await stage.settled(replicas=4)
    pods = await stage.pods()
    assert {pod.containers[0].image for pod in pods} == {"nginx:1"}


async def names_the_image(stage: Stage, image: str) -> bool:
    waits = (await of(stage)).waits
    return bool(waits) and waits[0].code == "ImagePull" and image in waits[0].words
