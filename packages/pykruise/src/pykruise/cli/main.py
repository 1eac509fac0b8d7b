"""The `pykruise` command: what each word does, and how errors reach a person.

argv ──▶ click ──▶ one module per command ──▶ exit code

Every expected error (a port in use, a kubeconfig that cannot be read, an API server that refuses) is one line
on standard error that says what, where and what to do, and exit code 1. Tracebacks are for bugs.

Most of what a short command costs is its start, so each command loads what it needs when it is called.
"""

import asyncio
import functools
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pykruise.cli.errors import CommandError, one_line
from pykruise.kube.errors import KubeError
from pykruise.kube.version import __version__

if TYPE_CHECKING:
    from pykruise.cli.insight.reach import Reach

T = TypeVar("T")

_PATH: click.Path = click.Path(path_type=Path)
_PORT = click.IntRange(0, 65535)
_SECONDS = click.FloatRange(min=0)

_kubeconfig = click.option(
    "--kubeconfig", type=_PATH, help="Which cluster (default: $KUBECONFIG, in-cluster, ~/.kube/config)."
)
_context = click.option(
    "--context",
    help="Context of the kubeconfig. Where a cluster is asked, kubectl's other global flags work too.",
)
_namespace = click.option("--namespace", "-n", help="Default: the context's.")
_manager_namespace = click.option(
    "--namespace", "-n", default="kruise-system", help="Where the manager runs."
)
_feature_gates = click.option(
    "--feature-gates",
    default="",
    help="A=true,B=false. Default: those that the cluster's manager runs with.",
)
_output = click.option("--output", "-o", default="text", help="text, json or yaml.")
_timeout = click.option("--timeout", default="0s", help="How long --watch goes on: 5m; 0s: until it is done.")
_failures = click.option(
    "--failures", type=_PATH, help="Failures to act out, as rules in YAML (docs/sandbox.md)."
)


@click.group(
    context_settings={
        "show_default": True,
        "max_content_width": 110,
        "help_option_names": ["-h", "--help"],
    }
)
@click.version_option(__version__, "--version", message="%(version)s")
def app() -> None:
    """OpenKruise's workloads for Kubernetes, in Python."""


@app.command(short_help="Start a cluster with the manager in it.")
@click.option(
    "--nodes",
    type=click.IntRange(0, 5000),
    help="Simulated nodes (default: 3, or those that are there already).",
)
@click.option("--port", type=_PORT, default=0, help="Port on 127.0.0.1; 0 picks a free one.")
@click.option("--kubeconfig", type=_PATH, help="Where to write the kubeconfig (default: a temporary file).")
@click.option(
    "--data-dir", type=_PATH, help="Keep everything in this directory, for the next start (SQLite)."
)
@click.option(
    "--load", type=_PATH, help="Begin with the objects of this file, as `kubectl get -o yaml` gives them."
)
@_failures
@click.option("--rbac", is_flag=True, help="Let service accounts and other users do only what roles say.")
@click.option(
    "--service-accounts", is_flag=True, help="Give pods a service account and a volume with its token."
)
@click.option("--feature-gates", default="", help="Of the manager: A=true,B=false.")
@click.option(
    "--no-agent", is_flag=True, help="No node agent is played: no pulls ahead, recreations, probes."
)
@click.option("--verbose", "-v", is_flag=True, help="Log what the controllers do.")
def up(
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
        feature_gates=feature_gates,
        has_agents=not no_agent,
    )
    _run(run_up(options))


@app.command(short_help="Show a CloneSet being created, scaled and updated.")
@click.option("--step-timeout", type=float, default=30.0, help="Seconds that each step may take.")
@click.option(
    "--file", "-f", "manifest", type=_PATH, help="A CloneSet to use instead of the built-in example."
)
def demo(step_timeout: float, manifest: Path | None) -> None:
    """Create a CloneSet in a fresh cluster, scale it up and down, update it, and show each step."""
    from pykruise.cli.demo import run_demo

    _log(False)
    _run(run_demo(step_timeout_s=step_timeout, manifest=manifest))


