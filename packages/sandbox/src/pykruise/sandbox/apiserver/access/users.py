"""Users as an API server knows them: a name and groups. Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"
"""Group whose members may do everything, regardless of roles."""

ANONYMOUS: Final = "system:anonymous"
_ACCOUNT: Final = "system:serviceaccount:"


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A user that sends a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def is_master(self) -> bool:
        """Whether the user's requests are allowed without a check."""
        return MASTERS in self.groups

    @property
    def account(self) -> tuple[str, str] | None:
        """Namespace and name of the service account; None for other users."""
        if not self.name.startswith(_ACCOUNT):
            return None
        namespace, _, name = self.name.removeprefix(_ACCOUNT).partition(":")
        return (namespace, name) if namespace and name and ":" not in name else None

    def to_document(self) -> dict[str, object]:
        """The user as reviews show it (`UserInfo`)."""
        doc: dict[str, object] = {"username": self.name}
        if self.uid:
            doc["uid"] = self.uid
        if self.groups:
            doc["groups"] = list(self.groups)
        if self.extra:
            doc["extra"] = {key: list(values) for key, values in self.extra.items()}
        return doc


def make_trusted_user(name: str) -> User:
    """Return a user who may do everything: for components of the cluster, and for the holder of the admin's token."""
    return User(name=name, groups=(MASTERS, AUTHENTICATED))


def make_account_user(namespace: str, name: str, *, uid: str = "") -> User:
    """Return the user of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(name=f"{_ACCOUNT}{namespace}:{name}", groups=groups, uid=uid)


ADMIN: Final = make_trusted_user("kubernetes-admin")
ANONYMOUS_USER: Final = User(name=ANONYMOUS, groups=(UNAUTHENTICATED,))
"""User of a request without a token."""
