"""The container runtimes of a node: sockets below the host's run directory that respond to CRI v1 calls.

folder, --socket-file ──▶ list_socket_paths() ──▶ find_runtimes(): version, image service ──▶ Runtimes

The agent uses all runtimes that work, because after a change of the node's runtime some pods may still run in the old
one. The first runtime pulls images.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pykruise.agent.cri.client import CriClient
from pykruise.agent.cri.errors import CriError
from pykruise.agent.cri.values import RuntimeVersion
from pykruise.agent.rules.sockets import SOCKETS
from pykruise.kube.errors import ConfigurationError

_log = logging.getLogger(__name__)

PROBE_S: Final = 30.0
_SHARED_SINCE: Final = 2
"""Major version of containerd since which every client receives all events."""


class Runtime(msgspec.Struct, frozen=True):
    """A runtime that works. `name` is the scheme of its container ids."""

    name: str
    client: CriClient
    splits_events: bool = False
    """Whether the runtime sends each event to only one of its clients. The agent must not follow such events: it would
    take them from the kubelet.
    """


class Runtimes:
    """The runtimes of a node; the first one pulls images."""

    def __init__(self, runtimes: Sequence[Runtime]) -> None:
        self.all = tuple(runtimes)
        self._by_name: Mapping[str, Runtime] = {runtime.name: runtime for runtime in reversed(self.all)}

    @property
    def first(self) -> Runtime:
        return self.all[0]

    def find_runtime(self, container_id: str) -> Runtime | None:
        """Return the runtime that a container id (`containerd://…`) names; None if this node has no such runtime."""
        return self._by_name.get(container_id.partition("://")[0])

    def close(self) -> None:
        """Close all connections."""
        for runtime in self.all:
            runtime.client.close()


def splits_events(version: RuntimeVersion) -> bool:
    """Whether the runtime sends each event to only one of its clients, as containerd does before 2.0."""
    major = version.version.removeprefix("v").partition(".")[0]
    return version.name == "containerd" and not (major.isdecimal() and int(major) >= _SHARED_SINCE)


def list_socket_paths(folder: Path, socket_file: str = "") -> list[Path]:
    """Return the existing sockets: the socket with the given name, or all known sockets if no name is given. A socket
    that has two names is returned once.
    """
    names = (socket_file,) if socket_file else SOCKETS
    paths = {path.resolve(): path for path in reversed([folder / name for name in names]) if path.is_socket()}
    return [path for path in (folder / name for name in names) if path in paths.values()]


async def find_runtimes(
    folder: Path, *, socket_file: str = "", connect: Callable[[str], CriClient] = CriClient
) -> Runtimes:
    """Return the runtimes below `folder` that work. Raises ConfigurationError with all failures when none works."""
    paths = await asyncio.to_thread(list_socket_paths, folder, socket_file)
    runtimes: list[Runtime] = []
    problems: list[str] = []
    for path in paths:
        client = connect(str(path))
        try:
            async with asyncio.timeout(PROBE_S):
                await client.check_images()
                await client.list_images()
                version = await client.read_version()
        except (CriError, TimeoutError) as error:
            problems.append(f"{path}: {error}")
            _log.warning("no container runtime with CRI v1 responds at %s: %s", path, error)
            client.close()
            continue
        _log.info("container runtime %s %s responds at %s", version.name, version.version, path)
        runtimes.append(Runtime(version.name, client, splits_events(version)))
    if not runtimes:
        tried = socket_file or ", ".join(SOCKETS)
        raise ConfigurationError(
            f"no container runtime below {folder} ({'; '.join(problems) or f'none of {tried} exists'});"
            " mount the host's run directory there, or name the socket with --socket-file"
        )
    return Runtimes(runtimes)
