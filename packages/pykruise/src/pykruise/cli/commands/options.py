"""Options that several commands share."""

from pathlib import Path

import click

from pykruise.kube.schemas.releases import MINORS, NEWEST_MINOR

PATH: click.Path = click.Path(path_type=Path)

kubeconfig = click.option(
    "--kubeconfig", type=PATH, help="Which cluster (default: $KUBECONFIG, in-cluster, ~/.kube/config)."
)
context = click.option(
    "--context",
    help="Context of the kubeconfig. Where a cluster is asked, kubectl's other global flags work too.",
)
namespace = click.option("--namespace", "-n", help="Default: the context's.")
manager_namespace = click.option("--namespace", "-n", default="kruise-system", help="Where the manager runs.")
feature_gates = click.option(
    "--feature-gates",
    default="",
    help="A=true,B=false. Default: those that the cluster's manager runs with.",
)
kubernetes = click.option(
    "--kubernetes",
    type=click.Choice(MINORS),
    default=NEWEST_MINOR,
    show_default=True,
    metavar="MINOR",
    help=f"The Kubernetes that is played: its fields, defaults and rules; {MINORS[0]} to {NEWEST_MINOR}.",
)
cluster_minor = click.option(
    "--kubernetes",
    type=click.Choice(MINORS),
    default=NEWEST_MINOR,
    show_default=True,
    metavar="MINOR",
    help="The cluster's Kubernetes: what its API servers do not have is left out.",
)
output = click.option("--output", "-o", default="text", help="text, json or yaml.")
failures = click.option(
    "--failures", type=PATH, help="Failures to act out, as rules in YAML (docs/sandbox.md)."
)
stored_version = click.option(
    "--stored-version",
    type=click.Choice(["v1alpha1", "v1beta1"]),
    default="v1beta1",
    help="In which version definitions store objects; v1alpha1: as OpenKruise up to 1.8 does.",
)
