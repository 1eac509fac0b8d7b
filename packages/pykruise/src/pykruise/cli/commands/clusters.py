"""Commands `pykruise up`, `demo`, `manager` and `kubelets`: programs that run until they are stopped, and the demo.

options ──▶ the command's own module, imported when it is called ──▶ exit code
"""

import logging
from pathlib import Path

import click

from pykruise.cli.commands import options, words
from pykruise.cli.commands.running import run

_SECONDS = click.FloatRange(min=0)


@words.word(
    needs_sandbox=True,
    short_help="Start a cluster with the manager in it.",
    examples=(
        "up                         # a free port, a temporary kubeconfig",
        "up --nodes 10 --kubeconfig kubeconfig --data-dir state",
        "up --load backup.yaml --failures failures.yaml",
    ),
)
@options.kubernetes
@click.option(
    "--nodes",
    type=click.IntRange(0, 5000),
    help="Number of simulated nodes (default: 3, or the number of stored or loaded nodes).",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1; 0 picks a free one."
)
@click.option(
    "--kubeconfig", type=options.PATH, help="File to write the kubeconfig to (default: a temporary file)."
)
@click.option(
    "--data-dir", type=options.PATH, help="Store everything in this directory, for the next start (SQLite)."
)
@click.option(
    "--load",
    type=options.PATH,
    help="Load the objects of this file at the start; its format is that of `kubectl get -o yaml`.",
)
@options.failures
@click.option("--rbac", is_flag=True, help="Enforce roles (RBAC) for service accounts and other users.")
@click.option(
    "--service-accounts", is_flag=True, help="Give pods a service account and a volume with its token."
)
@click.option("--feature-gates", default="", help="Feature gates of the manager: A=true,B=false.")
@click.option(
    "--no-agent",
    is_flag=True,
    help="Do not simulate the node agent, which pulls images ahead, recreates containers and probes pods.",
)
@click.option("--verbose", "-v", is_flag=True, help="Log the actions of the controllers.")
def up(
    kubernetes: str,
    nodes: int | None,
    port: int,
    kubeconfig: Path | None,
    data_dir: Path | None,
    load: Path | None,
    failures: Path | None,
    rbac: bool,
    service_accounts: bool,
    feature_gates: str,
    no_agent: bool,
    verbose: bool,
) -> None:
    """Start a cluster in this process, with the manager in it, and run until Ctrl-C."""
    from pykruise.cli.up import UpOptions, run_up

    wanted = UpOptions(
        kubernetes=kubernetes,
        nodes=nodes,
        port=port,
        kubeconfig=kubeconfig,
        data_dir=data_dir,
        load=load,
        failures=failures,
        rbac=rbac,
        service_accounts=service_accounts,
        feature_gates=feature_gates,
        has_agents=not no_agent,
    )
    run(run_up(wanted), level=logging.INFO if verbose else logging.ERROR)


@words.word(
    needs_sandbox=True,
    short_help="Show a CloneSet being created, scaled and updated.",
    examples=(
        "demo",
        "demo -f examples/cloneset-canary.yaml",
    ),
)
@click.option("--step-timeout", type=float, default=30.0, help="Time limit of each step in seconds.")
@click.option(
    "--file",
    "-f",
    "manifest",
    type=options.PATH,
    help="Manifest of a CloneSet that replaces the built-in example.",
)
def demo(step_timeout: float, manifest: Path | None) -> None:
    """Create a CloneSet in a fresh cluster, scale it up and down, update it, and show each step."""
    from pykruise.cli.demo import run_demo

    run(run_demo(step_timeout_s=step_timeout, manifest=manifest))


@words.word(
    short_help="Run the controllers and webhooks.",
    # Flags are OpenKruise's, in the syntax of Go programs: manager/flags.py parses them.
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
    examples=("manager --enable-leader-election=false --enable-webhooks=false",),
)
@click.pass_context
def manager(context: click.Context) -> None:
    """Run the controllers and webhooks against a cluster; `pykruise manager --help` lists the flags."""
    from pykruise.cli.manager import run_manager_command

    context.exit(run_manager_command(context.args))


@words.word(
    needs_sandbox=True,
    short_help="Run simulated nodes against a cluster.",
    examples=(
        "kubelets --nodes 100 --kubeconfig kubeconfig",
        "kubelets --start 2 --ready 5 --failures failures.yaml",
    ),
)
@click.option("--nodes", type=click.IntRange(1, 5000), default=3, help="Number of nodes.")
@click.option(
    "--pods-per-node", type=click.IntRange(min=1), default=110, help="Maximum number of pods of a node."
)
@click.option("--prefix", default="node-", help="Prefix of the names of the nodes; a number follows.")
@click.option("--start", type=_SECONDS, default=0.5, help="Seconds until a container runs.")
@click.option(
    "--ready",
    type=_SECONDS,
    default=0.0,
    help="Seconds from the time when a container runs until it is ready.",
)
@click.option("--stop", type=_SECONDS, default=1.0, help="Seconds that a pod takes to stop.")
@click.option("--volumes", is_flag=True, help="Provision a simulated volume for each PVC.")
@click.option("--agent", is_flag=True, help="Simulate all tasks of the node agent, not only image pulls.")
@click.option("--events", is_flag=True, help="Write an event when a container starts, as kubelets do.")
@options.kubeconfig
@options.context
@options.failures
@click.option("--verbose", "-v", is_flag=True, help="Log the actions of the nodes.")
def kubelets(
    nodes: int,
    pods_per_node: int,
    prefix: str,
    start: float,
    ready: float,
    stop: float,
    volumes: bool,
    agent: bool,
    events: bool,
    kubeconfig: Path | None,
    context: str | None,
    failures: Path | None,
    verbose: bool,
) -> None:
    """Run simulated nodes against a cluster that has none, until SIGTERM or Ctrl-C. For tests."""
    from pykruise.cli.kubelets import KubeletsOptions, run_kubelets

    wanted = KubeletsOptions(
        nodes=nodes,
        pods_per_node=pods_per_node,
        prefix=prefix,
        start_s=start,
        ready_s=ready,
        stop_s=stop,
        has_volumes=volumes,
        has_agents=agent,
        has_events=events,
        failures=failures,
    )
    run(
        run_kubelets(wanted, kubeconfig=kubeconfig, context=context),
        level=logging.INFO if verbose else logging.WARNING,
    )