@app.command(
    short_help="Run the controllers and webhooks.",
    # Flags are OpenKruise's, written as Go programs take them: manager/flags.py reads them.
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
@click.pass_context
def manager(context: click.Context) -> None:
    """Run the controllers and webhooks against a cluster; `pykruise manager --help` lists the flags."""
    from pykruise.cli.manager import manager_command

    context.exit(manager_command(context.args))


@app.command(short_help="Run simulated nodes against a cluster.")
@click.option("--nodes", type=click.IntRange(1, 5000), default=3, help="How many nodes.")
@click.option("--pods-per-node", type=click.IntRange(min=1), default=110, help="How many pods each may run.")
@click.option("--prefix", default="node-", help="What their names begin with; numbers follow.")
@click.option("--start", type=_SECONDS, default=0.5, help="Seconds until a container runs.")
@click.option("--ready", type=_SECONDS, default=0.0, help="Seconds from running to ready.")
@click.option("--stop", type=_SECONDS, default=1.0, help="Seconds that a pod takes to stop.")
@click.option("--volumes", is_flag=True, help="Make a volume for each claim, on paper.")
@click.option("--agent", is_flag=True, help="Play the node agent too: recreate containers, probe pods.")
@_kubeconfig
@_context
@_failures
@click.option("--verbose", "-v", is_flag=True, help="Log what they do.")
def kubelets(
    nodes: int,
    pods_per_node: int,
    prefix: str,
    start: float,
    ready: float,
    stop: float,
    volumes: bool,
    agent: bool,
    kubeconfig: Path | None,
    context: str | None,
    failures: Path | None,
    verbose: bool,
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
        has_volumes=volumes,
        has_agents=agent,
        failures=failures,
    )
    _run(run_kubelets(options, kubeconfig=kubeconfig, context=context))


@app.command(short_help="Print everything that a cluster needs.")
@_manager_namespace
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    default=2,
    help="Managers; one works, all answer webhooks.",
)
@click.option(
    "--shards", type=click.IntRange(1, 16), default=1, help="How many of them share the work of controllers."
)
@click.option("--image", default="", help="The manager's image (default: of this version).")
@click.option("--daemon-image", default="", help="The agents' image (default: of this version).")
@click.option(
    "--socket-location", default="/var/run", help="Where nodes have their container runtime's socket."
)
@click.option("--feature-gates", default=None, help="A=true,B=false (default: ImagePullJobGate=true)")
@click.option("--v", type=click.IntRange(min=0), default=4, help="Verbosity of the logs.")
@click.option(
    "--webhook-host",
    default="",
    help="For managers outside the cluster: their WEBHOOK_HOST. Nothing runs inside.",
)
@click.option(
    "--webhook-port",
    type=click.IntRange(1, 65535),
    default=9876,
    help="Where webhooks are answered: WEBHOOK_PORT.",
)
@click.option(
    "--api-server",
    "api_servers",
    metavar="CIDR",
    multiple=True,
    help="Where reviews come from: a NetworkPolicy lets no other address reach the webhooks.",
)
@click.option(
    "--client-ca",
    "client_authority",
    metavar="CONFIGMAP",
    default="",
    help="With ca.crt: reviews are answered only to clients with a certificate of it.",
)
def install(
    namespace: str,
    replicas: int,
    shards: int,
    image: str,
    daemon_image: str,
    socket_location: str,
    feature_gates: str | None,
    v: int,
    webhook_host: str,
    webhook_port: int,
    api_servers: tuple[str, ...],
    client_authority: str,
) -> None:
    """Print everything a cluster needs, for `kubectl apply --server-side -f -`."""
    from pykruise.cli.install import install_text
    from pykruise.manager.install import CHART_GATES

    try:
        text = install_text(
            namespace=namespace,
            replicas=replicas,
            shards=shards,
            image=image,
            daemon_image=daemon_image,
            socket_location=socket_location,
            feature_gates=CHART_GATES if feature_gates is None else feature_gates,
            v=v,
            webhook_host=webhook_host,
            webhook_port=webhook_port,
            api_servers=api_servers,
            client_authority=client_authority,
        )
    except CommandError as error:
        click.echo(f"error: {error}", err=True)
        raise click.exceptions.Exit(1) from None
    click.echo(text, nl=False)


@app.command(short_help="Say what is wrong with an installation.")
@_manager_namespace
@click.option("--quiet", "-q", is_flag=True, help="Leave out what is fine.")
@_output
@_kubeconfig
@_context
def doctor(namespace: str, quiet: bool, output: str, kubeconfig: Path | None, context: str | None) -> None:
    """Say what is wrong with an installation, one line each with what to do. Changes nothing; 1: faults."""
    from pykruise.cli.doctor import run_doctor

    _log(False)
    _run(
        run_doctor(
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
            quiet=quiet,
            output=output,
            say=click.echo,
            reach=_reach(),
        )
    )


