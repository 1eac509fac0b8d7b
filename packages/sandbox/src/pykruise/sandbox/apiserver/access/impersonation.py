"""Impersonation: a request acts as another user through its `Impersonate-…` headers.

    User + headers ──▶ impersonate_user() ──▶ the User whose permissions apply, or a Refusal

This is the rule of apiserver's impersonation filter.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from pykruise.sandbox.apiserver.access.attributes import Attributes
from pykruise.sandbox.apiserver.access.authorizer import Authorizer
from pykruise.sandbox.apiserver.access.users import (
    ANONYMOUS,
    AUTHENTICATED,
    UNAUTHENTICATED,
    User,
    make_account_user,
)
from pykruise.sandbox.apiserver.requests.statuses import make_bad_request

_USER: Final = "impersonate-user"
IMPERSONATED_GROUP: Final = "impersonate-group"
"""Header of impersonated groups, one line per group."""
_UID: Final = "impersonate-uid"
_EXTRA: Final = "impersonate-extra-"


def impersonate_user(user: User, headers: Mapping[str, str], authorizer: Authorizer | None) -> User:
    """Return the user that the request acts as. Raises Refusal (403) when the sender may not impersonate that user."""
    name, groups = headers.get(_USER) or "", _split_lines(headers.get(IMPERSONATED_GROUP))
    uid = headers.get(_UID) or ""
    extra = {
        unquote(header.removeprefix(_EXTRA)): tuple(_split_lines(value))
        for header, value in headers.items()
        if header.startswith(_EXTRA)
    }
    if not (name or groups or uid or extra):
        return user
    if not name:
        raise make_bad_request("requested groups, a uid or extra values without impersonating a user name")
    wanted = _build_impersonated_user(name, groups, uid, extra)
    if authorizer is not None and not user.is_master:
        for asked in _list_attributes_to_check(user, wanted, groups):
            authorizer.check(asked)
    return wanted


def _split_lines(value: str | None) -> list[str]:
    return [each for each in (value or "").splitlines() if each]


def _build_impersonated_user(
    name: str, groups: list[str], uid: str, extra: Mapping[str, tuple[str, ...]]
) -> User:
    account = User(name=name).account
    if account is not None and not groups:
        groups = list(make_account_user(*account).groups)
    others = (UNAUTHENTICATED,) if name == ANONYMOUS else (AUTHENTICATED,)
    if not {AUTHENTICATED, UNAUTHENTICATED} & set(groups):
        groups = [*groups, *others]
    return User(name=name, groups=tuple(groups), uid=uid, extra=extra)


def _list_attributes_to_check(user: User, wanted: User, groups: list[str]) -> list[Attributes]:
    account = wanted.account
    if account is not None:
        namespace, name = account
        who = Attributes(
            user=user, verb="impersonate", resource="serviceaccounts", namespace=namespace, name=name
        )
    else:
        who = Attributes(user=user, verb="impersonate", resource="users", name=wanted.name)
    questions = [who]
    for group in groups:
        questions.append(Attributes(user=user, verb="impersonate", resource="groups", name=group))
    for key, values in wanted.extra.items():
        for value in values:
            questions.append(
                Attributes(
                    user=user,
                    verb="impersonate",
                    group=_AUTHENTICATION,
                    resource="userextras",
                    subresource=key,
                    name=value,
                )
            )
    if wanted.uid:
        questions.append(
            Attributes(user=user, verb="impersonate", group=_AUTHENTICATION, resource="uids", name=wanted.uid)
        )
    return questions


_AUTHENTICATION: Final = "authentication.k8s.io"
