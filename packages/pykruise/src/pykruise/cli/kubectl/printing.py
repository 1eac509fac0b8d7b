"""Output formats of `-o`: json, yaml, kyaml, name, jsonpath, go-template. Without `-o` the output is one line such as
`deployment.apps/web paused`.

CommandCall ──▶ printer_of() ──▶ Printer.format_object(info, operation)

YAML has kubectl's style. JSON and kyaml keep the API server's key order; YAML sorts the keys.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.flags import CommandCall
from pykruise.cli.kubectl.resources import Info
from pykruise.cli.terminal_text import escape_terminal

FORMATS: Final = (
    "go-template",
    "go-template-file",
    "json",
    "jsonpath",
    "jsonpath-as-json",
    "jsonpath-file",
    "kyaml",
    "name",
    "template",
    "templatefile",
    "yaml",
)

Show = Callable[[Any], str]


class Printer:
    """Formats objects one after another, in the format that the flags request."""

    def __init__(self, show: Callable[[Info, str], str], *, separator: str = "", suffix: str = "") -> None:
        self._show = show
        self._separator = separator
        self._suffix = suffix
        self._count = 0

    def format_object(self, info: Info, operation: str = "") -> str:
        """Output for one object, with line ends."""
        self._count += 1
        before = self._separator if self._count > 1 else ""
        return before + self._show(info, f"{operation}{self._suffix}" if operation else "")


def printer_of(call: CommandCall, *, dry_run: str = "none") -> Printer:
    """Printer for the values of `-o`, `--template` and `--dry-run`. Raises KubectlError for an unknown format."""
    output = call.text("output")
    suffix = {"client": " (dry run)", "server": " (server dry run)"}.get(dry_run, "")
    if not output and not call.text("template"):
        return Printer(
            lambda info, operation: escape_terminal(
                f"{info.short} {operation}\n" if operation else f"{info.short}\n"
            ),
            suffix=suffix,
        )
    name, _, argument = output.partition("=")
    if not output:
        name, argument = "go-template", call.text("template")
    if name == "name":
        return Printer(lambda info, _: f"{info.short}\n")
    show = make_formatter(
        name,
        argument or call.text("template"),
        keeps=call.is_on("show-managed-fields"),
        allow_missing=allows_missing_keys(call),
    )
    return Printer(lambda info, _: show(info.document), separator="---\n" if name == "yaml" else "")


def allows_missing_keys(call: CommandCall) -> bool:
    """Value of `--allow-missing-template-keys`, which is on by default."""
    return bool(call.values.get("allow-missing-template-keys", True))


def make_formatter(
    name: str,
    argument: str,
    *,
    keeps: bool = False,
    allowed: Sequence[str] = FORMATS,
    allow_missing: bool = True,
) -> Show:
    """Function that formats a document. `keeps`: whether the output contains managedFields. `allow_missing`: whether a
    template may name missing keys. Raises KubectlError for an unknown format.
    """

    def prepared(show: Show) -> Show:
        return lambda document: show(
            _without_empty_times(document if keeps else drop_managed_fields(document))
        )

    match name:
        case "json":
            return prepared(lambda document: format_json(document) + "\n")
        case "yaml":
            return prepared(format_yaml)
        case "kyaml":
            return prepared(format_kyaml)
        case "jsonpath" | "jsonpath-file" | "jsonpath-as-json":
            from pykruise.cli.kubectl.jsonpath import JsonPath

            path = JsonPath(_read_template_argument(name, argument), allow_missing=allow_missing)
            return path.as_json if name == "jsonpath-as-json" else path.render
        case "go-template" | "go-template-file" | "template" | "templatefile":
            from pykruise.cli.kubectl.go_template import render

            text = _read_template_argument(name, argument)
            return lambda document: render(text, document, allow_missing=allow_missing)
    raise KubectlError(
        f'unable to match a printer suitable for the output format "{name}", allowed formats are:'
        f" {','.join(allowed)}"
    )


def _read_template_argument(name: str, argument: str) -> str:
    if not argument:
        raise KubectlError("template format specified but no template given")
    if name not in ("jsonpath-file", "go-template-file", "templatefile"):
        return argument
    try:
        return Path(argument).read_text("utf-8")
    except OSError as error:
        raise KubectlError(f"error reading --template {argument}, {error.strerror}\n") from error


def drop_managed_fields(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document without managedFields; for a list, each item without them."""
    if isinstance(items := document.get("items"), list):
        return {**document, "items": [drop_managed_fields(item) for item in items]}
    meta = document.get("metadata")
    if not isinstance(meta, dict) or "managedFields" not in meta:
        return document
    kept = {name: value for name, value in meta.items() if name != "managedFields"}
    return {name: kept if name == "metadata" else value for name, value in document.items()}


