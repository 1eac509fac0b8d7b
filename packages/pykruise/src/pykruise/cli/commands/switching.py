"""Commands `pykruise switch-over` and `pykruise storage`: the migration from OpenKruise and back, and the stored
versions.

options ──▶ the command's own module, imported when it is called ──▶ exit code
"""

from pathlib import Path

import click

from pykruise.cli.commands import options, words
from pykruise.cli.commands.running import reach, run, say


@words.group("switch-over", short_help="Switch a cluster from OpenKruise to pykruise.")
def switch_over() -> None:
    """Switch a cluster from OpenKruise to pykruise. docs/migration.md has the steps in both directions."""


@switch_over.command(
    short_help="Print every write that a switch would make.",
    examples=(
        "switch-over check -f switch.yaml",
        "switch-over check --feature-gates CloneSetShortHash=true -o json",
    ),
)
@click.option(
    "--file",
    "-f",
    type=options.PATH,
    help="Manifests that the switch applies; - reads stdin (default: what pykruise install prints with the"
    " namespace and the gates of the running manager).",
)
@click.option(
    "--namespace",
    "-n",
    default="",
    help="Namespace of the running manager (default: that of the manager in --file, or kruise-system).",
)
@click.option(
    "--feature-gates",
    default="",
    help="Feature gates of the new manager, without --file: A=true,B=false (default: those of the running"
    " manager).",
)
@options.output
@options.kubeconfig
@options.context
def check(
    file: Path | None,
    namespace: str,
    feature_gates: str,
    output: str,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Print every write that pykruise would make if it took over now. Changes nothing.

    Exit code 0: only statuses, events and pykruise's own annotations would be written, and nothing prevents the
    switch.
    """
    from pykruise.cli.switch_over import run_check

    code = run(
        run_check(
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
            feature_gates=feature_gates,
            file=file,
            output=output,
            say=say,
            reach=reach(),
        )
    )
    raise SystemExit(code)


@words.group(short_help="Show or change the version in which kinds are stored.")
def storage() -> None:
    """Show or change the version in which the cluster stores objects of kinds with two versions."""


@storage.command(short_help="Print the stored version of each kind.", examples=("storage show",))
@options.output
@options.kubeconfig
@options.context
def show(output: str, kubeconfig: Path | None, context: str | None) -> None:
    """Print the version in which each kind is stored, and the versions in which objects may still be stored."""
    from pykruise.cli.switch_over import run_show

    run(run_show(kubeconfig=kubeconfig, context=context, output=output, say=say, reach=reach()))


@storage.command(
    short_help="Store all objects in another version.",
    examples=(
        "storage move --to v1beta1",
        "storage move --to v1alpha1 --kind clonesets",
    ),
)
@click.option(
    "--to",
    "layout",
    type=click.Choice(["v1alpha1", "v1beta1"]),
    required=True,
    help="New storage version; OpenKruise up to 1.8 stores v1alpha1.",
)
@click.option(
    "--kind", "kinds", multiple=True, help="Move only this kind, such as clonesets; may be repeated."
)
@options.kubeconfig
@options.context
def move(layout: str, kinds: tuple[str, ...], kubeconfig: Path | None, context: str | None) -> None:
    """Rewrite all objects in another version, and record that no other version is stored.

    A manager that converts versions must run. The command may be stopped and started again: it continues with the
    remaining objects.
    """
    from pykruise.cli.switch_over import run_move

    run(
        run_move(
            kubeconfig=kubeconfig,
            context=context,
            layout=layout,
            kinds=kinds,
            say=say,
            reach=reach(),
        )
    )
