"""The manager's command line: OpenKruise's flags with their names, defaults and meaning, as a table.

argv, environment ──▶ parse() ──▶ Settings      help_text() ──▶ what --help prints

Pure. Flags are written as Go programs take them: `--name=value`, `--name value`, one dash or two; a boolean
alone means true. A flag that is not known is refused. One that has no effect here is taken and says so.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kinds import gates as feature_gates
from pykruise.kinds import kinds
from pykruise.kube.durations import parse_duration
from pykruise.manager.settings import (
    SECRETS_NAMESPACE,
    Address,
    ElectionSettings,
    LogSettings,
    ServingSettings,
    Settings,
    WebhookSettings,
)
from pykruise.pods.settings import FromFlag, flags_of
from pykruise.runtime.assemble import Tuning

__all__ = ["Flag", "FlagError", "Parsed", "all_flags", "help_text", "parse"]

RESYNC_S = 10 * 3600.0
"""What `--sync-period` means when it is not given."""


class FlagError(ValueError):
    """A command line that cannot be meant; the message says which flag, what is wrong and what to write."""


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """One flag. `read` makes its value of the text, raising ValueError with what is wrong."""

    name: str
    default: str
    read: Callable[[str], Any]
    help: str
    is_boolean: bool = False
    is_list: bool = False
    """Given several times, all count."""
    unused: str = ""
    """Why it has no effect here; empty: it has."""


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A command line as understood."""

    settings: Settings
    kubeconfig: str = ""
    context: str = ""
    wants_help: bool = False


# ── reading values ───────────────────────────────────────────────────────────


