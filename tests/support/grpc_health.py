"""A server for gRPC's health checks, in a test's process or in a pod.

python -m support.grpc_health PORT
"""

import asyncio
import sys
from typing import Any

import grpclib.const
from grpclib.server import Server

from pykruise.agent.health_check import load_health_messages

__all__ = ["Health"]


class Health:
    """The health service of a server: `ready` and the server itself serve, `busy` does not."""

    def __mapping__(self) -> dict[str, grpclib.const.Handler]:
        takes, gives = load_health_messages()

        async def check(stream: Any) -> None:
            asked = await stream.recv_message()
            await stream.send_message(gives(status={"ready": 1, "": 1}.get(asked.service, 2)))

        kind = grpclib.const.Cardinality.UNARY_UNARY
        return {"/grpc.health.v1.Health/Check": grpclib.const.Handler(check, kind, takes, gives)}


async def _serve(port: int) -> None:
    server = Server([Health()])
    await server.start("0.0.0.0", port)
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
