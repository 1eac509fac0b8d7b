"""Programs that are attacked for a minute, and the observations of legitimate users.

attacked_cluster.py ◀── lone_manager.py: the manager, with a watch on its loop ◀── attacks.py: its own process
                                                                               ◀── this process: 50 reviews a second
                    ◀── attacked_programs.py: an agent and a dashboard, for attacks on these

PYTHONPATH=tests:. python -m bench.bench_attacks [--seconds 60] [--only halves,idle] [--each] [--cluster sandbox]
PYTHONPATH=tests:. python -m bench.bench_attacks --page [--seconds 60]. Prints; asserts nothing.

`--each`: one attack after the other, `--seconds` each. `--page`: each for EACH_S, then all together for `--seconds`,
with the tables of docs/lab/security.md. Everything uses this machine's loopback: legitimate reviews come from
127.0.0.1, like those of an API server, and each attack from another address. The manager and its conversion process
have their own processor, like a pod; all others share the remaining ones. `--shared`: all programs share all.
"""

import argparse
import asyncio
import base64
import json
import os
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, get_args

import aiohttp
import msgspec
import uvloop

from bench.attack_target import NAMESPACE, UNREVIEWED
from bench.attacked_cluster import AttackedCluster, ClusterName, attacked_cluster
from bench.attacked_programs import (
    AttackedDashboard,
    Seen,
    Watched,
    attacked_agent,
    attacked_dashboard,
)
from bench.attacks import ASIDE, AT_AGENT, AT_DASHBOARD, ATTACKS, MOST_LATE_S, stored
from bench.bench_admission import pod
from bench.large import LoneManager
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.config.kubeconfig import load_kubeconfig
from pykruise.kube.documents import decode
from pykruise.kube.errors import KubeError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.resources import LEASES, NAMESPACES, PODS, SECRETS
from support.control_plane import MANAGER_NAMESPACE
from support.reviews import posted, read, request
from support.webhooks import LOOPBACK, free_port, install_configurations, install_namespace, webhook_settings

RATE = 50
"""Legitimate reviews per second."""
ANSWER_S = 10.0
"""Seconds that an API server gives a review, and a user of the dashboard a request."""
END_S = 60.0 + MOST_LATE_S
"""Maximum seconds in which attacks reach their goals and delete their objects, while other programs run."""
EACH_S = 8.0
"""Seconds of one attack with `--page`."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Observations of legitimate users of one program, and its resource usage."""

    attack: str
    program: str
    asked: int
    """Reviews, requests, or probes."""
    refused: int
    """Requests without the right response."""
    p50_ms: float
    p99_ms: float
    longest_ms: float
    """Longest delay; for a probe, how late it was."""
    memory_mb: float
    """Maximum memory of the program and its child processes together; shared memory counts once."""
    stop_ms: float = 0.0
    """Maximum CPU time of the loop's thread between two turns. This and the next fields are the manager's alone."""
    wait_ms: float = 0.0
    """Maximum time between two turns, including other threads and processes."""
    collection_ms: float = 0.0
    """Maximum CPU time of a garbage collection."""
    where: str = ""
    lease_kept: bool
    """Whether the manager kept its Lease."""
    set_s: float = 0.0
    """Seconds until a CloneSet of another namespace, created during the attack, had its pod."""
    counts: dict[str, int] = {}
    """Results of the attacks, by name."""


class Victim(msgspec.Struct, frozen=True):
    """A running manager."""

    manager: LoneManager
    client: Client
    webhook: int
    plain: tuple[int, ...]
    tls: ssl.SSLContext
    kubeconfig: Path


