"""The roles of a manager, built only from the permissions that its parts declare.

list_kinds(), ELECTION, list_webhook_rights() ──▶ list_needed_rights()
    ──▶ build_roles() ──▶ install, chart, doctor, tests

A kind with a disabled gate adds no permissions. Names of roles and bindings are OpenKruise's.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from pykruise.admission.configurations import MUTATING, MUTATING_NAME, VALIDATING, VALIDATING_NAME
from pykruise.admission.pods.chain import list_participants
from pykruise.kinds import build_crds, list_conversions, list_kinds
from pykruise.kinds.gates import Gates
from pykruise.kube.documents import Document
from pykruise.kube.rbac import READ, WRITE, Right, make_right, merge_rights
from pykruise.kube.resources import (
    CONTROLLER_REVISIONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    LEASES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    STATEFUL_SETS,
)
from pykruise.manager.settings import WebhookSettings
from pykruise.plans.kind import Kind

ACCOUNT = "kruise-manager"
RBAC = "rbac.authorization.k8s.io"

CERTIFICATE_SECRET = WebhookSettings().secret
"""Name of the certificates' Secret in the roles. A manager with another SECRET_NAME needs a permission for the Secret
of this name.
"""

SHARED_RIGHTS: Sequence[Right] = (
    make_right(PODS, *READ, "create", "delete", "patch", why="to manage the pods of workloads"),
    make_right(
        PODS,
        "patch",
        subresource="status",
        why="to take pods out of service for an update, and to return them to service",
    ),
    make_right(PODS, "patch", subresource="resize", why="to resize cpu and memory of pods in place"),
    # The admission plugin OwnerReferencesPermissionEnforcement requires this permission, as it does for workloads.
    make_right(PODS, "update", subresource="finalizers", why="to delete PVCs together with their pod"),
    make_right(
        CONTROLLER_REVISIONS, *READ, "create", "delete", "patch", why="to manage the revisions of workloads"
    ),
    make_right(
        PERSISTENT_VOLUME_CLAIMS, *READ, "create", "delete", "patch", why="to manage the PVCs of workloads"
    ),
    make_right(NODES, *READ, why="to read the nodes of pods"),
    make_right(EVENTS, "create", "patch", why="to write events about workloads"),
)

ELECTION: Sequence[Right] = (
    make_right(
        LEASES,
        "create",
        "get",
        "update",
        in_namespace=True,
        why="to elect a leader, and to divide the objects among several managers (--shards)",
    ),
    make_right(
        LEASES,
        "list",
        "watch",
        in_namespace=True,
        why="to find the running managers that share the work (--shards)",
    ),
    make_right(EVENTS, "create", "patch", in_namespace=True, why="to write events about the leader election"),
)


_OF_WEBHOOKS = ("secrets", "configmaps")


def list_webhook_rights(gates: Gates) -> Sequence[Right]:
    """Return the permissions that webhooks, their certificates and conversion need."""
    crd_names = tuple(sorted(_list_converted_crds()))
    configurations = ((MUTATING, MUTATING_NAME), (VALIDATING, VALIDATING_NAME))
    rights = [
        make_right(CUSTOM_RESOURCE_DEFINITIONS, *READ, why="conversion webhooks: to watch CRDs"),
        # RBAC permits lists and watches of a single object if the rule contains the object's name.
        *(
            make_right(resource, *READ, names=(name,), why="webhook configurations")
            for resource, name in configurations
        ),
        make_right(
            SECRETS,
            *READ,
            names=(CERTIFICATE_SECRET,),
            in_namespace=True,
            why="the certificate of the webhooks",
        ),
        *_review_rights(gates),
    ]
    if not gates["EnableExternalCerts"]:
        rights += [
            make_right(
                SECRETS,
                "patch",
                "update",
                names=(CERTIFICATE_SECRET,),
                in_namespace=True,
                why="the certificate of the webhooks",
            ),
            # A rule for creation cannot be limited to an object's name. The manager also creates the Secret again after
            # a deletion.
            make_right(SECRETS, "create", in_namespace=True, why="the certificate of the webhooks"),
            make_right(
                CUSTOM_RESOURCE_DEFINITIONS,
                "patch",
                "update",
                names=crd_names,
                why="conversion webhooks: to write the address of the manager into CRDs",
            ),
            *(
                make_right(
                    resource,
                    "patch",
                    "update",
                    names=(name,),
                    why="webhook configurations: to write the address of the manager",
                )
                for resource, name in configurations
            ),
        ]
    if gates["DeletionProtectionForCRDCascadingGate"]:
        rights.append(
            Right(group="*", resource="*", verbs=("list",), why="to check whether a CRD has objects")
        )
    return rights


def _review_rights(gates: Gates) -> Iterator[Right]:
    """Yield the permissions of the kinds' reviews and of their steps of pod admission."""
    for kind in list_kinds():
        if kind.is_enabled(gates.__getitem__):
            yield from kind.reviews.rights
    for _, steps in list_participants(gates.__getitem__):
        yield from steps.rights


def list_needed_rights(gates: Gates) -> list[Right]:
    """Return all permissions that a manager with these gates needs."""
    kinds = [kind for kind in list_kinds() if kind.is_enabled(gates.__getitem__)]
    own = [right for kind in kinds for right in kind.rights]
    gated = [
        right
        for kind in kinds
        for gate, rights in kind.rights_by_gate.items()
        if gates[gate]
        for right in rights
    ]
    return [*SHARED_RIGHTS, *own, *gated, *list_webhook_rights(gates), *ELECTION]


