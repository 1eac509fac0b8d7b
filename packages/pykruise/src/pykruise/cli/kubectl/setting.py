"""Commands `set image, env, resources, serviceaccount, selector, subject, partition, maxunavailable, maxsurge,
update-strategy`.

(object, arguments) ──▶ set_images(), set_amounts(), … (pure: change a copy) ──▶ changing.py ──▶ printing.py

`set env` has a module of its own (environment.py).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from pykruise.cli.kubectl.changing import change
from pykruise.cli.kubectl.errors import KubectlError, SeveralErrors, UsageError
from pykruise.cli.kubectl.kinds import pod_specs_of
from pykruise.cli.kubectl.printing import printer_of
from pykruise.cli.kubectl.resources import Error, Info, find
from pykruise.cli.kubectl.revisions import CHANGE_CAUSE
from pykruise.cli.kubectl.rollout import put
from pykruise.cli.kubectl.session import Session, dry_run_of
from pykruise.kinds import shown_of
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.errors import ConfigurationError, KubeError
from pykruise.kube.values.go_text import quote_text
from pykruise.kube.values.quantities import format_quantity
from pykruise.plans.progress import read_at
from pykruise.plans.shown import Field, Shown, Verbs

MANAGER: Final = "kubectl-set"

NOTHING_NAMED: Final = (
    "You must provide one or more resources by argument or filename.\nExample resource specifications include:\n"
    "   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   '<resource> <name>'\n   '<resource>'"
)
ONLY_FILES: Final = (
    "you must specify resources by --filename when --local is set.\nExample resource specifications include:\n"
    "   '-f rsrc.yaml'\n   '--filename=rsrc.json'"
)

Mutate = Callable[[Document], None]


async def find_objects(
    session: Session, arguments: Sequence[str], *, needed: str = NOTHING_NAMED
) -> Sequence[Info]:
    """Find the objects that a `set` changes. Raises the errors of the search before anything changes."""
    call = session.call
    is_local = call.is_on("local")
    if is_local and arguments:
        raise KubectlError(ONLY_FILES)
    if is_local and dry_run_of(call, lambda _: None) == "server":
        raise KubectlError("cannot specify --local and --dry-run=server - did you mean --dry-run=client?")
    selection = await find(session, arguments, allow_all=False, needed=needed, is_local=is_local)
    if selection.errors:
        raise SeveralErrors(selection.errors)
    return selection.infos


async def apply(
    session: Session,
    infos: Sequence[Info],
    mutate: Callable[[Info, Document], list[str] | None],
    *,
    operation: str,
    says_unchanged: bool = False,
) -> list[Error]:
    """Change each object and print it. `mutate` returns errors that do not stop the change."""
    call = session.call
    is_local = call.is_on("local")
    printer = printer_of(call, dry_run=dry_run_of(call, session.warn))
    errors: list[Error] = []
    for info in infos:
        problems: list[str] = []

        def do(document: Document, info: Info = info, problems: list[str] = problems) -> None:
            before = deep_copy(document)
            problems[:] = mutate(info, document) or []
            if call.is_on("record") and document != before:
                put(document, ("metadata", "annotations", CHANGE_CAUSE), session.typed)

        try:
            changed = await change(session, info, do, manager=MANAGER, is_local=is_local)
        except (KubeError, KubectlError) as error:
            errors.append(error)
            continue
        if changed is not None or says_unchanged or (is_local and call.text("output")):
            session.write(printer.format_object(changed or info, operation))
        errors += [KubectlError(problem) for problem in problems]
    return errors


def specs_of(info: Info, document: Document) -> list[Document]:
    """Pod specs of the object. Raises KubectlError when it has none."""
    specs = pod_specs_of(document)
    if not specs:
        kind, version = document.get("kind"), str(document.get("apiVersion")).rpartition("/")[2]
        raise KubectlError(
            f"{info.resource.plural}/{info.name} the object is not a pod or does not have a pod template:"
            f" *{version}.{kind}"
        )
    return specs


def containers_of(spec: Mapping[str, Any]) -> list[Document]:
    """Containers, followed by init containers."""
    return [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]


def list_matching(spec: Mapping[str, Any], pattern: str) -> list[Document]:
    """Containers with names that match a pattern with `*`."""
    return [
        container for container in containers_of(spec) if fnmatchcase(str(container.get("name")), pattern)
    ]


# ── image ────────────────────────────────────────────────────────────────────


def split_pairs(arguments: Sequence[str], what: str) -> tuple[list[str], dict[str, str]]:
    """Split the arguments into resources and the `name=value` pairs after them. Raises KubectlError."""
    first = next((n for n, value in enumerate(arguments) if "=" in value), len(arguments))
    pairs: dict[str, str] = {}
    for argument in arguments[first:]:
        name, sign, value = argument.partition("=")
        if not sign:
            raise KubectlError(f"all resources must be specified before {what} changes: {argument}")
        pairs[name] = value
    return list(arguments[:first]), pairs


def set_images(specs: Sequence[Document], images: Mapping[str, str]) -> list[str]:
    """Set images by container name; `*` sets all. Return an error for each name without a container."""
    problems = []
    for name, image in images.items():
        result = [
            container
            for spec in specs
            for container in containers_of(spec)
            if name in ("*", container.get("name"))
        ]
        for entry in result:
            entry["image"] = image
        if not result:
            problems.append(f"unable to find container named {quote_text(name)}")
    return problems


async def set_image(session: Session) -> list[Error]:
    """`set image (-f FILE | TYPE NAME) CONTAINER=IMAGE …`."""
    resources, images = split_pairs(session.call.everything, "image")
    infos = await find_objects(session, resources)
    if not images:
        raise KubectlError("at least one image update is required")
    if "*" in images and len(images) > 1:
        raise KubectlError(
            "all containers are already specified by *, but saw more than one container_name=container_image pairs"
        )
    return await apply(
        session,
        infos,
        lambda info, document: set_images(specs_of(info, document), images),
        operation="image updated",
    )


# ── resources ────────────────────────────────────────────────────────────────


def read_amounts(text: str) -> dict[str, str]:
    """Parse `cpu=200m,memory=512Mi`. Raises KubectlError."""
    amounts = {}
    for part in filter(None, text.split(",")):
        name, sign, value = part.partition("=")
        if not sign or "=" in value:
            raise KubectlError(f"invalid argument syntax {part}, expected <resource>=<value>")
        try:
            amounts[name] = format_quantity(value)
        except ValueError as error:
            raise KubectlError(str(error)) from error
    return amounts


def set_amounts(specs: Sequence[Document], pattern: str, amounts: Mapping[str, Mapping[str, str]]) -> None:
    """Merge limits and requests into containers. As in OpenKruise, `*` selects no init containers. Raises KubectlError
    when no name matches the pattern.
    """
    result = [
        entry
        for spec in specs
        for entry in (spec.get("containers") or () if pattern == "*" else list_matching(spec, pattern))
    ]
    if not result:
        raise KubectlError(f"unable to find container named {pattern}")
    for container in result:
        own = container.setdefault("resources", {})
        for kind, values in amounts.items():
            if values:
                own[kind] = {**(own.get(kind) or {}), **values}


async def set_resources(session: Session) -> list[Error]:
    """`set resources (-f FILE | TYPE NAME) [--limits=…] [--requests=…]`."""
    call = session.call
    infos = await find_objects(session, call.everything)
    if not call.text("limits") and not call.text("requests"):
        raise KubectlError(
            "you must specify an update to requests or limits (in the form of --requests/--limits)"
        )
    amounts = {kind: read_amounts(call.text(kind)) for kind in ("limits", "requests")}

    def mutate(info: Info, document: Document) -> None:
        set_amounts(specs_of(info, document), call.text("containers"), amounts)

    return await apply(session, infos, mutate, operation="resource requirements updated")


# ── serviceaccount, selector, subject ────────────────────────────────────────


async def set_service_account(session: Session) -> list[Error]:
    """`set serviceaccount (-f FILE | TYPE NAME) SERVICE_ACCOUNT`."""
    given = session.call.everything
    if not given:
        raise KubectlError("serviceaccount is required")
    account = given[-1]
    infos = await find_objects(session, given[:-1])

    def mutate(info: Info, document: Document) -> None:
        for spec in specs_of(info, document):
            spec["serviceAccountName"] = account
            if "serviceAccount" in spec:
                spec["serviceAccount"] = account

    return await apply(session, infos, mutate, operation="serviceaccount updated", says_unchanged=True)


def read_equalities(text: str) -> dict[str, str]:
    """Parse `a=b,c=d`, the form of a Service's selector. Raises KubectlError."""
    from pykruise.kube.values.selectors import SelectorError, parse_label_selector

    try:
        parsed = parse_label_selector(text)
    except SelectorError as error:
        raise KubectlError(str(error)) from error
    equalities = {}
    for requirement in parsed.requirements:
        if (
            requirement.operator.value.lower() not in ("=", "==", "in")
            or len(requirement.values) != 1
            or " in " in f" {text} "
        ):
            operator = str(requirement.operator.value).capitalize()
            shown = f"{{{requirement.key} {operator} [{' '.join(requirement.values)}]}}"
            raise KubectlError(f"match expression [{shown}] not supported on this object")
        equalities[requirement.key] = next(iter(requirement.values))
    return equalities


