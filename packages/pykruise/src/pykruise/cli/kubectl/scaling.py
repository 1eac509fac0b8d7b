"""Commands `scale`, `scaledown` (deletes chosen pods), `autoscale` and `expose`.

(object, arguments) ──▶ build_service(), build_autoscaler(), reduce_replicas() (pure) ──▶ requests ──▶ printing.py
"""

import asyncio
import re
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

import orjson

from pykruise.cli.kubectl.changing import change
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.kinds import group_of, templates_of
from pykruise.cli.kubectl.printing import printer_of
from pykruise.cli.kubectl.resources import Error, Info, find, get, read_patiently
from pykruise.cli.kubectl.revisions import CHANGE_CAUSE
from pykruise.cli.kubectl.rollout import put, run_for_each
from pykruise.cli.kubectl.session import Session, dry_run_of
from pykruise.kinds import shown_of
from pykruise.kube.documents import LAST_APPLIED, Document
from pykruise.kube.errors import KubeError
from pykruise.kube.patches.merge import apply_merge_patch
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import HORIZONTAL_POD_AUTOSCALERS, SERVICES, Resource
from pykruise.kube.values.counts import format_count

POLL_S: Final = 0.5


# ── scale ────────────────────────────────────────────────────────────────────


async def scale(session: Session) -> list[Error]:
    """Command `scale --replicas=N RESOURCE`, through the scale subresource."""
    call = session.call
    if "replicas" not in call.given:
        raise KubectlError('required flag(s) "replicas" not set')
    if (count := call.number("replicas")) < 0:
        raise KubectlError(
            "The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0"
        )
    if call.number("current-replicas") < -1:
        raise KubectlError("The --current-replicas must specify an integer of -1 or greater")
    selection = await find(session, call.arguments, allow_all=False, if_none="no objects passed to scale")
    if call.text("resource-version") and len(selection.infos) > 1:
        raise KubectlError("cannot use --resource-version with multiple resources")
    dry_run = dry_run_of(call, session.warn)
    printer = printer_of(call, dry_run=dry_run)
    client = await session.make_client()

    async def do(info: Info) -> None:
        if dry_run != "client":
            await _check_preconditions(session, info)
            body: Document = {"spec": {"replicas": count}}
            if version := call.text("resource-version"):
                body["metadata"] = {"resourceVersion": version}
            await client.patch(
                info.resource,
                info.namespace,
                info.name,
                body,
                patch_type=PatchType.MERGE,
                subresource="scale",
                dry_run=dry_run == "server",
                field_manager=session.read_field_manager("kubectl"),
            )
            if dry_run == "none" and (timeout_s := call.seconds("timeout")):
                await _wait_until_scaled(session, info, timeout_s)
            if dry_run == "none" and call.is_on("record"):
                await _record_cause(session, info)
        changed: Document = apply_merge_patch(info.document, {"spec": {"replicas": count}})
        session.write(printer.format_object(info.replace_document(changed), "scaled"))

    return await run_for_each(selection, do)


async def _record_cause(session: Session, info: Info) -> None:
    """Write the command line into the change cause. As in kubectl, a failure is no error: the object is scaled."""
    client = await session.make_client()
    body = {"metadata": {"annotations": {CHANGE_CAUSE: session.typed}}}
    with suppress(KubeError):
        await client.patch(info.resource, info.namespace, info.name, body, patch_type=PatchType.MERGE)


async def _wait_until_scaled(session: Session, info: Info, timeout_s: float) -> None:
    """Wait until the number of pods equals the replicas of the spec. Raises KubectlError after the timeout, in
    kubectl's words.
    """
    client = await session.make_client()

    def read() -> Awaitable[bytes]:
        return client.get(info.resource, info.namespace, info.name, subresource="scale")

    try:
        async with asyncio.timeout(timeout_s):
            while True:
                scale: Document = orjson.loads(await read_patiently(read))
                if scale["spec"].get("replicas", 0) == (scale.get("status") or {}).get("replicas", 0):
                    return
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise KubectlError(f'timed out waiting for "{info.name}" to be synced') from None


async def _check_preconditions(session: Session, info: Info) -> None:
    wanted = session.call.number("current-replicas")
    if wanted < 0:
        return
    client = await session.make_client()
    there = orjson.loads(await client.get(info.resource, info.namespace, info.name, subresource="scale"))
    if (count := there["spec"].get("replicas", 0)) != wanted:
        raise KubectlError(f"Expected replicas to be {wanted}, was {count}")


