"""The manager's command line: OpenKruise's flags with their names, defaults and meaning, as a table.

argv, environment ──▶ parse() ──▶ Parsed      format_flag_help() ──▶ output of --help

Pure. Flags have the syntax of Go programs: `--name=value`, `--name value`, one dash or two; a boolean without a value
is true. An unknown flag is rejected. A flag of OpenKruise that has no effect in pykruise is accepted with a note.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds import gates as feature_gates
from pykruise.kinds import list_kinds
from pykruise.kube.election.key_slots import KEYINGS, SLOTS
from pykruise.kube.program.flags import (
    HELP,
    LOG_FLAGS,
    Flag,
    FlagError,
    format_help_lines,
    list_unused_notes,
    make_text_flag,
    read_address,
    read_duration,
    read_names,
    read_one_of,
    read_positive,
    read_texts,
    read_value,
    read_whole,
    switch,
)
from pykruise.kube.program.logs import LogSettings
from pykruise.kube.values.cron import UnknownZoneError, parse_schedule
from pykruise.manager.settings import (
    GRACE_PERIOD_S,
    SECRETS_NAMESPACE,
    ElectionSettings,
    ManagerSettings,
    ServingSettings,
    WebhookSettings,
)
from pykruise.pods.settings import FromFlag, flags_of
from pykruise.runtime.assemble import Tuning

RESYNC_S = 10 * 3600.0
"""Default of `--sync-period`. Seconds."""
_ZONES: Final = "/usr/share/zoneinfo/"
"""Folder of the machine's time zones."""


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """Result of parsing a command line."""

    settings: ManagerSettings
    kubeconfig: str = ""
    context: str = ""
    wants_help: bool = False


