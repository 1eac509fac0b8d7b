"""Stores of certificates: a shared Secret, files, and a Secret of another program."""

import errno
import os
import stat
from pathlib import Path

import pytest

from pykruise.admission.certificates import Certificates
from pykruise.admission.stores import (
    CertificateFolder,
    ExternalStore,
    FileStore,
    SecretStore,
    StoreError,
)
from pykruise.kube.client.client import Client
from pykruise.kube.documents import decode
from pykruise.kube.errors import ConflictError
from pykruise.kube.resources import NAMESPACES, SECRETS
from support.sandbox import small_cluster

NAMESPACE, NAME = "kruise-system", "kruise-webhook-certs"


def certificates(word: str = "one") -> Certificates:
    return Certificates(
        authority_key=f"{word} ca key".encode(),
        authority=f"{word} ca".encode(),
        key=f"{word} key".encode(),
        certificate=f"{word} certificate".encode(),
    )


async def store(client: Client) -> SecretStore:
    await client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    return SecretStore(client, namespace=NAMESPACE, name=NAME)


async def test_a_missing_secret_is_created_with_all_six_keys() -> None:
    """admission case 1, for one store"""
    async with small_cluster(nodes=0) as place:
        secret = await store(place.client)
        assert await secret.read() is None
        await secret.write(certificates(), over=None)
        doc = decode(await place.client.get(SECRETS, NAMESPACE, NAME))
        assert sorted(doc["data"]) == [
            "ca-cert.pem",
            "ca-key.pem",
            "cert.pem",
            "key.pem",
            "tls.crt",
            "tls.key",
        ]
        assert doc["data"]["cert.pem"] == doc["data"]["tls.crt"]
        stored = await secret.read()
        assert stored is not None
        assert stored.certificates == certificates()


async def test_an_empty_secret_is_filled_in_place() -> None:
    """admission case 2"""
    async with small_cluster(nodes=0) as place:
        secret = await store(place.client)
        empty = {"metadata": {"name": NAME, "labels": {"by": "chart"}}, "type": "Opaque"}
        before = decode(await place.client.create(SECRETS, NAMESPACE, empty))
        stored = await secret.read()
        assert stored is not None
        assert stored.certificates == Certificates(authority_key=b"", authority=b"", key=b"", certificate=b"")
        await secret.write(certificates(), over=stored)
        after = decode(await place.client.get(SECRETS, NAMESPACE, NAME))
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["metadata"]["labels"] == {"by": "chart"}


async def test_the_second_of_two_writers_gets_a_conflict() -> None:
    """admission case 1; pitfall 20"""
    async with small_cluster(nodes=0) as place:
        secret = await store(place.client)
        # given two replicas that found no Secret
        await secret.write(certificates("first"), over=None)
        with pytest.raises(ConflictError):
            await secret.write(certificates("second"), over=None)
        # and two replicas that read the same version
        seen = await secret.read()
        assert seen is not None
        await secret.write(certificates("third"), over=seen)
        with pytest.raises(ConflictError):
            await secret.write(certificates("fourth"), over=seen)
        # then
        stored = await secret.read()
        assert stored is not None
        assert stored.certificates == certificates("third")


async def test_invalid_values_in_a_secret_are_read_without_an_error() -> None:
    async with small_cluster(nodes=0) as place:
        secret = await store(place.client)
        doc = {"metadata": {"name": NAME}, "data": {"tls.crt": "bm90IGEgY2VydA==", "other": "eA=="}}
        await place.client.create(SECRETS, NAMESPACE, doc)
        stored = await secret.read()
        assert stored is not None
        assert stored.certificates.certificate == b"not a cert"
        assert stored.certificates.key == b""


async def test_a_secret_of_another_program_is_read_by_its_own_names_and_never_written() -> None:
    """admission case 11, for the store"""
    async with small_cluster(nodes=0) as place:
        await store(place.client)
        external = ExternalStore(place.client, namespace=NAMESPACE, name=NAME)
        with pytest.raises(StoreError, match=r"Secret kruise-system/kruise-webhook-certs does not exist"):
            await external.read()
        data = {"ca.crt": "Y2E=", "tls.crt": "Y2VydA==", "tls.key": "a2V5"}
        await place.client.create(SECRETS, NAMESPACE, {"metadata": {"name": NAME}, "data": data})
        stored = await external.read()
        assert stored is not None
        expected = Certificates(authority_key=b"", authority=b"ca", key=b"key", certificate=b"cert")
        assert stored.certificates == expected
        with pytest.raises(StoreError):
            await external.write(certificates(), over=stored)


def folder(path: Path, now: float = 1_700_000_000.0) -> CertificateFolder:
    return CertificateFolder(path / "certs", clock=lambda: now)


def test_files_are_links_into_one_folder_that_is_exchanged_as_a_whole(tmp_path: Path) -> None:
    # given
    certificate_folder = folder(tmp_path)
    assert certificate_folder.read() is None
    certificate_folder.write(certificates("one"))
    chain, key = certificate_folder.pair
    assert (chain.read_bytes(), key.read_bytes()) == (b"one certificate", b"one key")
    assert os.readlink(chain) == "..data/tls.crt"
    # when
    folder(tmp_path, now=1_700_000_001.5).write(certificates("two"))
    # then
    assert folder(tmp_path).read() == certificates("two")
    assert sorted(os.listdir(tmp_path / "certs")) == [
        "..2023-11-14T22_13_21.500000Z",
        "..data",
        "ca-cert.pem",
        "ca-key.pem",
        "cert.pem",
        "key.pem",
        "tls.crt",
        "tls.key",
    ]


def test_files_can_be_read_by_their_owner_alone(tmp_path: Path) -> None:
    """pitfall 20"""
    folder(tmp_path).write(certificates())
    for file in (tmp_path / "certs").iterdir():
        if file.is_file():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_equal_certificates_are_not_written_again(tmp_path: Path) -> None:
    folder(tmp_path).write(certificates())
    before = os.readlink(tmp_path / "certs" / "..data")
    folder(tmp_path, now=1_800_000_000.0).write(certificates())
    assert os.readlink(tmp_path / "certs" / "..data") == before


def test_a_disk_that_is_full_is_named_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given certificates, and no room for others
    folder(tmp_path).write(certificates("one"))
    before = sorted(os.listdir(tmp_path / "certs"))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pykruise.admission.stores._write_private", full)
    # when
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/certs/") as caught:
        folder(tmp_path, now=1_800_000_000.0).write(certificates("two"))
    # then
    assert caught.value.errno == errno.ENOSPC
    assert sorted(os.listdir(tmp_path / "certs")) == before
    assert folder(tmp_path).read() == certificates("one")


def test_plain_files_of_an_earlier_program_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "tls.crt").write_bytes(b"old")
    folder(tmp_path).write(certificates())
    assert folder(tmp_path).read() == certificates()


@pytest.mark.parametrize("name", ["ca-key.pem", "ca-cert.pem", "key.pem", "tls.key", "cert.pem", "tls.crt"])
async def test_a_folder_with_a_file_missing_holds_no_certificates(tmp_path: Path, name: str) -> None:
    files = FileStore(folder(tmp_path))
    await files.write(certificates(), over=None)
    stored = await files.read()
    assert stored is not None
    assert stored.certificates == certificates()
    (tmp_path / "certs" / name).unlink()
    assert await files.read() is None
