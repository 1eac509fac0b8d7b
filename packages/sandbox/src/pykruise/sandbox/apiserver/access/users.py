"""Users as an API server knows them: a name and groups. Pure."""

from collections.abc import Mapping
from typing import Final

import msgspec

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"
"""Group whose members may do everything, whatever the roles say."""

ANONYMOUS: Final = "system:anonymous"
_ACCOUNT: Final = "system:serviceaccount:"


class User(msgspec.Struct, frozen=True, kw_only=True):
    """User of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def is_master(self) -> bool:
        """Whether its rights are not checked."""
        return MASTERS in self.groups

    @property
    def account(self) -> tuple[str, str] | None:
        """Namespace and name, when it is a service account."""
        if not self.name.startswith(_ACCOUNT):
            return None
        namespace, _, name = self.name.removeprefix(_ACCOUNT).partition(":")
        return (namespace, name) if namespace and name and ":" not in name else None

    def document(self) -> dict[str, object]:
        """As reviews show it (`UserInfo`)."""
        doc: dict[str, object] = {"username": self.name}
        if self.uid:
            doc["uid"] = self.uid
        if self.groups:
            doc["groups"] = list(self.groups)
        if self.extra:
            doc["extra"] = {key: list(values) for key, values in self.extra.items()}
        return doc


def trusted(name: str) -> User:
    """A user who may do everything: parts of the cluster itself, and who holds the admin's token."""
    return User(name=name, groups=(MASTERS, AUTHENTICATED))


def account_user(namespace: str, name: str, *, uid: str = "") -> User:
    """A service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(name=f"{_ACCOUNT}{namespace}:{name}", groups=groups, uid=uid)


ADMIN: Final = trusted("kubernetes-admin")
ANONYMOUS_USER: Final = User(name=ANONYMOUS, groups=(UNAUTHENTICATED,))
"""User of a request without a token."""