@app.command(short_help="Say what a cluster would lose.")
@click.option("--check", is_flag=True, help="Say what would be lost; removes nothing.")
@_kubeconfig
@_context
def uninstall(check: bool, kubeconfig: Path | None, context: str | None) -> None:
    """Say what a cluster would lose with OpenKruise's kinds. Exit code 1 when that is anything."""
    from pykruise.cli.install import check_uninstall

    if not check:
        click.echo(
            "error: this command removes nothing; look first: pykruise uninstall --check,"
            " then: pykruise install | kubectl delete --ignore-not-found -f -",
            err=True,
        )
        raise click.exceptions.Exit(1)
    _log(False)
    _run(check_uninstall(kubeconfig=kubeconfig, context=context))


@app.command(short_help="Print the custom resource definitions.")
def crds() -> None:
    """Print the custom resource definitions, ready for `kubectl apply -f -`."""
    from pykruise.cli.manager import crd_manifests

    click.echo(crd_manifests(), nl=False)


@app.group(short_help="Print what other tools need to know of the kinds.")
def manifests() -> None:
    """Print what other tools need to know of the kinds."""


@manifests.command(short_help="Health and actions for Argo CD.")
@click.option("--namespace", default="argocd", help="Where Argo CD runs.")
@click.option("--name", default="argocd-cm", help="Its ConfigMap.")
def argocd(namespace: str, name: str) -> None:
    """Print health and actions of every kind, for `kubectl apply --server-side -f -`.

    Only the keys of these kinds are in it: applied server-side, it leaves all others as they are.
    """
    from pykruise.manager.argocd import config_map_text

    click.echo(config_map_text(namespace=namespace, name=name), nl=False)


@manifests.command(short_help="Where to scrape, and alerts, for the Prometheus operator.")
@_manager_namespace
@click.option("--state/--no-state", default=True, help="The manager runs with --state-metrics.")
def prometheus(namespace: str, state: bool) -> None:
    """Print a PodMonitor and a PrometheusRule."""
    from pykruise.manager.argocd import document_text
    from pykruise.manager.monitoring import pod_monitor, prometheus_rule

    documents = (pod_monitor(namespace=namespace, has_state=state), prometheus_rule(namespace=namespace))
    click.echo("---\n".join(document_text(one) for one in documents), nl=False)


@manifests.command(short_help="A board for Grafana.")
@_manager_namespace
def grafana(namespace: str) -> None:
    """Print a ConfigMap with the board, which Grafana's sidecar finds by its label."""
    from pykruise.manager.argocd import document_text
    from pykruise.manager.monitoring import board_config_map

    click.echo(document_text(board_config_map(namespace=namespace)), nl=False)


@app.command(short_help="Say what a rollout waits for, and what helps.")
@click.argument("targets", nargs=-1)
@_namespace
@click.option("--all-namespaces", "-A", "everywhere", is_flag=True, help="In all namespaces.")
@click.option("--selector", "-l", default="", help="Label query, where a kind is named without a name.")
@click.option("--watch", "-w", is_flag=True, help="Go on until all is done.")
@_timeout
@_output
@_kubeconfig
@_context
@_feature_gates
def explain(
    targets: tuple[str, ...],
    namespace: str | None,
    everywhere: bool,
    selector: str,
    watch: bool,
    timeout: str,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
    feature_gates: str,
) -> None:
    """Say what rollouts do now, what they wait for, and what can be done about it. Reads only.

    TARGETS as kubectl takes them: clonesets/web, clone web, clone/web asts/db, clonesets, all. Of a pod (pod/web-x)
    it says which budgets hold it.

    Exit code 0: done, or as it was asked for; 2: it goes on by itself; 3: it needs a person; 1: error.
    """
    from pykruise.cli.explain import run_explain

    _log(False)
    code = _run(
        run_explain(
            *targets,
            namespace=namespace,
            everywhere=everywhere,
            selector=selector,
            kubeconfig=kubeconfig,
            context=context,
            watch=watch,
            timeout_s=_seconds(timeout),
            output=output,
            feature_gates=feature_gates,
            say=click.echo,
            reach=_reach(),
        )
    )
    raise click.exceptions.Exit(code)