# ── scaledown ────────────────────────────────────────────────────────────────


def victims_of(text: str) -> list[str]:
    """Names in `--pods`, without duplicates. Raises KubectlError when there is no name."""
    names = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise KubectlError("the pods to delete are required: --pods POD1,POD2")
    return names


def check_victims(names: Sequence[str], own: Sequence[Document], info: Info) -> None:
    """Raise KubectlError for a name that is not a pod of the workload."""
    known = {entry["metadata"]["name"] for entry in own}
    if strange := [name for name in names if name not in known]:
        raise KubectlError(f"{info.label} has no pod {', '.join(strange)}")


def list_pods_to_delete(document: Document, names: Sequence[str]) -> int:
    """Add the pods to podsToDelete of a CloneSet. Return the number of pods that were not in the list."""
    strategy = document["spec"].setdefault("scaleStrategy", {})
    listed = strategy.get("podsToDelete") or []
    new = [name for name in names if name not in listed]
    strategy["podsToDelete"] = [*listed, *new]
    return len(new)


def reserve_ordinals(document: Document, names: Sequence[str]) -> int:
    """Add the ordinals of the pods to reserveOrdinals of an Advanced StatefulSet. Return the number of pods that were
    not already to be deleted.
    """
    from pykruise.pods.workload.ordinals import is_wanted, reserved_of, split_name

    spec = document["spec"]
    listed = spec.get("reserveOrdinals") or []
    reserved, start = reserved_of(listed), (spec.get("ordinals") or {}).get("start") or 0
    replicas = spec.get("replicas", 1)
    new = [
        ordinal
        for ordinal in (split_name(name)[1] for name in names)
        if is_wanted(ordinal, start=start, replicas=replicas, reserved=reserved)
    ]
    if new:
        spec["reserveOrdinals"] = [*listed, *new]
    return len(new)


_CHOOSE_VICTIMS: Final = {"podsToDelete": list_pods_to_delete, "reserveOrdinals": reserve_ordinals}
"""Function that stores the chosen pods, by Verbs.victims."""


def reduce_replicas(document: Document, count: int) -> None:
    """Reduce the replicas by the number of chosen pods. Raises KubectlError when replicas would be negative."""
    spec = document["spec"]
    replicas = spec.get("replicas", 1)
    if replicas < count:
        raise KubectlError(f"{format_count(count, 'pod')} cannot be deleted, replicas is only {replicas}")
    spec["replicas"] = replicas - count


async def scale_down(session: Session) -> list[Error]:
    """`scaledown (TYPE NAME | TYPE/NAME) --pods POD1,POD2`."""
    from pykruise.cli.kubectl.pods import owners_of, pods_of

    call = session.call
    names = victims_of(",".join(call.listed("pods")))
    selection = await find(session, call.arguments)
    info = selection.take_only()
    shown = shown_of(info.document)
    if shown is None or not shown.verbs.victims:
        raise KubectlError(f"{info.label} scaling down with chosen pods is not supported")
    if shown.verbs.victims == "reserveOrdinals":
        info = await _read_with_ordinals(session, info)
    uid = info.document["metadata"].get("uid")
    check_victims(names, [pod for pod in await pods_of(session, info) if uid in owners_of(pod)], info)
    printer = printer_of(call, dry_run=dry_run_of(call, session.warn))
    choose = _CHOOSE_VICTIMS[shown.verbs.victims]
    changed = await change(
        session,
        info,
        lambda document: reduce_replicas(document, choose(document, names)),
        manager="kubectl-scale",
    )
    if not call.text("output"):
        session.say(f"# {info.name} delete pods [{' '.join(names)}] successfully")
    session.write(printer.format_object(changed or info, "selective pod deletion"))
    return []


async def _read_with_ordinals(session: Session, info: Info) -> Info:
    """Read the StatefulSet in v1beta1: v1alpha1 has no reserveOrdinals. Raises KubectlError when it is not served."""
    if info.resource.version != "v1alpha1":
        return info
    api_version = f"{info.resource.group}/v1beta1"
    served = (await session.read_mapper()).find_by_kind(api_version, info.resource.kind)
    if served is None:
        raise KubectlError(
            f"{info.label} scaling down with chosen pods is not supported in {info.resource.api_version}, and the"
            f" API server does not serve {api_version}"
        )
    return await get(session, served, info.name, info.namespace)


