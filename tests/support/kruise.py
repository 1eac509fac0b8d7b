"""`kubectl kruise` with a scenario's cluster: in this process, over the stage's own transport.

Kruise(stage).run("rollout", "pause", "clone/web") ──▶ Said: exit code, standard output, standard error
"""

from typing import Any

import msgspec

from pykruise.cli.kubectl.entry import run_async
from pykruise.cli.kubectl.flags import CommandCall
from pykruise.cli.kubectl.session import Reached, Surroundings
from pykruise.kube.client.transport import Transport, WrappedTransport
from support.scenario import Stage

__all__ = ["Kruise", "Said"]


class Said(msgspec.Struct, frozen=True):
    """Result of a command."""

    code: int
    out: str
    err: str


class _Kept(WrappedTransport):
    """A transport that a command does not close, because the stage still needs it."""

    async def close(self) -> None:
        return


class _Reached(msgspec.Struct, frozen=True):
    transport: Transport
    namespace: str


class Kruise:
    """The command line in the stage's namespace, over the stage's transport or the given one."""

    def __init__(self, stage: Stage, transport: Transport | None = None) -> None:
        self._stage = stage
        self._transport = transport or stage.client.transport

    async def run(self, *words: str, stdin: str = "", **around: Any) -> Said:
        """Run a command to its end."""
        out: list[str] = []
        err: list[str] = []

        async def connect(_call: CommandCall) -> Reached:
            return _Reached(_Kept(self._transport), self._stage.namespace)

        surroundings = Surroundings(
            out=out.append,
            err=err.append,
            read_stdin=lambda: stdin,
            connect=connect,
            clock=self._stage.clock,
            **around,
        )
        code = await run_async(words, surroundings)
        return Said(code, "".join(out), "".join(err))

    async def says(self, *words: str, **more: Any) -> str:
        """Standard output of a command that must succeed."""
        said = await self.run(*words, **more)
        assert said.code == 0, (words, said)
        return said.out

    async def refuses(self, *words: str, **more: Any) -> str:
        """Standard error of a command that must fail with exit code 1."""
        said = await self.run(*words, **more)
        assert said.code == 1, (words, said)
        return said.err
