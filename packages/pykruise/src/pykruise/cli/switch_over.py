"""Commands `pykruise switch-over check`, `pykruise storage show` and `pykruise storage move`.

cluster ──check_switch()──▶ SwitchReport ──▶ text or JSON, exit code 0 or 1
cluster ──read_storage(), move_kind()──▶ one line per kind
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pykruise.cli.errors import CommandError, CommandLineError
from pykruise.cli.insight.gates import parse_settings
from pykruise.cli.insight.traced_requests import Reach
from pykruise.cli.manifests import load_documents, read_documents
from pykruise.cli.outputs import check_output, format_document
from pykruise.kube.client.client import Client
from pykruise.kube.client.stored_versions import StoredVersionTransport
from pykruise.kube.values.counts import format_count
from pykruise.manager.doctor.findings import FindingLevel
from pykruise.manager.install import MANAGER
from pykruise.manager.replacement import Replacement, find_replacement
from pykruise.manager.storage import KindStorage, MoveError, move_kind, read_storage
from pykruise.manager.switch_over import KindReport, PlannedWrite, SwitchReport, check_switch

SAFE, UNSAFE = 0, 1

_NAMESPACE: Final = "kruise-system"

SHOWN: Final = 20
"""Maximum number of writes that the text lists. JSON contains all writes."""


async def run_check(
    *,
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    feature_gates: str,
    file: Path | None,
    output: str,
    say: Callable[[str], object],
    reach: Reach,
) -> int:
    """Print the report and return the exit code. Raises CommandError, and KubeError when the cluster cannot be read."""
    check_output(output)
    replacement = _read_replacement(file) if file is not None else None
    if replacement is not None and feature_gates:
        raise CommandLineError(
            "--feature-gates: the manifests of --file contain the gates; give one of the two"
        )
    namespace = namespace or (replacement.namespace if replacement is not None else _NAMESPACE)
    settings = parse_settings(feature_gates) if feature_gates else None
    async with reach(kubeconfig, context) as (client, _):
        report = await check_switch(
            client, now=time.time(), namespace=namespace, settings=settings, replacement=replacement
        )
    if output != "text":
        document = {"pods": sorted(report.pods), "isSafe": report.is_safe, **msgspec.to_builtins(report)}
        say(format_document(document, output))
    else:
        say("\n".join(report_lines(report)))
    return SAFE if report.is_safe else UNSAFE


def _read_replacement(path: Path) -> Replacement:
    is_input = str(path) == "-"
    documents = load_documents(sys.stdin.read(), source="stdin") if is_input else read_documents(path)
    replacement = find_replacement(documents)
    if replacement is None:
        raise CommandError(
            f"{'stdin' if is_input else path}: contains no Deployment {MANAGER};"
            " give the output of pykruise install, or of helm template"
        )
    return replacement


def report_lines(report: SwitchReport) -> Iterator[str]:
    """Lines of the report."""
    pods = len(report.pods)
    yield f"{pods} {'pod' if pods == 1 else 'pods'} would be affected."
    yield ""
    yield from _format_kind_table(report.kinds)
    if report.writes:
        yield ""
        yield "Writes other than to statuses, events and pykruise's own annotations"
        yield from (f"  {_write_line(write)}" for write in report.writes[:SHOWN])
        if len(report.writes) > SHOWN:
            yield f"  … and {len(report.writes) - SHOWN} more (-o json has all)"
    problems = [f"{kind.kind} {problem}" for kind in report.kinds for problem in kind.problems]
    if problems:
        yield ""
        yield "Objects that pykruise would not change, and the reasons"
        yield from (f"  {problem}" for problem in problems)
    notable = [
        finding
        for finding in report.findings
        if finding.level is not FindingLevel.OK or finding.check == "manager"
    ]
    if notable:
        yield ""
        yield "Around"
        yield from (f"  {finding.format_line()}" for finding in notable)


def _format_kind_table(kinds: Sequence[KindReport]) -> Iterator[str]:
    shown = [kind for kind in kinds if kind.objects]
    width = max((len(kind.kind) for kind in shown), default=4)
    yield f"{'KIND':<{width}}  STORED    OBJECTS  STATUSES  WRITES"
    for kind in shown:
        counts = f"{kind.objects:>7}  {kind.statuses:>8}  {len(kind.writes):>6}"
        yield f"{kind.kind:<{width}}  {kind.stored:<8}  {counts}"


def _write_line(write: PlannedWrite) -> str:
    touched = f" (affects {format_count(len(write.pods), 'pod')})" if write.pods else ""
    return f"{write.kind} {write.owner}: {write.verb} {write.target}: {write.why}{touched}"


async def run_show(
    *, kubeconfig: Path | None, context: str | None, output: str, say: Callable[[str], object], reach: Reach
) -> None:
    """Print the stored versions of each kind."""
    check_output(output)
    async with reach(kubeconfig, context) as (client, _):
        storages = await read_storage(client)
    if output != "text":
        say(format_document([msgspec.to_builtins(item) for item in storages], output))
        return
    width = max((len(item.name) for item in storages), default=4)
    say(f"{'NAME':<{width}}  STORED    SERVED             OBJECTS MAY BE STORED IN")
    for storage in storages:
        served, recorded = ", ".join(storage.served), ", ".join(storage.recorded)
        say(f"{storage.name:<{width}}  {storage.stored:<8}  {served:<17}  {recorded}")


async def run_move(
    *,
    kubeconfig: Path | None,
    context: str | None,
    layout: str,
    kinds: Sequence[str],
    say: Callable[[str], object],
    reach: Reach,
) -> None:
    """Move all kinds sequentially. If a kind cannot be moved, move all other kinds, then raise CommandError."""
    problems = []
    async with reach(kubeconfig, context) as (client, _):
        plain = _drop_translation(client)
        for storage in _select_kinds(await read_storage(plain), kinds):
            try:
                moved = await move_kind(plain, storage, layout=layout, note=say)
            except MoveError as error:
                problems.append(str(error))
                continue
            problems += [f"{storage.name}: {failed}" for failed in moved.failed]
            if not moved.failed:
                say(
                    f"{storage.name}: stored in {moved.version}, {format_count(moved.rewritten, 'object')} rewritten"
                )
    if problems:
        raise CommandError("not everything was moved; start the command again\n" + "\n".join(problems))


def _drop_translation(client: Client) -> Client:
    """The client without the transport that translates kinds to their stored versions."""
    transport = client.transport
    return (
        client.replace_transport(transport.inner) if isinstance(transport, StoredVersionTransport) else client
    )


def _select_kinds(storage: Sequence[KindStorage], kinds: Sequence[str]) -> Sequence[KindStorage]:
    known = {item.resource.plural: item for item in storage}
    unknown = sorted(set(kinds) - known.keys())
    if unknown:
        raise CommandLineError(
            f"--kind {unknown[0]}: no kind with two versions has this name; there are {', '.join(known)}"
        )
    return [known[kind] for kind in kinds] if kinds else storage