_OWN: Sequence[Flag] = (
    make_text_flag(
        "kubeconfig",
        "",
        "Path of the kubeconfig (default: $KUBECONFIG, the pod's account, or ~/.kube/config).",
    ),
    make_text_flag("context", "", "Context of the kubeconfig."),
    make_text_flag(
        "feature-gates", "", "Feature gates, such as A=true,B=false (docs/operations.md).", is_list=True
    ),
    make_text_flag("namespace", "", "Reconcile only the objects of this namespace."),
    make_text_flag("metrics-addr", ":8080", "Address of /metrics; 0 disables it.", read=read_address),
    switch(
        "state-metrics",
        "false",
        "Serve /state-metrics, the state of each object, at --metrics-addr (docs/monitoring.md).",
    ),
    make_text_flag(
        "state-metrics-namespaces",
        "",
        "Namespaces of --state-metrics, comma-separated (default: all namespaces).",
        read=read_names,
    ),
    make_text_flag("health-probe-addr", ":8000", "Address of /healthz and /readyz.", read=read_address),
    make_text_flag(
        "pprof-addr", ":8090", "Address of thread dumps and memory statistics.", read=read_address
    ),
    switch("enable-pprof", "true", "Serve thread dumps and memory statistics at --pprof-addr."),
    switch("enable-leader-election", "true", "Only the holder of the Lease runs controllers."),
    make_text_flag(
        "leader-election-namespace",
        "kruise-system",
        "Namespace of the Lease (empty: the namespace of the manager).",
    ),
    make_text_flag("leader-election-id", "kruise-manager", "Name of the Lease."),
    make_text_flag("leader-election-resource-lock", "leases", "Only leases.", read=read_one_of("leases")),
    make_text_flag(
        "leader-election-lease-duration",
        "15s",
        "Time after the last renewal until another replica may take the Lease.",
        read=read_positive,
    ),
    make_text_flag(
        "leader-election-renew-deadline",
        "10s",
        "Time without a renewal after which the leader stops.",
        read=read_positive,
    ),
    make_text_flag(
        "leader-election-retry-period",
        "2s",
        "Time between attempts to take or renew the Lease.",
        read=read_positive,
    ),
    make_text_flag(
        "shards", "1", "Number of managers that share the objects to reconcile.", read=read_whole(1, SLOTS)
    ),
    make_text_flag(
        "shard-by",
        "object",
        "What managers share: single objects (object), or whole namespaces (namespace).",
        read=read_one_of(*KEYINGS),
    ),
    make_text_flag(
        "sync-period", "", "Interval at which all objects are reconciled again (default: 10h; 0: never)."
    ),
    make_text_flag(
        "controller-cache-sync-timeout",
        "2m",
        "A cache that is not filled after this time is logged as an error.",
        read=read_duration,
    ),
    make_text_flag(
        "webhook-initialize-timeout",
        "60s",
        "Time after which the manager exits if its webhooks are not registered yet.",
        read=read_duration,
    ),
    make_text_flag(
        "rate-limiter-base-delay",
        "5ms",
        "Delay of an object after its first failed reconcile.",
        read=read_positive,
    ),
    make_text_flag(
        "rate-limiter-max-delay",
        "1000s",
        "Maximum delay of an object after failed reconciles.",
        read=read_positive,
    ),
    make_text_flag(
        "rate-limiter-qps", "10", "Maximum number of retries per second of a controller.", read=read_whole(1)
    ),
    make_text_flag(
        "rate-limiter-bucket-size",
        "100",
        "Number of retries of a controller before --rate-limiter-qps applies.",
        read=read_whole(1),
    ),
    switch("allow-privileged", "true", "Allow privileged containers in pod templates."),
    make_text_flag("protection-log-path", "/log", "Folder of protection.log."),
    make_text_flag(
        "logging-format", "text", "Format of the logs: text or json.", read=read_one_of("text", "json")
    ),
    make_text_flag("v", "0", "Verbosity of the logs; 5 or higher adds debug lines.", read=read_whole(0)),
    switch("verbose", "false", "Same as --v=5."),
    make_text_flag(
        "watchdog-timeout",
        "30s",
        "Time after which a process with a blocked event loop ends; 0: never.",
        read=read_duration,
    ),
    switch(
        "ready-conditions",
        "true",
        "Write the conditions Ready, Reconciling and Stalled to the status of workloads (docs/gitops.md).",
    ),
    make_text_flag(
        "shutdown-timeout", "8s", "Time limit for pending writes at shutdown.", read=read_duration
    ),
    make_text_flag(
        "shutdown-delay",
        "3s",
        "Webhooks are served for at least this time after shutdown begins.",
        read=read_duration,
    ),
    switch(
        "enable-webhooks",
        "true",
        "Serve webhooks; without them only the schemas of the CRDs set defaults and validate.",
    ),
    make_text_flag(
        "webhook-addr",
        "",
        "Address of the webhooks (default: all addresses, port WEBHOOK_PORT).",
        read=read_address,
    ),
    make_text_flag(
        "webhook-client-ca-file",
        "",
        "Answer reviews only for clients with a certificate from one of these CAs (PEM).",
    ),
    # These flags are accepted, because existing manifests contain them.
    make_text_flag(
        "rest-config-qps",
        "30",
        "No effect.",
        unused="the client adapts its request rate to the API server's responses",
    ),
    make_text_flag(
        "rest-config-burst",
        "50",
        "No effect.",
        unused="the client adapts its request rate to the API server's responses",
    ),
    make_text_flag(
        "expectation-timeout", "5m", "No effect.", unused="there are no expectations that could time out"
    ),
    switch("disable-no-deepcopy", "false", "No effect.", unused="cached values cannot be changed"),
    *LOG_FLAGS,
)
"""Flags of the manager itself; kinds add their own."""


def list_all_flags() -> Sequence[Flag]:
    """Return all known flags."""
    own = {kind.control.name for kind in list_kinds() if kind.control is not None}
    workers = [
        make_text_flag(f"{name}-workers", "3", f"Concurrent reconciles of {name}.", read=read_whole(1))
        for name in sorted(own)
    ]
    return (*_OWN, *workers, *_list_flags_of_kinds())