@contextmanager
def processors(numbers: set[int]) -> Iterator[None]:
    """Processes that start in this block use only these processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, numbers)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@asynccontextmanager
async def victim(
    cluster: AttackedCluster, folder: Path, log: int | None, own: set[int]
) -> AsyncIterator[Victim]:
    """A manager as in a pod, with leader election, webhooks and all its ports, on its own processors."""
    account = cluster.account(folder / "manager", of_manager=True)
    ports = {name: free_port() for name in ("metrics", "health-probe", "pprof")}
    webhook = free_port()
    flags = [f"--{name}-addr=127.0.0.1:{port}" for name, port in ports.items()]
    environment = {
        "WEBHOOK_HOST": LOOPBACK,
        "WEBHOOK_PORT": str(webhook),
        "WEBHOOK_CERT_DIR": str(folder / "certs"),
        "WEBHOOK_CERT_WRITER": "secret",
    }
    flags.append("--feature-gates=ImagePullJobGate=true")
    flags += [f"--webhook-addr={LOOPBACK}:{webhook}", f"--protection-log-path={folder / 'log'}"]
    transport = HttpTransport(load_kubeconfig(cluster.kubeconfig))
    client = Client(transport)
    settings = webhook_settings(folder, port=webhook)
    await install_namespace(client, settings)
    await install_configurations(client, settings, unreviewed=UNREVIEWED)
    with processors(own):
        manager = await LoneManager.start(account, cluster.url, flags=flags, env=environment, log=log)
    try:
        authority = await _authority(client)
        tls = ssl.create_default_context(cadata=authority)
        tls.check_hostname = False
        attacked = Victim(manager, client, webhook, tuple(ports.values()), tls, cluster.kubeconfig)
        await _ready(attacked)
        yield attacked
    finally:
        await manager.end()
        await transport.close()


async def _authority(client: Client) -> str:
    async with asyncio.timeout(120):
        while True:
            with suppress(KubeError, KeyError):
                secret = decode(await client.get(SECRETS, MANAGER_NAMESPACE, "kruise-webhook-certs"))
                return base64.b64decode(secret["data"]["ca-cert.pem"]).decode()
            await asyncio.sleep(0.5)


async def _ready(victim: Victim) -> None:
    """Wait until the manager leads."""
    async with asyncio.timeout(120):
        while True:
            with suppress(KubeError):
                await _leader(victim.client)
                return
            await asyncio.sleep(0.5)


async def _leader(client: Client) -> tuple[str, int]:
    """The holder of the lease, and how often it has changed hands."""
    lease = decode(await client.get(LEASES, MANAGER_NAMESPACE, "kruise-manager"))
    return lease["spec"]["holderIdentity"], lease["spec"].get("leaseTransitions", 0)


# ── honest reviews ───────────────────────────────────────────────────────────


class Honest:
    """An API server's reviews of pods, at fixed times, independent of earlier responses."""

    def __init__(self, victim: Victim, answer_s: float) -> None:
        self._answer_s = answer_s
        self._url = f"https://{LOOPBACK}:{victim.webhook}/mutate-pod?timeout={answer_s:g}s"
        self._tls = victim.tls
        self._body = posted(request(PODS, pod()))
        self.seconds: list[float] = []
        self.refused: list[str] = []

    async def run(self, seconds: float) -> None:
        """Send reviews for this time."""
        connector = aiohttp.TCPConnector(
            ssl=self._tls, limit=0, keepalive_timeout=60, local_addr=(LOOPBACK, 0)
        )
        timeout = aiohttp.ClientTimeout(total=self._answer_s)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            began = time.perf_counter()
            async with asyncio.TaskGroup() as tasks:
                for number in range(round(seconds * RATE)):
                    await asyncio.sleep(max(0.0, began + number / RATE - time.perf_counter()))
                    tasks.create_task(self._ask(session))

    async def _ask(self, session: aiohttp.ClientSession) -> None:
        began = time.perf_counter()
        try:
            async with session.post(self._url, data=self._body) as answer:
                body = await answer.read()
                if answer.status != 200 or not read(body).allowed:
                    self.refused.append(f"{answer.status} {body[:80]!r}")
        except (aiohttp.ClientError, TimeoutError) as error:
            self.refused.append(repr(error))
        self.seconds.append(time.perf_counter() - began)


