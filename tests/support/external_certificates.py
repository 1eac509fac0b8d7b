"""Certificates as another program, such as cert-manager, provides them."""

from typing import Final

from pykruise.admission.certificates import YEAR_S, Certificates
from support.certificates import Authority, Key

__all__ = ["provide_certificates"]

_LASTING_S: Final = 10 * YEAR_S


def provide_certificates(
    host: str, *, start: float, end: float, intermediates: int = 0, key: Key | None = None
) -> Certificates:
    """A root CA that is valid for years, so many CAs below it, and a certificate for the host; the pair contains the
    certificates between the root and the host."""
    lasting = start, max(end, start + _LASTING_S)
    signer = root = Authority("root", valid=lasting)
    chain: list[bytes] = []
    for number in range(intermediates):
        signer = Authority(f"intermediate-{number}", parent=signer, valid=lasting)
        chain.insert(0, signer.pem)
    certificate, own = signer.issue(host, hosts=(host,), key=key, valid=(start, end))
    return Certificates(
        authority_key=b"", authority=root.pem, key=own, certificate=b"".join((certificate, *chain))
    )
