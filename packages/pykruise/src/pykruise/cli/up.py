"""Command `pykruise up`: a cluster with the manager in this process, until Ctrl-C.

playground ──▶ HttpFront (TLS, 127.0.0.1, random token) ──▶ kubeconfig file ──▶ kubectl
"""

import asyncio
import secrets
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from rich.console import Console

from pykruise.cli.errors import CommandError
from pykruise.cli.garbage import collect_as_usual
from pykruise.cli.insight.gates import parse_settings
from pykruise.cli.playground import (
    PlaygroundContents,
    add_agents,
    add_ready_nodes,
    publish_manager,
    start_playground,
)
from pykruise.cli.terminal_text import escape_terminal
from pykruise.kinds import list_kinds
from pykruise.kinds.gates import list_all_gates
from pykruise.kube.clock import read_system_clock
from pykruise.kube.config.kubeconfig_files import merge_kubeconfigs
from pykruise.kube.schemas.releases import NEWEST_MINOR, number_of
from pykruise.kube.values.counts import format_count, format_first
from pykruise.manager.settings import ManagerSettings
from pykruise.sandbox.apiserver.catalog import FIRST_WITH_RESIZE
from pykruise.sandbox.certificates import Certificate, build_kubeconfig, issue, write_kubeconfig
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.durable import DataDirError, DurableStorage
from pykruise.sandbox.http_front import HttpFront
from pykruise.sandbox.loading import DumpError, Loaded, read_dump
from pykruise.sandbox.nodes.faults_file import FaultsFileError, follow_file, read_rules
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from pykruise.sandbox.version import version_of

CONTEXT = "pykruise"
PULL_S = 1.0
"""Seconds that a node needs to pull an image that it does not have."""


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `pykruise up`."""

    kubernetes: str = NEWEST_MINOR
    """Minor version of Kubernetes."""
    nodes: int | None = None
    """Number of nodes. None: the nodes of the data directory or of the dump, or 3 nodes if there are none."""
    port: int = 0
    kubeconfig: Path | None = None
    data_dir: Path | None = None
    load: Path | None = None
    failures: Path | None = None
    rbac: bool = False
    """Whether RBAC limits users to the permissions of their roles."""
    service_accounts: bool = False
    """Whether pods get their namespace's service account and a volume with its token."""
    feature_gates: str = ""
    """Feature gates of the manager: A=true,B=false."""
    has_agents: bool = True
    """Whether nodes simulate the node agent: they pull images ahead, recreate containers and run probes."""


async def run_up(options: UpOptions) -> None:
    """Run the cluster until SIGINT or SIGTERM.

    Raises CommandError for unknown gates and files that cannot be read or written, KubeError for a file that would be
    replaced and is not a kubeconfig, OSError for a port that cannot be used.
    """
    if options.kubeconfig is not None:
        check_replaceable(options.kubeconfig)
    version = version_of(options.kubernetes)
    has_resize = number_of(options.kubernetes) >= number_of(FIRST_WITH_RESIZE)
    manager_settings = settings_of(options.feature_gates).fit_version(version, uses_resize=has_resize)
    try:
        rules = read_rules(options.failures) if options.failures else ()
        dump = read_dump(options.load) if options.load else None
        storage = DurableStorage(options.data_dir) if options.data_dir else None
    except (FaultsFileError, DumpError, DataDirError) as error:
        raise CommandError(str(error)) from error
    try:
        await _serve(options, PlaygroundContents(storage=storage, dump=dump, rules=rules), manager_settings)
    finally:
        if storage is not None:
            storage.close()
    kept = f"stopped; everything is kept in {options.data_dir}" if storage else _GONE
    Console(stderr=True, soft_wrap=True, highlight=False).print(kept)


def settings_of(feature_gates: str) -> ManagerSettings:
    """Manager settings for a sandbox: the feature gates of all kinds are enabled, except gates that `feature_gates`
    sets, and new nodes can pull images immediately.
    """
    asked = {part.partition("=")[0].strip() for part in feature_gates.split(",")}
    gates = dict.fromkeys(gate for kind in list_kinds() if kind.versions for gate in kind.gates)
    known = list_all_gates()
    added = [f"{gate}=true" for gate in gates if gate not in asked and not known[gate].default]
    return add_ready_nodes(parse_settings(",".join([*added, *([feature_gates] if feature_gates else [])])))


_GONE = "stopped; its data is deleted"


