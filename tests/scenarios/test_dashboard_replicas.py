"""Several replicas of the dashboard, each a program of its own: a login, a question and a stream go on in any of them.

kubeconfig, key ──▶ pykruise dashboard --shared --session-key … (two of them) ◀── one browser, first here, then there
"""

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykruise.fixtures.server import KruiseServer
from pykruise.kinds.cloneset.types import CLONE_SETS
from support.browser import Browser, browsing
from support.dashboard_browser import ask_about, page_of, press, row_of
from support.dashboard_process import Hand, Served, free_port, serving
from support.dashboards import Visitor, visitor_at
from support.scenario import cloneset

pytestmark = [pytest.mark.sandbox_only, pytest.mark.real_time, pytest.mark.timeout(200)]

WRITES = ("get", "list", "watch", "create", "patch", "update")
SHOP = {"kind": str(CLONE_SETS), "namespace": "default", "name": "shop"}
SCALE = {**SHOP, "action": "scale", "values": {"replicas": "4"}}


@pytest.fixture(scope="module")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hand]:
    path = tmp_path_factory.mktemp("replicas") / "kubeconfig"
    with KruiseServer(path, nodes=2, rbac=True):
        yield Hand(path)


@pytest.fixture
def shop(hand: Hand) -> Iterator[None]:
    hand.create(CLONE_SETS, "default", cloneset("shop", replicas=3))
    yield
    hand.delete(CLONE_SETS, "default", "shop")


def arguments(folder: Path, port: int) -> list[str]:
    """Command line arguments of one replica; replicas that share a folder have the same key."""
    key = folder / "key"
    if not key.exists():
        key.write_bytes(secrets.token_bytes(32))
    return ["--shared", "--actions", "--session-key", str(key), "--port", str(port)]


def replicas_of(hand: Hand) -> int:
    return int(hand.get(CLONE_SETS, "default", "shop")["spec"]["replicas"])


@pytest.mark.usefixtures("shop")
async def test_a_login_and_a_question_of_one_replica_count_in_another_and_after_its_end(
    hand: Hand, tmp_path: Path
) -> None:
    token = await asyncio.to_thread(lambda: hand.token("default", "ann", "*", verbs=WRITES))
    ports = free_port(), free_port()
    rollouts = f"{CLONE_SETS}/default/shop"
    with serving(hand.kubeconfig, *arguments(tmp_path, ports[1])) as second:
        with serving(hand.kubeconfig, *arguments(tmp_path, ports[0])) as first:
            async with visitor_at(first.url) as here:
                there = Visitor(here.http, second.url)  # the same browser, with its cookies
                assert (await there.get("api/session"))[0] == 401
                assert await here.log_in(token) == 200
                # the other one knows the login, and who it is
                assert await there.get_json("api/session") == await here.get_json("api/session")
                # a question of the first is answered in the second
                status, question = await here.post("question", SCALE)
                assert (status, question["code"]) == (200, 0), question
                async with here.stream("rollouts") as stream:
                    await stream.until(lambda stream: rollouts in stream.rows and bool(stream.last_id))
                acted = await there.post("act", {**SCALE, "ticket": question["ticket"]})
                assert (acted[0], acted[1]["code"]) == (200, 0)
                assert await asyncio.to_thread(replicas_of, hand) == 4
                # and counts once: the object has changed since
                again = await here.post("act", {**SCALE, "ticket": question["ticket"]})
                assert again[0] == 422
                # a stream that broke off in the first goes on in the second, with all that there is
                said = {"Last-Event-ID": stream.last_id}
                async with there.stream("rollouts", **said) as stream:
                    await stream.until(
                        lambda stream: (
                            stream.events.count("reset") > 0
                            and stream.rows.get(rollouts, {}).get("desired") == 4
                        )
                    )
                jar = here.http.cookie_jar
                kept = {cookie.key: cookie.value for cookie in jar}
        # when the first has ended and begins again, the cookie is still good, in both
        with serving(hand.kubeconfig, *arguments(tmp_path, ports[0])) as first:
            async with visitor_at(first.url) as here:
                here.http.cookie_jar.update_cookies(kept)
                for url in (first.url, second.url):
                    assert (await Visitor(here.http, url).get("api/session"))[0] == 200
                question = (await here.post("question", {**SCALE, "values": {"replicas": "5"}}))[1]
                there = Visitor(here.http, second.url)
                about = {**SCALE, "values": {"replicas": "5"}, "ticket": question["ticket"]}
                assert (await there.post("act", about))[1]["code"] == 0
                assert await asyncio.to_thread(replicas_of, hand) == 5
    # and a replica with another key knows neither
    (tmp_path / "other").mkdir()
    with serving(hand.kubeconfig, *arguments(tmp_path / "other", free_port())) as stranger:
        async with visitor_at(stranger.url) as here:
            here.http.cookie_jar.update_cookies(kept)
            assert (await here.get("api/session"))[0] == 401


@pytest.fixture
def browser() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser


@pytest.mark.browser
@pytest.mark.usefixtures("shop")
def test_a_browser_continues_on_another_replica_without_a_login(
    hand: Hand, browser: Browser, tmp_path: Path
) -> None:
    token = hand.token("default", "bea", "*", verbs=WRITES)
    first_port = free_port()

    def log_in(served: Served) -> None:
        browser.open(served.url)
        browser.until_says("Log in")
        field = browser.find("input[name=token]")
        field.send_keys(token)
        field.submit()
        browser.until(lambda: row_of(browser, "shop"))

    with serving(hand.kubeconfig, *arguments(tmp_path, free_port())) as second:
        with serving(hand.kubeconfig, *arguments(tmp_path, first_port)) as first:
            log_in(first)
            browser.open(page_of(second, "default", "shop"))
            press(browser, "Pause")
            ask_about(browser)
            browser.find("dialog .confirm button[type=submit]").click()
            browser.until_says("Resume")
            browser.open(page_of(first, "default", "shop"))
            browser.until_says("Resume")
        # the first ends while its page is open, and is started again: the page goes on, without a login
        browser.until_says("The connection is lost")
        with serving(hand.kubeconfig, *arguments(tmp_path, first_port)):
            hand.patch(CLONE_SETS, "default", "shop", {"spec": {"replicas": 2}})
            browser.until_says("2 of 2 updated, 2 ready")
            assert "The connection is lost" not in browser.text()
            assert "Log in" not in browser.text()
