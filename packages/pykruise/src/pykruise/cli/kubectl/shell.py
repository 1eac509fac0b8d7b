"""Commands `version`, `options` and `completion`, and the completions for shells.

tree.py ──▶ print_options(), print_completion(), list_candidates() ──▶ lines
"""

from collections.abc import Sequence
from typing import Final

from pykruise.cli.kubectl.command import GLOBAL
from pykruise.cli.kubectl.discovery import ServedResource
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.help import format_flags
from pykruise.cli.kubectl.printing import make_formatter
from pykruise.cli.kubectl.resources import list_all
from pykruise.cli.kubectl.session import Session
from pykruise.cli.kubectl.tree import ROOT, flags_of, lookup
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import KubeError
from pykruise.kube.version import __version__

NO_FILES: Final = ":4"
"""Last line of the completions, as in kubectl: the shell must not complete file names."""


async def print_version(session: Session) -> None:
    """Print pykruise's version and the API server's."""
    output = session.call.text("output")
    if output not in ("", "json", "yaml"):
        raise KubectlError("--output must be 'yaml' or 'json'")
    if not output:
        session.say(f"Client Version: {__version__}")
        if not session.call.is_on("client"):
            session.say(
                f"Server Version: {(await _read_server_version(session)).get('gitVersion', 'unknown')}"
            )
        return
    major, minor = __version__.split(".")[:2]
    versions: Document = {"clientVersion": {"major": major, "minor": minor, "gitVersion": __version__}}
    try:
        if not session.call.is_on("client"):
            versions["serverVersion"] = await _read_server_version(session)
    finally:
        session.write(make_formatter(output, "")(versions))


async def _read_server_version(session: Session) -> Document:
    client = await session.make_client()
    return decode(await client.get_path("/version"))


async def print_options(session: Session) -> None:
    """Print the flags of every command."""
    session.say("The following options can be passed to any command:\n")
    session.say(format_flags(GLOBAL))


async def generate_docs(session: Session) -> None:
    """Write a Markdown page for each command."""
    from pathlib import Path

    from pykruise.cli.kubectl.help import help_of
    from pykruise.cli.kubectl.tree import list_all_commands

    folder = Path(session.call.text("directory") or ".")
    program = session.around.program
    for path, command in list_all_commands():
        if command.is_hidden:
            continue
        name = " ".join((program, *path))
        text = help_of(command, program=name, root=program)
        (folder / f"{'_'.join(path)}.md").write_text(f"# {name}\n\n```\n{text}```\n", "utf-8")


_SCRIPTS: Final = {
    "bash": """_kubectl_kruise() {
    local out
    out=$(kubectl-kruise __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    COMPREPLY=($(compgen -W "$(printf '%s\\n' "$out" | grep -v '^:' | cut -f1)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _kubectl_kruise kubectl-kruise
""",
    "zsh": """#compdef kubectl-kruise
_kubectl_kruise() {
    local -a found
    found=(${(f)"$(kubectl-kruise __complete "${words[@]:1:$((CURRENT-1))}" 2>/dev/null | grep -v '^:' | cut -f1)"})
    compadd -a found
}
compdef _kubectl_kruise kubectl-kruise
""",
    "fish": """function __kubectl_kruise
    set -l words (commandline -opc) (commandline -ct)
    kubectl-kruise __complete $words[2..-1] 2>/dev/null | string match -rv '^:'
end
complete -c kubectl-kruise -f -a '(__kubectl_kruise)'
""",
    "powershell": """Register-ArgumentCompleter -Native -CommandName kubectl-kruise -ScriptBlock {
    param($word, $tree, $position)
    $words = $tree.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" }
    if ($word -eq '') { $words += '' }
    kubectl-kruise __complete @words 2>$null | Where-Object { $_ -notmatch '^:' } |
        ForEach-Object { ($_ -split "`t")[0] } | Where-Object { $_ -like "$word*" }
}
""",
}


async def print_completion(session: Session) -> None:
    """`completion bash|zsh|fish|powershell`."""
    given = session.call.arguments
    if not given:
        raise KubectlError("Shell not specified.")
    if len(given) > 1:
        raise KubectlError("Too many arguments. Expected only the shell type.")
    if given[0] not in _SCRIPTS:
        raise KubectlError(f'Unsupported shell type "{given[0]}".')
    session.write(_SCRIPTS[given[0]])


async def complete(session: Session) -> None:
    """Command `__complete WORD…`: a line for each completion of the last word, and a directive for the shell."""
    words = list(session.call.everything)
    for candidate in await list_candidates(session, words[:-1], words[-1] if words else ""):
        session.say(candidate)
    session.say(NO_FILES)


async def list_candidates(session: Session, before: Sequence[str], word: str) -> list[str]:
    """Completions of the last word, each with a tab and a description."""
    command, _, rest = lookup(before, ROOT)
    if word.startswith("-"):
        names = [f"--{flag.name}\t{flag.help}" for flag in flags_of(command) if not flag.is_hidden]
        return [name for name in names if name.startswith(word)]
    if command.children:
        shown = [child for child in command.children if not child.is_hidden]
        return [f"{command.name}\t{command.short}" for command in shown if command.name.startswith(word)]
    if command.takes != "resources":
        return []
    try:
        return await _complete_resources(session, [word for word in rest if not word.startswith("-")], word)
    except (KubeError, KubectlError, OSError):
        return []


async def _complete_resources(session: Session, given: Sequence[str], word: str) -> list[str]:
    mapper = await session.read_mapper()
    kind, slash, name = word.partition("/")
    if slash:
        return [
            f"{kind}/{text}"
            for text in await _list_names(session, mapper.find(kind))
            if text.startswith(name)
        ]
    if given and "/" not in given[0]:
        return [name for name in await _list_names(session, mapper.find(given[0])) if name.startswith(word)]
    plurals = {
        str(served.resource) if "." in served.resource.group else served.resource.plural
        for served in mapper.served
    }
    return sorted(plural for plural in plurals if plural.startswith(word))


async def _list_names(session: Session, served: ServedResource) -> list[str]:
    return [
        info.name for info in await list_all(session, served, await session.read_namespace(), selector="")
    ]
