"""Where the memory of a manager goes before its first pod: each part in the order in which a manager loads it.

PYTHONPATH=tests:. python -m bench.memory        each line: what was added to this process by that part

Prints; asserts nothing. RSS is what the kernel counts, USS what would be free without this process (shared libraries
left out), "Python" what was asked of the allocator (tracemalloc, in a second process: it costs memory itself).
"""

import gc
import importlib
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

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


def main() -> None:
    """Print the table, or be the process that is looked at from inside."""
    is_traced = "--traced" in sys.argv
    if is_traced:
        tracemalloc.start()
    rows = []
    rss, uss = _memory()
    rows.append(("the interpreter", rss, uss, 0.0))
    for name, modules in PARTS:
        before = (*_memory(), tracemalloc.get_traced_memory()[0])
        for module in modules:
            importlib.import_module(module)
        if name.startswith("kinds"):
            sys.modules["pykruise.kinds"].kinds()
        gc.collect()
        after = (*_memory(), tracemalloc.get_traced_memory()[0])
        rows.append((name, after[0] - before[0], after[1] - before[1], (after[2] - before[2]) / 2**20))
    rows.append(("together", *_memory(), tracemalloc.get_traced_memory()[0] / 2**20))
    if is_traced:
        print("\n".join(f"{one[3]:.1f}" for one in rows))
        return
    command = (sys.executable, "-m", "bench.memory", "--traced")
    traced = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    print(f"{'part':<30}{'RSS MB':>8}{'USS MB':>8}{'Python MB':>11}")
    for (name, rss, uss, _), python in zip(rows, traced, strict=True):
        print(f"{name:<30}{rss:>8.1f}{uss:>8.1f}{python:>11}")


def _memory() -> tuple[float, float]:
    """RSS and USS of this process in MiB."""
    text = Path("/proc/self/smaps_rollup").read_text()
    found = {name: int(kb) for name, kb in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    return found["Rss"] / 1024, (found["Private_Clean"] + found["Private_Dirty"]) / 1024


if __name__ == "__main__":
    main()
