"""Commands `pykruise explain`, `plan`, `simulate` and `mcp`: questions about workloads. They only read.

options ──▶ the command's own module, imported when it is called ──▶ exit code
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from pykruise.cli.commands import options, words
from pykruise.cli.commands.running import note, reach, report_failure, run, say


@words.word(
    short_help="Explain why a rollout waits, and what to do.",
    examples=(
        "explain clonesets/web",
        "explain asts/db -n shop",
        "explain all -A            # everything, everywhere",
        "explain clone -l app=web --watch --timeout 10m",
        "explain pod/web-4x2kl      # why a pod is not deleted, evicted or ready",
        "explain clonesets/web -o json",
    ),
)
@click.argument("targets", nargs=-1)
@options.namespace
@click.option(
    "--all-namespaces", "-A", "everywhere", is_flag=True, help="Explain the objects of all namespaces."
)
@click.option("--selector", "-l", default="", help="Label selector; only with KIND, not with KIND/NAME.")
@click.option("--details", is_flag=True, help="Show the details of each object instead of a row.")
@click.option("--watch", "-w", is_flag=True, help="Watch until all objects are done.")
@click.option("--timeout", default="0s", help="Time limit of --watch, such as 5m; 0s means no limit.")
@options.output
@options.kubeconfig
@options.context
@options.feature_gates
def explain(
    targets: tuple[str, ...],
    namespace: str | None,
    everywhere: bool,
    selector: str,
    details: bool,
    watch: bool,
    timeout: str,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
    feature_gates: str,
) -> None:
    """Show the state of rollouts, why they wait, and what to do about it. Reads only.

    TARGETS have kubectl's forms: clonesets/web, clone web, clone/web asts/db, clonesets, all. The target all prints a
    row for each object of every kind, those that need action first. For a pod (pod/web-x) the report has the reasons
    why it is not deleted, evicted or ready.

    Exit code 0: all objects are done, or as requested; 2: an object continues automatically; 3: an object needs a
    person; 1: error.
    """
    from pykruise.cli.explain import run_explain

    code = run(
        run_explain(
            *targets,
            namespace=namespace,
            everywhere=everywhere,
            selector=selector,
            with_details=details,
            kubeconfig=kubeconfig,
            context=context,
            watch=watch,
            timeout_s=_parse_seconds(timeout),
            output=output,
            feature_gates=feature_gates,
            say=say,
            note=note,
            reach=reach(),
        )
    )
    raise click.exceptions.Exit(code)


@words.word(
    needs_sandbox=True,
    short_help="Show the effects of applying a change.",
    examples=(
        "plan clonesets/web --set image=main=nginx:1.28",
        "plan clone web --set replicas=10 --set partition=50%",
        "plan -f web.yaml           # manifests as they would be applied; a folder works, too",
        "kustomize build . | pykruise plan -f -",
    ),
)
@click.argument("targets", nargs=-1, metavar="[TARGET]")
@click.option("--file", "-f", type=options.PATH, help="Manifests as they would be applied; - reads stdin.")
@click.option(
    "--set", "sets", multiple=True, help="image=CONTAINER=IMAGE, replicas=N, partition=N, maxUnavailable=N, …"
)
@options.namespace
@options.output
@options.kubeconfig
@options.context
@options.feature_gates
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
    """Show the effects of applying a change. Exit code 0: no changes; 2: changes; 1: error. Reads only.

    TARGET is the live object that --set changes, such as clonesets/web or clone web. With -f there is no TARGET.
    """
    from pykruise.cli.plan import run_plan

    code = run(
        run_plan(
            file=file,
            target=_join_target(targets),
            sets=sets,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
            output=output,
            feature_gates=feature_gates,
            say=say,
            note=note,
            reach=reach(),
        )
    )
    raise click.exceptions.Exit(code or 0)


@words.word(
    needs_sandbox=True,
    short_help="Simulate a rollout, a job or a schedule in virtual time.",
    examples=(
        "simulate -f web.yaml --change web-new.yaml",
        "simulate -f web.yaml --change new.yaml --fail-pod 3% --drain node-1@60s",
        "simulate -f web.yaml --change fast.yaml --change careful.yaml --svg rollout.svg",
        "simulate advancedcronjobs/nightly --for 90d",
    ),
)
@click.argument("targets", nargs=-1, metavar="[TARGET]")
@click.option("--file", "-f", type=options.PATH, help="Manifest of the current workload, job or schedule.")
@click.option(
    "--change",
    type=options.PATH,
    multiple=True,
    help="Manifest of the changed workload; give it twice to compare two strategies.",
)
@click.option("--pods-ready-after", default="2s", help="Time until a pod is ready: 10s, or 5s..30s.")
@click.option(
    "--fail-pod", default="0%", help="Share of new pods that never become ready, or of runs that fail: 3%."
)
@click.option("--drain", multiple=True, help="Drain a node some time after the change: node-1@60s.")
@click.option("--join", multiple=True, help="Add a node some time after the change: node-9@60s.")
@click.option(
    "--leave", multiple=True, help="Remove a node permanently some time after the change: node-1@60s."
)
@click.option(
    "--takes", default="1s", help="Running time of a job's pod, or of a schedule's objects: 10m, or 5m..1h."
)
@click.option("--for", "lasts", default="30d", help="Simulated period of a schedule, such as 90d.")
@click.option(
    "--from",
    "begin",
    default="",
    help="Start of a schedule's simulation: 2026-03-01T00:00:00Z (default: now).",
)
@click.option(
    "--outage",
    multiple=True,
    help="Let the nodes of a subset fail: from 60s until the end (zone-a@60s), or until 5m (zone-a@60s..5m).",
)
@options.kubernetes
@click.option(
    "--nodes", type=click.IntRange(1, 1000), default=3, help="Number of nodes, named node-1 and so on."
)
@click.option(
    "--seed",
    type=int,
    default=1,
    help="Seed of random values; another seed gives other delays, and other pods fail.",
)
@click.option("--svg", type=options.PATH, help="File to write a chart to (SVG).")
@options.namespace
@options.output
@options.kubeconfig
@options.context
@options.feature_gates
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
    kubernetes: str,
    nodes: int,
    seed: int,
    svg: Path | None,
    namespace: str | None,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
    feature_gates: str,
) -> None:
    """Simulate a rollout, a job or a month of a schedule in virtual time, and show its course.

    TARGET is a live object, such as advancedcronjobs/nightly. With -f there is no TARGET, and no cluster is needed.

    Exit code 0: complete, or as requested; 3: stuck, failed or not over; 1: error.
    """
    from pykruise.cli.simulate import Conditions, SimulatedTarget, run_simulate

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
        kubernetes=kubernetes,
    )
    target = _join_target(targets)
    live = (
        SimulatedTarget(
            name=target,
            namespace=namespace,
            kubeconfig=kubeconfig,
            context=context,
        )
        if target is not None
        else None
    )
    code = run(
        run_simulate(
            file,
            target=live,
            changes=change,
            conditions=conditions,
            svg=svg,
            output=output,
            say=say,
            reach=reach(),
            note=note,
        ),
        on=asyncio.new_event_loop if live is None else None,  # with a file the command uses no network
    )
    raise click.exceptions.Exit(code)


@words.word(
    needs_sandbox=True,
    short_help="Answer an assistant's questions over the Model Context Protocol.",
    examples=("mcp", "mcp --context production -n shop"),
)
@options.namespace
@options.kubeconfig
@options.context
def mcp(namespace: str | None, kubeconfig: Path | None, context: str | None) -> None:
    """Serve explain, plan, simulate, rollout history, events and doctor as tools of the Model Context Protocol.

    An assistant starts this command and talks to it over standard input and output. No tool writes to the cluster. The
    permissions of the kubeconfig's user decide what the tools can read.
    """
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise report_failure(
            "mcp needs the SDK of the Model Context Protocol: pip install './packages/pykruise[mcp]' in a checkout, or"
            " pip install 'pykruise[mcp,sandbox]' once a version is published"
        )
    from pykruise.cli.assistant.server import serve_stdio
    from pykruise.cli.assistant.tools import ToolSession

    session = ToolSession(kubeconfig=kubeconfig, context=context, namespace=namespace or "", reach=reach())
    run(serve_stdio(session))


def _join_target(words: Sequence[str]) -> str | None:
    """Join the words to one target: `clone web` is `clone/web`. Raises UsageError for several targets."""
    if len(words) > 2 or (len(words) == 2 and any("/" in word for word in words)):
        raise click.UsageError(f"{' '.join(words)}: give one object, such as clonesets/web or clone web")
    return "/".join(words) if words else None


def _parse_seconds(text: str) -> float:
    from pykruise.kube.values.durations import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.UsageError(f"--timeout {text}: {error}") from error
