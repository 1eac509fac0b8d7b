"""Commands `pykruise install`, which prints all manifests, and `pykruise uninstall --check`, which lists the objects
that a deletion of OpenKruise's CRDs would delete.
"""

from collections.abc import Sequence
from ipaddress import IPv6Network, ip_network
from pathlib import Path
from typing import Final

import click

from pykruise.cli.errors import CommandError, CommandLineError
from pykruise.kinds import HUB_STORED, use_stored_versions
from pykruise.kinds.gates import GateError, parse
from pykruise.kube.client.client import Client
from pykruise.kube.config.kubeconfig import load
from pykruise.kube.errors import ApiError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.schemas.releases import NEWEST_MINOR
from pykruise.kube.version import REGISTRY
from pykruise.kube.yaml_documents import format_yaml_stream
from pykruise.manager.daemon import POLICIES_SINCE, has_admission_policies
from pykruise.manager.install import DAEMON_NAME, MANAGER_NAME, Installation, build_manifests, image_of
from pykruise.manager.uninstall import Loss, find_foreign_objects, find_losses

UNPUBLISHED: Final = (
    "no image of this version is published, so nodes cannot pull the images of these manifests. Build the images with"
    " `make image`, push them to your registry, and use --registry registry.example.com/team"
)
NO_POLICIES: Final = (
    f"Kubernetes before {POLICIES_SINCE} has no ValidatingAdmissionPolicy, so the policy that restricts each agent to"
    " its own node is left out"
)
SHOWN = 5
"""Maximum number of objects that a line names. The line only counts the other objects."""


def install_text(
    *,
    namespace: str,
    replicas: int,
    shards: int = 1,
    image: str,
    registry: str = "",
    feature_gates: str,
    v: int,
    daemon_image: str = "",
    socket_location: str = "",
    socket_file: str = "",
    webhook_host: str = "",
    webhook_port: int = 9876,
    api_servers: tuple[str, ...] = (),
    metrics_from: tuple[str, ...] = (),
    egress_to: tuple[str, ...] = (),
    client_authority: str = "",
    state_metrics: bool = False,
    create_namespace: bool = True,
    has_crds: bool = True,
    has_disruption_budget: bool = True,
    stored_version: str = HUB_STORED,
    minor: str = NEWEST_MINOR,
) -> str:
    """The manifests as YAML. Raises CommandError for invalid gates or addresses."""
    api_servers = _parse_ranges("--api-server", api_servers)
    metrics_from = _parse_ranges("--metrics-from", metrics_from)
    egress_to = _parse_ranges("--egress-to", egress_to)
    try:
        gates = parse([feature_gates])
    except GateError as error:
        raise CommandLineError(str(error)) from error
    for note in gates.notes:
        click.echo(f"note: {note}", err=True)
    has_images = bool(registry or REGISTRY or (image and (daemon_image or not gates["KruiseDaemon"])))
    if not has_images and not webhook_host:
        click.echo(f"note: {UNPUBLISHED}", err=True)
    if not has_admission_policies(minor):
        click.echo(f"note: {NO_POLICIES}", err=True)
    wanted = Installation(
        namespace=namespace,
        replicas=replicas,
        shards=shards,
        image=image or image_of(MANAGER_NAME, registry),
        daemon_image=daemon_image or image_of(DAEMON_NAME, registry),
        socket_location=socket_location,
        socket_file=socket_file,
        gates=gates,
        feature_gates=feature_gates,
        verbosity=v,
        webhook_host=webhook_host,
        webhook_port=webhook_port,
        api_servers=api_servers,
        metrics_from=metrics_from,
        egress_to=egress_to,
        client_authority=client_authority,
        state_metrics=state_metrics,
        create_namespace=create_namespace,
        has_crds=has_crds,
        has_disruption_budget=has_disruption_budget,
        layout=stored_version,
        minor=minor,
    )
    return format_yaml_stream(build_manifests(wanted))


def _parse_ranges(flag: str, addresses: Sequence[str]) -> tuple[str, ...]:
    """Return the ranges in the form that API servers accept: `10.0.0.5/32` for 10.0.0.5, and `10.0.0.0/24` for
    10.0.0.0/255.255.255.0. Raises CommandLineError.
    """
    try:
        ranges = [ip_network(address) for address in addresses]
    except ValueError as error:
        raise CommandLineError(
            f"{flag}: {error}; write a range such as 10.0.0.0/24 or 10.0.0.5/32"
        ) from error
    for each in ranges:
        if isinstance(each, IPv6Network) and each.network_address.scope_id:
            raise CommandLineError(f"{flag}: {each} has a zone; write a range such as fd00::/64")
    return tuple(map(str, ranges))


async def check_uninstall(*, namespace: str, kubeconfig: Path | None, context: str | None) -> None:
    """Print the objects that would be lost. `namespace`: the manager's namespace; empty: it is not checked, because it
    will not be deleted. Raises CommandError when there are any, or when the cluster cannot be read.
    """
    transport = HttpTransport(await load(kubeconfig, context=context))
    try:
        client = Client(use_stored_versions(transport))
        losses = await find_losses(client)
        foreign = await find_foreign_objects(client, namespace) if namespace else ()
    except ApiError as error:
        raise CommandError(f"what would be lost is unknown: {error}") from error
    finally:
        await transport.close()
    if not losses and not foreign:
        click.echo("nothing would be lost: no object of OpenKruise's kinds is in the cluster")
        return
    for loss in (*losses, *foreign):
        click.echo(_format_loss(loss))
    problems = []
    if losses:
        kinds = ", ".join(loss.resource.plural for loss in losses)
        consequence = "deleting their CRDs deletes them, and the pods that they own"
        problems.append(f"there still exists some {kinds} in the cluster; {consequence}")
    if foreign:
        remedy = "to keep the namespace, use pykruise install --no-create-namespace"
        problems.append(f"objects of other programs are in namespace {namespace}; {remedy}")
    raise CommandError("; ".join(problems))


def _format_loss(loss: Loss) -> str:
    names = ", ".join(loss.objects[:SHOWN])
    more = f" and {len(loss.objects) - SHOWN} more" if len(loss.objects) > SHOWN else ""
    return f"{loss.resource}: {len(loss.objects)} ({names}{more})"
