"""`make record-original`: play all scenarios with OpenKruise's own manager, and record the results.

KINDS=CloneSet,DaemonSet   only these
RELEASE=1.8                only this release

It uses a control plane of the testbed with simulated nodes. The scenarios of all kinds run in parallel, each in its
own namespace.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from pykruise.kube.client.client import Client
from pykruise.kube.clock import read_system_clock
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.resources import NODES
from recorded_original.language import Group, Scenario
from recorded_original.playing import Outcome, Player, resource_of
from recorded_original.recordings import RELEASES, read, write
from recorded_original.scenarios import GATES, GROUPS
from support.control_plane import connection
from support.up import PYKRUISE
from testbed.control_plane import CONTROLLER_MANAGER, ControlPlane
from testbed.openkruise import OpenKruise

AT_ONCE = 14
"""Number of parallel scenarios. With more of them the machine, not the manager, would determine the times."""
NODE_COUNT = 4
_WEBHOOKS_S = 5.0


@asynccontextmanager
async def cluster(release: str) -> AsyncIterator[Client]:
    """A control plane with nodes and the release's manager; a client with all rights."""
    async with await ControlPlane.start(heap_growth=300) as plane:
        manager = OpenKruise(plane, release, gates=GATES)
        transport = HttpTransport(connection(plane.kubeconfig))
        client = Client(transport, user_agent="recorder")
        # Before the agents on the nodes start: they read the stored versions only once.
        await manager.install()
        await plane.restart(
            CONTROLLER_MANAGER
        )  # otherwise its garbage collector would know the new kinds half a minute later
        with tempfile.TemporaryFile() as log:
            command = [*PYKRUISE, "kubelets", f"--kubeconfig={plane.kubeconfig}", f"--nodes={NODE_COUNT}"]
            command += ["--volumes", "--agent"]
            nodes = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
            try:
                await manager.start()
                for resource in (NODES, resource_of("NodeImage", RELEASES[release])):
                    while len((await client.list(resource)).items) < NODE_COUNT:
                        await asyncio.sleep(0.5)
                await asyncio.sleep(_WEBHOOKS_S)  # API servers ask its webhooks from then on
                yield client
            finally:
                nodes.terminate()
                await nodes.wait()
                await manager.stop()
                await transport.close()


async def record(release: str, groups: Sequence[Group], only: str) -> int:
    """Play the scenarios of these groups, and record their outcomes; returns the number of failed scenarios."""
    version = RELEASES[release]
    limit = asyncio.Semaphore(AT_ONCE)
    failed = 0

    async def play(player: Player, scenario: Scenario, at_once: asyncio.Semaphore) -> Outcome | None:
        nonlocal failed
        async with at_once, limit:
            try:
                outcome = await player.play(scenario)
            except Exception as error:  # the others go on
                failed += 1
                print(f"  failed: {scenario.name}: {type(error).__name__}: {error}", flush=True)
                return None
            print(f"  {scenario.name}", flush=True)
            return outcome

    async def play_group(client: Client, group: Group) -> None:
        at_once = asyncio.Semaphore(1 if group.one_by_one else AT_ONCE)
        player = Player(client, group, version=version, prefix="recorded-", clock=read_system_clock)
        wanted = [scenario for scenario in group.scenarios if scenario.is_played_in(version)]
        chosen = [scenario for scenario in wanted if only in scenario.name]
        outcomes = await asyncio.gather(*(play(player, scenario, at_once) for scenario in chosen))
        known = read(release, group.kind)
        known |= {scenario.name: it for scenario, it in zip(chosen, outcomes, strict=True) if it is not None}
        kept = {scenario.name: known[scenario.name] for scenario in wanted if scenario.name in known}
        if kept:
            write(release, group.kind, kept)

    async with cluster(release) as client:
        await asyncio.gather(*(play_group(client, group) for group in groups))
    return failed


def main() -> int:
    """Returns 1 when a scenario failed."""
    parser = argparse.ArgumentParser(prog="recorded_original")
    parser.add_argument("--kinds", default="", help="only these, by comma")
    parser.add_argument("--release", choices=list(RELEASES), help="only this one")
    parser.add_argument("--only", default="", help="only scenarios whose name contains this")
    options = parser.parse_args()
    kinds = {part.lower() for part in options.kinds.split(",") if part}
    groups = [group for group in GROUPS if not kinds or group.kind.lower() in kinds]
    failed = 0
    with contextlib.suppress(KeyboardInterrupt):
        for release in [options.release] if options.release else RELEASES:
            print(f"OpenKruise {release}:", flush=True)
            failed += asyncio.run(record(release, groups, options.only))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
