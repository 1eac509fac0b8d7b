"""Commands `pykruise install`, `doctor`, `uninstall`, `crds` and `manifests`, which print and check the objects of an
installation.

options ──▶ the command's own module, imported when it is called ──▶ exit code
"""

from pathlib import Path

import click

from pykruise.cli.commands import options, words
from pykruise.cli.commands.running import reach, report_failure, report_misuse, run, say
from pykruise.cli.errors import CommandError, CommandLineError


@words.word(
    short_help="Print the manifests of an installation.",
    examples=(
        "install --registry registry.example.com/team | kubectl apply --server-side -f -",
        "install --image registry.example.com/manager:v1 --daemon-image registry.example.com/agent:v1",
        "install --feature-gates ImagePullJobGate=true,ResourceDistributionGate=true",
        "install --no-crds --replicas 3 --shards 2",
    ),
)
@options.manager_namespace
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    default=2,
    help="Number of managers; all serve webhooks, and one reconciles (with --shards: several).",
)
@click.option(
    "--shards",
    type=click.IntRange(1, 16),
    default=1,
    help="Number of managers that share the objects to reconcile.",
)
@click.option(
    "--registry",
    default="",
    metavar="HOST/PATH",
    help="Registry of this version's images (default: the registry where they are published).",
)
@click.option("--image", default="", help="Image of the manager, if it does not have the default name.")
@click.option("--daemon-image", default="", help="Image of the agents, if it does not have the default name.")
@click.option(
    "--socket-location",
    default="",
    help="Folder of the container runtime's socket on nodes (default: those of containerd and CRI-O, in /var/run).",
)
@click.option(
    "--socket-file",
    default="",
    help="Path of the socket in --socket-location, or in /var/run (default: agents try all known sockets).",
)
@click.option(
    "--feature-gates", default=None, help="Feature gates: A=true,B=false (default: ImagePullJobGate=true)"
)
@click.option("--v", type=click.IntRange(min=0), default=4, help="Verbosity of the logs.")
@click.option(
    "--webhook-host",
    default="",
    help="WEBHOOK_HOST of managers that run outside the cluster; the output then contains no manager.",
)
@click.option(
    "--webhook-port",
    type=click.IntRange(1, 65535),
    default=9876,
    help="Port of the webhooks: WEBHOOK_PORT.",
)
@click.option(
    "--api-server",
    "api_servers",
    metavar="CIDR",
    multiple=True,
    help="Addresses that send reviews: a NetworkPolicy lets no other address reach the webhooks.",
)
@click.option(
    "--metrics-from",
    metavar="CIDR",
    multiple=True,
    help="Addresses that read metrics: the NetworkPolicy lets no other address read them.",
)
@click.option(
    "--egress-to",
    metavar="CIDR",
    multiple=True,
    help="Addresses of API servers: the NetworkPolicy lets managers connect to no other address.",
)
@click.option(
    "--client-ca",
    "client_authority",
    metavar="CONFIGMAP",
    default="",
    help="ConfigMap with ca.crt: webhooks answer only clients with a certificate from this CA.",
)
@click.option(
    "--state-metrics",
    is_flag=True,
    help="Serve metrics about the state of each object, too.",
)
@click.option(
    "--create-namespace/--no-create-namespace",
    "create_namespace",
    default=True,
    help="Print the namespace of the managers, too; leave it out if it contains other objects.",
)
@click.option(
    "--crds/--no-crds",
    "has_crds",
    default=True,
    help="Print the CRDs, too; with --no-crds, the CRDs in the cluster stay unchanged.",
)
@click.option(
    "--disruption-budget/--no-disruption-budget",
    "has_disruption_budget",
    default=True,
    help="Print a PodDisruptionBudget of the managers, too; leave it out if another one covers them.",
)
@options.stored_version
@options.cluster_minor
def install(
    namespace: str,
    replicas: int,
    shards: int,
    registry: str,
    image: str,
    daemon_image: str,
    socket_location: str,
    socket_file: str,
    feature_gates: str | None,
    v: int,
    webhook_host: str,
    webhook_port: int,
    api_servers: tuple[str, ...],
    metrics_from: tuple[str, ...],
    egress_to: tuple[str, ...],
    client_authority: str,
    state_metrics: bool,
    create_namespace: bool,
    has_crds: bool,
    has_disruption_budget: bool,
    stored_version: str,
    kubernetes: str,
) -> None:
    """Print everything a cluster needs, for `kubectl apply --server-side -f -`."""
    from pykruise.cli.install import install_text
    from pykruise.manager.install import CHART_GATES

    try:
        text = install_text(
            namespace=namespace,
            replicas=replicas,
            shards=shards,
            registry=registry,
            image=image,
            daemon_image=daemon_image,
            socket_location=socket_location,
            socket_file=socket_file,
            feature_gates=CHART_GATES if feature_gates is None else feature_gates,
            v=v,
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
            stored_version=stored_version,
            minor=kubernetes,
        )
    except CommandLineError as error:
        raise report_misuse(str(error)) from None
    except CommandError as error:
        raise report_failure(str(error)) from None
    click.echo(text, nl=False)


