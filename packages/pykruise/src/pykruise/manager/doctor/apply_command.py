"""Command that applies the manifests of an installation again, with the options that the installation has.

Deployment, DaemonSet, CRDs, /version ──▶ find_apply_command() ──▶ remedy in findings

`pykruise install` without these options would change the installation: move it to another namespace, switch gates off,
or use images that no node can pull.
"""

import shlex
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from pykruise.kinds import HUB_STORED, RELEASED_STORED, find_stored_version, list_kinds
from pykruise.kinds.gates import GateError
from pykruise.kube.documents import Document, annotations_of, get_path, labels_of
from pykruise.kube.errors import KubeError
from pykruise.kube.program.flags import FlagError, read_texts
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS, POD_DISRUPTION_BUDGETS
from pykruise.kube.schemas.releases import MINORS, minor_of
from pykruise.kube.version import REGISTRY
from pykruise.manager.daemon import DAEMON, has_admission_policies
from pykruise.manager.doctor.live import APPLY, Live, find_manager_container, list_arguments, read_settings
from pykruise.manager.flags import list_all_flags
from pykruise.manager.install import (
    DAEMON_NAME,
    MANAGER,
    MANAGER_NAME,
    RUNS_IN,
    Installation,
    build_manifests,
    image_of,
)
from pykruise.manager.replacement import find_mounts, find_replacement, find_socket_file, list_lost_flags

__all__ = ["find_apply_command", "format_apply_command"]

_DEFAULTS: Final = Installation()
_OPENKRUISE: Final = "openkruise/"
"""Part of the names of OpenKruise's images."""


async def find_apply_command(live: Live) -> str:
    """Return the command for this installation; APPLY if its options are not known."""
    try:
        deployment = await live.read_deployment()
        daemon_set = await live.get(DAEMON_SETS, live.namespace, DAEMON)
        budget = await live.get(POD_DISRUPTION_BUDGETS, live.namespace, MANAGER)
        layouts = await _read_layouts(live)
        minor = minor_of(await live.read_path("/version"))
    except KubeError:
        return APPLY
    if deployment is None or RUNS_IN in annotations_of(deployment) or len(layouts) > 1:
        return APPLY
    layout = next(iter(layouts), _DEFAULTS.layout)
    try:
        return format_apply_command(
            deployment,
            daemon_set,
            namespace=live.namespace,
            has_budget=budget is not None,
            layout=layout,
            minor=minor,
        )
    except (FlagError, GateError):
        return APPLY


async def _read_layouts(live: Live) -> set[str]:
    """Return the values of --stored-version that the cluster's CRDs have: one, or two during `storage move`."""
    layouts = set()
    for kind in list_kinds():
        versions = {find_stored_version(kind, layout): layout for layout in (HUB_STORED, RELEASED_STORED)}
        if kind.conversion is None or len(versions) == 1:
            continue
        name = f"{kind.resource.plural}.{kind.resource.group}"
        crd = await live.get(CUSTOM_RESOURCE_DEFINITIONS, "", name) or {}
        stored = (
            version["name"]
            for version in get_path(crd, "spec", "versions", default=[])
            if version.get("storage")
        )
        layouts |= {versions[version] for version in stored if version in versions}
    return layouts


def format_apply_command(
    deployment: Document,
    daemon_set: Document | None,
    *,
    namespace: str,
    has_budget: bool,
    layout: str,
    minor: str,
) -> str:
    """Return the command for an installation with this Deployment and DaemonSet. `has_budget`: whether it has its
    PodDisruptionBudget. `layout`: value of --stored-version that its CRDs have. `minor`: version of the cluster's
    Kubernetes. Raises FlagError or GateError. Pure.
    """
    if _OPENKRUISE in str(find_manager_container(deployment).get("image")):
        return APPLY
    if helm := _format_helm_command(deployment):
        return helm
    wanted = msgspec.structs.replace(
        _read_installation(deployment, daemon_set, namespace=namespace),
        has_disruption_budget=has_budget,
        layout=layout,
        minor=minor,
    )
    command = shlex.join(["pykruise", "install", *_list_options(wanted)])
    replacement = find_replacement(build_manifests(wanted))
    assert replacement is not None
    lost = list_lost_flags(find_manager_container(deployment), find_manager_container(replacement.deployment))
    flags = " ".join(f"--{flag.name}={flag.text}" for flag in lost)
    rest = f", then write {flags} into the args of the Deployment again" if flags else ""
    return f"{command} | kubectl apply --server-side -f -{rest}"