@app.command(short_help="Say what applying a change would do.")
@click.argument("targets", nargs=-1, metavar="[TARGET]")
@click.option("--file", "-f", type=_PATH, help="Manifests as they would be applied; - reads stdin.")
@click.option(
    "--set", "sets", multiple=True, help="image=CONTAINER=IMAGE, replicas=N, partition=N, maxUnavailable=N, …"
)
@_namespace
@_output
@_kubeconfig
@_context
@_feature_gates
def plan(
    targets: tuple[str, ...],
    file: Path | None,
    sets: tuple[str, ...],
    namespace: str | None,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
    feature_gates: str,
) -> None:
    """Say what would happen if this were applied: exit code 0 nothing, 2 changes, 1 error. Reads only.

    TARGET, without -f: the live object to change with --set, clonesets/web or clone web.
    """
    from pykruise.cli.plan import run_plan

    _log(False)
    code = _run(
        run_plan(
            file=file,
            target=_target(targets),
            sets=sets,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            output=output,
            feature_gates=feature_gates,
            say=click.echo,
            note=lambda text: click.echo(text, err=True),
            reach=_reach(),
        )
    )
    raise click.exceptions.Exit(code or 0)


@app.command(short_help="Play a rollout, a job or a schedule in virtual time.")
@click.argument("targets", nargs=-1, metavar="[TARGET]")
@click.option("--file", "-f", type=_PATH, help="The workload, job or schedule as it is now.")
@click.option(
    "--change",
    type=_PATH,
    multiple=True,
    help="The workload as it is to be; twice compares two strategies.",
)
@click.option(
    "--pods-ready-after", default="2s", help="How long a pod takes to become ready: 10s, or 5s..30s."
)
@click.option(
    "--fail-pod", default="0%", help="Share of new pods that never become ready, or of runs that fail: 3%."
)
@click.option("--drain", multiple=True, help="Drain a node that long after the change: node-1@60s.")
@click.option("--join", multiple=True, help="A further node that long after the change: node-9@60s.")
@click.option("--leave", multiple=True, help="A node is gone for good: node-1@60s.")
@click.option(
    "--takes", default="1s", help="How long a job's pod runs, or what a schedule makes: 10m, or 5m..1h."
)
@click.option("--for", "lasts", default="30d", help="How long a schedule is played.")
@click.option(
    "--from", "begin", default="", help="From when on: 2026-03-01T00:00:00Z (default: from now on)."
)
@click.option(
    "--outage", multiple=True, help="The nodes of a subset go, and come back: zone-a@60s, or zone-a@60s..5m."
)
@click.option("--nodes", type=click.IntRange(1, 1000), default=3, help="Nodes, named node-1 and on.")
@click.option("--seed", type=int, default=1, help="Another seed: other delays, other pods that fail.")
@click.option("--svg", type=_PATH, help="Where to write a chart to (SVG).")
@_namespace
@_output
@_kubeconfig
@_context
@_feature_gates
def simulate(
    targets: tuple[str, ...],
    file: Path | None,
    change: tuple[Path, ...],
    pods_ready_after: str,
    fail_pod: str,
    drain: tuple[str, ...],
    join: tuple[str, ...],
    leave: tuple[str, ...],
    takes: str,
    lasts: str,
    begin: str,
    outage: tuple[str, ...],
    nodes: int,
    seed: int,
    svg: Path | None,
    namespace: str | None,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
    feature_gates: str,
) -> None:
    """Play a rollout, a job or a month of a schedule in virtual time, and show how it goes.

    TARGET, instead of -f: a live object, advancedcronjobs/nightly. With -f no cluster is needed.

    Exit code 0: complete, or as it was asked for; 3: stuck, failed or not over; 1: error.
    """
    from pykruise.cli.simulate import Conditions, Target, run_simulate

    _log(False)
    conditions = Conditions(
        pods_ready_after=pods_ready_after,
        fail_pod=fail_pod,
        drain=drain,
        join=join,
        leave=leave,
        takes=takes,
        lasts=lasts,
        begin=begin,
        outage=outage,
        nodes=nodes,
        seed=seed,
        feature_gates=feature_gates,
    )
    target = _target(targets)
    live = (
        Target(
            name=target,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
        )
        if target is not None
        else None
    )
    code = _run(
        run_simulate(
            file,
            target=live,
            changes=change,
            conditions=conditions,
            svg=svg,
            output=output,
            say=click.echo,
            reach=_reach(),
        ),
        on=asyncio.new_event_loop if live is None else None,  # from a file, nothing comes from a network
    )
    raise click.exceptions.Exit(code)