def _boolean(text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise ValueError(f"{text!r} is not a boolean; write true or false")


def _whole(minimum: int | None = None, maximum: int | None = None) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a whole number") from None
        if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
            within = f"at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
            raise ValueError(f"{number} is not {within}")
        return number

    return read


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds < 0:
        raise ValueError(f"{text!r} is negative")
    return seconds


def _positive(text: str) -> float:
    seconds = _duration(text)
    if seconds <= 0:
        raise ValueError(f"{text!r} is not longer than 0")
    return seconds


def _address(text: str) -> Address | None:
    """`host:port`, `:port` for all interfaces; `0` and nothing mean: not served."""
    if text in ("", "0"):
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not an address; write host:port or :port")
    return Address(host.strip("[]"), int(port))


def _one_of(*values: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in values:
            raise ValueError(f"{text!r} is not one of: {', '.join(values)}")
        return text

    return read


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip().lower() for name in text.split(",") if name.strip())


# ── the table ────────────────────────────────────────────────────────────────


def _text(name: str, default: str, help: str, **more: Any) -> Flag:
    return Flag(name=name, default=default, read=more.pop("read", str), help=help, **more)


def _switch(name: str, default: str, help: str, **more: Any) -> Flag:
    return Flag(name=name, default=default, read=_boolean, help=help, is_boolean=True, **more)


_LOGS = "log files are not written here; logs go to standard error"

_OWN: Sequence[Flag] = (
    _text("kubeconfig", "", "Which cluster; else $KUBECONFIG, in-cluster, ~/.kube/config."),
    _text("context", "", "Context of the kubeconfig."),
    _text("feature-gates", "", "A=true,B=false; see docs/operations.md.", is_list=True),
    _text("namespace", "", "Work on objects of this namespace only."),
    _text("metrics-addr", ":8080", "Where /metrics is served; 0: nowhere.", read=_address),
    _switch("state-metrics", "false", "Serve /state-metrics there: how each object is (docs/monitoring.md)."),
    _text("state-metrics-namespaces", "", "Only of these, comma-separated (empty: all).", read=_names),
    _text("health-probe-addr", ":8000", "Where /healthz and /readyz are served.", read=_address),
    _text("pprof-addr", ":8090", "Where thread dumps and memory figures are served.", read=_address),
    _switch("enable-pprof", "true", "Serve --pprof-addr."),
    _switch("enable-leader-election", "true", "Only the holder of the Lease runs controllers."),
    _text("leader-election-namespace", "kruise-system", "Where the Lease is; empty: the own namespace."),
    _text("leader-election-id", "kruise-manager", "Name of the Lease."),
    _text("leader-election-resource-lock", "leases", "Only leases.", read=_one_of("leases")),
    _text("leader-election-lease-duration", "15s", "How long a silent leader keeps it.", read=_positive),
    _text("leader-election-renew-deadline", "10s", "When a leader that cannot renew stops.", read=_positive),
    _text("leader-election-retry-period", "2s", "Between tries to take or renew it.", read=_positive),
    _text("sync-period", "", "How often all objects are looked at again (empty: 10h, 0: never)."),
    _text("controller-cache-sync-timeout", "2m", "When unfilled caches are an error.", read=_duration),
    _text("webhook-initialize-timeout", "60s", "When missing certificates are an error.", read=_duration),
    _text("rate-limiter-base-delay", "5ms", "A key's wait after its first failure.", read=_positive),
    _text("rate-limiter-max-delay", "1000s", "A key's longest wait.", read=_positive),
    _text("rate-limiter-qps", "10", "Retries a second of all keys of a controller.", read=_whole(1)),
    _text("rate-limiter-bucket-size", "100", "Retries at once before that.", read=_whole(1)),
    _switch("allow-privileged", "true", "Templates may have privileged containers."),
    _text("protection-log-path", "/log", "Folder of protection.log."),
    _text("logging-format", "text", "text or json.", read=_one_of("text", "json")),
    _text("v", "0", "Verbosity; from 5 on, debug lines.", read=_whole(0)),
    _switch("verbose", "false", "The same as --v=5."),
    _text(
        "watchdog-timeout", "30s", "End a process whose event loop stands still; 0: never.", read=_duration
    ),
    _switch(
        "ready-conditions",
        "true",
        "Ready, Reconciling and Stalled in the status of workloads (docs/gitops.md).",
    ),
    _text("shutdown-timeout", "8s", "How long writes in flight may take at the end.", read=_duration),
    _text("shutdown-delay", "3s", "How long webhooks go on at the end, at least.", read=_duration),
    _switch(
        "enable-webhooks", "true", "Serve webhooks; without, defaults and checks are the schemas' alone."
    ),
    _text(
        "webhook-addr", "", "Where webhooks are served (empty: everywhere, at WEBHOOK_PORT).", read=_address
    ),
    _text(
        "webhook-client-ca-file",
        "",
        "Answer reviews only to clients with a certificate of these authorities (PEM).",
    ),
    # Taken for the sake of manifests that pass them.
    _text("rest-config-qps", "30", "No effect.", unused="requests adapt to what the API server answers"),
    _text("rest-config-burst", "50", "No effect.", unused="requests adapt to what the API server answers"),
    _text("expectation-timeout", "5m", "No effect.", unused="there are no expectations that could time out"),
    _switch("disable-no-deepcopy", "false", "No effect.", unused="cached values cannot be changed"),
    _text("vmodule", "", "No effect.", unused="there is one verbosity"),
    _switch("logtostderr", "true", "No effect.", unused=_LOGS),
    _switch("alsologtostderr", "false", "No effect.", unused=_LOGS),
    _text("stderrthreshold", "2", "No effect.", unused=_LOGS),
    _text("log_file", "", "No effect.", unused=_LOGS),
    _text("log_dir", "", "No effect.", unused=_LOGS),
    _text("log_file_max_size", "1800", "No effect.", unused=_LOGS),
    _text("log-flush-frequency", "5s", "No effect.", unused=_LOGS),
    _text("log_backtrace_at", ":0", "No effect.", unused="bugs are logged with their traceback"),
    _switch("skip_headers", "false", "No effect.", unused="lines always have a header"),
    _switch("skip_log_headers", "false", "No effect.", unused=_LOGS),
    _switch("one_output", "false", "No effect.", unused=_LOGS),
    _switch("add_dir_header", "false", "No effect.", unused="lines name the module"),
)
"""Flags of the manager itself; kinds have some of their own."""


def all_flags() -> Sequence[Flag]:
    """Every flag that is known."""
    own = {kind.control.name for kind in kinds() if kind.control is not None}
    workers = [
        _text(f"{name}-workers", "3", f"Reconciles at once of {name}.", read=_whole(1))
        for name in sorted(own)
    ]
    return (*_OWN, *workers, *_flags_of_kinds())


def _flags_of_kinds() -> list[Flag]:
    return [
        _flag_of(source, default) for kind in kinds() for source, default in flags_of(kind.settings).items()
    ]


def _flag_of(source: FromFlag, default: Any) -> Flag:
    flag = _READERS[type(default)](source.name, default, source.help)
    return flag if source.most is None else msgspec.structs.replace(flag, read=_whole(0, source.most))


_READERS: Mapping[type, Callable[[str, Any, str], Flag]] = {
    bool: lambda name, default, help: _switch(name, str(default).lower(), help),
    tuple: lambda name, default, help: _text(name, ",".join(default), help, read=_names),
    int: lambda name, default, help: _text(name, str(default), help, read=_whole(0)),
    float: lambda name, default, help: _text(name, f"{default:g}s", help, read=_duration),
    str: _text,
}
"""By the type of a field's default: its flag."""

_HELP = ("help", "h")
_QUIET = frozenset(("logtostderr", "alsologtostderr", "stderrthreshold"))
"""Without effect, and what they ask for is what happens anyway."""


def help_text() -> str:
    """All flags with their defaults, in the order in which one would look for them."""
    flags = all_flags()
    width = max(len(flag.name) for flag in flags) + 4
    lines = ["Run the controllers and webhooks against a cluster until SIGTERM or Ctrl-C.", "", "Flags:"]
    for flag in flags:
        default = f" (default {flag.default})" if flag.default else ""
        lines.append(f"  {'--' + flag.name:<{width}}{flag.help}{default}")
    lines += ["", "Each may be written --name=value, --name value or with one dash; -v=5 is --v=5."]
    return "\n".join(lines)


# ── parsing ──────────────────────────────────────────────────────────────────


def parse(argv: Sequence[str], *, environ: Mapping[str, str]) -> Parsed:
    """The settings that a command line and an environment mean.

    Raises FlagError for what cannot be meant, `feature_gates.GateError` for gates.
    """
    known = {flag.name: flag for flag in all_flags()}
    given = _texts(argv, known)
    if any(name in given for name in _HELP):
        return Parsed(settings=Settings(), wants_help=True)
    values = {name: _value(flag, given.get(name)) for name, flag in known.items()}
    notes = [
        f"--{name} has no effect: {known[name].unused}"
        for name in given
        if known[name].unused and name not in _QUIET
    ]
    resync_s = _resync(values["sync-period"], notes)
    gates = feature_gates.parse(given.get("feature-gates", ()), environ=environ)
    settings = Settings(
        gates=gates,
        flags={flag.name: values[flag.name] for flag in _flags_of_kinds()},
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
        time_zone=environ.get("TZ") or "UTC",
        resync_s=resync_s,
        cache_sync_timeout_s=values["controller-cache-sync-timeout"],
        secrets_namespace=environ.get("KRUISE_DAEMON_CONFIG_NS") or SECRETS_NAMESPACE,
        election=_election(values, environ),
        serving=ServingSettings(
            metrics=values["metrics-addr"],
            health=values["health-probe-addr"],
            diagnosis=values["pprof-addr"] if values["enable-pprof"] else None,
            state=values["state-metrics"],
            state_namespaces=values["state-metrics-namespaces"],
        ),
        webhook=_webhook(values, environ),
        log=LogSettings(
            format=values["logging-format"], verbosity=max(values["v"], 5 if values["verbose"] else 0)
        ),
        watchdog_s=values["watchdog-timeout"],
        stop_grace_s=values["shutdown-timeout"],
        linger_s=values["shutdown-delay"],
        notes=(*notes, *gates.notes),
    )
    return Parsed(settings=settings, kubeconfig=values["kubeconfig"], context=values["context"])


def _texts(argv: Sequence[str], known: Mapping[str, Flag]) -> dict[str, list[str]]:
    """What was written for each flag, in order."""
    given: dict[str, list[str]] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word in ("-", "--"):
            raise FlagError(f"{word!r} is not a flag; flags begin with --")
        name, equals, text = word.lstrip("-").partition("=")
        if name in _HELP:
            given[name] = []
            continue
        flag = known.get(name)
        if flag is None:
            raise FlagError(
                f"--{name} is not known{_meant(name, known)}; pykruise manager --help lists all flags"
            )
        if not equals:
            if flag.is_boolean:
                text = "true"
            elif not rest:
                raise FlagError(f"--{name} needs a value: --{name}=…")
            else:
                text = rest.pop(0)
        given.setdefault(name, []).append(text)
    return given


def _meant(name: str, known: Mapping[str, Flag]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean --{close[0]}?" if close else ""


def _value(flag: Flag, texts: Iterable[str] | None) -> Any:
    """The last text counts; the others must be readable all the same."""
    value: Any = None
    for text in (flag.default,) if texts is None else texts:
        try:
            value = flag.read(text)
        except ValueError as error:
            raise FlagError(f"--{flag.name}: {error}") from error
    return value


def _resync(text: str, notes: list[str]) -> float | None:
    """Empty: the default; 0: never; what cannot be read is told and ignored, as OpenKruise does."""
    if not text:
        return RESYNC_S
    try:
        return _duration(text) or None
    except ValueError as error:
        notes.append(f"--sync-period: {error}; the default applies")
        return RESYNC_S


def _election(values: Mapping[str, Any], environ: Mapping[str, str]) -> ElectionSettings:
    lease_s, renew_s, retry_s = (
        values[f"leader-election-{name}"] for name in ("lease-duration", "renew-deadline", "retry-period")
    )
    if not lease_s > renew_s > retry_s * 1.2:
        raise FlagError(
            "--leader-election-lease-duration must be longer than --leader-election-renew-deadline, and that"
            " longer than 1.2 times --leader-election-retry-period, or a leader could work beside its successor"
        )
    return ElectionSettings(
        enabled=values["enable-leader-election"],
        namespace=values["leader-election-namespace"] or environ.get("POD_NAMESPACE") or "kruise-system",
        name=values["leader-election-id"],
        lease_s=lease_s,
        renew_s=renew_s,
        retry_s=retry_s,
    )


def _webhook(values: Mapping[str, Any], environ: Mapping[str, str]) -> WebhookSettings:
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
