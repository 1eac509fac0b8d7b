"""The agent's command line: flags of OpenKruise's daemon with their names, defaults and meanings.

argv, environment ──▶ parse() ──▶ AgentSettings      format_help() ──▶ the output of --help

Pure. The manager and the agent get the same value of --feature-gates. The agent uses four of these gates. It parses the
values of all gates, but only the manager checks their names.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pykruise.kube.program.flags import (
    HELP,
    LOG_FLAGS,
    Flag,
    FlagError,
    format_help_lines,
    list_unused_notes,
    make_text_flag,
    read_address,
    read_boolean,
    read_duration,
    read_one_of,
    read_texts,
    read_value,
    read_whole,
    switch,
)
from pykruise.kube.program.logs import LogSettings
from pykruise.kube.program.serving import Address

_ADAPTS: Final = "the client adapts its request rate to the API server's responses"

FLAGS: Final[Sequence[Flag]] = (
    make_text_flag(
        "kubeconfig",
        "",
        "Path of the kubeconfig (default: $KUBECONFIG, the pod's account, or ~/.kube/config).",
    ),
    make_text_flag("context", "", "Context of the kubeconfig."),
    make_text_flag(
        "feature-gates",
        "",
        "Feature gates, such as A=true,B=false; set the same value as for the manager.",
        is_list=True,
    ),
    make_text_flag("addr", ":10221", "Address of /metrics and /healthz; 0 disables them.", read=read_address),
    make_text_flag(
        "pprof-addr", ":10222", "Address of thread dumps and memory statistics.", read=read_address
    ),
    switch("enable-pprof", "true", "Serve thread dumps and memory statistics at --pprof-addr."),
    make_text_flag("socket-file", "", "Socket to use, below --runtime-dir (default: all known sockets)."),
    make_text_flag("runtime-dir", "/hostvarrun", "Path of the host's run directory."),
    make_text_flag(
        "plugin-config-file",
        "/kruise/CredentialProviderPlugin.yaml",
        "Configuration of credential providers, in the kubelet's format.",
    ),
    make_text_flag("plugin-bin-dir", "/kruise/plugins", "Folder with the programs of credential providers."),
    make_text_flag(
        "max-workers-for-pull-image",
        "-1",
        "Maximum number of images that are pulled at the same time; below 1, there is no limit.",
        read=read_whole(),
    ),
    make_text_flag(
        "max-concurrency", "", "Same as --max-workers-for-pull-image; the name in OpenKruise's manual."
    ),
    make_text_flag(
        "logging-format", "text", "Format of the logs: text or json.", read=read_one_of("text", "json")
    ),
    make_text_flag("v", "0", "Verbosity of the logs; 5 or higher adds debug lines.", read=read_whole(0)),
    make_text_flag(
        "shutdown-timeout", "8s", "Time limit for work in progress at shutdown.", read=read_duration
    ),
    # Accepted because existing manifests set these flags.
    make_text_flag("rest-config-qps", "0", "No effect.", unused=_ADAPTS),
    make_text_flag("rest-config-burst", "0", "No effect.", unused=_ADAPTS),
    *LOG_FLAGS,
)


class AgentGates(msgspec.Struct, frozen=True, kw_only=True):
    """Feature gates that the agent uses."""

    watches_pods: bool = True
    """Gate DaemonWatchingPod."""
    reports_environment: bool = True
    """Gate InPlaceUpdateEnvFromMetadata."""
    probes: bool = True
    """Gate PodProbeMarkerGate."""


_GATES: Final = {
    "DaemonWatchingPod": "watches_pods",
    "InPlaceUpdateEnvFromMetadata": "reports_environment",
    "PodProbeMarkerGate": "probes",
}
"""All these gates are beta and on by default. If the gate KruiseDaemon is off, they are off too."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of an agent."""

    node: str
    gates: AgentGates = AgentGates()
    serving: Address | None = Address("", 10221)
    diagnosis: Address | None = Address("", 10222)
    runtime_dir: Path = Path("/hostvarrun")
    socket_file: str = ""
    plugin_config: Path = Path("/kruise/CredentialProviderPlugin.yaml")
    plugin_folder: Path = Path("/kruise/plugins")
    most_pulls: int = 0
    """0: no limit."""
    log: LogSettings = LogSettings()
    stop_grace_s: float = 8.0
    kubeconfig: str = ""
    context: str = ""
    notes: tuple[str, ...] = ()


EXAMPLES: Final = (
    "  NODE_NAME=node-1 pykruise-agent --kubeconfig ~/.kube/config --socket-file containerd.sock",
    "  NODE_NAME=node-1 pykruise-agent --feature-gates PodProbeMarkerGate=false --v 5",
)


def format_help() -> str:
    """Return the output of --help."""
    intro = (
        "Pull images ahead, recreate containers, probe pods and report what runs on the node $NODE_NAME,"
        " until SIGTERM or Ctrl-C."
    )
    return "\n".join([intro, "", *format_help_lines(FLAGS), "", "Examples:", *EXAMPLES])


def parse(argv: Sequence[str], *, environ: Mapping[str, str]) -> AgentSettings | None:
    """Return the settings from a command line and an environment; None if the user asks for help. Raises FlagError."""
    known = {flag.name: flag for flag in FLAGS}
    given = read_texts(argv, known)
    if any(name in given for name in HELP):
        return None
    values = {name: read_value(flag, given.get(name)) for name, flag in known.items()}
    node = environ.get("NODE_NAME", "")
    if not node:
        raise FlagError(
            "the environment variable NODE_NAME must contain the name of the agent's node; set it"
            " with a fieldRef to spec.nodeName"
        )
    return AgentSettings(
        node=node,
        gates=_parse_gates(given.get("feature-gates", ())),
        serving=values["addr"],
        diagnosis=values["pprof-addr"] if values["enable-pprof"] else None,
        runtime_dir=Path(values["runtime-dir"]),
        socket_file=values["socket-file"],
        plugin_config=Path(values["plugin-config-file"]),
        plugin_folder=Path(values["plugin-bin-dir"]),
        most_pulls=max(0, _parse_pull_limit(values["max-workers-for-pull-image"], values["max-concurrency"])),
        log=LogSettings(format=values["logging-format"], verbosity=values["v"]),
        stop_grace_s=values["shutdown-timeout"],
        kubeconfig=values["kubeconfig"],
        context=values["context"],
        notes=tuple(list_unused_notes(given, known)),
    )


def _parse_pull_limit(workers: int, concurrency: str) -> int:
    if not concurrency:
        return workers
    try:
        return int(concurrency)
    except ValueError:
        raise FlagError(f"--max-concurrency: {concurrency!r} is not a whole number") from None


def _parse_gates(given: Iterable[str]) -> AgentGates:
    """Return the gates. As in Kubernetes, a gate that is set by name overrides AllBeta, in any order."""
    asked: dict[str, bool] = {}
    for item in ",".join(given).split(","):
        if not item.strip():
            continue
        name, equals, text = (part.strip() for part in item.partition("="))
        try:
            asked[name] = read_boolean(text if equals else "")
        except ValueError as error:
            raise FlagError(f"--feature-gates: gate {name}: {error}") from error
    default = asked.get("AllBeta", True)
    if not asked.get("KruiseDaemon", default):
        return AgentGates(watches_pods=False, reports_environment=False, probes=False)
    return AgentGates(**{field: asked.get(name, default) for name, field in _GATES.items()})
