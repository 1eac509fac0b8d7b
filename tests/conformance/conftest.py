"""The compared servers: the sandbox and the recordings, or with `--cluster=real` also a real API server.

    pytest tests/conformance                              the sandbox and the recordings
    pytest tests/conformance --cluster=real               a real API server too
    pytest tests/conformance --cluster=real --record      ... and record its responses

$KUBERNETES selects the minor of the real server. Neither side has controllers, a scheduler or kubelets: only the API
servers are compared, and nothing else writes.
"""

import random
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from conformance.cases import GROUPS
from conformance.hooks import SANDBOX_HOOKS, DirectCaller, HookServer
from conformance.recordings import Conversation, Recordings
from conformance.talking import Compact
from pykruise.kube.clock import make_loop_clock, parse_time
from pykruise.kube.http.transport import HttpTransport
from pykruise.sandbox.apiserver import ApiServer
from pykruise.sandbox.apiserver.objects.storage import MemoryStorage
from pykruise.sandbox.local import LocalTransport
from support.control_plane import connection, running_plane
from testbed.control_plane import ControlPlane

_HERE: Final = "/conformance/"
_START: Final = parse_time("2026-01-31T12:00:00Z")
_RECORDED: Final = pytest.StashKey[dict[tuple[str, str], dict[str, Conversation]]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without a real API server, skip its tests; with one, deselect all others, which do not depend on the cluster."""
    here = [item for item in items if _HERE in str(item.path)]
    if config.getoption("--cluster") != "real":
        for item in here:
            if item.get_closest_marker("real"):
                item.add_marker(pytest.mark.skip(reason="needs a real API server"))
        return
    unwanted = {item for item in here if not item.get_closest_marker("real")}
    config.hook.pytest_deselected(items=list(unwanted))
    items[:] = [item for item in items if item not in unwanted]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RECORDED] = {}
    if config.getoption("--record") and config.getoption("--cluster") != "real":
        raise pytest.UsageError(
            "--record records the responses of a real API server: it needs --cluster=real"
        )
    if config.getoption("--record") and hasattr(config, "workerinput"):
        raise pytest.UsageError("--record writes whole files: run it without -n")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the groups with new recordings; cases that did not run keep their recordings."""
    recordings = Recordings()
    for (minor, group), conversations in session.config.stash[_RECORDED].items():
        kept = {
            case.title: known
            for case in GROUPS[group]
            if (known := recordings.get(minor, group, case.title)) is not None
        }
        recordings.write(minor, group, {**kept, **conversations})


@pytest.fixture(scope="session")
def recordings() -> Recordings:
    return Recordings()


@pytest.fixture
def recorder(request: pytest.FixtureRequest) -> dict[tuple[str, str], dict[str, Conversation]] | None:
    """Recordings of the real server by minor and group; None: nothing is recorded."""
    config = request.config
    return config.stash[_RECORDED] if config.getoption("--record") else None


@pytest.fixture
def storage() -> MemoryStorage:
    """The storage of the case's sandbox."""
    return MemoryStorage()


@pytest.fixture
async def sandbox(request: pytest.FixtureRequest, storage: MemoryStorage) -> AsyncIterator[LocalTransport]:
    """A sandbox for this case. It checks permissions only in cases about them."""
    server = ApiServer(
        checks_accounts=False,  # the recorded servers run without the admission plugin ServiceAccount
        clock=make_loop_clock(start=_START),
        rng=random.Random(20260131),
        storage=storage,
        webhooks=DirectCaller(),
        rbac=request.node.callspec.params["group"] == "access",
        kubernetes=request.node.callspec.params["minor"],
    )
    transport = LocalTransport(server, username="admin")
    yield transport
    await transport.close()


@pytest.fixture
def forgetting(storage: MemoryStorage) -> Compact:
    """A function that compacts the history of that sandbox."""

    async def compact() -> None:
        storage.compact(storage.revision)

    return compact


@pytest.fixture(scope="package")  # ends early, because other tests need the processors
def plane() -> Iterator[ControlPlane]:
    """One real API server for all cases."""
    with running_plane(controller_manager=False, scheduler=False) as plane:
        yield plane


@pytest.fixture
async def real(plane: ControlPlane) -> AsyncIterator[HttpTransport]:
    """A transport to the real API server."""
    transport = HttpTransport(connection(plane.kubeconfig))
    yield transport
    await transport.close()


@pytest.fixture
async def hooks(request: pytest.FixtureRequest) -> AsyncIterator[dict[str, str]]:
    """Webhooks that a real API server can reach, for cases that mention them."""
    steps = repr(request.node.callspec.params["case"].steps)
    if not any(name in steps for name in SANDBOX_HOOKS):
        yield {}
        return
    server = await HookServer.start()
    yield server.names
    await server.stop()
