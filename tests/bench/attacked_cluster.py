"""The cluster of bench_attacks.py: a real control plane, or the sandbox in its own process.

attacked_cluster("real" | "sandbox", folder) ──▶ AttackedCluster: its address, and files of service accounts

PYTHONPATH=tests:. python -m bench.attacked_cluster KUBECONFIG: the sandbox, until killed; prints its address as JSON.
"""

import asyncio
import base64
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec

from bench.orphans import end_with_parent
from pykruise.kinds import build_crds
from pykruise.testing.http import HttpSandbox
from support.control_plane import install_kinds
from support.yaml_documents import yaml_document
from testbed.control_plane import ControlPlane

__all__ = ["AttackedCluster", "ClusterName", "attacked_cluster"]

ClusterName = Literal["real", "sandbox"]


class AttackedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """An API server with the kinds, without other controllers."""

    kubeconfig: Path
    """Kubeconfig of an administrator."""
    url: str
    authority: bytes
    token: str
    """Token of an administrator, for agents."""
    manager_token: str

    def account(self, folder: Path, *, of_manager: bool) -> Path:
        """Write the files of a service account into the folder, as a pod finds them, and return the folder."""
        folder.mkdir(exist_ok=True)
        (folder / "token").write_text(self.manager_token if of_manager else self.token)
        (folder / "ca.crt").write_bytes(self.authority)
        (folder / "namespace").write_text("kruise-system")
        return folder


@asynccontextmanager
async def attacked_cluster(name: ClusterName, folder: Path) -> AsyncIterator[AttackedCluster]:
    """Start a cluster with the kinds."""
    async with _real() if name == "real" else _sandbox(folder) as cluster:
        yield cluster


@asynccontextmanager
async def _real() -> AsyncIterator[AttackedCluster]:
    async with await ControlPlane.start(controller_manager=False, scheduler=False) as plane:
        await install_kinds(plane)
        document = yaml_document(plane.manager_kubeconfig.read_text())
        stated = document["clusters"][0]["cluster"]["certificate-authority-data"]
        yield AttackedCluster(
            kubeconfig=plane.kubeconfig,
            url=plane.url,
            authority=base64.b64decode(stated),
            token=plane.token,
            manager_token=document["users"][0]["user"]["token"],
        )


@asynccontextmanager
async def _sandbox(folder: Path) -> AsyncIterator[AttackedCluster]:
    kubeconfig = folder / "kubeconfig"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.attacked_cluster", str(kubeconfig)), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        said = json.loads(await process.stdout.readline())
        yield AttackedCluster(
            kubeconfig=kubeconfig,
            url=said["url"],
            authority=said["authority"].encode(),
            token=said["token"],
            manager_token=said["token"],
        )
    finally:
        process.kill()
        await process.wait()


def main() -> None:
    """Run the sandbox until the process is killed."""
    end_with_parent()
    with HttpSandbox(sys.argv[1], nodes=0, manifests=build_crds(), rbac=True) as sandbox:
        said = {"url": sandbox.url, "token": sandbox.token, "authority": Path(sandbox.ca_file).read_text()}
        print(json.dumps(said), flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main()
