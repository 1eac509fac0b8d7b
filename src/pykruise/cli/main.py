"""The `pykruise` command: what each word does, and how errors reach a person.

argv ──▶ typer ──▶ one module per command ──▶ exit code

Every expected error (a port in use, a kubeconfig that cannot be read, an API server that refuses) is one line
on standard error that says what, where and what to do, and exit code 1. Tracebacks are for bugs.
"""

import asyncio
import logging
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from pykruise import __version__
from pykruise.cli.errors import CommandError, one_line
from pykruise.kube.errors import KubeError

T = TypeVar("T")

app = typer.Typer(
    name="pykruise",
    help="OpenKruise's workloads for Kubernetes, in Python.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def up(
    nodes: Annotated[
        int | None,
        typer.Option(min=0, max=5000, help="Simulated nodes (default: 3, or those that are there already)."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 picks a free one.")] = 0,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Where to write the kubeconfig (default: a temporary file).")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep everything in this directory, for the next start (SQLite).")
    ] = None,
    load: Annotated[
        Path | None,
        typer.Option(help="Begin with the objects of this file, as `kubectl get -o yaml` gives them."),
    ] = None,
    failures: Annotated[
        Path | None, typer.Option(help="Failures to act out, as rules in YAML (docs/sandbox.md).")
    ] = None,
    rbac: Annotated[
        bool, typer.Option("--rbac", help="Let service accounts and other users do only what roles say.")
    ] = False,
    service_accounts: Annotated[
        bool,
        typer.Option("--service-accounts", help="Give pods a service account and a volume with its token."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what the controllers do.")] = False,
) -> None:
    """Start a cluster in this process, with the manager in it, and run until Ctrl-C."""
    from pykruise.cli.up import UpOptions, run_up

    _log(verbose)
    options = UpOptions(
        nodes=nodes,
        port=port,
        kubeconfig=kubeconfig,
        data_dir=data_dir,
        load=load,
        failures=failures,
        rbac=rbac,
        service_accounts=service_accounts,
    )
    _run(run_up(options))


@app.command()
def demo(
    step_timeout: Annotated[float, typer.Option(help="Seconds that each step may take.")] = 30.0,
    manifest: Annotated[
        Path | None, typer.Option("--file", "-f", help="A CloneSet to use instead of the built-in example.")
    ] = None,
) -> None:
    """Create a CloneSet in a fresh cluster, scale it up and down, update it, and show each step."""
    from pykruise.cli.demo import run_demo

    _log(False)
    _run(run_demo(step_timeout_s=step_timeout, manifest=manifest))


@app.command(
    # Flags are OpenKruise's, written as Go programs take them: manager/flags.py reads them.
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
def manager(context: typer.Context) -> None:
    """Run the controllers and webhooks against a cluster; `pykruise manager --help` lists the flags."""
    from pykruise.cli.manager import manager_command

    raise typer.Exit(manager_command(context.args))


@app.command()
def kubelets(
    nodes: Annotated[int, typer.Option(min=1, max=5000, help="How many nodes.")] = 3,
    pods_per_node: Annotated[int, typer.Option(min=1, help="How many pods each may run.")] = 110,
    prefix: Annotated[str, typer.Option(help="What their names begin with; numbers follow.")] = "node-",
    start: Annotated[float, typer.Option(min=0, help="Seconds until a container runs.")] = 0.5,
    ready: Annotated[float, typer.Option(min=0, help="Seconds from running to ready.")] = 0.0,
    stop: Annotated[float, typer.Option(min=0, help="Seconds that a pod takes to stop.")] = 1.0,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Which cluster (default: $KUBECONFIG, in-cluster, ~/.kube/config).")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    failures: Annotated[
        Path | None, typer.Option(help="Failures to act out, as rules in YAML (docs/sandbox.md).")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what they do.")] = False,
) -> None:
    """Run simulated nodes against a cluster that has none, until SIGTERM or Ctrl-C. For tests."""
    from pykruise.cli.kubelets import KubeletsOptions, run_kubelets

    _log(True, level=logging.INFO if verbose else logging.WARNING)
    options = KubeletsOptions(
        nodes=nodes,
        pods_per_node=pods_per_node,
        prefix=prefix,
        start_s=start,
        ready_s=ready,
        stop_s=stop,
        failures=failures,
    )
    _run(run_kubelets(options, kubeconfig=kubeconfig, context=context))


@app.command()
def install(
    namespace: Annotated[str, typer.Option(help="Where the manager runs.")] = "kruise-system",
    replicas: Annotated[int, typer.Option(min=1, help="Managers; one works, all answer webhooks.")] = 2,
    image: Annotated[str, typer.Option(help="The manager's image (default: of this version).")] = "",
    feature_gates: Annotated[str, typer.Option(help="A=true,B=false")] = "",
    v: Annotated[int, typer.Option("--v", min=0, help="Verbosity of the manager's log.")] = 4,
    webhook_host: Annotated[
        str, typer.Option(help="For managers outside the cluster: their WEBHOOK_HOST. Nothing runs inside.")
    ] = "",
    webhook_port: Annotated[
        int, typer.Option(min=1, max=65535, help="Where webhooks are answered: WEBHOOK_PORT.")
    ] = 9876,
) -> None:
    """Print everything a cluster needs, for `kubectl apply --server-side -f -`."""
    from pykruise.cli.install import install_text

    try:
        text = install_text(
            namespace=namespace,
            replicas=replicas,
            image=image,
            feature_gates=feature_gates,
            v=v,
            webhook_host=webhook_host,
            webhook_port=webhook_port,
        )
    except CommandError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(text, nl=False)


@app.command()
def doctor(
    namespace: Annotated[str, typer.Option(help="Where the manager runs.")] = "kruise-system",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Leave out what is fine.")] = False,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Which cluster (default: $KUBECONFIG, in-cluster, ~/.kube/config).")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
) -> None:
    """Say what is wrong with an installation, one line each with what to do. Changes nothing; 1: faults."""
    from pykruise.cli.doctor import run_doctor

    _log(False)
    _run(run_doctor(kubeconfig=kubeconfig, context=context, namespace=namespace, quiet=quiet))


@app.command()
def uninstall(
    check: Annotated[bool, typer.Option("--check", help="Say what would be lost; removes nothing.")] = False,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Which cluster (default: $KUBECONFIG, in-cluster, ~/.kube/config).")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
) -> None:
    """Say what a cluster would lose with OpenKruise's kinds. Exit code 1 when that is anything."""
    from pykruise.cli.install import check_uninstall

    if not check:
        typer.echo(
            "error: this command removes nothing; look first: pykruise uninstall --check,"
            " then: pykruise install | kubectl delete -f -",
            err=True,
        )
        raise typer.Exit(2)
    _log(False)
    _run(check_uninstall(kubeconfig=kubeconfig, context=context))


@app.command()
def crds() -> None:
    """Print the custom resource definitions, ready for `kubectl apply -f -`."""
    from pykruise.cli.manager import crd_manifests

    typer.echo(crd_manifests(), nl=False)


Kubeconfig = Annotated[
    Path | None, typer.Option(help="Which cluster (default: $KUBECONFIG, in-cluster, ~/.kube/config).")
]
Namespace = Annotated[str | None, typer.Option("--namespace", "-n", help="Default: the context's.")]
FeatureGates = Annotated[
    str,
    typer.Option(help="Gates that the cluster's manager runs with: A=true,B=false. Default: the defaults."),
]
Output = Annotated[str, typer.Option("--output", "-o", help="text or json.")]


@app.command()
def explain(
    target: Annotated[str, typer.Argument(help="Kind and name: clonesets/web.")],
    namespace: Namespace = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until the rollout is done.")] = False,
    output: Output = "text",
    kubeconfig: Kubeconfig = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    feature_gates: FeatureGates = "",
) -> None:
    """Say what a rollout does now, what it waits for, and what can be done about it. Reads only."""
    from pykruise.cli.explain import run_explain

    _log(False)
    _run(
        run_explain(
            target,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            watch=watch,
            output=output,
            feature_gates=feature_gates,
            say=typer.echo,
        )
    )


@app.command()
def plan(
    target: Annotated[
        str | None, typer.Argument(help="Without -f: the live object to change with --set, clonesets/web.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Manifests as they would be applied; - reads stdin.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", help="image=CONTAINER=IMAGE, replicas=N, partition=N, maxUnavailable=N, …"),
    ] = None,
    namespace: Namespace = None,
    output: Output = "text",
    kubeconfig: Kubeconfig = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    feature_gates: FeatureGates = "",
) -> None:
    """Say what would happen if this were applied: exit code 0 nothing, 2 changes, 1 error. Reads only."""
    from pykruise.cli.plan import run_plan

    _log(False)
    code = _run(
        run_plan(
            file=file,
            target=target,
            sets=sets or (),
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            output=output,
            feature_gates=feature_gates,
            say=typer.echo,
        )
    )
    raise typer.Exit(code or 0)


@app.command()
def simulate(
    file: Annotated[Path, typer.Option("--file", "-f", help="The workload as it is now.")],
    change: Annotated[
        list[Path] | None, typer.Option(help="The workload as it is to be; twice compares two strategies.")
    ] = None,
    pods_ready_after: Annotated[
        str, typer.Option(help="How long a pod takes to become ready: 10s, or 5s..30s.")
    ] = "2s",
    fail_pod: Annotated[str, typer.Option(help="Share of new pods that never become ready: 3%.")] = "0%",
    drain: Annotated[
        list[str] | None, typer.Option(help="Drain a node that long after the change: node-1@60s.")
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, max=1000, help="Nodes, named node-1 and on.")] = 3,
    seed: Annotated[int, typer.Option(help="Another seed: other delays, other pods that fail.")] = 1,
    svg: Annotated[Path | None, typer.Option(help="Where to write a chart to (SVG).")] = None,
    output: Output = "text",
) -> None:
    """Play a rollout in virtual time and show how it goes. Needs no cluster."""
    from pykruise.cli.simulate import Conditions, run_simulate

    _log(False)
    conditions = Conditions(
        pods_ready_after=pods_ready_after, fail_pod=fail_pod, drain=drain or (), nodes=nodes, seed=seed
    )
    _run(
        run_simulate(
            file, changes=change or (), conditions=conditions, svg=svg, output=output, say=typer.echo
        )
    )


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Entry point of the `pykruise` script."""
    app()


def _log(enabled: bool, *, level: int = logging.INFO) -> None:
    logging.basicConfig(
        level=level if enabled else logging.ERROR,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )


def _run(command: Coroutine[Any, Any, T]) -> T:
    """Run a command on uvloop; returns what it returns. Expected errors become one line on standard error
    and exit code 1."""
    import uvloop

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(command)
    except (CommandError, KubeError, OSError) as error:
        typer.echo(f"error: {one_line(error)}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