# ── autoscale ────────────────────────────────────────────────────────────────


def build_autoscaler(
    document: Document, *, name: str, least: int, most: int, metrics: Sequence[Document]
) -> Document:
    """A HorizontalPodAutoscaler for a workload. If `least` is below 1, the minimum is the cluster's default."""
    meta = document["metadata"]
    made: Document = {
        "kind": "HorizontalPodAutoscaler",
        "apiVersion": "autoscaling/v2",
        "metadata": {"name": name or meta["name"]},
        "spec": {
            "maxReplicas": most,
            **({"minReplicas": least} if least > 0 else {}),
            **({"metrics": list(metrics)} if metrics else {}),
            "scaleTargetRef": {
                "apiVersion": document["apiVersion"],
                "kind": document["kind"],
                "name": meta["name"],
            },
        },
    }
    return made


_DEFAULT_UNITS: Final = {"cpu": "m", "memory": "Mi"}
"""Unit of a quantity without a unit."""
_is_number = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?", re.ASCII).fullmatch


def build_metric(resource: str, text: str) -> Document:
    """Metric of a target: `80%` of the requests, or an average quantity. A quantity without a unit is in millicores or
    mebibytes. Raises KubectlError.
    """
    from pykruise.kube.values.quantities import format_quantity

    text = text.strip()
    if text.endswith("%"):
        if not re.fullmatch(r"\+?[0-9]{1,9}", text[:-1], re.ASCII):
            raise KubectlError(f"invalid percentage value: {text[:-1]}")
        target: Document = {"type": "Utilization", "averageUtilization": int(text[:-1])}
    else:
        if _is_number(text):
            text = f"{Decimal(text):f}{_DEFAULT_UNITS[resource]}"
        try:
            quantity = format_quantity(text)
        except ValueError:
            raise KubectlError(f"invalid resource {resource} value: {text}") from None
        target = {"type": "AverageValue", "averageValue": quantity}
    return {"type": "Resource", "resource": {"name": resource, "target": target}}


async def autoscale(session: Session) -> list[Error]:
    """`autoscale (TYPE NAME | TYPE/NAME) --max=N [--min=N] [--cpu=80%]`."""
    call = session.call
    if "max" not in call.given:
        raise KubectlError('required flag(s) "max" not set')
    least, most = call.number("min"), call.number("max")
    if most < 1:
        raise KubectlError(f"--max=MAXPODS is required and must be at least 1, max: {most}")
    if most < least:
        raise KubectlError(
            f"--max=MAXPODS must be larger or equal to --min=MINPODS, max: {most}, min: {least}"
        )
    if call.number("cpu-percent") > 0 and call.text("cpu"):
        raise KubectlError("--cpu-percent and --cpu are mutually exclusive")
    cpu = call.text("cpu") or (f"{call.number('cpu-percent')}%" if call.number("cpu-percent") > 0 else "")
    metrics = [
        build_metric(name, text) for name, text in (("cpu", cpu), ("memory", call.text("memory"))) if text
    ]
    selection = await find(session, call.arguments, allow_all=False, if_none="no objects passed to autoscale")
    # kubectl's own words
    operation = "created" if dry_run_of(call, session.warn) == "client" else "autoscaled"

    async def do(info: Info) -> None:
        if not info.scales:
            resource = info.resource
            raise KubectlError(
                f"cannot autoscale a {resource.kind}: could not find scale subresource for {resource.api_version},"
                f" Resource={resource.plural} in discovery information"
            )
        made = build_autoscaler(
            info.document, name=call.text("name"), least=least, most=most, metrics=metrics
        )
        _annotate(session, made)
        shown = {**made, "status": {"currentMetrics": None, "desiredReplicas": 0}}
        await create_and_show(
            session,
            HORIZONTAL_POD_AUTOSCALERS,
            info.namespace,
            made,
            shown=shown,
            operation=operation,
            manager="kubectl-autoscale",
        )

    return await run_for_each(selection, do)


