"""`pykruise doctor`: looks at an installation without changing anything, and says what to do."""

from pathlib import Path

import click

from pykruise.cli.errors import CommandError
from pykruise.kube.client import Client, RetryPolicy
from pykruise.kube.clock import system_clock
from pykruise.kube.config import load
from pykruise.kube.http import HttpTransport
from pykruise.manager.doctor.examine import examine
from pykruise.manager.doctor.findings import Level
from pykruise.manager.doctor.live import Live


async def run_doctor(*, kubeconfig: Path | None, context: str | None, namespace: str, quiet: bool) -> None:
    """Print the findings. Raises CommandError when one of them is a fault."""
    transport = HttpTransport(await load(kubeconfig, context=context))
    try:
        client = Client(transport, user_agent="pykruise-doctor", retry=RetryPolicy(reads=1, writes=0))
        findings = await examine(Live(client, namespace=namespace, clock=system_clock))
    finally:
        await transport.close()
    for finding in findings:
        if not quiet or finding.level is not Level.OK:
            click.echo(finding.line())
    faults = sum(finding.level is Level.FAULT for finding in findings)
    if faults:
        raise CommandError(f"{faults} {'fault' if faults == 1 else 'faults'} found")
