"""TLS contexts for clients that trust certificates by the same rules as Go programs.

PEM of trusted certificates ──▶ make_client_context() ──▶ ssl.SSLContext

A certificate chain may end at any trusted certificate, also at an intermediate. Trusted certificates may lack the
extensions that OpenSSL's strict mode requires: common tools create cluster CAs without them.
"""

import ssl

__all__ = ["make_client_context"]


def make_client_context(trusted: str | None = None) -> ssl.SSLContext:
    """Return a context that checks the server's certificate and name. `trusted`: PEM; None: the system's CAs.

    Raises ssl.SSLError or ValueError if `trusted` contains no certificate. Source of the rule: crypto/x509
    (`Certificate.Verify`) of Go, which kubectl and API servers use.
    """
    context = ssl.create_default_context(cadata=trusted)
    # Python 3.13 and later set both flags by default, earlier versions neither.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context