async def _serve(options: UpOptions, contents: PlaygroundContents, manager_settings: ManagerSettings) -> None:
    stop = _stop_on_signals()
    certificate = issue(now=read_system_clock())
    token = secrets.token_urlsafe(32)
    settings = ClusterSettings(
        kubernetes=options.kubernetes,
        nodes=_choose_node_count(options, contents),
        kubelet=KubeletSettings(pull_s=PULL_S),
        rbac=options.rbac,
        service_accounts=options.service_accounts,
    )
    if options.has_agents:
        settings = add_agents(settings)
    with _kubeconfig_path(options.kubeconfig) as path:
        async with start_playground(
            settings,
            manager_settings=manager_settings,
            contents=contents,
            on_loaded=_print_loaded,
        ) as place:
            await publish_manager(place.client, manager_settings)
            front = HttpFront(place.cluster.server, token=token, port=options.port, certificate=certificate)
            await front.start()
            try:
                _write(path, front.url, certificate, token)
                count = len(place.cluster.server.storage.scan("nodes").items)
                collect_as_usual()
                _greet(path, url=front.url, nodes=count, data_dir=options.data_dir)
                async with follow_file(options.failures, place.cluster.kubelets.set_rules, tell=_print_rules):
                    await place.wait_for_failure(stop)
            finally:
                await front.stop()


def _choose_node_count(options: UpOptions, contents: PlaygroundContents) -> int:
    if options.nodes is not None:
        return options.nodes
    has_own = bool(contents.dump and contents.dump.nodes) or bool(
        contents.storage and contents.storage.scan("nodes", limit=1).items
    )
    return 0 if has_own else 3


def _print_loaded(loaded: Loaded) -> None:
    """Print one line about the loaded objects, and one for each object that was left out."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(f"loaded {format_count(loaded.created, 'object')}, left out {len(loaded.left_out)}")
    for what, why in loaded.left_out[:_SHOWN]:
        console.print(escape_terminal(f"  {what}: {why}"), markup=False)
    if len(loaded.left_out) > _SHOWN:
        console.print(f"  and {len(loaded.left_out) - _SHOWN} more")


_SHOWN = 20


def _print_rules(text: str) -> None:
    Console(stderr=True, soft_wrap=True, highlight=False).print(text, markup=False)


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    return stop


def check_replaceable(path: Path) -> None:
    """Check that the file does not exist, is empty, or has only the entries that this command writes. Raises
    CommandError for other entries, because they would be lost; KubeError if the file is not a kubeconfig.
    """
    if not path.is_file() or not path.stat().st_size:
        return
    entries, _ = merge_kubeconfigs([path])
    names = {str(entry.value["name"]) for listed in entries.values() for entry in listed}
    if others := sorted(names - {CONTEXT}):
        raise CommandError(
            f"{path}: the kubeconfig has other entries ({format_first(others, _NAMED)}), which would be lost;"
            " give --kubeconfig the path of a new file"
        )


_NAMED = 5
"""Maximum number of entries that the error names."""


@contextmanager
def _kubeconfig_path(wanted: Path | None) -> Iterator[Path]:
    """The given path, or a path in a temporary folder, which is deleted at the end."""
    if wanted is not None:
        yield wanted
        return
    with tempfile.TemporaryDirectory(prefix="pykruise-") as folder:
        yield Path(folder) / "kubeconfig"


def _write(path: Path, url: str, certificate: Certificate, token: str) -> None:
    try:
        write_kubeconfig(path, build_kubeconfig(url, certificate.authority, token, CONTEXT))
    except OSError as error:
        raise CommandError(f"{path}: the kubeconfig cannot be written: {error.strerror or error}") from error


def _greet(path: Path, *, url: str, nodes: int, data_dir: Path | None) -> None:
    console = Console(soft_wrap=True, highlight=False)
    console.print(f"A cluster of {nodes} simulated nodes runs at {url}, with the manager in it.")
    console.print(
        "Pods are simulated and no container runs: use it for development and tests. Next, in another terminal:\n"
    )
    console.print(f"  export KUBECONFIG={path}")
    console.print("  kubectl apply -f examples/cloneset.yaml")
    console.print("  kubectl get clonesets,pods")
    console.print("  kubectl scale clonesets/web --replicas 8\n")
    if data_dir is None:
        console.print("Ctrl-C ends it and deletes its data.")
    else:
        console.print(f"Ctrl-C ends it; everything is kept in {data_dir} for the next start.")
