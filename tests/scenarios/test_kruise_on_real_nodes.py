"""`kubectl kruise exec` into containers that really run: output, standard input, exit codes.

pytest --cluster=real --real-nodes tests/scenarios/test_kruise_on_real_nodes.py
"""

import asyncio
import os
import subprocess
import sys

import pytest

from support.scenario import Stage, cloneset
from testbed.control_plane import ControlPlane

pytestmark = pytest.mark.node_only

PLUGIN = (sys.executable, "-c", "from pykruise.cli.kubectl.entry import main; main()")


async def typed(plane: ControlPlane, *words: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """`kubectl kruise` in a process of its own."""
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    return await asyncio.to_thread(
        subprocess.run,
        [*PLUGIN, *words],
        input=stdin,
        capture_output=True,
        env=environment,
        timeout=60,
        check=False,
    )


async def test_a_command_runs_in_the_first_ready_pod_of_a_workload(stage: Stage, plane: ControlPlane) -> None:
    """cli case 43"""
    # given
    await stage.start_manager()
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
    common = ("-n", stage.namespace, "exec", "clone/web")
    # when
    said = await typed(plane, *common, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    # then
    assert (said.returncode, said.stdout) == (3, b"out\n"), said
    assert said.stderr.splitlines()[0] == b"err"
    # and standard input goes there, to its end
    said = await typed(plane, *common, "-i", "--", "cat", stdin=b"a" * 100_000)
    assert (said.returncode, said.stdout) == (0, b"a" * 100_000), said.stderr
    # and what cannot be run is an error
    said = await typed(plane, *common, "--", "no-such-program")
    assert said.returncode != 0
    assert b"no-such-program" in said.stderr