@words.word(
    short_help="Report problems of an installation.",
    examples=(
        "doctor",
        "doctor --quiet -o json",
        "doctor --context production",
    ),
)
@options.manager_namespace
@click.option("--quiet", "-q", is_flag=True, help="Show problems only.")
@options.output
@options.kubeconfig
@options.context
def doctor(namespace: str, quiet: bool, output: str, kubeconfig: Path | None, context: str | None) -> None:
    """Report problems of an installation, one line each with the remedy. Changes nothing; exit code 1: faults."""
    from pykruise.cli.doctor import run_doctor

    run(
        run_doctor(
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
            quiet=quiet,
            output=output,
            say=say,
            reach=reach(),
        )
    )


@words.word(
    short_help="Show what an uninstallation would delete.",
    examples=("uninstall --check", "uninstall --check --namespace platform"),
)
@click.option("--check", is_flag=True, help="Show what would be lost, and remove nothing.")
@click.option(
    "--namespace",
    "-n",
    default="kruise-system",
    help="Namespace of the manager; empty if it will not be deleted.",
)
@options.kubeconfig
@options.context
def uninstall(check: bool, namespace: str, kubeconfig: Path | None, context: str | None) -> None:
    """Show the objects that a cluster would lose if OpenKruise's CRDs and the manager's namespace were deleted.

    Exit code 1 if there are any.
    """
    from pykruise.cli.install import check_uninstall

    if not check:
        place = "" if namespace in ("", "kruise-system") else f" --namespace {namespace}"
        raise report_failure(
            f"this command removes nothing; first check: pykruise uninstall --check{place},"
            f" then: pykruise install{place} | kubectl delete --ignore-not-found -f -"
        )
    run(check_uninstall(namespace=namespace, kubeconfig=kubeconfig, context=context))


@words.word(
    short_help="Print the custom resource definitions.",
    examples=(
        "crds",
        "crds --stored-version v1alpha1",
    ),
)
@options.stored_version
def crds(stored_version: str) -> None:
    """Print the custom resource definitions, ready for `kubectl apply --server-side -f -`.

    These definitions have no conversion webhook, because some managers do not serve it. `pykruise install` prints
    definitions with a conversion webhook.
    """
    from pykruise.cli.manager import format_crd_manifests

    click.echo(format_crd_manifests(layout=stored_version), nl=False)


@words.group(short_help="Print manifests for other tools that work with OpenKruise's kinds.")
def manifests() -> None:
    """Print manifests that other tools need to support OpenKruise's kinds."""


