"""Memory that each part of a manager adds to the process that loads it: the process that memory.py starts.

PYTHONPATH=tests:. python -m bench.memory_parts [--traced]: rows of name, RSS, USS and Python's objects in MiB, by tabs

It imports no other modules if possible.
"""

import gc
import importlib
import re
import sys
import tracemalloc
from pathlib import Path

__all__ = ["resident"]

PARTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("asyncio, ssl, uvloop", ("asyncio", "ssl", "uvloop")),
    ("msgspec, orjson", ("msgspec", "orjson")),
    (
        "client, caches, queue",
        ("pykruise.kube.client.client", "pykruise.kube.http.transport", "pykruise.kube.cache.cache"),
    ),
    ("operator", ("pykruise.runtime.operator",)),
    ("kinds: types, rules, plans", ("pykruise.kinds",)),
    ("prometheus_client", ("prometheus_client",)),
    ("the rest of the manager", ("pykruise.manager.process", "pykruise.cli.manager")),
    ("webhooks", ("pykruise.manager.webhooks", "pykruise.admission.certificate_process")),
)


def loaded() -> list[tuple[str, float, float, float]]:
    """Memory that each loaded part adds to this process: RSS, USS, Python objects in MiB."""
    rows = [("the interpreter", *resident(), 0.0)]
    for name, modules in PARTS:
        before = (*resident(), tracemalloc.get_traced_memory()[0])
        for module in modules:
            importlib.import_module(module)
        if name.startswith("kinds"):
            sys.modules["pykruise.kinds"].kinds()
        gc.collect()
        after = (*resident(), tracemalloc.get_traced_memory()[0])
        rows.append((name, after[0] - before[0], after[1] - before[1], (after[2] - before[2]) / 2**20))
    return [*rows, ("together", *resident(), tracemalloc.get_traced_memory()[0] / 2**20)]


def resident(pid: str = "self") -> tuple[float, float]:
    """RSS and USS of a process in MiB."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    result = {name: int(kb) for name, kb in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    return result["Rss"] / 1024, (result["Private_Clean"] + result["Private_Dirty"]) / 1024


if __name__ == "__main__":
    if "--traced" in sys.argv:
        tracemalloc.start()
    print("\n".join("\t".join([item[0], *(f"{value:.1f}" for value in item[1:])]) for item in loaded()))
