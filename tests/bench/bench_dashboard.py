"""The dashboard with many changing workloads: the longest tasks of a browser, and the cost of the server.

HttpSandbox (2,000 CloneSets, no manager) ──100 changes a second──▶ pykruise dashboard ──▶ Chromium: long tasks, paint

PYTHONPATH=tests:. python -m bench.bench_dashboard [WORKLOADS] [CHANGES A SECOND] [SECONDS]. Prints; asserts nothing.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pykruise.kinds import build_crds
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES
from pykruise.testing.http import HttpSandbox
from support.browser import Browser, browsing
from support.dashboard_process import Hand, serving
from support.scenario import cloneset

NAMESPACE_COUNT = 20


def status_of(number: int, turn: int) -> dict[str, Any]:
    """A status: some workloads are being updated, few are stuck, most are at rest; this changes with each turn."""
    updated = (number + turn) % 11
    status: dict[str, Any] = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), 10)
    status |= {
        "updatedReplicas": min(updated, 10),
        "updatedReadyReplicas": min(updated, 10),
        "observedGeneration": 1,
    }
    if number % 50 == 0:
        waiting = {"type": "Waiting", "status": "True", "reason": "ImagePull", "message": f"turn {turn}"}
        status["conditions"] = [waiting]
    return status


async def fill(client: Client, count: int) -> None:
    for number in range(NAMESPACE_COUNT):
        await client.create(NAMESPACES, "", {"metadata": {"name": f"team-{number}"}})

    async def one(number: int) -> None:
        place, name = f"team-{number % NAMESPACE_COUNT}", f"workload-{number}"
        await client.create(CLONE_SETS, place, cloneset(name, replicas=10))
        await change(client, number, 10)

    for begin in range(0, count, 50):
        await asyncio.gather(*(one(number) for number in range(begin, min(begin + 50, count))))


async def change(client: Client, number: int, turn: int) -> None:
    place, name = f"team-{number % NAMESPACE_COUNT}", f"workload-{number}"
    patch = {"status": status_of(number, turn)}
    await client.patch(CLONE_SETS, place, name, patch, patch_type=PatchType.MERGE, subresource="status")


async def keep_changing(client: Client, count: int, a_second: int, seconds: float) -> int:
    """Make changes at a constant rate, and return their number."""
    begun, made = time.monotonic(), 0
    while (now := time.monotonic() - begun) < seconds:
        due = int(now * a_second) - made
        await asyncio.gather(*(change(client, (made + n) * 7 % count, made + n) for n in range(due)))
        made += due
        await asyncio.sleep(0.01)
    return made


def look(
    browser: Browser, hand: Hand, url: str, *, title: str, rows: int, count: int, rate: int, seconds: float
) -> None:
    browser.open(url)
    browser.watch_tasks()
    begun = time.monotonic()
    browser.until(
        lambda: browser.run("return document.querySelectorAll('main .row, main .card').length") >= rows
    )
    drawn_s = time.monotonic() - begun
    paint = browser.run(
        "return performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)[0]"
    )
    first = browser.run("return performance.now()")
    tasks = browser.long_tasks_ms()
    print(
        f"{title}: first paint {paint:.0f} ms; {rows} rows after {first:.0f} ms (seen {drawn_s:.1f} s after loading);"
    )
    print(f"  long tasks while it loads: {len(tasks)}, the longest {max(tasks, default=0):.0f} ms")
    browser.run("window.longTasks.length = 0")
    made = hand.do(lambda client: keep_changing(client, count, rate, seconds))
    tasks = browser.long_tasks_ms()
    print(
        f"  {made} changes in {seconds:.0f} s: {len(tasks)} tasks over 50 ms,"
        f" {sum(task > 100 for task in tasks)} over 100 ms, the longest {max(tasks, default=0):.0f} ms"
    )


def process_of(kubeconfig: Path) -> tuple[float, float]:
    """Resident memory in MB and CPU seconds of the dashboard."""
    completed_process = subprocess.run(
        ["pgrep", "-f", f"dashboard --kubeconfig {kubeconfig}"], capture_output=True, text=True, check=True
    )
    pid = completed_process.stdout.split()[0]
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return pages * 4096 / 1e6, (int(ticks[11]) + int(ticks[12])) / 100


def main(argv: list[str]) -> None:
    """Measure and print."""
    count, rate, seconds = (int(word) for word in (*argv, *("2000", "100", "20")[len(argv) :]))
    with (
        tempfile.TemporaryDirectory() as folder,
        HttpSandbox(Path(folder) / "kubeconfig", nodes=0, manifests=build_crds()),
        browsing() as browser,
    ):
        hand = Hand(Path(folder) / "kubeconfig")
        with serving(hand.kubeconfig) as served:
            time.sleep(3)
            empty, _ = process_of(hand.kubeconfig)
            begun = time.monotonic()
            hand.do(lambda client: fill(client, count))
            print(f"{count} workloads made in {time.monotonic() - begun:.1f} s")
            full, cpu = process_of(hand.kubeconfig)
            browser.open(served.link)
            browser.until(lambda: browser.all("main .row, main .card"))
            given = {"count": count, "rate": rate, "seconds": float(seconds)}
            look(browser, hand, f"{served.url}?page=rollouts", title="the first page", rows=100, **given)
            look(
                browser,
                hand,
                f"{served.url}?page=rollouts&from=1000",
                title="a page in the middle",
                rows=100,
                **given,
            )
            after, now = process_of(hand.kubeconfig)
            print(
                f"server: {empty:.0f} MB empty, {full:.0f} MB with the caches, {after:.0f} MB after a browser;"
            )
            print(f"  {(now - cpu) / (2 * seconds) * 100:.0f} % of a core while it changes")


if __name__ == "__main__":
    main(sys.argv[1:])