async def set_selector(session: Session) -> list[Error]:
    """Command `set selector (-f FILE | TYPE NAME) EXPRESSIONS`, for Services."""
    call = session.call
    given = list(call.everything)
    if not given:
        raise KubectlError("selector is required")
    wanted = read_equalities(given.pop())
    infos = await find_objects(session, given)
    if call.text("resource-version") and len(infos) != 1:
        raise UsageError("--resource-version can only be used with a single resource")

    def mutate(info: Info, document: Document) -> None:
        if document.get("kind") != "Service":
            raise KubectlError("setting a selector is only supported for Services")
        if version := call.text("resource-version"):
            document["metadata"]["resourceVersion"] = version
        document["spec"]["selector"] = wanted

    return await apply(session, infos, mutate, operation="selector updated", says_unchanged=True)


_RBAC: Final = "rbac.authorization.k8s.io"


def read_subjects(
    users: Sequence[str], groups: Sequence[str], accounts: Sequence[str], *, namespace: str
) -> list[Document]:
    """Subjects of a binding; `namespace`: namespace of the accounts that name none. Raises KubectlError."""
    subjects: list[Document] = [
        {"kind": kind, "apiGroup": _RBAC, "name": name}
        for kind, names in (("User", users), ("Group", groups))
        for name in sorted(set(names))
        if name
    ]
    for account in accounts:
        own, colon, name = account.partition(":")
        if not colon or not name or ":" in name:
            raise KubectlError("serviceaccount must be <namespace>:<name>")
        subjects.append({"kind": "ServiceAccount", "namespace": own or namespace, "name": name})
    return subjects


