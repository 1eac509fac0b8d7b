"""All commands as data, for parsing, help and completion.

changing_commands.py, looking_commands.py ──▶ ROOT ──▶ lookup(argv) ──▶ the Command, its path, the other words

Pure. `run` of a command names a function that is imported when the command is called.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pykruise.cli.kubectl.changing_commands import (
    AUTOSCALE,
    CREATE,
    EXPOSE,
    MIGRATE,
    ROLLOUT,
    SCALE,
    SCALEDOWN,
    SET,
)
from pykruise.cli.kubectl.command import GLOBAL, HELP, Command, switch, text
from pykruise.cli.kubectl.flags import KubectlFlag
from pykruise.cli.kubectl.looking_commands import DESCRIBE, EXEC, GET, IMAGE


def _make_pykruise_command(name: str, short: str) -> Command:
    """A command that `pykruise` runs."""
    return Command(name=name, short=short, group="Understand", run="delegate:to_pykruise", takes="pykruise")


def _make_kubectl_command(name: str) -> Command:
    return Command(
        name=name,
        short="Same as in kubectl",
        run="delegate:to_kubectl",
        takes="kubectl",
        group="kubectl's own",
    )


ROOT: Final = Command(
    name="kubectl kruise",
    short="kubectl's verbs for every kind of OpenKruise, and the reasons why rollouts wait.",
    children=(
        ROLLOUT,
        SET,
        SCALE,
        SCALEDOWN,
        AUTOSCALE,
        EXPOSE,
        MIGRATE,
        CREATE,
        GET,
        DESCRIBE,
        IMAGE,
        EXEC,
        _make_pykruise_command("explain", "Explain why a rollout waits, and what to do"),
        _make_pykruise_command("plan", "Show the effects of applying a change"),
        _make_pykruise_command("simulate", "Simulate a rollout, a job or a schedule in virtual time"),
        _make_pykruise_command("doctor", "Report problems of an installation"),
        _make_pykruise_command("dashboard", "Show rollouts and what they wait for, in a browser"),
        *(
            _make_kubectl_command(name)
            for name in (
                "apply",
                "patch",
                "replace",
                "diff",
                "edit",
                "delete",
                "logs",
                "wait",
                "label",
                "annotate",
                "kustomize",
                "api-resources",
                "api-versions",
                "config",
                "plugin",
                "cluster-info",
            )
        ),
        Command(
            name="version",
            short="Print the versions of the client and of the API server",
            run="shell:print_version",
            takes="nothing",
            flags=(
                switch("client", "Print only the client's version."),
                text("output", "Format of the output: json or yaml.", "o"),
            ),
            examples=("version --client",),
            group="Other",
        ),
        Command(
            name="options",
            short="List the flags that all commands take",
            run="shell:print_options",
            takes="nothing",
            examples=("options",),
            group="Other",
        ),
        Command(
            name="completion",
            short="Print a shell's completion script",
            usage="bash|zsh|fish|powershell",
            run="shell:print_completion",
            takes="nothing",
            examples=("completion bash > ~/.kubectl-kruise-completion",),
            group="Other",
        ),
        Command(
            name="generate-docs",
            short="Write a page for each command",
            run="shell:generate_docs",
            takes="nothing",
            flags=(text("directory", "Where to."),),
            is_hidden=True,
        ),
        Command(
            name="__complete",
            short="Completions for shells",
            run="shell:complete",
            takes="words",
            is_hidden=True,
        ),
    ),
)


def lookup(argv: Sequence[str], root: Command = ROOT) -> tuple[Command, tuple[str, ...], list[str]]:
    """Find the command of a command line. Return the command, its path and the other words. Flags may be between the
    names.
    """
    command, path, rest = root, [], list(argv)
    position = 0
    while command.children and position < len(rest):
        word = rest[position]
        if word == "--":
            break
        if word.startswith("-"):
            position += 1 if "=" in word or not _is_flag_with_value(word) else 2
            continue
        child = next(
            (child for child in command.children if word == child.name or word in child.aliases), None
        )
        if child is None:
            break
        command = child
        path.append(child.name)
        del rest[position]
        if not child.children:
            break
    return command, tuple(path), rest


def _is_flag_with_value(word: str) -> bool:
    name = word.lstrip("-").replace("_", "-")
    for flag in GLOBAL:
        if (word.startswith("--") and flag.name == name) or (
            not word.startswith("--") and flag.short == name
        ):
            return flag.type != "bool"
    return False


def flags_of(command: Command) -> tuple[KubectlFlag, ...]:
    """Flags of the command, those of every command, and `--help`."""
    own = {flag.name for flag in command.flags}
    return (*command.flags, *(flag for flag in GLOBAL if flag.name not in own), HELP)


def list_all_commands(
    command: Command = ROOT, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Command]]:
    """All commands, each with its path."""
    for child in command.children:
        yield (*path, child.name), child
        yield from list_all_commands(child, (*path, child.name))
