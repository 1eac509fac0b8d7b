"""Address of the cluster and identity of this program, from kubeconfig files or the service account of a pod.

load(path, context) ──▶ Connection(server, ssl_context, credentials) ──▶ kube/http/transport.py
                                                        └── read_headers() for every request, refresh() after a 401

Credential plugins are in exec_plugins.py, OpenID Connect in oidc_tokens.py. All reading runs in threads; only
`load_kubeconfig` and `load_in_cluster`, for programs without an event loop, block. Key material stays in memory.

Every mistake in a configuration is a ConfigurationError: one line with the mistake, its place, and the remedy.
"""

import asyncio
import base64
import binascii
import os
import shutil
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

import msgspec

from pykruise.kube.clock import Clock, parse_time, read_system_clock
from pykruise.kube.config.connection import (
    READ_S,
    Connection,
    Credentials,
    Material,
    RenewedCredentials,
    StaticCredentials,
)
from pykruise.kube.config.exec_plugins import GROUP as EXEC_GROUP
from pykruise.kube.config.exec_plugins import ExecPlugin
from pykruise.kube.config.kubeconfig_files import (
    TlsParts,
    check_token,
    format_one_line,
    has_file,
    make_tls_context,
    merge_kubeconfigs,
    read_bytes,
    read_token,
    store_oidc_settings,
)
from pykruise.kube.config.oidc_tokens import OidcTokens
from pykruise.kube.config.proxy_environment import find_proxy
from pykruise.kube.errors import ConfigurationError
from pykruise.kube.values.near_misses import format_hint

