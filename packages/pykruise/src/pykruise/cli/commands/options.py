"""Options that several commands share."""

from pathlib import Path

import click

from pykruise.kube.schemas.releases import MINORS, NEWEST_MINOR

PATH: click.Path = click.Path(path_type=Path)

kubeconfig = click.option(
    "--kubeconfig",
    type=PATH,
    help="Kubeconfig of the cluster (default: $KUBECONFIG, the pod's account, or ~/.kube/config).",
)
context = click.option(
    "--context",
    help="Context of the kubeconfig. explain, plan, simulate, mcp and doctor also take kubectl's other global flags.",
)
namespace = click.option("--namespace", "-n", help="Namespace (default: the context's).")
manager_namespace = click.option(
    "--namespace", "-n", default="kruise-system", help="Namespace of the manager."
)
feature_gates = click.option(
    "--feature-gates",
    default="",
    help="Feature gates: A=true,B=false (default: the gates of the cluster's manager).",
)
kubernetes = click.option(
    "--kubernetes",
    type=click.Choice(MINORS),
    default=NEWEST_MINOR,
    show_default=True,
    metavar="MINOR",
    help=f"Kubernetes version to simulate, with its fields, defaults and rules; {MINORS[0]} to {NEWEST_MINOR}.",
)
cluster_minor = click.option(
    "--kubernetes",
    type=click.Choice(MINORS),
    default=NEWEST_MINOR,
    show_default=True,
    metavar="MINOR",
    help="The cluster's Kubernetes version: objects that it does not support are left out.",
)
output = click.option("--output", "-o", default="text", help="Format of the output: text, json or yaml.")
failures = click.option(
    "--failures", type=PATH, help="File with rules for simulated failures (docs/sandbox.md)."
)
stored_version = click.option(
    "--stored-version",
    type=click.Choice(["v1alpha1", "v1beta1"]),
    default="v1beta1",
    help="Storage version of the CRDs; OpenKruise up to 1.8 stores v1alpha1.",
)
