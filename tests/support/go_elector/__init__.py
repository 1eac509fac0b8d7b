"""A candidate for leader election, written in Go with client-go: pykruise's elector must work with it.

main.go ──`go build`, once per run──▶ GoCandidate: the output of client-go, line by line
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from support.go_programs import build_program

__all__ = ["GoCandidate", "build", "go_candidate"]

HERE = Path(__file__).parent
PATIENCE_S = 60.0

Line = dict[str, Any]


def build(folder: Path) -> Path:
    """The program, built."""
    return build_program(HERE, folder)


class GoCandidate:
    """The running program and its output: `says` is "sees", "leads" or "leads no more"."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.lines: list[Line] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            self.lines.append(json.loads(line))

    async def says(self, claim: Callable[[Line], bool], *, since: int = 0) -> Line:
        """Wait for the first line, from number `since` on, for which `claim` is true, and return it."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for line in self.lines[since:]:
                    if claim(line):
                        return line
                assert self._process.returncode is None, self.lines
                await asyncio.sleep(0.05)

    async def sees(self, leader: str) -> Line:
        """Wait until it reads this leader from the Lease."""
        return await self.says(lambda line: line["says"] == "sees" and line["leader"] == leader)

    async def leads(self) -> Line:
        """Wait until it leads."""
        return await self.says(lambda line: line["says"] == "leads")

    async def end(self, number: int = signal.SIGTERM) -> None:
        """End the program with this signal. With SIGTERM it releases the Lease, with SIGKILL it does not."""
        if self._process.returncode is None:
            self._process.send_signal(number)
        await self._process.wait()
        await self._reading


@asynccontextmanager
async def go_candidate(program: Path, **flags: str) -> AsyncIterator[GoCandidate]:
    """The program while the block runs; flags with `_` for `-`."""
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
    process = await asyncio.create_subprocess_exec(str(program), *arguments, stdout=asyncio.subprocess.PIPE)
    candidate = GoCandidate(process)
    try:
        yield candidate
    finally:
        await candidate.end(signal.SIGKILL)
