"""A dashboard in the test's process, and its client: a browser without a screen, on the level of HTTP.

HttpSandbox ──▶ serve_dashboard() ──▶ Visitor: log_in(), rows of a stream after a number of events
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from pykruise.dashboard.guard import OWN_HEADER
from pykruise.dashboard.serve import Dashboard, DashboardOptions, serve_dashboard
from pykruise.dashboard.sessions import LaptopDoor
from pykruise.kube.config.kubeconfig import load

__all__ = ["Stream", "Visitor", "dashboard", "visitor", "visitor_at"]

IN_TIME_S = 20.0


@asynccontextmanager
async def dashboard(kubeconfig: Path, **options: Any) -> AsyncIterator[Dashboard]:
    """A dashboard of the cluster of a kubeconfig."""
    connection = await load(kubeconfig)
    async with serve_dashboard(connection, DashboardOptions(**options)) as result:
        yield result
        await _connected(result)


async def _connected(value: Dashboard) -> None:
    """Wait until no connection to the API server is being opened: asyncio leaks a connection that is abandoned
    during its handshake."""
    caches = value.feeds._caches.values()
    for _ in range(20):
        if all(cache.is_connected or cache.read_stats().last_code for cache in caches):
            return
        await asyncio.sleep(0.05)


class Stream:
    """Rows as a browser has them, and the text of everything that was sent."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.rows: dict[str, Any] = {}
        self.sent = ""
        self.events: list[str] = []
        self.last_id = ""
        self._fresh: dict[str, Any] | None = None

    async def until(self, is_there: Callable[["Stream"], bool]) -> None:
        """Read events until the claim is true."""
        async with asyncio.timeout(IN_TIME_S):
            while not is_there(self):
                await self.read_event()

    async def read_event(self) -> str:
        """Read an event and return its name; its rows are in `rows`. Empty: the stream ended."""
        said: dict[str, str] = {}
        while line := await self._answer.content.readline():
            text = line.decode().rstrip("\n")
            self.sent += text
            if not text:
                break
            name, _, value = text.partition(": ")
            said[name] = value
        else:
            self.events.append("")
            return ""
        self._take(said.get("event", ""), orjson.loads(said.get("data", "null")))
        self.last_id = said.get("id", self.last_id)
        self.events.append(said.get("event", ""))
        return self.events[-1]

    def _take(self, name: str, data: Any) -> None:
        into = self.rows if self._fresh is None else self._fresh
        match name:
            case "reset":
                self._fresh = {}
            case "rows":
                into.update({element["id"]: element for element in data})
            case "gone":
                for item in data:
                    into.pop(item, None)
            case "synced":
                self.rows, self._fresh = into, None


class Visitor:
    """A user with a browser. `token`: the token of the link, or a bearer token."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self.http = http
        self.url = url

    async def log_in(self, token: str) -> int:
        """Log in, and return the status of the response."""
        return (await self.post("login", {"token": token}))[0]

    async def post(self, path: str, body: Mapping[str, Any], **headers: str) -> tuple[int, Any]:
        """Status and JSON of a response."""
        said = {OWN_HEADER: "1", **headers}
        async with self.http.post(f"{self.url}api/{path}", json=body, headers=said) as answer:
            return answer.status, await answer.json()

    async def get(self, path: str, **headers: str) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of a response."""
        async with self.http.get(f"{self.url}{path}", headers=headers) as answer:
            return answer.status, answer.headers, await answer.read()

    async def get_json(self, path: str) -> Any:
        """JSON of a response that must be successful."""
        status, _, body = await self.get(path)
        assert status == 200, body
        return orjson.loads(body)

    @asynccontextmanager
    async def stream(self, page: str, **headers: str) -> AsyncIterator[Stream]:
        """The stream of a page: `rollouts`, `workload&kind=…`."""
        async with self.http.get(f"{self.url}api/stream?page={page}", headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            yield Stream(answer)


@asynccontextmanager
async def visitor_at(url: str) -> AsyncIterator[Visitor]:
    """A separate browser that has not logged in."""
    jar = aiohttp.CookieJar(unsafe=True)  # also for an address without a name
    async with aiohttp.ClientSession(cookie_jar=jar, read_bufsize=2**22) as http:
        yield Visitor(http, url)


@asynccontextmanager
async def visitor(of: Dashboard, *, token: str | None = None, logs_in: bool = True) -> AsyncIterator[Visitor]:
    """A separate browser that has logged in with the token, or by the link."""
    async with visitor_at(of.url) as visitor:
        if logs_in:
            given = of.door.renew_token() if isinstance(of.door, LaptopDoor) else token
            assert await visitor.log_in(given or "") == 200
        yield visitor
