"""Check of the manager's permissions: the API server is asked about each permission that the manager needs."""

import asyncio
from collections.abc import Sequence

from pykruise.kube.documents import decode, get_path
from pykruise.kube.errors import ForbiddenError
from pykruise.kube.rbac import Right
from pykruise.kube.resources import SERVICE_ACCOUNTS, Resource
from pykruise.manager.doctor.findings import Finding, make_fault, make_fine, make_unknown
from pykruise.manager.doctor.live import Live
from pykruise.manager.roles import ACCOUNT, list_needed_rights

REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)


async def check_rights(live: Live) -> Sequence[Finding]:
    """Check that the manager's account has every permission that its gates need."""
    if await live.get(SERVICE_ACCOUNTS, live.namespace, ACCOUNT) is None:
        return [make_fault("rbac", f"there is no ServiceAccount {live.namespace}/{ACCOUNT}", live.apply)]
    rights = list_needed_rights(await live.read_gates())
    try:
        missing = [
            text
            for result in await asyncio.gather(*(_list_missing_verbs(live, right) for right in rights))
            for text in result
        ]
    except ForbiddenError as error:
        return [
            make_unknown("rbac", f"permissions cannot be checked: {error}", "run doctor as a cluster admin")
        ]
    if missing:
        unique = list(dict.fromkeys(missing))
        return [make_fault("rbac", f"{ACCOUNT} has no permission to {text}", live.apply) for text in unique]
    return [make_fine("rbac", f"{ACCOUNT} has all required permissions")]


async def _list_missing_verbs(live: Live, right: Right) -> list[str]:
    """Return a sentence for each verb of a permission that is not granted."""
    resource, _, subresource = right.resource.partition("/")
    result = []
    for verb in right.verbs:
        for name in right.names or ("",):
            attributes = {
                "verb": verb,
                "group": right.group,
                "resource": resource,
                "subresource": subresource,
                "name": name,
                "namespace": live.namespace if right.in_namespace else "",
            }
            user = f"system:serviceaccount:{live.namespace}:{ACCOUNT}"
            groups = [
                "system:serviceaccounts",
                f"system:serviceaccounts:{live.namespace}",
                "system:authenticated",
            ]
            review = {
                "apiVersion": REVIEWS.api_version,
                "kind": REVIEWS.kind,
                "spec": {"user": user, "groups": groups, "resourceAttributes": attributes},
            }
            answer = decode(await live.client.create(REVIEWS, "", review))
            if not get_path(answer, "status", "allowed", default=False):
                what = f"{right.resource}.{right.group}" if right.group else right.resource
                result.append(f"{verb} {what}{f' {name}' if name else ''} ({right.why})")
    return result
