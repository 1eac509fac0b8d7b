"""Storage of certificates: a Secret that all replicas use, a folder, or a Secret that another controller fills.

CertificateStore.read() ──▶ StoredCertificates (Certificates and their version) ──▶ .write() ──▶ the next version

Replicas compete for the Secret, and resourceVersion decides: the API server rejects the later write (ConflictError),
and its replica reads the stored certificates. Keys and file names are OpenKruise's. A private key is never logged, and
only the owner of its file can read it.
"""

import base64
import binascii
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from pykruise.admission.certificates import Certificates
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock, format_micro_time
from pykruise.kube.documents import decode
from pykruise.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from pykruise.kube.patches import PatchType
from pykruise.kube.resources import SECRETS

AUTHORITY_FILE: Final = "ca-cert.pem"
CHAIN_FILE: Final = "tls.crt"
KEY_FILE: Final = "tls.key"

_FIELDS: Final[Mapping[str, str]] = {
    "ca-key.pem": "authority_key",
    AUTHORITY_FILE: "authority",
    "key.pem": "key",
    KEY_FILE: "key",
    "cert.pem": "certificate",
    CHAIN_FILE: "certificate",
}
"""Name in the Secret and in the folder → field of Certificates. Two fields have two names each."""

_EXTERNAL_FIELDS: Final[Mapping[str, str]] = {
    "ca.crt": "authority",
    "ca.key": "authority_key",
    CHAIN_FILE: "certificate",
    KEY_FILE: "key",
}


_ANY_FIELDS: Final[Mapping[str, str]] = {**_FIELDS, **_EXTERNAL_FIELDS}


class StoreError(Exception):
    """Certificates cannot be read or stored. The message names the place and the remedy."""


class StoredCertificates(msgspec.Struct, frozen=True):
    """Content of a store. A write that replaces this content sends the `version`, so that it fails if the content
    changed.
    """

    certificates: Certificates
    version: str = ""


class CertificateStore(Protocol):
    """Storage of certificates."""

    @property
    def is_managed(self) -> bool:
        """Whether this program creates and renews the certificates."""
        ...

    async def read(self) -> StoredCertificates | None:
        """Return the stored certificates; None if the Secret or one of the files does not exist. Raises KubeError,
        OSError, StoreError.
        """
        ...

    async def write(self, certificates: Certificates, *, over: StoredCertificates | None) -> None:
        """Replace the certificates `over` by these certificates. `over` is None if `read` returned None.

        Raises ConflictError if another write was faster. The caller must read again.
        """
        ...


class SecretStore:
    """A Secret in the manager's namespace. An empty Secret, created by an installer, is also accepted."""

    is_managed = True
    _fields = _FIELDS

    def __init__(self, client: Client, *, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    async def read(self) -> StoredCertificates | None:
        try:
            doc = decode(await self._client.get(SECRETS, self._namespace, self._name))
        except NotFoundError:
            return None
        return StoredCertificates(
            read_certificates(doc, self._fields), doc["metadata"].get("resourceVersion") or ""
        )

    async def write(self, certificates: Certificates, *, over: StoredCertificates | None) -> None:
        data = {name: _encode_value(getattr(certificates, field)) for name, field in self._fields.items()}
        if over is not None:
            patch = {"metadata": {"resourceVersion": over.version}, "data": data}
            await self._client.patch(SECRETS, self._namespace, self._name, patch, patch_type=PatchType.MERGE)
            return
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": self._name}, "data": data}
        try:
            await self._client.create(SECRETS, self._namespace, secret)
        except AlreadyExistsError as error:
            raise ConflictError(error.status) from error


class ExternalStore(SecretStore):
    """A Secret that another controller fills, for example cert-manager. This program only reads it."""

    is_managed = False
    _fields = _EXTERNAL_FIELDS

    async def read(self) -> StoredCertificates:
        stored = await super().read()
        if stored is None:
            raise StoreError(
                f"gate EnableExternalCerts is on and Secret {self._namespace}/{self._name} does not exist; create it "
                f"with {', '.join(_EXTERNAL_FIELDS)}"
            )
        return stored

    async def write(self, certificates: Certificates, *, over: StoredCertificates | None) -> None:
        raise StoreError("the manager does not write external certificates")


class FileStore:
    """A folder with six files, for a manager outside the cluster, or for mounted certificates."""

    is_managed = True

    def __init__(self, folder: "CertificateFolder") -> None:
        self._folder = folder

    async def read(self) -> StoredCertificates | None:
        certificates = self._folder.read()
        return None if certificates is None else StoredCertificates(certificates)

    async def write(self, certificates: Certificates, *, over: StoredCertificates | None) -> None:
        self._folder.write(certificates)


class CertificateFolder:
    """The folder from which the server reads its certificate and key. All files are replaced at the same time, by
    renaming one symbolic link.

    The layout is that of a mounted Secret: the folder `..<time>/` contains the files, `..data` is a link to this
    folder, and each file name is a link to a file in `..data`.
    """

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self.path = path
        self._clock = clock

    @property
    def pair(self) -> tuple[Path, Path]:
        """Paths of the certificate file and the key file of the server."""
        return self.path / CHAIN_FILE, self.path / KEY_FILE

    def read(self) -> Certificates | None:
        """Return the stored certificates; None if a file is missing. Raises OSError."""
        values: dict[str, bytes] = {}
        for name, field in _FIELDS.items():
            try:
                values[field] = (self.path / name).read_bytes()
            except FileNotFoundError:
                return None
        return Certificates(**values)

    def write(self, certificates: Certificates) -> None:
        """Store these certificates, if they differ from the stored ones. Raises OSError with a path; the folder is then
        unchanged.
        """
        if self.read() == certificates:
            return
        stamp = format_micro_time(self._clock()).replace(":", "_")
        fresh = self.path / f"..{stamp}"
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(certificates, fresh)
        except OSError as error:
            shutil.rmtree(fresh, ignore_errors=True)
            # If the disk is full, the error has no file name.
            raise OSError(error.errno, error.strerror, error.filename or str(fresh)) from error

    def _write(self, certificates: Certificates, fresh: Path) -> None:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        for name, field in _FIELDS.items():
            _write_private(fresh / name, getattr(certificates, field))
        self._switch_data_link(fresh.name)
        for name in _FIELDS:
            self._create_link(name)
        for old in self.path.glob("..*_*"):
            if old.name != fresh.name and old.is_dir() and not old.is_symlink():
                shutil.rmtree(old, ignore_errors=True)

    def _switch_data_link(self, target: str) -> None:
        link = self.path / "..data_new"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        link.replace(self.path / "..data")

    def _create_link(self, name: str) -> None:
        """Create the link for a file name. Replace a regular file that another program created."""
        path, target = self.path / name, f"..data/{name}"
        if path.is_symlink() and os.readlink(path) == target:
            return
        link = self.path / f"..{name}"
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        link.replace(path)


def _write_private(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def read_certificates(doc: Mapping[str, Any], fields: Mapping[str, str] = _ANY_FIELDS) -> Certificates:
    """Return the certificates of a Secret. A field is empty if its value is missing or not base64."""
    data = doc.get("data") or {}
    values = dict.fromkeys(fields.values(), b"")
    for name, field in fields.items():
        values[field] = values[field] or _decode_value(data.get(name))
    return Certificates(**values)


def _decode_value(text: object) -> bytes:
    if not isinstance(text, str):
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def _encode_value(value: bytes) -> str:
    return base64.b64encode(value).decode()