async def create_and_show(
    session: Session,
    resource: Resource,
    namespace: str,
    document: Document,
    *,
    operation: str,
    manager: str,
    shown: Document | None = None,
) -> Info:
    """Create an object, as a dry run with `--dry-run`, and print it. `shown`: object that a dry run on the client
    prints.
    """
    dry_run = dry_run_of(session.call, session.warn)
    if session.is_namespace_given and resource.namespaced:
        document = _in_namespace(document, namespace)
        shown = _in_namespace(shown, namespace) if shown else None
    stored = shown or document
    if dry_run != "client":
        client = await session.make_client()
        raw = await client.create(
            resource,
            namespace,
            document,
            dry_run=dry_run == "server",
            field_manager=session.read_field_manager(manager),
        )
        stored = orjson.loads(raw)
    info = Info(
        resource=resource, namespace=namespace, name=str(document["metadata"]["name"]), document=stored
    )
    session.write(printer_of(session.call, dry_run=dry_run).format_object(info, operation))
    return info


def _in_namespace(document: Document, namespace: str) -> Document:
    name, rest = document["metadata"]["name"], document["metadata"]
    return {**document, "metadata": {"name": name, "namespace": namespace, **rest}}


# ── expose ───────────────────────────────────────────────────────────────────


def ports_of(document: Document) -> list[tuple[int, str]]:
    """Ports of the containers, or of a Service, with their protocols."""
    if document.get("kind") == "Service":
        return [(port["port"], port.get("protocol") or "TCP") for port in document["spec"].get("ports") or ()]
    specs = [template["spec"] for template in templates_of(document)] or [document.get("spec") or {}]
    return [
        (port["containerPort"], port.get("protocol") or "TCP")
        for spec in specs
        for container in spec.get("containers") or ()
        for port in container.get("ports") or ()
    ]


def read_labels(document: Document) -> dict[str, str]:
    """Labels for the selector of a Service. Raises KubectlError."""
    kind = document.get("kind")
    if kind == "Pod":
        labels = document["metadata"].get("labels")
        if not labels:
            raise KubectlError(_NO_SELECTOR.format("the pod has no labels and cannot be exposed"))
        return dict(labels)
    own = document["spec"].get("selector")
    if kind in ("Service", "ReplicationController"):
        if not own:
            raise KubectlError(_NO_SELECTOR.format(f"the {str(kind).lower()} has no pod selector set"))
        return dict(own)
    if not own or not own.get("matchLabels"):
        raise KubectlError(_NO_SELECTOR.format("invalid label selector: it has no matchLabels"))
    if own.get("matchExpressions"):
        raise KubectlError(
            _NO_SELECTOR.format(
                f"couldn't convert expressions - {own['matchExpressions']} to map-based selector format"
            )
        )
    return dict(own["matchLabels"])


_NO_SELECTOR: Final = "couldn't retrieve selectors via --selector flag or introspection: {}"


def build_service(document: Document, given: Mapping[str, str]) -> Document:
    """The Service that exposes an object. `given`: the given flags by name.

    Raises KubectlError.
    """
    meta = document["metadata"]
    selector = _parse_pairs(given["selector"]) if given.get("selector") else read_labels(document)
    labels = _parse_pairs(given["labels"]) if given.get("labels") else dict(meta.get("labels") or {})
    name = given.get("name") or str(meta["name"])[:63]
    spec: Document = {
        "ports": _build_service_ports(document, given),
        "selector": selector,
        **({"type": given["type"]} if given.get("type") else {}),
        **({"externalIPs": [given["external-ip"]]} if given.get("external-ip") else {}),
        **({"loadBalancerIP": given["load-balancer-ip"]} if given.get("load-balancer-ip") else {}),
        **({"clusterIP": given["cluster-ip"]} if given.get("cluster-ip") else {}),
        **({"sessionAffinity": given["session-affinity"]} if given.get("session-affinity") else {}),
    }
    if not spec["ports"]:
        del spec["ports"]
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "spec": spec,
    }


def _parse_pairs(text: str) -> dict[str, str]:
    pairs = {}
    for part in filter(None, text.split(",")):
        name, sign, value = part.partition("=")
        if not sign:
            raise KubectlError(f"unexpected label spec: {part}")
        pairs[name.strip()] = value.strip()
    return pairs


