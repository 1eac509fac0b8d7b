"""Entry points: `kubectl-kruise`, which kubectl calls for `kubectl kruise …`, and `kubectl_complete-kruise`.

argv ──▶ tree.lookup() ──▶ flags.parse() ──▶ the command's function ──▶ exit code

Exit codes are kubectl's: 1 for every failure, also for wrong usage. `explain`, `plan`, `simulate` and `exec` have exit
codes of their own. A broken pipe ends the command without an error.
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from pykruise.cli.errors import CommandError
from pykruise.cli.garbage import collect_rarely
from pykruise.cli.kubectl.command import Command
from pykruise.cli.kubectl.errors import ExitCode, SeveralErrors, UsageError, format_errors
from pykruise.cli.kubectl.flags import CommandCall, KubectlFlagError, parse
from pykruise.cli.kubectl.session import Session, Surroundings
from pykruise.cli.kubectl.tree import ROOT, flags_of, lookup
from pykruise.cli.terminal_text import escape_terminal
from pykruise.kube.errors import KubeError

PIPE_CLOSED: Final = 0
"""Exit code when the reader of the output has closed the pipe."""

INTERRUPTED: Final = 130


def main() -> None:
    """The `kubectl-kruise` script."""
    collect_rarely()
    sys.exit(_run_guarded(lambda: run(sys.argv[1:], read_surroundings())))


def complete_main() -> None:
    """The `kubectl_complete-kruise` script, which kubectl calls for its own completion."""
    sys.exit(_run_guarded(lambda: run(["__complete", *sys.argv[1:]], read_surroundings())))


def read_surroundings() -> Surroundings:
    """Environment of this process."""
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "") != "dumb"
    return Surroundings(
        out=sys.stdout.write, err=sys.stderr.write, environ=os.environ, is_terminal=is_terminal
    )


def _run_guarded(do: Callable[[], int]) -> int:
    try:
        code = do()
        sys.stdout.flush()
    except BrokenPipeError:
        # Output that is still buffered would fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def run(argv: Sequence[str], around: Surroundings) -> int:
    """Run the command line. Return the exit code."""
    import asyncio

    command, path, rest = lookup(argv)
    if command.takes in _DELEGATES and not (command.children and _wants_help(rest)):
        do = getattr(import_module("pykruise.cli.kubectl.delegate"), _DELEGATES[command.takes])
        code: int = do(path, rest, around)
        return code
    return asyncio.run(run_async(argv, around))


_DELEGATES: Final = {"kubectl": "to_kubectl", "pykruise": "to_pykruise"}


def _wants_help(rest: Sequence[str]) -> bool:
    return not rest or rest[0] in ("-h", "--help")


async def run_async(argv: Sequence[str], around: Surroundings) -> int:
    """Run the command line on a running event loop. Return the exit code."""
    command, path, rest = lookup(argv)
    program = " ".join((around.program, *path))
    try:
        call = _parse_call(command, rest, path)
        is_group = bool(command.children)
        if call.is_on("help") or (is_group and not call.everything):
            from pykruise.cli.kubectl.help import help_of

            around.out(help_of(command, program=program, root=around.program))
            return 0
        if is_group:
            _refuse_unknown(command, call.everything[0], around, path)
    except KubectlFlagError as error:
        around.err(f"error: {error}\nSee '{program} --help' for usage.\n")
        return 1
    except CommandError as error:
        around.err(f"error: {error}\n")
        return 1
    for text in call.deprecations:
        around.err(f"{text}\n")
    module, _, function = command.run.partition(":")
    do = getattr(import_module(f"pykruise.cli.kubectl.{module}"), function)
    async with Session(
        call, around, command=" ".join(path), typed=" ".join((around.program, *argv))
    ) as session:
        try:
            errors: Sequence[Exception] = await do(session) or ()
        except ExitCode as end:
            return end.code
        except UsageError as error:
            around.err(f"error: {escape_terminal(str(error))}\nSee '{program} -h' for help and examples\n")
            return 1
        except BrokenPipeError:
            raise
        except SeveralErrors as several:
            errors = several.errors
        except (CommandError, KubeError, OSError) as error:
            errors = [error]
        if not errors and session.warnings and call.is_on("warnings-as-errors"):
            count = len(session.warnings)
            errors = [CommandError(f"{count} warning{'s' if count > 1 else ''} received")]
    if errors:
        around.err(f"{escape_terminal(format_errors(errors))}\n")
    return 1 if errors else 0


def _parse_call(command: Command, rest: Sequence[str], path: Sequence[str]) -> CommandCall:
    if command.takes == "words":
        return CommandCall(arguments=tuple(rest))
    if not command.children and path:
        return parse(rest, flags_of(command))
    return parse(rest, flags_of(command), stops_at_argument=True)


def _refuse_unknown(command: Command, word: str, around: Surroundings, path: Sequence[str]) -> None:
    from pykruise.cli.kubectl.help import list_similar

    if path:
        raise CommandError(
            f"unknown command \"{word}\"\nSee '{' '.join((around.program, *path))} -h' for help and examples"
        )
    names = list_similar(word, [child.name for child in ROOT.children if not child.is_hidden])
    hint = "\n\nDid you mean this?\n" + "\n".join(f"\t{name}" for name in names) if names else ""
    raise CommandError(f'unknown command "{word}" for "{around.program}"{hint}')