async def set_subject(session: Session) -> list[Error]:
    """`set subject TYPE NAME [--user …] [--group …] [--serviceaccount ns:name]`."""
    call = session.call
    infos = await find_objects(session, call.everything)
    given = [call.listed(name) for name in ("user", "group", "serviceaccount")]
    if not any(given):
        raise KubectlError("you must specify at least one value of user, group or serviceaccount")
    namespace = ""
    if any(account.startswith(":") for account in given[-1]):
        if any(info.document.get("kind") == "ClusterRoleBinding" for info in infos):
            raise KubectlError("serviceaccount must be <namespace>:<name>, namespace must be specified")
        namespace = await _read_own_namespace(session)
    subjects = read_subjects(*given, namespace=namespace)

    def mutate(info: Info, document: Document) -> None:
        if document.get("kind") not in ("RoleBinding", "ClusterRoleBinding"):
            raise KubectlError("setting subjects is only supported for RoleBinding/ClusterRoleBinding")
        own = document.get("subjects") or []
        document["subjects"] = own + [subject for subject in subjects if subject not in own]

    return await apply(session, infos, mutate, operation="subjects updated")


async def _read_own_namespace(session: Session) -> str:
    """Namespace of the command; with `--local` also without a kubeconfig."""
    try:
        return await session.read_namespace()
    except ConfigurationError:
        if session.call.is_on("local"):
            return "default"
        raise