# ── a run ────────────────────────────────────────────────────────────────────


async def run(
    names: Sequence[str],
    *,
    seconds: float,
    each_s: float = 0.0,
    at_once: bool = True,
    cluster: ClusterName = "real",
    log: int | None = None,
    shared: bool = False,
    answer_s: float = ANSWER_S,
) -> list[Outcome]:
    """Measure without attacks, then sequentially with each attack for `each_s` (0: skip), and with all for `at_once`.

    A legitimate request counts as rejected if no response arrives within `answer_s`.
    """
    outcomes: list[Outcome] = []
    every = os.sched_getaffinity(0)
    own = every if shared else {min(every)}
    turns = [(min(seconds, 10.0), "none", list[str]())]
    turns += [(each_s, name, [name]) for name in names if each_s]
    turns += [(seconds, "all", list(names))] if at_once else []
    os.sched_setaffinity(0, every if shared else every - own or own)
    try:
        with tempfile.TemporaryDirectory() as folder_name:
            folder = Path(folder_name)
            async with (
                attacked_cluster(cluster, folder) as place,
                victim(place, folder, log, own) as attacked,
                AsyncExitStack() as stack,
            ):
                await _store(attacked.client, names)
                watched: list[Watched] = []
                if not AT_AGENT.isdisjoint(names):
                    account = place.account(folder / "agent", of_manager=False)
                    agent = attacked_agent(place.kubeconfig, url=place.url, account=account, log=log)
                    watched.append(await stack.enter_async_context(agent))
                if not AT_DASHBOARD.isdisjoint(names):
                    dashboard = attacked_dashboard(place.kubeconfig, attacked.client, answer_s=answer_s)
                    watched.append(await stack.enter_async_context(dashboard))
                for lasts_s, title, chosen in turns:
                    for outcome in await _measured(attacked, watched, title, chosen, lasts_s, answer_s):
                        outcomes.append(outcome)
                        print(line(outcome), flush=True)
    finally:
        os.sched_setaffinity(0, every)
    return outcomes


async def _store(client: Client, names: Sequence[str]) -> None:
    await client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    await client.create(NAMESPACES, "", {"metadata": {"name": UNREVIEWED}})
    for resource, doc in stored(names):
        await client.create(resource, doc["metadata"].get("namespace", ""), doc)
    await asyncio.sleep(1)  # until the manager has seen them


async def _measured(
    attacked: Victim,
    watched: Sequence[Watched],
    title: str,
    names: Sequence[str],
    seconds: float,
    answer_s: float,
) -> list[Outcome]:
    """Measure the manager, and the other programs that the attacks use."""
    await attacked.manager.report()
    leader = await _leader(attacked.client)
    honest = Honest(attacked, answer_s)
    groups = [[name for name in names if (name in ASIDE) is aside] for aside in (False, True)]
    attackers = [await _attack(attacked, watched, group, seconds + 4) for group in groups if group]
    if attackers:
        await asyncio.sleep(2)  # until they have begun
    with ExitStack() as stack:
        memory = stack.enter_context(Memory(attacked.manager.pid))
        memories = [stack.enter_context(Memory(item.pid)) for item in watched]
        async with asyncio.TaskGroup() as tasks:
            making = tasks.create_task(_make_a_set(attacked.client, title, within_s=seconds))
            using = [tasks.create_task(item.use(seconds)) for item in watched]
            await honest.run(seconds)
    counts = {words: count for attacker in attackers for words, count in (await _counts(attacker)).items()}
    late = [await item.count_late() for item in watched]
    report = await attacked.manager.report()
    kept = await _leader(attacked.client) == leader
    mine = Seen(honest.seconds, honest.refused, counts)
    return [
        _outcome(
            title,
            "manager",
            mine,
            memory,
            lease_kept=kept,
            stop_ms=report["stop_ms"],
            wait_ms=report["wait_ms"],
            collection_ms=report["collection_ms"],
            where=report["where"],
            set_s=making.result(),
        ),
        *(
            _outcome(title, value.name, use.result().add(more), its, lease_kept=kept)
            for value, use, its, more in zip(watched, using, memories, late, strict=True)
        ),
    ]