@manifests.command(
    short_help="Health and actions for Argo CD.",
    examples=("manifests argocd | kubectl apply --server-side -f -",),
)
@click.option("--namespace", default="argocd", help="Namespace of Argo CD.")
@click.option("--name", default="argocd-cm", help="Its ConfigMap.")
def argocd(namespace: str, name: str) -> None:
    """Print health and actions of every kind, for `kubectl apply --server-side -f -`.

    The ConfigMap has only the keys of these kinds: a server-side apply leaves all other keys unchanged.
    """
    from pykruise.manager.argocd import format_config_map

    click.echo(format_config_map(namespace=namespace, name=name), nl=False)


@manifests.command(
    short_help="PodMonitor and alerts for the Prometheus operator.",
    examples=("manifests prometheus --state | kubectl apply --server-side -f -",),
)
@options.manager_namespace
@click.option(
    "--state/--no-state",
    default=False,
    help="Whether the managers were installed with --state-metrics (default: no).",
)
@click.option(
    "--runbooks",
    default="",
    metavar="URL",
    help="URL of docs/monitoring.md, for the annotation runbook_url of the alerts. By default, the alerts have the "
    "annotation runbook with the path of the page.",
)
def prometheus(namespace: str, state: bool, runbooks: str) -> None:
    """Print a PodMonitor and a PrometheusRule."""
    from pykruise.manager.argocd import format_document
    from pykruise.manager.monitoring import build_pod_monitor, build_prometheus_rule

    if not state:
        click.echo(
            "note: the alerts about objects never fire without the managers' state metrics; install with"
            " --state-metrics, and use --state here",
            err=True,
        )
    documents = (
        build_pod_monitor(namespace=namespace, has_state=state),
        build_prometheus_rule(namespace=namespace, runbooks=runbooks),
    )
    click.echo("---\n".join(format_document(document) for document in documents), nl=False)


@manifests.command(
    short_help="A dashboard for Grafana.",
    examples=("manifests grafana --namespace monitoring | kubectl apply --server-side -f -",),
)
@options.manager_namespace
def grafana(namespace: str) -> None:
    """Print a ConfigMap with the dashboard, which Grafana's sidecar finds by its label."""
    from pykruise.manager.argocd import format_document
    from pykruise.manager.monitoring import build_board_config_map

    click.echo(format_document(build_board_config_map(namespace=namespace)), nl=False)


@manifests.command(
    short_help="Print the schema with which kustomize merges lists.",
    examples=("manifests kustomize-schema > kruise-schema.json",),
)
def kustomize_schema() -> None:
    """Print the file for the field `openapi` of a kustomization: patches then merge containers by name.

    The file contains Kubernetes' own kinds too, because it replaces kustomize's built-in schema.
    """
    import json

    from pykruise.manager.kustomize import build_openapi_document

    click.echo(json.dumps(build_openapi_document(), indent=1))


@manifests.command(
    short_help="Configuration of kube-state-metrics for OpenKruise's kinds.",
    examples=("manifests kube-state-metrics > custom-resource-state.yaml",),
)
def kube_state_metrics() -> None:
    """Print the file for the flag --custom-resource-state-config-file of kube-state-metrics.

    Its series have the same names as the series that the manager serves with --state-metrics.
    """
    from pykruise.manager.argocd import format_document
    from pykruise.manager.kube_state_metrics import build_custom_resource_state

    click.echo(format_document(build_custom_resource_state()), nl=False)


@manifests.command(
    short_help="Karmada's resource interpreters for OpenKruise's kinds.",
    examples=("manifests karmada | kubectl apply --server-side -f -",),
)
def karmada() -> None:
    """Print Karmada's ResourceInterpreterCustomizations of workloads, SidecarSets and PodUnavailableBudgets."""
    from pykruise.manager.argocd import format_document
    from pykruise.manager.karmada import build_interpreters

    click.echo("---\n".join(format_document(document) for document in build_interpreters()), nl=False)