def _list_flags_of_kinds() -> list[Flag]:
    sources = {
        source: default for kind in list_kinds() for source, default in flags_of(kind.settings).items()
    }
    return [_build_flag(source, default) for source, default in sources.items()]


def _build_flag(source: FromFlag, default: Any) -> Flag:
    flag = _READERS[type(default)](source.name, default, source.help)
    return flag if source.most is None else msgspec.structs.replace(flag, read=read_whole(0, source.most))


_READERS: Mapping[type, Callable[[str, Any, str], Flag]] = {
    bool: lambda name, default, help: switch(name, str(default).lower(), help),
    tuple: lambda name, default, help: make_text_flag(name, ",".join(default), help, read=read_names),
    int: lambda name, default, help: make_text_flag(name, str(default), help, read=read_whole(0)),
    float: lambda name, default, help: make_text_flag(name, f"{default:g}s", help, read=read_duration),
    str: make_text_flag,
}
"""Functions that create the flag for a field of settings, by the type of the field's default."""


EXAMPLES: Final = (
    "  pykruise manager --enable-leader-election=false --enable-webhooks=false --kubeconfig ~/.kube/config",
    "  pykruise manager --feature-gates ImagePullJobGate=true --namespace shop --v 5",
)


def format_flag_help() -> str:
    """Return the output of --help: all flags with their defaults, in groups."""
    intro = "Run the controllers and webhooks against a cluster until SIGTERM or Ctrl-C."
    return "\n".join([intro, "", *format_help_lines(list_all_flags()), "", "Examples:", *EXAMPLES])


# ── parsing ──────────────────────────────────────────────────────────────────


def parse(argv: Sequence[str], *, environ: Mapping[str, str]) -> Parsed:
    """Parse the settings from a command line and an environment.

    Raises FlagError for invalid flags, `feature_gates.GateError` for invalid gates.
    """
    known = {flag.name: flag for flag in list_all_flags()}
    given = read_texts(argv, known)
    if any(name in given for name in HELP):
        return Parsed(settings=ManagerSettings(), wants_help=True)
    values = {name: read_value(flag, given.get(name)) for name, flag in known.items()}
    notes = list_unused_notes(given, known)
    resync_s = _parse_resync(values["sync-period"], notes)
    gates = feature_gates.parse(given.get("feature-gates", ()), environ=environ)
    settings = ManagerSettings(
        gates=gates,
        flags={flag.name: values[flag.name] for flag in _list_flags_of_kinds()},
        tuning=Tuning(
            workers={
                name.removesuffix("-workers"): value
                for name, value in values.items()
                if name.endswith("-workers")
            },
            base_delay_s=values["rate-limiter-base-delay"],
            max_delay_s=values["rate-limiter-max-delay"],
            retries_per_s=float(values["rate-limiter-qps"]),
            retry_burst=values["rate-limiter-bucket-size"],
        ),
        ready_conditions=values["ready-conditions"],
        watch_namespace=values["namespace"],
        own_namespace=environ.get("POD_NAMESPACE") or "kruise-system",
        time_zone=_parse_time_zone(environ.get("TZ", ""), notes),
        resync_s=resync_s,
        cache_sync_timeout_s=values["controller-cache-sync-timeout"],
        secrets_namespace=environ.get("KRUISE_DAEMON_CONFIG_NS") or SECRETS_NAMESPACE,
        election=_build_election_settings(values, environ),
        serving=ServingSettings(
            metrics=values["metrics-addr"],
            health=values["health-probe-addr"],
            diagnosis=values["pprof-addr"] if values["enable-pprof"] else None,
            state=values["state-metrics"],
            state_namespaces=values["state-metrics-namespaces"],
        ),
        webhook=_build_webhook_settings(values, environ),
        log=LogSettings(
            format=values["logging-format"], verbosity=max(values["v"], 5 if values["verbose"] else 0)
        ),
        watchdog_s=values["watchdog-timeout"],
        stop_grace_s=values["shutdown-timeout"],
        linger_s=values["shutdown-delay"],
        notes=(*notes, *gates.notes),
    )
    if settings.longest_stop_s >= GRACE_PERIOD_S:
        note = (
            f"--shutdown-timeout, --shutdown-delay: the end of this manager may take {settings.longest_stop_s:g} s;"
            " terminationGracePeriodSeconds of its pods must be longer"
        )
        settings = msgspec.structs.replace(settings, notes=(*settings.notes, note))
    return Parsed(settings=settings, kubeconfig=values["kubeconfig"], context=values["context"])


