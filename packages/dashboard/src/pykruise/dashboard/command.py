"""`pykruise dashboard` and its flags. `pykruise` finds this command by the entry point `pykruise.commands`."""

import asyncio
import logging
import sys
from pathlib import Path

import click

from pykruise.cli.commands.words import SETTINGS, word
from pykruise.cli.errors import CommandError, format_one_line
from pykruise.kube.errors import KubeError

_PATH: click.Path = click.Path(path_type=Path)


@word(
    context_settings=SETTINGS,
    examples=("dashboard --open", "dashboard -n shop --port 8080", "dashboard --actions"),
)
@click.option(
    "--kubeconfig",
    type=_PATH,
    help="Kubeconfig of the cluster (default: $KUBECONFIG, the pod's account, or ~/.kube/config).",
)
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--namespace",
    "-n",
    default="",
    help="Namespace to show (default: all namespaces, if the user has the permission).",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on; 0 picks a free one."
)
@click.option(
    "--address",
    default="127.0.0.1",
    help="Address to listen on; an address other than loopback requires --shared.",
)
@click.option("--open", "opens_browser", is_flag=True, help="Open the link in a browser.")
@click.option(
    "--actions",
    is_flag=True,
    help="Show buttons that run the displayed commands, with the user's permissions.",
)
@click.option(
    "--shared",
    is_flag=True,
    help="Serve many users in a cluster: each logs in with a token, and sees the objects that the token may list.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    help="Host name (with its port) that clients may use, such as that of a proxy (default with --shared: any name).",
)
@click.option("--base-path", default="", help="Prefix of all paths behind a proxy, such as /kruise.")
@click.option("--tls-cert", type=_PATH, help="Certificate chain (PEM).")
@click.option("--tls-key", type=_PATH, help="Key of the certificate (PEM).")
@click.option(
    "--session-key",
    type=_PATH,
    help="File with 32 random bytes or more: logins survive a restart, and replicas with the same file share them.",
)
@click.option("--manager-namespace", default="kruise-system", help="Namespace of the manager.")
def dashboard(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    port: int,
    address: str,
    opens_browser: bool,
    actions: bool,
    shared: bool,
    allowed_hosts: tuple[str, ...],
    base_path: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    session_key: Path | None,
    manager_namespace: str,
) -> None:
    """Show in a browser what is rolled out, what waits, and why, until Ctrl-C. Without --actions, it only reads.

    It prints a link that opens once, on this machine, with the kubeconfig's permissions.
    """
    import uvloop

    from pykruise.dashboard.serve import DashboardOptions, run_dashboard

    logging.basicConfig(
        level=logging.INFO if shared else logging.ERROR,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    options = DashboardOptions(
        kubeconfig=kubeconfig,
        context=context,
        namespace=namespace,
        address=address,
        port=port,
        is_shared=shared,
        has_actions=actions,
        allowed_hosts=allowed_hosts,
        base_path=base_path,
        tls_cert=tls_cert,
        tls_key=tls_key,
        session_key=session_key,
        manager_namespace=manager_namespace,
        opens_browser=opens_browser,
    )
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run_dashboard(options, _say))
    except (CommandError, KubeError, OSError) as error:
        click.echo(f"error: {format_one_line(error)}", err=True)
        raise click.exceptions.Exit(1) from None
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None


def _say(text: str) -> None:
    """Print and flush the text: a program that reads the output from a pipe waits for the link."""
    click.echo(text)
    sys.stdout.flush()