__all__ = ["SERVICE_ACCOUNT", "Connection", "Overrides", "load", "load_in_cluster", "load_kubeconfig"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder in which kubelets mount a pod's service account."""

_CLUSTER_INFO = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")

_REREAD_S = 60.0  # kubelets rotate a mounted token at 80 % of its lifetime, at least 2 minutes before its end


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """Values of the command line that replace those of the kubeconfig, like kubectl's global flags. An empty value
    replaces nothing.
    """

    cluster_name: str = ""
    user_name: str = ""
    cluster: Mapping[str, Any] = {}
    """Fields of the cluster's entry: `server`, `certificate-authority`, `insecure-skip-tls-verify`, …"""
    user: Mapping[str, Any] = {}
    """Fields of the user's entry: `token`, `as`, `as-groups`, …"""


_NOTHING = Overrides()


# ── loading ──────────────────────────────────────────────────────────────────


async def load(
    path: str | Path | None = None,
    context: str | None = None,
    *,
    overrides: Overrides = _NOTHING,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    clock: Clock = read_system_clock,
    prefers_files: bool = False,
) -> Connection:
    """Return the connection to the cluster of `path`, else of $KUBECONFIG, else of this pod, else of ~/.kube/config.

    `prefers_files`: a person runs this command. As kubectl does, the pod is only used when no kubeconfig has a current
    context, and its namespace is the default of a context without one. With a `context`, the pod is not considered.
    Reads in a thread. Raises ConfigurationError.
    """
    if prefers_files and _is_in_pod(environ, service_account):
        return await asyncio.to_thread(
            _load_for_command_line,
            path,
            context,
            overrides=overrides,
            environ=environ,
            service_account=service_account,
            clock=clock,
        )
    from_files = partial(
        load_kubeconfig,
        path,
        context,
        overrides=overrides,
        environ=environ,
        clock=clock,
        is_attended=prefers_files,
    )
    if path or environ.get("KUBECONFIG") or context or overrides.cluster.get("server"):
        return await asyncio.to_thread(from_files)
    if environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return await asyncio.to_thread(
            load_in_cluster,
            overrides=overrides,
            environ=environ,
            service_account=service_account,
            clock=clock,
        )
    if _choose_default_kubeconfig(environ).exists():
        return await asyncio.to_thread(from_files)
    raise ConfigurationError(
        f"no cluster is configured: $KUBECONFIG is not set, {_choose_default_kubeconfig(environ)} does not exist,"
        " and this is not a pod; name a kubeconfig, or start a cluster to play with: pykruise up"
    )


def _load_for_command_line(
    path: str | Path | None,
    context: str | None,
    *,
    overrides: Overrides,
    environ: Mapping[str, str],
    service_account: Path,
    clock: Clock,
) -> Connection:
    where = f"service account {service_account}"
    namespace = environ.get("POD_NAMESPACE") or _read_pod_namespace(service_account, where)
    is_chosen = path or context or overrides.cluster.get("server")
    if is_chosen or _has_current_context(_list_kubeconfig_paths(None, environ, is_needed=False)):
        return load_kubeconfig(
            path,
            context,
            overrides=overrides,
            environ=environ,
            clock=clock,
            namespace=namespace,
            is_attended=True,
        )
    connection = load_in_cluster(
        overrides=overrides, environ=environ, service_account=service_account, clock=clock
    )
    return replace(connection, namespace=namespace)


def _is_in_pod(environ: Mapping[str, str], service_account: Path) -> bool:
    names = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    return all(environ.get(name) for name in names) and (service_account / "token").is_file()


def _has_current_context(paths: Sequence[Path]) -> bool:
    _, current = merge_kubeconfigs(paths)
    return bool(current)


def load_kubeconfig(
    path: str | Path | None,
    context: str | None = None,
    *,
    overrides: Overrides = _NOTHING,
    environ: Mapping[str, str] = os.environ,
    clock: Clock = read_system_clock,
    namespace: str = "default",
    is_attended: bool = False,
) -> Connection:
    """Return the connection of a context (None: the current one) of a kubeconfig file (None: $KUBECONFIG, else
    ~/.kube/config).

    $KUBECONFIG may list several files, which are merged as kubectl does: the first file to define a name wins,
    missing files are skipped. When `overrides` name a server, no file is needed. `namespace`: default namespace of a
    context that names none. `is_attended`: a person runs the command, so a credential plugin may take any time (for a
    login), and its messages are shown. Raises ConfigurationError.
    """
    paths = _list_kubeconfig_paths(path, environ, is_needed=not overrides.cluster.get("server"))
    made = _Kubeconfig(
        paths, context, environ, clock, overrides, namespace=namespace, is_attended=is_attended
    )
    return made.build_connection()


def load_in_cluster(
    *,
    overrides: Overrides = _NOTHING,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    clock: Clock = read_system_clock,
) -> Connection:
    """Return the connection to the API server of this pod, with its service account; the token is read again every
    minute.

    Raises ConfigurationError.
    """
    token, ca = service_account / "token", service_account / "ca.crt"
    where = f"service account {service_account}"
    server = _find_server_of_pod(environ, where)
    for path in (token, ca):
        if not path.is_file():
            raise ConfigurationError(f"{where}: {path} does not exist; {_ONLY_IN_PODS}")
    own = Overrides(
        cluster=_override({"server": server, "certificate-authority": str(ca)}, overrides.cluster),
        user=_override({"tokenFile": str(token)}, overrides.user),
    )
    namespace = _read_pod_namespace(service_account, where)
    return _Kubeconfig((), None, environ, clock, own, namespace=namespace, source=where).build_connection()


def _read_pod_namespace(service_account: Path, where: str) -> str:
    path = service_account / "namespace"
    return read_bytes(path, where).decode().strip() if path.exists() else "default"


_ONLY_IN_PODS = "the in-cluster configuration works only in a pod that mounts its service account token"


def _find_server_of_pod(environ: Mapping[str, str], where: str) -> str:
    """Return the API server named in the environment of every pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigurationError(
            f"{where}: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; {_ONLY_IN_PODS}"
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _choose_default_kubeconfig(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home()) / ".kube" / "config"


def _list_kubeconfig_paths(
    path: str | Path | None, environ: Mapping[str, str], *, is_needed: bool = True
) -> list[Path]:
    if path:
        listed, origin = [Path(path).expanduser()], "the given path"
    elif environ.get("KUBECONFIG"):
        names = [name for name in environ["KUBECONFIG"].split(os.pathsep) if name]
        listed, origin = [Path(name).expanduser() for name in names], "$KUBECONFIG"
    else:
        listed, origin = (
            [_choose_default_kubeconfig(environ)],
            "$KUBECONFIG is not set, and this is the default path",
        )
    existing = [file for file in listed if file.exists()]
    if not existing and (is_needed or path):
        names_text = ", ".join(map(str, listed)) or "(empty)"
        raise ConfigurationError(
            f"kubeconfig {names_text}: the file does not exist ({origin}); give the path of an existing file"
        )
    return existing


class _Kubeconfig:
    """A context of merged kubeconfig files, from which a Connection is built."""

    def __init__(
        self,
        paths: Sequence[Path],
        context: str | None,
        environ: Mapping[str, str],
        clock: Clock,
        overrides: Overrides,
        *,
        namespace: str,
        source: str = "the command line",
        is_attended: bool = False,
    ) -> None:
        self._is_attended = is_attended
        self._environ = environ
        self._clock = clock
        self._entries, current = merge_kubeconfigs(paths)
        self._files = "kubeconfig " + ", ".join(map(str, paths))
        self._user: dict[str, Any] = {}
        self._user_base = Path()
        name = context or current
        self._context = name or ""
        if not name and overrides.cluster.get("server"):
            self._source = self._at_cluster = self._at_user = source
            self._namespace, self._cluster_base = namespace, Path()
            self._cluster, self._user = dict(overrides.cluster), dict(overrides.user)
            return
        if not name and not self._entries["contexts"]:
            raise ConfigurationError(
                f"{self._files}: the file has no contexts; choose another file with --kubeconfig or $KUBECONFIG"
            )
        if not name:
            raise ConfigurationError(
                f"{self._files}: no current-context; choose one with --context ({self._list_names('contexts')}),"
                " or run: kubectl config use-context NAME"
            )
        chosen, _ = self._find_entry("contexts", "context", name, "" if context else "the current-context")
        wanted_by = f"named by context {name!r}"
        chosen = {
            **chosen,
            **({"cluster": overrides.cluster_name} if overrides.cluster_name else {}),
            **({"user": overrides.user_name} if overrides.user_name else {}),
        }
        if not chosen.get("cluster"):
            raise ConfigurationError(f"{self._files}: context {name!r} has no cluster; add its field cluster")
        self._source = f"{self._files}, context {name}"
        self._namespace = str(chosen.get("namespace") or namespace)
        self._cluster_name = str(chosen["cluster"])
        self._cluster, self._cluster_base = self._find_entry(
            "clusters", "cluster", self._cluster_name, wanted_by
        )
        self._user_name = str(chosen.get("user") or "")
        if self._user_name:
            self._user, self._user_base = self._find_entry("users", "user", self._user_name, wanted_by)
        self._cluster = _override(self._cluster, overrides.cluster)
        self._user = _override(self._user, overrides.user)
        self._at_cluster = f"{self._files}: cluster {self._cluster_name!r}"
        self._at_user = f"{self._files}: user {self._user_name!r}"

    def build_connection(self) -> Connection:
        server = self._parse_server()
        proxy = str(self._cluster.get("proxy-url") or "")
        if proxy and urlsplit(proxy).scheme not in ("http", "https"):
            raise ConfigurationError(
                f"{self._at_cluster}: proxy-url {proxy!r} is not supported; use an http:// or https:// proxy"
            )
        is_tls = server.scheme == "https"
        # As in kubectl, credentials are never sent without TLS.
        credentials, tls = self._build_credentials() if is_tls else (StaticCredentials(), None)
        return Connection(
            server=server.geturl().rstrip("/"),
            ssl_context=tls,
            credentials=credentials,
            server_name=str(self._cluster.get("tls-server-name") or ""),
            headers=tuple(_build_impersonation_headers(self._user)),
            proxy=proxy or find_proxy(self._environ, server),
            namespace=self._namespace,
            source=self._source,
            context=self._context,
        )

    def _parse_server(self) -> SplitResult:
        text = str(self._cluster.get("server") or "")
        try:
            server = urlsplit(text if not text or "://" in text else f"{self._choose_scheme()}://{text}")
            usable = server.scheme in ("http", "https") and bool(server.hostname) and server.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise ConfigurationError(
                f"{self._at_cluster}: server {text!r} is not a URL such as https://127.0.0.1:6443"
            )
        return server

    def _choose_scheme(self) -> str:
        """Return the scheme of a server that is given without one, as client-go chooses it (defaultServerUrlFor)."""
        fields = ("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify")
        return "https" if any(self._cluster.get(field) for field in fields) else "http"

    # ── credentials ──────────────────────────────────────────────────────────

    def _build_credentials(self) -> tuple[Credentials, ssl.SSLContext]:
        """Return the credentials and the initial TLS context (client certificate included)."""
        user = self._user
        has_files = any(has_file(user, name) for name in ("client-certificate", "client-key"))
        reader = _CertificateReader(self._read_tls_parts, self._build_tls)
        tls = reader.read()
        if token_file := user.get("tokenFile"):
            path = self._user_base / str(token_file)

            def read() -> Material:
                token = read_token(path, f"{self._at_user}, tokenFile")
                return Material(headers=_build_bearer_headers(token), tls=reader.read())

            return self._renew_from(read, every_s=_REREAD_S), tls
        if not user.get("token") and user.get("exec"):
            return self._build_exec_credentials(), tls
        if not user.get("token") and user.get("auth-provider"):
            return self._build_oidc_credentials(reader), tls
        headers = self._build_fixed_headers()
        if has_files:
            # Other programs (kubeadm, kubelet) rotate the files: read them again regularly.
            return self._renew_from(
                lambda: Material(headers=dict(headers), tls=reader.read()), every_s=_REREAD_S
            ), tls
        return StaticCredentials(headers), tls

    def _renew_from(self, read: Callable[[], Material], *, every_s: float) -> Credentials:
        return RenewedCredentials(read, clock=self._clock, every_s=every_s, current=read())

    def _build_fixed_headers(self) -> dict[str, str]:
        if token := self._user.get("token"):
            return _build_bearer_headers(check_token(str(token), f"{self._at_user}, token"))
        if "username" in self._user or "password" in self._user:
            pair = f"{self._user.get('username') or ''}:{self._user.get('password') or ''}"
            return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
        return {}

    def _read_tls_parts(self, certificate: tuple[bytes, bytes] | None = None) -> "TlsParts":
        """Return the parts of a TLS context; `certificate` (chain, key) replaces the user's."""
        ca = self._read_pem(self._cluster, "certificate-authority", self._cluster_base, self._at_cluster)
        is_insecure = bool(self._cluster.get("insecure-skip-tls-verify"))
        if is_insecure and ca:
            raise ConfigurationError(
                f"{self._at_cluster}: insecure-skip-tls-verify and certificate-authority exclude each other;"
                " remove insecure-skip-tls-verify"
            )
        chain, key = certificate or (
            self._read_pem(self._user, "client-certificate", self._user_base, self._at_user),
            self._read_pem(self._user, "client-key", self._user_base, self._at_user),
        )
        if bool(chain) != bool(key):
            names = ("client-certificate", "client-key")
            there, missing = names if chain else reversed(names)
            raise ConfigurationError(
                f"{self._at_user}: {there} is set, but {missing} is not; add {missing}-data"
            )
        return TlsParts(ca, chain, key, is_insecure)

    def _build_tls(self, parts: "TlsParts") -> ssl.SSLContext:
        return make_tls_context(parts, self._at_cluster, self._at_user)

    def _read_pem(self, entry: Mapping[str, Any], name: str, base: Path, where: str) -> bytes:
        """Return the PEM of a field, from its data or else from its file; empty when the entry has neither."""
        if data := entry.get(f"{name}-data"):
            try:
                return base64.b64decode("".join(data.split()), validate=True)
            except (binascii.Error, ValueError, TypeError, AttributeError) as err:
                raise ConfigurationError(
                    f"{where}: {name}-data is not base64 of a PEM certificate or key"
                ) from err
        if not (path := entry.get(name)):
            return b""
        return read_bytes(base / str(path), f"{where}: {name}", separator=" ")

    def _build_exec_credentials(self) -> Credentials:
        where = f"{self._at_user}, exec"
        plugin = ExecPlugin.read(self._user["exec"], where)
        self._check_command(plugin, where)

        def read() -> Material:
            status = plugin.run(
                cluster=self._build_cluster_info(),
                folder=self._user_base,
                environ=self._environ,
                where=where,
                is_attended=self._is_attended,
            )
            return self._build_exec_material(status, where)

        return RenewedCredentials(read, clock=self._clock, timeout_s=None if self._is_attended else READ_S)

    def _build_cluster_info(self) -> dict[str, Any]:
        """Return the cluster as an ExecCredential describes it."""
        ca = self._read_pem(self._cluster, "certificate-authority", self._cluster_base, self._at_cluster)
        extensions = self._cluster.get("extensions") or ()
        config = next(
            (
                extension.get("extension")
                for extension in extensions
                if isinstance(extension, dict) and extension.get("name") == f"{EXEC_GROUP}/exec"
            ),
            None,
        )
        info = {
            **{name: self._cluster.get(name) for name in _CLUSTER_INFO},
            "certificate-authority-data": base64.b64encode(ca).decode(),
            "config": config,
        }
        return {name: value for name, value in info.items() if value}

    def _check_command(self, plugin: ExecPlugin, where: str) -> None:
        """Check that the plugin is installed, so that a missing one is an error now, not at the first request."""
        command = plugin.command
        candidate = str(self._user_base / command) if os.sep in command else command
        if shutil.which(candidate, path=plugin.variables.get("PATH") or self._environ.get("PATH")) is None:
            hint = format_one_line(plugin.install_hint or "install it, or correct the command")
            raise ConfigurationError(f"{where}: {command} is not an executable in PATH; {hint}")

    def _build_exec_material(self, status: Mapping[str, Any], where: str) -> Material:
        token = status.get("token")
        chain, key = status.get("clientCertificateData"), status.get("clientKeyData")
        if not token and not (chain and key):
            raise ConfigurationError(
                f"{where}: the plugin returned neither a token nor clientCertificateData with clientKeyData"
            )
        expires = None
        if text := status.get("expirationTimestamp"):
            try:
                expires = parse_time(str(text))
            except ValueError as err:
                raise ConfigurationError(
                    f"{where}: expirationTimestamp {text!r} is not a time in RFC 3339 format"
                ) from err
        parts = self._read_tls_parts((str(chain).encode(), str(key).encode())) if chain and key else None
        headers = _build_bearer_headers(check_token(str(token), where)) if token else {}
        return Material(headers=headers, tls=self._build_tls(parts) if parts else None, expires=expires)

    def _build_oidc_credentials(self, reader: "_CertificateReader") -> Credentials:
        where = f"{self._at_user}, auth-provider"
        provider = self._user["auth-provider"]
        name = provider.get("name") if isinstance(provider, dict) else None
        settings = provider.get("config") if isinstance(provider, dict) else None
        if name != "oidc" or not isinstance(settings, dict):
            raise ConfigurationError(
                f"{where}: {name!r} is supported neither here nor by kubectl; use the provider's exec plugin"
            )
        authority = self._read_pem(settings, "idp-certificate-authority", self._user_base, where)
        tls = make_tls_context(TlsParts(authority), where, where)
        path = next(entry.path for entry in self._entries["users"] if entry.value["name"] == self._user_name)
        tokens = OidcTokens(
            settings,
            tls=tls,
            clock=self._clock,
            where=where,
            store=partial(store_oidc_settings, path, self._user_name),
        )

        def read() -> Material:
            token, ends = tokens.read_current()
            headers = _build_bearer_headers(check_token(token, f"{where}, id-token"))
            return Material(headers=headers, tls=reader.read(), expires=ends)

        return RenewedCredentials(read, clock=self._clock, every_s=_REREAD_S)

    # ── entries ──────────────────────────────────────────────────────────────

    def _find_entry(
        self, plural: str, singular: str, name: str, wanted_by: str
    ) -> tuple[dict[str, Any], Path]:
        """Return the content of the named entry and the folder from which its relative paths start."""
        for node in self._entries[plural]:
            if node.value["name"] == name:
                content = node.value.get(singular)
                if not isinstance(content, dict):
                    raise ConfigurationError(f"{self._files}: {singular} {name!r} is empty; add its fields")
                # Not resolve(): the kubelet replaces the target of a mounted file's symbolic link at each update.
                return content, node.path.absolute().parent
        wanted = f" ({wanted_by})" if wanted_by else ""
        known = [str(node.value.get("name")) for node in self._entries[plural]]
        meant = format_hint(name, known, otherwise=f"; available: {', '.join(known) or 'none'}")
        raise ConfigurationError(f"{self._files}: {singular} {name!r}{wanted} is not in the file{meant}")

    def _list_names(self, plural: str) -> str:
        return ", ".join(str(node.value.get("name")) for node in self._entries[plural])


class _CertificateReader:
    """Builds a new TLS context only when its parts have changed: open connections cannot be used with a new context."""

    def __init__(self, parts: Callable[[], TlsParts], make: Callable[[TlsParts], ssl.SSLContext]) -> None:
        self._parts = parts
        self._make = make
        self._made: tuple[TlsParts, ssl.SSLContext] | None = None

    def read(self) -> ssl.SSLContext:
        parts = self._parts()
        if self._made is None or self._made[0] != parts:
            self._made = (parts, self._make(parts))
        return self._made[1]


def _override(entry: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry with the given values. Fields that conflict with a given value are removed."""
    if not given:
        return entry
    hidden = {f"{name}-data" for name in given}
    if {"token", "username"} & given.keys():
        hidden |= {"token", "tokenFile", "exec", "auth-provider", "username", "password"}
    if given.get("insecure-skip-tls-verify"):
        hidden |= {"certificate-authority", "certificate-authority-data"}
    if given.get("certificate-authority"):
        hidden.add("insecure-skip-tls-verify")
    if given.get("server"):
        hidden.add("tls-server-name")
    return {**{name: value for name, value in entry.items() if name not in hidden}, **given}


def _build_impersonation_headers(user: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if name := user.get("as"):
        yield "Impersonate-User", str(name)
    if uid := user.get("as-uid"):
        yield "Impersonate-Uid", str(uid)
    for group in user.get("as-groups") or ():
        yield "Impersonate-Group", str(group)
    for key, values in (user.get("as-user-extra") or {}).items():
        for value in values:
            yield f"Impersonate-Extra-{quote(str(key).lower(), safe='')}", str(value)


def _build_bearer_headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