@app.command(
    short_help="Show what moves and what waits, in a browser.",
    # Another distribution's, which knows its own flags.
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
@click.pass_context
def dashboard(context: click.Context) -> None:
    """Show what moves, what waits, and why, in a browser. Comes with pykruise-dashboard."""
    from importlib.metadata import entry_points

    found = entry_points(group="pykruise.commands", name="dashboard")
    if not found:
        _say_how_to_install(context)
        return
    command: click.Command = next(iter(found)).load()
    with command.make_context("pykruise dashboard", list(context.args), parent=context.parent) as own:
        command.invoke(own)


def _say_how_to_install(context: click.Context) -> None:
    if set(context.args) & {"-h", "--help"}:
        click.echo(context.get_help())
        return
    click.echo(
        "error: the dashboard is a package of its own; install pykruise-dashboard of the same version beside"
        " pykruise: pip install pykruise-dashboard, or from a checkout: pip install ./packages/dashboard",
        err=True,
    )
    raise click.exceptions.Exit(1)


@app.command()
def version() -> None:
    """Print the version."""
    click.echo(__version__)


@app.command(short_help="Print a shell's completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell: source <(pykruise completion bash)."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # click has these three
    click.echo(found(app, {}, "pykruise", "_PYKRUISE_COMPLETE").source())


def main() -> None:
    """Entry point of the `pykruise` script."""
    sys.exit(run_app(sys.argv[1:], program="pykruise"))


def run_app(argv: Sequence[str], *, program: str) -> int:
    """Do what the command line says; returns the exit code. A command line that cannot be meant ends with 1, as all
    failures do, for 2 and 3 say something of their own."""
    from pykruise.cli.kubectl.flags import FlagError, taken_out

    call = None
    if argv and argv[0] in _ASKING:
        from pykruise.cli.kubectl.command import GLOBAL

        try:
            call, argv = taken_out(argv, [flag for flag in GLOBAL if flag.name not in _OWN_FLAGS])
        except FlagError as error:
            click.echo(f"error: {error}", err=True)
            return 1
    try:
        code = app.main(list(argv), prog_name=program, standalone_mode=False, obj=call)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        error.show()
        return 1
    except click.exceptions.Abort:
        return 130
    except BrokenPipeError:
        return _pipe_closed()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _pipe_closed()
    return code if isinstance(code, int) else 0


_ASKING: Final = frozenset({"explain", "plan", "simulate", "doctor"})
"""Commands that take kubectl's global flags."""

_OWN_FLAGS: Final = frozenset({"kubeconfig", "context", "namespace"})
"""Those that are options of each command."""


def _reach() -> "Reach":
    """How the cluster is reached that kubectl's global flags name."""
    from pykruise.cli.insight.reach import REQUEST_TIMEOUT_S, reached
    from pykruise.cli.kubectl.flags import Call
    from pykruise.cli.kubectl.session import TRACED_FROM, overrides_of

    call = click.get_current_context().obj or Call()
    return functools.partial(
        reached,
        overrides=overrides_of(call),
        timeout_s=call.seconds("request-timeout") or REQUEST_TIMEOUT_S,
        trace=functools.partial(click.echo, err=True) if call.number("v") >= TRACED_FROM else None,
    )


def _pipe_closed() -> int:
    """The reader has closed the pipe. What is still in the buffer would fail again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _target(words: Sequence[str]) -> str | None:
    """`clonesets/web`, also of `clone web`."""
    if len(words) > 2 or (len(words) == 2 and any("/" in one for one in words)):
        raise click.UsageError(f"{' '.join(words)}: say one object, clonesets/web or clone web")
    return "/".join(words) if words else None


def _seconds(text: str) -> float:
    from pykruise.kube.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.UsageError(f"--timeout {text}: {error}") from error


def _log(enabled: bool, *, level: int = logging.INFO) -> None:
    logging.basicConfig(
        level=level if enabled else logging.ERROR,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )


def _run(command: Coroutine[Any, Any, T], *, on: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    """Run a command on a loop of this kind, by default uvloop's; returns what it returns. Expected errors become one
    line on standard error and exit code 1."""
    if on is None:
        from uvloop import new_event_loop as on

    try:
        with asyncio.Runner(loop_factory=on) as runner:
            return runner.run(command)
    except BrokenPipeError:
        raise
    except (CommandError, KubeError, OSError) as error:
        click.echo(f"error: {one_line(error)}", err=True)
        raise click.exceptions.Exit(1) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None