def _without_empty_times(value: Any) -> Any:
    """The value without `creationTimestamp: null`, which older API servers write into templates."""
    if isinstance(value, Mapping):
        return {
            name: _without_empty_times(part)
            for name, part in value.items()
            if part is not None or name != "creationTimestamp"
        }
    return [_without_empty_times(item) for item in value] if isinstance(value, list) else value


def format_json(document: Any) -> str:
    """JSON in kubectl's style: indented by four spaces."""
    text = json.dumps(document, indent=4, ensure_ascii=False)
    for char in "<>&":
        if char in text:
            text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def format_yaml(document: Any) -> str:
    """YAML in kubectl's style: sorted keys, no folding, double quotes around a string that YAML could read as another
    type.
    """
    import yaml

    from pykruise.kube import yaml_documents

    class Dumper(yaml_documents.KubernetesDumper):
        pass

    def text(dumper: Any, value: str) -> Any:
        style = None
        if "\n" in value:
            style = "|"
        elif dumper.resolve(yaml.ScalarNode, value, (True, False)) != "tag:yaml.org,2002:str":
            style = '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    dumped = yaml_documents.format_yaml(
        document, dumper=Dumper, sort_keys=True, allow_unicode=True, width=2**30
    )
    return dumped.removesuffix("...\n")


# ── kyaml ────────────────────────────────────────────────────────────────────

_is_plain_key = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*").fullmatch
_KEYWORDS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})


def format_kyaml(document: Any) -> str:
    """KYAML: braces and brackets, double quotes, a comma also after the last item."""
    return f"---\n{_format_kyaml_value(document, '')}\n"


def _format_kyaml_value(value: Any, indent: str) -> str:
    inner = indent + "  "
    match value:
        case dict() if value:
            lines = [
                f"{inner}{_format_kyaml_key(key)}: {_format_kyaml_value(part, inner)},\n"
                for key, part in value.items()
            ]
            return "{\n" + "".join(lines) + indent + "}"
        case dict():
            return "{}"
        case list() if value and isinstance(value[0], dict):
            return "[" + ", ".join(_format_kyaml_value(item, indent) for item in value) + "]"
        case list() if value:
            return (
                "[\n"
                + "".join(f"{inner}{_format_kyaml_value(item, inner)},\n" for item in value)
                + indent
                + "]"
            )
        case list():
            return "[]"
        case str():
            return _format_kyaml_text(value, indent)
    return json.dumps(value)


def _format_kyaml_key(key: str) -> str:
    return key if _is_plain_key(key) and key.lower() not in _KEYWORDS else json.dumps(key, ensure_ascii=False)


def _format_kyaml_text(value: str, indent: str) -> str:
    if "\n" not in value:
        return json.dumps(value, ensure_ascii=False)
    lines = value.split("\n")
    parts = [json.dumps(line, ensure_ascii=False)[1:-1] for line in lines]
    folded = [f"{indent}   {part}\\n\\\n" for part in parts[:-1]]
    if parts[-1]:
        folded.append(f"{indent}   {parts[-1]}\\\n")
    return '"\\\n' + "".join(folded) + f'{indent}  "'