def _parse_resync(text: str, notes: list[str]) -> float | None:
    """Parse the resync period. Empty: the default; 0: never. An invalid value is noted and ignored, as
    in OpenKruise.
    """
    if not text:
        return RESYNC_S
    try:
        return read_duration(text) or None
    except ValueError as error:
        notes.append(f"--sync-period: {error}; the default applies")
        return RESYNC_S


def _parse_time_zone(text: str, notes: list[str]) -> str:
    """Return the name of the zone in the value of TZ; without a value, or with an unknown zone, UTC, as in Go. A colon
    before the name, and the folder of the machine's time zones, do not count. An unknown zone is noted.
    """
    zone = text.removeprefix(":").removeprefix(_ZONES) or "UTC"
    try:
        parse_schedule("@daily", zone=zone)
    except UnknownZoneError:
        notes.append(
            f"TZ in the environment: the time zone {text!r} is unknown; UTC applies to AdvancedCronJobs without a time"
            " zone"
        )
        return "UTC"
    return zone


def _build_election_settings(values: Mapping[str, Any], environ: Mapping[str, str]) -> ElectionSettings:
    lease_s, renew_s, retry_s = (
        values[f"leader-election-{name}"] for name in ("lease-duration", "renew-deadline", "retry-period")
    )
    if not lease_s > renew_s > retry_s * 1.2:
        raise FlagError(
            "--leader-election-lease-duration must be longer than --leader-election-renew-deadline, and this deadline"
            " longer than 1.2 times --leader-election-retry-period; otherwise two leaders could work at the same time"
        )
    if values["shards"] > 1 and not values["enable-leader-election"]:
        raise FlagError("--shards needs --enable-leader-election: managers use Leases to divide the objects")
    return ElectionSettings(
        shards=values["shards"],
        shard_by=values["shard-by"],
        enabled=values["enable-leader-election"],
        namespace=values["leader-election-namespace"] or environ.get("POD_NAMESPACE") or "kruise-system",
        name=values["leader-election-id"],
        lease_s=lease_s,
        renew_s=renew_s,
        retry_s=retry_s,
    )


def _build_webhook_settings(values: Mapping[str, Any], environ: Mapping[str, str]) -> WebhookSettings:
    defaults = WebhookSettings()
    port = environ.get("WEBHOOK_PORT") or str(defaults.port)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise FlagError(f"WEBHOOK_PORT in the environment: {port!r} is not a port")
    writer = environ.get("WEBHOOK_CERT_WRITER", "")
    if writer not in ("", "secret", "fs"):
        raise FlagError(f"WEBHOOK_CERT_WRITER in the environment: {writer!r} is not secret or fs")
    return WebhookSettings(
        enabled=values["enable-webhooks"],
        bind=values["webhook-addr"],
        client_authority=values["webhook-client-ca-file"],
        host=environ.get("WEBHOOK_HOST", ""),
        port=int(port),
        certificate_folder=environ.get("WEBHOOK_CERT_DIR") or defaults.certificate_folder,
        certificate_writer=writer,
        secret=environ.get("SECRET_NAME") or defaults.secret,
        service=environ.get("SERVICE_NAME") or defaults.service,
        renew_before=environ.get("CERTS_RENEW_BEFORE", ""),
        initialize_timeout_s=values["webhook-initialize-timeout"],
        allow_privileged=values["allow-privileged"],
        protection_log_folder=values["protection-log-path"],
    )