def _outcome(title: str, program: str, seen: Seen, memory: "Memory", **more: Any) -> Outcome:
    times = sorted(second * 1000 for second in seen.seconds) or [0.0]
    for refusal in sorted(set(seen.refused))[:5]:
        print(f"   {program}: refused {seen.refused.count(refusal)} times: {refusal}", file=sys.stderr)
    return Outcome(
        attack=title,
        program=program,
        asked=len(seen.seconds),
        refused=len(seen.refused),
        p50_ms=times[len(times) // 2],
        p99_ms=times[len(times) * 99 // 100],
        longest_ms=times[-1],
        memory_mb=memory.highest_mb,
        counts=seen.counts,
        **more,
    )


async def _attack(
    attacked: Victim, watched: Sequence[Watched], names: Sequence[str], seconds: float
) -> asyncio.subprocess.Process:
    dashboards = [item for item in watched if isinstance(item, AttackedDashboard)]
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.attacks", "--webhook", str(attacked.webhook)),
        *("--plain", ",".join(map(str, attacked.plain)), "--seconds", str(seconds)),
        *("--kubeconfig", str(attacked.kubeconfig), "--only", ",".join(names)),
        *(
            flag
            for dashboard in dashboards
            for flag in ("--dashboard", str(dashboard.port), "--token", dashboard.hostile)
        ),
        stdout=asyncio.subprocess.PIPE,
    )


async def _counts(attacker: asyncio.subprocess.Process) -> dict[str, int]:
    """Results of an ended attack. Raises RuntimeError if an attack failed, because then nothing was measured."""
    try:
        async with asyncio.timeout(END_S):
            said, _ = await attacker.communicate()
    except TimeoutError:
        attacker.kill()
        await attacker.wait()
        print(f"   attacks did not end within {END_S:g} s: what they got is not known", file=sys.stderr)
        return {}
    if attacker.returncode:
        raise RuntimeError(f"the attacks ended with exit code {attacker.returncode}")
    counts: dict[str, int] = json.loads(said)
    return counts


async def _make_a_set(client: Client, title: str, *, within_s: float) -> float:
    """Seconds until a CloneSet of one pod had its pod; infinite if it had none within this time."""
    await asyncio.sleep(within_s / 4)
    template = {
        "metadata": {"labels": {"app": title}},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": title}}, "template": template}
    doc = {"apiVersion": CLONE_SETS.api_version, "kind": CLONE_SETS.kind, "metadata": {"name": title.lower()}}
    began = time.perf_counter()
    while time.perf_counter() - began < within_s:
        with suppress(KubeError):  # its review may fail, and a user tries again
            await client.create(CLONE_SETS, "default", {**doc, "spec": spec})
        if (await client.list(PODS, "default", label_selector=f"app={title}")).items:
            return time.perf_counter() - began
        await asyncio.sleep(0.02)
    return float("inf")


class Memory:
    """Memory of a process and its children; a thread measures it every quarter of a second."""

    def __init__(self, pid: int) -> None:
        self.highest_mb = 0.0
        self._pid = pid
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.25):
            tasks = Path(f"/proc/{self._pid}/task").glob("*/children")
            children = [child for task in tasks for child in task.read_text().split()]
            self.highest_mb = max(self.highest_mb, sum(map(_share_mb, (self._pid, *children))))


def _share_mb(pid: int | str) -> float:
    with suppress(OSError):  # it has ended
        for text in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if text.startswith("Pss:"):
                return int(text.split()[1]) / 1024
    return 0.0


HEAD = (
    f"{'attack':<18}{'program':<10}{'asked':>7}{'refused':>8}{'p50 ms':>8}{'p99 ms':>8}{'max ms':>8}{'MB':>6}"
    f"{'stop ms':>9}{'wait ms':>9}{'gc ms':>7}{'set s':>7}  lease  where the longest stop was; what the attacks got"
)


def line(outcome: Outcome) -> str:
    """A row of the table."""
    lease = "kept" if outcome.lease_kept else "LOST"
    return (
        f"{outcome.attack:<18}{outcome.program:<10}{outcome.asked:>7}{outcome.refused:>8}{outcome.p50_ms:>8.1f}{outcome.p99_ms:>8.1f}"
        f"{outcome.longest_ms:>8.0f}{outcome.memory_mb:>6.0f}{outcome.stop_ms:>9.0f}{outcome.wait_ms:>9.0f}"
        f"{outcome.collection_ms:>7.0f}{outcome.set_s:>7.2f}  {lease:<7}{outcome.where}{_got(outcome)}"
    )


def _got(outcome: Outcome) -> str:
    return "; ".join(f"{count} {words}" for words, count in sorted(outcome.counts.items()))


def page(outcomes: Sequence[Outcome]) -> str:
    """The tables of docs/lab/security.md: all attacks in parallel, and sequentially."""
    whole = [outcome for outcome in outcomes if outcome.attack == "all"]
    single = [outcome for outcome in outcomes if outcome.attack != "all"]
    # Agent and dashboard have rows only for attacks on them, and for the run without attacks.
    shown = [
        outcome
        for outcome in single
        if outcome.program in ("manager", _aim(outcome.attack)) or outcome.attack == "none"
    ]
    return "\n\n".join(
        "\n".join(
            [
                "| attack | program | requests | rejected | p50 | p99 | longest | Lease | memory"
                " | longest pause of the event loop |",
                "|---|---|---|---|---|---|---|---|---|---|",
                *map(_row, rows),
            ]
        )
        for rows in (whole, shown)
        if rows
    )


def _aim(attack: str) -> str:
    if attack in AT_AGENT:
        return "agent"
    return "dashboard" if attack in AT_DASHBOARD else "manager"


def _row(outcome: Outcome) -> str:
    stop = f"{outcome.stop_ms:.0f} ms" if outcome.program == "manager" else ""
    kept = "kept" if outcome.lease_kept else "lost"
    got = f" ({_got(outcome)})" if outcome.counts else ""
    return (
        f"| {outcome.attack}{got} | {outcome.program} | {outcome.asked} | {outcome.refused} | {outcome.p50_ms:.1f} ms"
        f" | {outcome.p99_ms:.0f} ms | {outcome.longest_ms:.0f} ms | {kept} | {outcome.memory_mb:.0f} MB | {stop} |"
    )


def main() -> None:
    """Print a line a run and program."""
    parser = argparse.ArgumentParser(prog="bench.bench_attacks", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default="", help=f"of: {', '.join(ATTACKS)}")
    parser.add_argument("--each", action="store_true", help="one attack after the other")
    parser.add_argument("--page", action="store_true", help="each, then all at once, as tables for the docs")
    parser.add_argument("--cluster", choices=get_args(ClusterName), default="real")
    parser.add_argument("--shared", action="store_true", help="no processor for the manager alone")
    parser.add_argument("--log", type=Path, help="write the programs' logs to this file")
    asked = parser.parse_args()
    names = asked.only.split(",") if asked.only else list(ATTACKS)
    log = os.open(asked.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) if asked.log else None
    each_s = EACH_S if asked.page else asked.seconds if asked.each else 0.0
    print(HEAD)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcomes = runner.run(
            run(
                names,
                seconds=asked.seconds,
                each_s=each_s,
                at_once=not asked.each,
                cluster=asked.cluster,
                log=log,
                shared=asked.shared,
            )
        )
    if asked.page:
        print(f"\n{page(outcomes)}")


if __name__ == "__main__":
    main()