# ── settings of a rollout ───────────────────────────────────────────────────

_is_count = re.compile(r"[0-9]+").fullmatch
_is_share = re.compile(r"(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?)%").fullmatch

_FIELDS: Final[Mapping[str, str]] = {
    "partition": "partition",
    "maxunavailable": "maxUnavailable",
    "maxsurge": "maxSurge",
}
"""Names of commands and of their fields (Shown.fields)."""


def read_amount(text: str, what: str) -> int | str:
    """Parse a count or a percentage. Raises KubectlError."""
    if _is_count(text):
        return int(text)
    if _is_share(text):
        return text
    raise KubectlError(
        f"{what}: {quote_text(text)} is neither a count, such as 2, nor a percentage from 0% to 100%"
    )


def set_partitions(document: Document, shown: Shown, field: Field, text: str) -> None:
    """Set the partition of each subset: `2` sets all, `a=2,b=0` the named subsets. Raises KubectlError."""
    subsets = [str(item.get("name")) for item in read_at(document, shown.subsets) or ()]
    values = dict.fromkeys(subsets, text)
    if "=" in text:
        values = {subset: value for subset, _, value in (item.partition("=") for item in text.split(","))}
    if unknown := sorted(values.keys() - set(subsets)):
        raise KubectlError(f"no subset is named {', '.join(unknown)}; available: {', '.join(subsets)}")
    counts = {}
    for part, value in values.items():
        if not _is_count(value):
            raise KubectlError(f"partition: {quote_text(value)} is not a count, such as 2")
        counts[part] = int(value)
    put(document, field.find_path(document), {**(field.read_value(document) or {}), **counts})


async def set_amount(session: Session) -> list[Error]:
    """`set partition|maxunavailable|maxsurge KIND/NAME VALUE`."""
    name = _FIELDS[session.command.split()[-1]]
    infos, text = await _read_value(session, name)

    def mutate(info: Info, document: Document) -> None:
        shown = shown_of(document)
        if name == "partition" and shown is not None and shown.partitions is not None:
            set_partitions(document, shown, shown.partitions, text)
            return
        field = None if shown is None else shown.fields.get(name)
        if field is None:
            raise KubectlError(f"{info.label} has no {name}")
        put(document, field.find_path(document), read_amount(text, name))

    return await apply(session, infos, mutate, operation=f"{name} updated")


def set_strategy(document: Document, verbs: Verbs, value: str) -> None:
    """Set the update strategy: `InPlaceIfPossible`, `OnDelete`, …"""
    assert verbs.strategy is not None
    path = verbs.strategy.find_path(document)
    if path[-1] == "type":
        put(document, path, value)
        if value == "Recreate":
            put(document, (*path[:-1], "rollingUpdate"), None)
        return
    kind = ("spec", "updateStrategy", "type")
    put(document, kind, "OnDelete" if value == "OnDelete" else "RollingUpdate")
    if value != "OnDelete":
        put(document, path, value)


async def update_strategy(session: Session) -> list[Error]:
    """`set update-strategy KIND/NAME VALUE`."""
    infos, text = await _read_value(session, "strategy")

    def mutate(info: Info, document: Document) -> None:
        shown = shown_of(document)
        if shown is None or shown.verbs.strategy is None:
            raise KubectlError(f"{info.label} has no update strategy")
        value = next(
            (strategy for strategy in shown.verbs.strategies if strategy.lower() == text.lower()), ""
        )
        if not value:
            raise KubectlError(
                f"{quote_text(text)} is not an update strategy of {info.label}: {', '.join(shown.verbs.strategies)}"
            )
        set_strategy(document, shown.verbs, value)

    return await apply(session, infos, mutate, operation="update strategy updated")


async def _read_value(session: Session, what: str) -> tuple[Sequence[Info], str]:
    given = session.call.everything
    if len(given) < (1 if session.call.listed("filename") else 2):
        raise KubectlError(f"name the object and the {what}, such as clone/web and a value")
    return await find_objects(session, given[:-1]), given[-1]