def _format_helm_command(deployment: Document) -> str:
    """Return the command for a release of Helm; empty if the Deployment is not from Helm, or kubectl has applied it."""
    annotations = annotations_of(deployment)
    release = annotations.get("meta.helm.sh/release-name", "")
    writers: list[Document] = deployment["metadata"].get("managedFields") or []
    is_applied = any(
        writer.get("operation") == "Apply" and str(writer.get("manager")).startswith("kubectl")
        for writer in writers
    )
    if not release or is_applied or labels_of(deployment).get("app.kubernetes.io/managed-by") != "Helm":
        return ""
    namespace = annotations.get("meta.helm.sh/release-namespace", "default")
    command = ["helm", "upgrade", release, "CHART", "--namespace", namespace, "--reset-then-reuse-values"]
    return f"{shlex.join(command)}, where CHART is pykruise's chart"


def _read_installation(deployment: Document, daemon_set: Document | None, *, namespace: str) -> Installation:
    container = find_manager_container(deployment)
    settings = read_settings(deployment, namespace)
    given = read_texts(list_arguments(container), {flag.name: flag for flag in list_all_flags()})
    pod: dict[str, Any] = get_path(deployment, "spec", "template", "spec", default={})
    agents = get_path(daemon_set or {}, "spec", "template", "spec", "containers", default=[])
    return Installation(
        namespace=namespace,
        has_crds=False,  # the comparison does not need them
        replicas=get_path(deployment, "spec", "replicas", default=1) or _DEFAULTS.replicas,
        image=str(container.get("image")),
        daemon_image=next((agent["image"] for agent in agents if agent.get("image")), ""),
        socket_location=find_mounts(daemon_set or {}).get("", ""),
        socket_file=find_socket_file(daemon_set or {}),
        gates=settings.gates,
        feature_gates=",".join(text for text in given.get("feature-gates", ()) if text),
        webhook_port=settings.webhook.port,
        state_metrics=settings.serving.state,
        verbosity=settings.log.verbosity,
        shards=settings.election.shards,
        client_authority=next(
            (
                get_path(volume, "configMap", "name", default="")
                for volume in pod.get("volumes") or ()
                if volume.get("name") == "webhook-clients"
            ),
            "",
        ),
    )


def _list_options(wanted: Installation) -> Iterator[str]:
    """Yield the options of `pykruise install` that differ from the defaults."""
    yield from _list_image_options(wanted)
    options = {
        "--namespace": (wanted.namespace, _DEFAULTS.namespace),
        "--replicas": (wanted.replicas, _DEFAULTS.replicas),
        "--shards": (wanted.shards, _DEFAULTS.shards),
        "--feature-gates": (wanted.feature_gates, _DEFAULTS.feature_gates),
        "--v": (wanted.verbosity, _DEFAULTS.verbosity),
        "--socket-location": (wanted.socket_location, _DEFAULTS.socket_location),
        "--socket-file": (wanted.socket_file, _DEFAULTS.socket_file),
        "--webhook-port": (wanted.webhook_port, _DEFAULTS.webhook_port),
        "--client-ca": (wanted.client_authority, _DEFAULTS.client_authority),
        "--stored-version": (wanted.layout, _DEFAULTS.layout),
    }
    for name, (value, default) in options.items():
        if value != default:
            yield f"{name}={value}"
    if wanted.state_metrics:
        yield "--state-metrics"
    if wanted.replicas > 1 and not wanted.has_disruption_budget:
        yield "--no-disruption-budget"
    if wanted.minor in MINORS and not has_admission_policies(wanted.minor):
        yield f"--kubernetes={wanted.minor}"


def _list_image_options(wanted: Installation) -> Iterator[str]:
    """Yield the option --registry for images of this version, or the options with the names of other images."""
    registry, slash, _ = wanted.image.rpartition(f"/{MANAGER_NAME}:")
    daemon_image = wanted.daemon_image or image_of(DAEMON_NAME, registry)
    if slash and (wanted.image, daemon_image) == (
        image_of(MANAGER_NAME, registry),
        image_of(DAEMON_NAME, registry),
    ):
        if registry != REGISTRY:
            yield f"--registry={registry}"
        return
    yield f"--image={wanted.image}"
    if wanted.daemon_image:
        yield f"--daemon-image={wanted.daemon_image}"