def build_roles(gates: Gates, *, namespace: str) -> list[Document]:
    """Return ClusterRoles, Roles and their bindings for the manager's ServiceAccount in `namespace`."""
    rights = list_needed_rights(gates)
    wide = [right for right in rights if not right.in_namespace]
    own = [right for right in rights if right.in_namespace]
    role = partial(role_of, ACCOUNT, namespace)
    return [
        *role("kruise-manager-role", [right for right in wide if not right.names]),
        *role("kruise-certs-role", [right for right in wide if right.names]),
        *role(
            "kruise-leader-election-role",
            [right for right in own if right.group != "" or right.plural not in _OF_WEBHOOKS],
            within=namespace,
        ),
        *role(
            "kruise-webhook-role",
            [right for right in own if right.group == "" and right.plural in _OF_WEBHOOKS],
            within=namespace,
        ),
    ]


MAY_BE_LENT: Sequence[Right] = (
    make_right(PODS, "create", "delete", "patch", why="edit"),
    make_right(PODS, "create", subresource="exec", why="edit"),
    make_right(PERSISTENT_VOLUME_CLAIMS, "create", "delete", "patch", why="edit"),
    make_right(DEPLOYMENTS, *WRITE, why="edit"),
    make_right(STATEFUL_SETS, *WRITE, why="edit"),
    make_right(JOBS, "create", "delete", why="edit"),
    make_right(POD_DISRUPTION_BUDGETS, "create", why="edit"),
)
"""Permissions of Kubernetes' role `edit` that users of the kinds also use indirectly through the manager; a test
compares them with the role. If users of a kind get further permissions through the manager, the role `edit` contains no
permission to write the kind (is_for_editors).
"""


def build_aggregated_roles() -> list[Document]:
    """Return rules that OpenKruise's kinds add to Kubernetes' own roles view, edit and admin. If users with the role
    edit would get further permissions through objects of a kind, the kind has a separate role, which an administrator
    must bind. A ResourceDistribution can contain a Secret, so only admins may read it.
    """
    all_crds = {kind.resource: crd for kind, crd in _with_crds()}
    for_admin = {
        resource: crd for resource, crd in all_crds.items() if resource.plural == "resourcedistributions"
    }
    others = {resource: crd for resource, crd in all_crds.items() if resource not in for_admin}
    for_edit = {kind.resource for kind, _ in _with_crds() if is_for_editors(kind)}
    read, write = ("get", "list", "watch"), ("create", "delete", "deletecollection", "patch", "update")
    view = [right for crd in others.values() for right in _on_crd(crd, read, ("status", "scale"))]
    writing = {resource: _on_crd(crd, write, ("scale",)) for resource, crd in others.items()}
    edit = [right for resource, rights in writing.items() if resource in for_edit for right in rights]
    admin = [
        right
        for crd in for_admin.values()
        for right in (*_on_crd(crd, read, ("status",)), *_on_crd(crd, write, ()))
    ]
    aggregated = (
        ("view", ("view", "edit", "admin"), view),
        ("edit", ("edit", "admin"), edit),
        ("admin", ("admin",), admin),
    )
    by_hand = ((resource, rights) for resource, rights in writing.items() if resource not in for_edit)
    return [
        *(
            _build_cluster_role(f"aggregate-kruise-{name}", rights, targets)
            for name, targets, rights in aggregated
            if rights
        ),
        *(
            _build_cluster_role(f"kruise-{resource.plural}-editor", rights, ())
            for resource, rights in by_hand
        ),
    ]


def is_for_editors(kind: Kind) -> bool:
    """Whether a user with Kubernetes' role edit in a namespace may write the kind's objects there."""
    if kind.lends is None:
        return False
    lent = {(lend.group, lend.resource, verb) for lend in kind.lends for verb in lend.verbs}
    return lent <= {(right.group, right.resource, verb) for right in MAY_BE_LENT for verb in right.verbs}


def _with_crds() -> Iterator[tuple[Kind, Document]]:
    by_name = {crd["metadata"]["name"]: crd for crd in build_crds()}
    for kind in list_kinds():
        crd = by_name.get(f"{kind.resource.plural}.{kind.resource.group}")
        if crd is not None and kind.versions:
            yield kind, crd


def _build_cluster_role(name: str, rights: Iterable[Right], targets: Sequence[str]) -> Document:
    labels = {f"{RBAC}/aggregate-to-{target}": "true" for target in targets}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "rules": merge_rights(rights),
    }


def _on_crd(crd: Document, verbs: tuple[str, ...], subresources: Iterable[str]) -> list[Right]:
    group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
    has = {name for version in crd["spec"]["versions"] for name in version.get("subresources") or ()}
    kept = tuple(verb for verb in verbs if verb in ("get", "patch", "update"))
    return [
        Right(group=group, resource=plural, verbs=verbs),
        *(
            Right(group=group, resource=f"{plural}/{name}", verbs=kept)
            for name in subresources
            if name in has
        ),
    ]


def _list_converted_crds() -> set[str]:
    """Return the names of the CRDs with two versions."""
    both = set(list_conversions())
    return {
        crd["metadata"]["name"]
        for crd in build_crds()
        if (crd["spec"]["group"], crd["spec"]["names"]["kind"]) in both
    }


def role_of(
    account: str, namespace: str, name: str, rights: Iterable[Right], *, within: str = ""
) -> list[Document]:
    """Return a role and its binding to the ServiceAccount `account` in `namespace`: for the whole cluster, or for the
    namespace `within`. Empty without permissions.
    """
    rules = merge_rights(rights)
    if not rules:
        return []
    kind, place = ("Role", {"namespace": within}) if within else ("ClusterRole", {})
    return [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": kind,
            "metadata": {"name": name, **place},
            "rules": rules,
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": {"name": f"{name}binding", **place},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    ]
