"""Where the memory of a manager goes: what it loads before its first pod, and what it keeps at work.

PYTHONPATH=tests:. python -m bench.memory                     each line: what was added by loading that part, in the
                                                              order in which a manager loads it
PYTHONPATH=tests:. python -m bench.memory --at 0,500,10000    managers at work on so many pods, without webhooks and
                                                              with them

Prints; asserts nothing. RSS is what the kernel counts, USS what would be free without this process (shared libraries
left out), "Python" what was asked of the allocator (tracemalloc, in a second process: it costs memory itself).
Modules come from bytecode that was made before, as in an image: what compiling them leaves behind is not counted.
"""

import argparse
import asyncio
import gc
import importlib
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("asyncio, ssl, uvloop", ("asyncio", "ssl", "uvloop")),
    ("msgspec, orjson, yaml", ("msgspec", "orjson", "yaml")),
    ("client, caches, queue", ("pykruise.kube.client", "pykruise.kube.http", "pykruise.kube.cache")),
    ("operator", ("pykruise.runtime.operator",)),
    ("kinds: types, rules, plans", ("pykruise.kinds",)),
    ("cryptography", ("cryptography.x509",)),
    ("admission", ("pykruise.admission.reviewers", "pykruise.admission.server")),
    ("prometheus_client", ("prometheus_client",)),
    ("the rest of the manager", ("pykruise.manager.process",)),
    ("the command", ("pykruise.cli.manager",)),
)


WEBHOOKS = (
    "--enable-leader-election=false",
    "--health-probe-addr=127.0.0.1:0",
    "--metrics-addr=127.0.0.1:0",
    "--pprof-addr=0",
)
"""Flags of a manager that serves everything that one in a cluster serves."""

CALM_S = 15.0
"""After the pods are seen, until the manager's memory is looked at."""


def loaded() -> list[tuple[str, float, float, float]]:
    """What loading each part adds to this process: RSS, USS, Python's objects in MiB."""
    rows = [("the interpreter", *_memory(), 0.0)]
    for name, modules in PARTS:
        before = (*_memory(), tracemalloc.get_traced_memory()[0])
        for module in modules:
            importlib.import_module(module)
        if name.startswith("kinds"):
            sys.modules["pykruise.kinds"].kinds()
        gc.collect()
        after = (*_memory(), tracemalloc.get_traced_memory()[0])
        rows.append((name, after[0] - before[0], after[1] - before[1], (after[2] - before[2]) / 2**20))
    return [*rows, ("together", *_memory(), tracemalloc.get_traced_memory()[0] / 2**20)]


async def at_work(pods: int, environment: Mapping[str, str]) -> None:
    """Managers on a cluster with so many pods, without webhooks and with them."""
    # Not before: what they import is no part of what `loaded` measures.
    from bench.large import ALONE, LoneManager
    from support.webhooks import free_port

    with TemporaryDirectory() as name:
        command = (sys.executable, "-m", "bench.large", "--serve", name, "--pods", str(pods))
        server = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        try:
            assert server.stdout is not None
            url = (await server.stdout.readline()).decode().strip()
            for what, flags in (("without webhooks", ALONE), ("with webhooks", WEBHOOKS)):
                env = {
                    **environment,
                    "POD_NAMESPACE": "default",
                    "WEBHOOK_PORT": str(free_port()),
                    "WEBHOOK_CERT_DIR": f"{name}/certificates",
                }
                manager = await LoneManager.start(Path(name), url, flags=flags, env=env)
                await manager.report()
                await asyncio.sleep(CALM_S)
                rss, uss = _memory(str(manager.pid))
                print(f"{pods:>7} pods, {what:<20}{rss:>8.1f}{uss:>8.1f}", flush=True)
                await manager.end()
        finally:
            server.kill()
            await server.wait()


def main() -> None:
    """Print tables, or be the process that is looked at from inside."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--at", type=lambda text: [int(one) for one in text.split(",")])
    parser.add_argument("--inside", choices=("plain", "traced"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        if asked.inside == "traced":
            tracemalloc.start()
        print("\n".join("\t".join([one[0], *(f"{value:.1f}" for value in one[1:])]) for one in loaded()))
        return
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        _inside("plain", environment)  # writes the bytecode
        if asked.at:
            print(f"{'':<33}{'RSS MB':>8}{'USS MB':>8}")
            for pods in asked.at:
                asyncio.run(at_work(pods, environment))
            return
        plain, traced = (_inside(how, environment) for how in ("plain", "traced"))
    print(f"{'part':<30}{'RSS MB':>8}{'USS MB':>8}{'Python MB':>11}")
    for (name, rss, uss, _), (*_, python) in zip(plain, traced, strict=True):
        print(f"{name:<30}{rss:>8}{uss:>8}{python:>11}")


def _inside(how: str, environment: Mapping[str, str]) -> list[list[str]]:
    """The rows of `loaded`, of a process of its own."""
    command = (sys.executable, "-m", "bench.memory", "--inside", how)
    text = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return [line.split("\t") for line in text.splitlines()]


def _memory(pid: str = "self") -> tuple[float, float]:
    """RSS and USS of a process in MiB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = {name: int(kb) for name, kb in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    return found["Rss"] / 1024, (found["Private_Clean"] + found["Private_Dirty"]) / 1024


if __name__ == "__main__":
    main()
