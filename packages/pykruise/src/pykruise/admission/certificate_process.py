"""Examination and renewal of webhook certificates, in this process or in a child process that exits afterwards.

WebhookSync ──▶ CertificateWork ──▶ InProcess, or CertificateProcess ══ JSON ══▶ certificate_work.py
"""

import asyncio
import sys
from typing import Protocol, TypeVar

import msgspec

from pykruise.admission.certificates import CertificateFacts, CertificateRequest, Certificates
from pykruise.kube.clock import Instant

_WORK = "pykruise.admission.certificate_work"

T = TypeVar("T")


class CertificateWork(Protocol):
    """Examines and renews certificates. Raises OSError if this is not possible now."""

    async def examine(self, stored: Certificates, *, host: str) -> CertificateFacts:
        """See certificate_work.examine."""
        ...

    async def renew(self, stored: Certificates | None, *, host: str, now: Instant) -> Certificates:
        """See certificate_work.renew_certificates."""
        ...


class InProcess:
    """Works in this process. For programs that load the package `cryptography` in any case."""

    async def examine(self, stored: Certificates, *, host: str) -> CertificateFacts:
        """See CertificateWork."""
        from pykruise.admission import certificate_work

        return certificate_work.examine(stored, host=host)

    async def renew(self, stored: Certificates | None, *, host: str, now: Instant) -> Certificates:
        """See CertificateWork."""
        from pykruise.admission import certificate_work

        return certificate_work.renew_certificates(stored, host=host, now=now)


class CertificateProcess:
    """Works in a child process, which exits after each call. Remembers the facts about the latest certificates."""

    def __init__(self) -> None:
        self._known: dict[tuple[Certificates, str], CertificateFacts] = {}

    async def examine(self, stored: Certificates, *, host: str) -> CertificateFacts:
        """See CertificateWork."""
        key = (stored, host)
        if (known := self._known.get(key)) is None:
            known = await _run_child(CertificateRequest(stored=stored, host=host), CertificateFacts)
            while len(self._known) > 1:  # remember two: the facts about the stored and the served ones
                del self._known[next(iter(self._known))]
            self._known[key] = known
        return known

    async def renew(self, stored: Certificates | None, *, host: str, now: Instant) -> Certificates:
        """See CertificateWork."""
        return await _run_child(CertificateRequest(stored=stored, host=host, renew_at=now), Certificates)


async def _run_child(asked: CertificateRequest, kind: type[T]) -> T:
    # Private keys are sent through pipes, which no other process can read.
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", _WORK), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        answer, _ = await child.communicate(msgspec.json.encode(asked))
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode:
        raise ChildProcessError(
            f"the process that works on certificates ended with exit code {child.returncode}"
        )
    return msgspec.json.decode(answer, type=kind)
