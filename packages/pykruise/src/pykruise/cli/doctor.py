"""Command `pykruise doctor`: examines an installation without changes, and names the remedies.

kubeconfig ──▶ examine() ──▶ Findings ──join_findings()──▶ lines, JSON or YAML; exit code 1 when a finding is a fault
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from pykruise.cli.errors import CommandError
from pykruise.cli.insight.traced_requests import Reach, connect_traced
from pykruise.cli.outputs import check_output, format_document
from pykruise.kube.client.client import Client
from pykruise.kube.client.retries import RetryPolicy
from pykruise.kube.clock import read_system_clock
from pykruise.kube.documents import decode
from pykruise.kube.errors import ForbiddenError, TransportError, UnauthorizedError
from pykruise.manager.doctor.examine import examine
from pykruise.manager.doctor.findings import Finding, FindingLevel
from pykruise.manager.doctor.live import Live


async def run_doctor(
    *,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    quiet: bool,
    say: Callable[[str], None],
    output: str = "text",
    reach: Reach = connect_traced,
) -> None:
    """Print the findings. Raises CommandError when a finding is a fault, or when the API server does not respond."""
    check_output(output)
    async with reach(kubeconfig, context) as (given, _):
        findings, note = await examine_cluster(given, namespace=namespace)
    if output != "text":
        say(format_document([msgspec.to_builtins(finding) for finding in findings], output))
    else:
        for finding in findings:
            if not quiet or finding.level is not FindingLevel.OK:
                say(finding.format_line())
        if note:
            say(note)
    faults = sum(finding.level is FindingLevel.FAULT for finding in findings)
    if faults:
        raise CommandError(f"{faults} {'fault' if faults == 1 else 'faults'} found")


async def examine_cluster(given: Client, *, namespace: str) -> tuple[list[Finding], str]:
    """Examine an installation. Return the findings, and a note if the cluster is a sandbox. Raises CommandError when no
    API server responds.
    """
    client = Client(given.transport, user_agent="pykruise-doctor", retry=RetryPolicy(reads=1, writes=0))
    await _check_reached(client)
    findings = join_findings(await examine(Live(client, namespace=namespace, clock=read_system_clock)))
    if not await _is_sandbox(client):
        return findings, ""
    return [finding for finding in findings if finding.check in _IN_A_SANDBOX], _SANDBOX


_SANDBOX = "This is a sandbox (pykruise up). It contains its manager, so there is no installation to check."
_IN_A_SANDBOX = frozenset({"cluster", "crds", "clock", "admission", "pods", "budgets", "images"})
"""Checks that also apply to a cluster with the manager in the API server's process."""


async def _check_reached(client: Client) -> None:
    """Raise one CommandError when no API server responds, instead of a fault for each check."""
    try:
        await client.get_path("/version")  # all users may read this path
        with suppress(ForbiddenError):
            await client.get_path("/api")
    except TransportError as error:
        raise CommandError(f"the API server does not respond: {error}") from error
    except UnauthorizedError as error:
        raise CommandError(
            f"the API server rejects the credentials: {error}; log in again, or name another context"
        ) from error


async def _is_sandbox(client: Client) -> bool:
    """Whether the API server is that of `pykruise up`."""
    version = decode(await client.get_path("/version"))
    return str(version.get("gitVersion", "")).endswith("-pykruise")


def join_findings(findings: Sequence[Finding]) -> list[Finding]:
    """Join findings into one line if they differ only in their first word, which is a kind."""
    groups: dict[tuple[str, FindingLevel, str, str], list[str]] = {}
    for finding in findings:
        name, rest = _split_name(finding.what)
        groups.setdefault((finding.check, finding.level, rest, finding.fix), []).append(name)
    return [
        Finding(check=check, level=level, what=_format_names(names, rest), fix=fix)
        for (check, level, rest, fix), names in groups.items()
    ]


def _split_name(what: str) -> tuple[str, str]:
    name, _, rest = what.partition(" ")
    return (name, rest) if rest else ("", what)


def _format_names(names: Sequence[str], rest: str) -> str:
    if not names[0]:
        return rest
    shown = f"{', '.join(names[:3])} and {len(names) - 3} more" if len(names) > 4 else ", ".join(names)
    return f"{shown} {rest}"
