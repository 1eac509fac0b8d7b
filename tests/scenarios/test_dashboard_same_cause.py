"""One cause is one card: an object that only repeats the cause of another one is folded under that one's card.

situations of kinds whose objects create others ──▶ rows of the dashboard as JSON: parent and part share a code
a bad ImagePullJob on twelve nodes, beside the manager, in a browser ──▶ one card
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykruise.dashboard.rollouts import format_row_id
from pykruise.fixtures.server import KruiseServer
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kube.ids import Key
from pykruise.plans.kind import Kind
from pykruise.sandbox.cluster import ClusterSettings
from support.browser import Browser, browsing
from support.dashboard_browser import row_of
from support.dashboard_process import Hand, Served, serving
from support.judged_rows import judged_rows
from support.scenario import Stage
from support.situations.documents import listjob, pulljob
from support.situations.tables import SITUATIONS
from support.situations.world import KINDS, SETTINGS, Situation, World, with_agents

pytestmark = pytest.mark.sandbox_only

WITH_PARTS = [
    kind
    for kind in KINDS.values()
    if (kind.insight is not None and kind.insight.children is not None)
    or (kind.shown is not None and kind.shown.subsets)
]
ROWS = [
    pytest.param(kind, row, id=f"{kind.name}-{row.stage.__name__}")
    for kind in WITH_PARTS
    for row in SITUATIONS[kind.name]
    if row.phase.needs_a_person
]


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    return with_agents(cluster_settings)


def repeats(part: dict[str, Any], parent: dict[str, Any]) -> bool:
    """Whether the cause of a part is also one of its parent's, from what explain says of both."""
    return not set(part.get("part_codes", ())).isdisjoint(parent.get("codes", ()))


async def rows_of(world: World, *, after_s: float = 10.0) -> dict[str, dict[str, Any]]:
    """All rows, when explain has looked at all objects."""
    async with judged_rows(world.stage, SETTINGS) as rows:
        await world.wait(after_s)
        return rows.all()


def test_kinds_whose_objects_create_others_have_situations() -> None:
    assert {param.values[0].name for param in ROWS} == {kind.name for kind in WITH_PARTS}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("kind", "row"), ROWS)
async def test_an_object_that_needs_action_repeats_the_cause_of_the_one_that_created_it(
    stage: Stage, kind: Kind, row: Situation
) -> None:
    # given the situation
    world = World(stage)
    await world.start()
    await row.stage(world)
    await world.wait()
    # when the dashboard shows it
    rows = await rows_of(world)
    # then each part that needs action says no other cause than its parent, or has one that the parent does not know
    key = Key(world.namespace if kind.resource.namespaced else "", row.name)
    parent = rows[f"why/{format_row_id(kind.resource, key.namespace, key.name)}"]
    parts = [
        rows[f"why/{item['id']}"]
        for item in rows.values()
        if item.get("needs_action")
        and (item.get("owner_kind"), item.get("owner")) == (kind.resource.kind, row.name)
    ]
    assert [part["words"] for part in parts if not repeats(part, parent)] == []


async def test_the_image_of_a_bad_job_is_one_cause_on_all_nodes(stage: Stage) -> None:
    world = World(stage)
    await world.start()
    world.fail(image="app:1", image_pull_error=True)
    await world.put(pulljob("bad"), pulljob("good", image="db:1"))
    await world.wait()
    rows = await rows_of(world)
    job = format_row_id(IMAGE_PULL_JOBS, world.namespace, "bad")
    nodes = [row for row in rows.values() if row.get("kind") == "NodeImage"]
    assert len(nodes) == len(await world.list("node"))
    assert {tuple(row["asked_by"]) for row in nodes} == {(job,)}
    assert all(repeats(rows[f"why/{row['id']}"], rows[f"why/{job}"]) for row in nodes)


# ── in a browser ─────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KruiseServer]:
    path = tmp_path_factory.mktemp("parts") / "kubeconfig"
    failure = {"image": "*bad*", "image_pull_error": True}
    with KruiseServer(path, nodes=12, gates="ImagePullJobGate=true", failures=[failure]) as server:
        yield server


@pytest.fixture(scope="module")
def served(server: KruiseServer) -> Iterator[Served]:
    with serving(Path(server.kubeconfig)) as served:
        yield served


@pytest.fixture(scope="module")
def browser(served: Served) -> Iterator[Browser]:
    with browsing() as browser:
        browser.open(served.link)
        browser.until(lambda: browser.all("header nav a"))
        yield browser


@pytest.mark.browser
@pytest.mark.real_time
@pytest.mark.timeout(200)
def test_twelve_nodes_without_the_image_of_a_bad_job_are_one_card(
    browser: Browser, served: Served, server: KruiseServer
) -> None:
    hand = Hand(Path(server.kubeconfig))
    hand.create(IMAGE_PULL_JOBS, "default", pulljob("ahead", image="app-bad:1"))
    browser.open(f"{served.url}?page=jobs")
    browser.until(lambda: "Same cause: 12 NodeImages" in row_of(browser, "ahead"))
    browser.until_says("1 needs action; 0 progressing, 0 settled")
    assert browser.driver.title.startswith("(1) ")
    assert len(browser.all("main .card")) == 1
    browser.find("main .card summary").click()
    browser.until(lambda: len(browser.all("main .card .same a")) == 12)
    assert browser.problems() == []
    # where a filter leaves the job out, each node has a card
    browser.open(f"{served.url}?page=jobs&kind=NodeImage")
    browser.until_says("12 need action")
    assert len(browser.all("main .card")) == 12
    # a list of images and its job are one cause too
    kind = KINDS["imagelistpulljob"].resource
    hand.create(kind, "default", listjob("base", images=("db-bad:1", "web:1")))
    browser.open(f"{served.url}?page=jobs")
    browser.until(lambda: "1 ImagePullJob" in row_of(browser, "base"))
    browser.until_says("2 need action")