def _build_service_ports(document: Document, given: Mapping[str, str]) -> list[Document]:
    known: dict[int, list[str]] = {}
    for port, protocol in dict.fromkeys(ports_of(document)):
        known.setdefault(port, []).append(protocol)
    text = given.get("port") or ",".join(str(port) for port in known)
    if not text:
        if given.get("cluster-ip") == "None":
            return []
        raise KubectlError("couldn't find port via --port flag or introspection")
    numbers = [part for part in text.split(",") if part]
    if not all(re.fullmatch(r"[0-9]+", text) and 0 < int(text) < 65536 for text in numbers):
        raise KubectlError(f"invalid port: {text}")
    made = []
    for count, number in enumerate(numbers, start=1):
        port = int(number)
        target = given.get("target-port") or given.get("container-port") or number
        protocols = [given["protocol"]] if given.get("protocol") else known.get(port, ["TCP"])
        for protocol in protocols:
            name = f"port-{count}" if len(numbers) > 1 else ""
            if len(protocols) > 1:
                name = f"port-{count}-{protocol.lower()}"
            made.append(
                {
                    **({"name": name} if name else {}),
                    "protocol": protocol,
                    "port": port,
                    "targetPort": int(target) if target.isdecimal() else target,
                }
            )
    return made


_EXPOSE_FLAGS: Final = (
    "name", "port", "target-port", "container-port", "protocol", "type", "selector", "labels", "external-ip",
    "load-balancer-ip", "cluster-ip", "session-affinity",
)  # fmt: skip


async def expose(session: Session) -> list[Error]:
    """`expose (-f FILE | TYPE NAME) [--port=…]`."""
    call = session.call
    generator = call.text("generator")
    if generator not in ("", "service/v1", "service/v2"):
        raise KubectlError(f"generator {generator!r} not found")
    # --selector is the selector of the Service
    selection = await find(session, call.arguments, allow_all=False, selector="")
    given = {name: call.text(name) for name in _EXPOSE_FLAGS if call.text(name)}

    async def do(info: Info) -> None:
        kind = shown_of(info.document)
        if kind is None or not kind.verbs.exposes:
            group = group_of(info.document)
            raise KubectlError(f"cannot expose a {info.document.get('kind')}{f'.{group}' if group else ''}")
        made = build_service(info.document, given)
        if text := call.text("overrides"):
            made = override_service(made, text, call.text("override-type"))
        _annotate(session, made)
        shown = {**made, "status": {"loadBalancer": {}}}
        await create_and_show(
            session,
            SERVICES,
            info.namespace,
            made,
            shown=shown,
            operation="exposed",
            manager="kubectl-expose",
        )

    return await run_for_each(selection, do)


def override_service(service: Document, text: str, patch_type: str) -> Document:
    """The Service after a patch of `--override-type`: json, merge or strategic. Raises KubectlError."""
    from pykruise.kube.patches.errors import PatchError
    from pykruise.kube.patches.json_patch import apply_json_patch
    from pykruise.kube.patches.schemas import find_definition
    from pykruise.kube.patches.strategic import apply_strategic_merge

    try:
        overrides: Any = orjson.loads(text)
    except ValueError as error:
        raise KubectlError(f"--overrides is not JSON: {error}") from error
    has_right_type = isinstance(overrides, list if patch_type == "json" else dict)
    if not has_right_type:
        raise KubectlError(f"--overrides is not a JSON {'list' if patch_type == 'json' else 'object'}")
    try:
        match patch_type:
            case "json":
                return apply_json_patch(service, overrides)
            case "merge":
                return apply_merge_patch(service, overrides)
            case "strategic":
                definition = find_definition(SERVICES) or ""
                return apply_strategic_merge(service, overrides, definition=definition)
    except PatchError as error:
        raise KubectlError(f"--overrides: {error}") from error
    raise KubectlError(f"invalid override type: {patch_type}")


def _annotate(session: Session, document: Document) -> None:
    """Store what `--record` and `--save-config` ask for in the annotations of an object to create."""
    if session.call.is_on("record"):
        put(document, ("metadata", "annotations", CHANGE_CAUSE), session.typed)
    if session.call.is_on("save-config") and dry_run_of(session.call, session.warn) != "client":
        put_last_applied(document)


def put_last_applied(document: Document) -> None:
    """Store the document in the annotation that `kubectl apply` compares with."""
    from pykruise.kube.values.go_text import encode_go_json

    text = encode_go_json(document, sort_keys=True) + "\n"
    annotations = document["metadata"].setdefault("annotations", {})
    annotations[LAST_APPLIED] = text
