"""Files that a configuration names: kubeconfigs, certificates, tokens.

paths ──▶ merge_kubeconfigs() ──▶ entries by list and name;   certificates and keys ──▶ make_tls_context()

Errors name the file and the entry that refers to it.
"""

import os
import ssl
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from pykruise.kube.errors import ConfigurationError
from pykruise.kube.http.trust import make_client_context
from pykruise.kube.whole_files import replace_file

__all__ = [
    "TlsParts",
    "check_token",
    "format_one_line",
    "has_file",
    "make_tls_context",
    "merge_kubeconfigs",
    "read_bytes",
    "read_token",
    "store_oidc_settings",
]


class TlsParts(NamedTuple):
    """PEM data of a client's TLS context; an empty part is absent."""

    ca: bytes
    chain: bytes = b""
    key: bytes = b""
    is_insecure: bool = False


class KubeconfigEntry(NamedTuple):
    """A context, cluster or user, and its file."""

    value: dict[str, Any]
    path: Path


LISTS: Final = ("contexts", "clusters", "users")


def merge_kubeconfigs(paths: Iterable[Path]) -> tuple[dict[str, list[KubeconfigEntry]], str]:
    """Return contexts, clusters and users of all files, and the current context. The first file to define a name
    wins. Raises ConfigurationError.
    """
    entries: dict[str, list[KubeconfigEntry]] = {plural: [] for plural in LISTS}
    current = ""
    for path in paths:
        document = read_kubeconfig(path)
        current = current or str(document.get("current-context") or "")
        for plural in LISTS:
            listed = document.get(plural) or []
            if not isinstance(listed, list) or not all(
                isinstance(entry, dict) and "name" in entry for entry in listed
            ):
                raise ConfigurationError(f"kubeconfig {path}: every entry of {plural} needs a name")
            entries[plural] += [KubeconfigEntry(item, path) for item in listed]
    return entries, current


def read_kubeconfig(path: Path) -> dict[str, Any]:
    """Return the document of one file; empty for an empty file. Raises ConfigurationError if it is not a kubeconfig."""
    import yaml

    from pykruise.kube.yaml_documents import read_yaml

    where = f"kubeconfig {path}"
    try:
        document = read_yaml(path.read_text("utf-8"))
    except OSError as err:
        raise ConfigurationError(f"{where}: cannot be read: {err.strerror}; check its permissions") from err
    except yaml.YAMLError as err:
        mark = getattr(err, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(err, "problem", None) or "not YAML"
        raise ConfigurationError(
            f"{where}: malformed YAML{place}: {format_one_line(problem)}; correct it"
        ) from err
    except ValueError as err:
        raise ConfigurationError(f"{where}: {_NO_KUBECONFIG}") from err
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigurationError(f"{where}: {_NO_KUBECONFIG}")
    kind = document.get("kind") or "Config"
    if kind != "Config":
        raise ConfigurationError(f"{where}: contains a {kind}, not a kubeconfig (kind Config)")
    return document


def store_oidc_settings(path: Path, user: str, settings: Mapping[str, str]) -> None:
    """Write settings of the auth-provider of a user into its kubeconfig, like kubectl: comments are lost.

    The file is replaced as a whole and keeps its permissions; a symbolic link stays. The lock file is that of
    client-go. Raises ConfigurationError if the file is not a kubeconfig any more, OSError if it cannot be written or is
    locked.
    """
    from pykruise.kube.yaml_documents import format_yaml

    target = Path(os.path.realpath(path))
    lock = target.with_name(f"{target.name}.lock")
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0o600))
    try:
        document = read_kubeconfig(target)
        for entry in document.get("users") or ():
            if entry.get("name") == user:
                entry["user"]["auth-provider"]["config"].update(settings)
        text = format_yaml(document)
        replace_file(target, text, mode=stat.S_IMODE(target.stat().st_mode))
    finally:
        lock.unlink()


_NO_KUBECONFIG: Final = "is not a kubeconfig; expected a document with clusters, contexts and users"


def has_file(user: Mapping[str, Any], name: str) -> bool:
    """Whether the user's entry names a file, and has no data, which would take precedence."""
    return bool(user.get(name)) and not user.get(f"{name}-data")


def read_bytes(path: Path, where: str, *, separator: str = ": ") -> bytes:
    """Return the content of a file. Raises ConfigurationError, which begins with `where`."""
    try:
        return path.read_bytes()
    except OSError as err:
        raise ConfigurationError(f"{where}{separator}{path}: {err.strerror}") from err


def read_token(path: Path, where: str) -> str:
    """Return the token in a file. Raises ConfigurationError."""
    return check_token(read_bytes(path, where).decode("utf-8", "replace"), f"{where}, {path}")


def check_token(text: str, where: str) -> str:
    """Return the token in a text. Raises ConfigurationError if the text is not a token."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise ConfigurationError(
            f"{where}: {'is empty' if not token else 'is not a token'}; write a token into it"
        )
    return token


def make_tls_context(parts: TlsParts, at_cluster: str, at_user: str) -> ssl.SSLContext:
    """Return a TLS context for a client; without a CA it trusts the system's CAs. Raises ConfigurationError."""
    try:
        context = make_client_context(parts.ca.decode("ascii") if parts.ca else None)
    except (ssl.SSLError, ValueError) as err:
        raise ConfigurationError(
            f"{at_cluster}: certificate-authority is not a PEM certificate ({format_one_line(err)})"
        ) from err
    context.set_alpn_protocols(["http/1.1"])
    if parts.is_insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if parts.chain:
        try:
            with _file_of(parts.chain + b"\n" + parts.key) as path:
                # A password callback keeps OpenSSL from asking for a password on the terminal.
                context.load_cert_chain(path, password=lambda: b"")
        except (ssl.SSLError, ValueError) as err:
            raise ConfigurationError(
                f"{at_user}: client-certificate and client-key are not a PEM certificate and its unencrypted"
                f" key ({format_one_line(err)})"
            ) from err
    return context


@contextmanager
def _file_of(content: bytes) -> Iterator[str]:
    """Provide a path from which to read `content`, for the one call of the ssl module that only accepts files.

    On Linux the path refers to memory. Elsewhere it refers to a file that only the user of this process can read; the
    file is deleted after the call.
    """
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        fd = os.memfd_create("tls")
        try:
            os.write(fd, content)
            yield f"/proc/self/fd/{fd}"
        finally:
            os.close(fd)
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tls.pem"
        file.touch(mode=0o600)
        file.write_bytes(content)
        yield str(file)


def format_one_line(value: object) -> str:
    """Return a value, or an error, as one line."""
    return " ".join(str(value).split()) or type(value).__name__
