"""One user of a shared dashboard who opens pages and logs in as often as possible.

Target (dashboard, token) ──▶ one_user(), until cancelled
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import orjson

from bench.attack_target import Talk, Target, connected, repeated
from pykruise.dashboard.guard import OWN_HEADER

__all__ = ["LOGINS", "OPENED", "one_user"]

STREAMS: Final = 520
"""Number of parallel pages."""
LOGGING_IN: Final = 4
"""Number of parallel logins; if each takes 100 ms, this is 1,150 in half a minute."""
LOGINS: Final = "logins of one user"
OPENED: Final = "pages of one user"


async def one_user(target: Target) -> None:
    """520 pages, each opened again when it ends, and sequential logins of the same user.

    The pages begin after the first login, because earlier pages would only be rejected and delay the login.
    """
    cookie = ""
    is_logged_in = asyncio.Event()

    async def log_in() -> None:
        nonlocal cookie
        reader, writer = await connected(target.dashboard, target, tls=False)
        try:
            writer.write(_request("POST", "/api/login", {OWN_HEADER: "1"}, {"token": target.token}))
            answer = await reader.readuntil(b"\r\n\r\n")
            lines = answer.decode("latin-1").split("\r\n")
            if " 200 " in lines[0]:
                target.counts[LOGINS] += 1
                cookie = next(
                    line.partition(":")[2].partition(";")[0].strip()
                    for line in lines
                    if line.lower().startswith("set-cookie:")
                )
                is_logged_in.set()
        finally:
            writer.close()

    async def look() -> None:
        await is_logged_in.wait()
        talk = await connected(target.dashboard, target, tls=False)
        try:
            await _look(talk, cookie, target)
        finally:
            talk[1].close()
        await asyncio.sleep(0.5)  # so that the machine does not run out of ports during the run

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(repeated(LOGGING_IN, log_in))
        tasks.create_task(repeated(STREAMS, look))


async def _look(talk: Talk, cookie: str, target: Target) -> None:
    reader, writer = talk
    writer.write(_request("GET", "/api/stream?page=rollouts", {"cookie": cookie}))
    answer = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " in answer.partition(b"\r\n")[0]:
        target.counts[OPENED] += 1
        while await reader.read(64 * 1024):
            pass


def _request(
    method: str, path: str, headers: Mapping[str, str], body: Mapping[str, str] | None = None
) -> bytes:
    content = b"" if body is None else orjson.dumps(body)
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + content
