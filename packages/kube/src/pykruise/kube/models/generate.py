"""Generates a module of typed models from CustomResourceDefinitions.

definitions ──▶ models_module() ──▶ Python source: one class per object of the schema, named after its path

Each kind has a class (`Certificate`). The name of each further class is the path of its object: `CertificateSpec`,
`CertificateSpecIssuerRef`. So a new field renames no class. Objects with equal schemas share one class; the other names
are aliases of it. The class of the items of a list `ports` ends in `Port`.

Pure. Only the API server checks the rules of the schema that a type cannot express (patterns, CEL).
"""

import keyword
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.models.model import camel_of

__all__ = ["GenerationError", "models_module"]

Schema = Mapping[str, Any]

_WIDTH: Final = 100
_TAKEN_FIELDS: Final = frozenset({"rest", "bool", "dict", "float", "int", "list", "str"})
"""Names that have another meaning inside a class: the field `rest`, and types in annotations."""
_TAKEN_CLASSES: Final = frozenset(
    {"Annotated", "Any", "ListMapKeys", "Literal", "Model", "ModelMetadata", "None"}
)
_FACTS: Final[Mapping[str, str]] = {
    "default": "Default",
    "minimum": "Minimum",
    "maximum": "Maximum",
    "minLength": "Shortest length",
    "maxLength": "Longest length",
    "minItems": "Fewest items",
    "maxItems": "Most items",
    "pattern": "Pattern",
    "format": "Format",
}
"""Keywords of a schema whose values are written into docstrings, each with its name in the docstring."""


class GenerationError(ValueError):
    """A definition from which no models can be generated. The message names it and the reason."""


def models_module(definitions: Iterable[Document], *, version: str = "") -> str:
    """Return the source of a module with the models of some CustomResourceDefinitions.

    `version`: the version of each kind; empty: the stored version. Raises GenerationError for a document that is not a
    CustomResourceDefinition of apiextensions.k8s.io/v1, for a version without a schema, and for two kinds with the same
    name.
    """
    writer = _Writer()
    for definition in definitions:
        writer.add_kind(definition, version)
    if not writer.kinds:
        raise GenerationError("the input contains no CustomResourceDefinition")
    return writer.source()


class _Field(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    encoded: str
    annotation: str
    default: str
    """Source of the default; empty: the field is required."""
    description: str


class _Writer:
    """Collects classes, children first."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {}
        """The apiVersion of each kind, by the name of the kind."""
        self._blocks: list[str] = []
        self._names: set[str] = set(_TAKEN_CLASSES)
        self._class_of: dict[bytes, str] = {}
        """The class of each schema, by the encoded schema."""

    def add_kind(self, definition: Document, version: str) -> None:
        """Add the classes of one kind."""
        schema, api_version, kind = _read_definition(definition, version)
        if kind in self.kinds:
            raise GenerationError(
                f"{self.kinds[kind]} and {api_version} both define kind {kind}: generate two modules"
            )
        self.kinds[kind] = api_version
        properties = dict(schema.get("properties") or {})
        for name in ("apiVersion", "kind", "metadata"):
            properties.pop(name, None)
        name = self._take(kind)
        constants = [
            _Field(
                name=field,
                encoded=encoded,
                annotation=f"Literal[{_quote_source(value)}]",
                default=_quote_source(value),
                description="",
            )
            for field, encoded, value in (("api_version", "apiVersion", api_version), ("kind", "kind", kind))
        ]
        metadata = _Field(
            name="metadata", encoded="metadata", annotation="ModelMetadata", default="", description=""
        )
        fields = self._build_fields(properties, schema.get("required") or (), name)
        self._add_class(name, schema.get("description", ""), [*constants, metadata, *fields])

    def source(self) -> str:
        """Return the module."""
        body = "\n\n\n".join(self._blocks)
        typing = [name for name in ("Annotated", "Any", "Literal") if re.search(rf"\b{name}\[|\bAny\b", body)]
        typing = [name for name in typing if re.search(rf"\b{name}\b", body)]
        models = [
            name for name in ("ListMapKeys", "Model", "ModelMetadata") if re.search(rf"\b{name}\b", body)
        ]
        names = ", ".join(f"{kind} ({api_version})" for kind, api_version in self.kinds.items())
        imports = [f"from typing import {', '.join(typing)}"]
        if "msgspec.field(" in body:
            imports += ["", "import msgspec"]
        imports += ["", f"from pykruise.kube.models import {', '.join(models)}"]
        exported = "".join(f"\n    {name!r}," for name in sorted(self._names - _TAKEN_CLASSES)).replace(
            "'", '"'
        )
        head = (
            '"""Models of '
            + _escape_docstring(names)
            + '. Generated by `pykruise-kube models`: do not edit."""'
        )
        return "\n".join([head, "", *imports, "", f"__all__ = [{exported}\n]", "", "", body, ""])

    # ── types ────────────────────────────────────────────────────────────────

    def _build_annotation(self, schema: Schema, name: str) -> str:
        """Return the annotation of a value. `name`: name of the class, if the value needs a class."""
        annotation = self._build_plain_annotation(schema, name)
        is_nullable = schema.get("nullable") and annotation not in ("Any", "None")
        return f"{annotation} | None" if is_nullable else annotation

    def _build_plain_annotation(self, schema: Schema, name: str) -> str:
        if schema.get("x-kubernetes-int-or-string"):
            return "int | str"
        if (literal := _find_literal(schema)) is not None:
            return literal
        match schema.get("type"):
            case "string":
                return "str"
            case "integer":
                return "int"
            case "number":
                return "int | float"
            case "boolean":
                return "bool"
            case "array":
                items = self._build_annotation(schema.get("items") or {}, _choose_singular(name))
                keys = schema.get("x-kubernetes-list-map-keys") or ()
                if keys and schema.get("x-kubernetes-list-type") == "map":
                    return f"Annotated[list[{items}], ListMapKeys({', '.join(map(_quote_source, keys))})]"
                return f"list[{items}]"
            case "object":
                return self._build_object_annotation(schema, name)
        return "Any"

    def _build_object_annotation(self, schema: Schema, name: str) -> str:
        if schema.get("x-kubernetes-embedded-resource"):
            return "dict[str, Any]"
        if properties := schema.get("properties"):
            key = msgspec.json.encode(schema, order="deterministic")
            known = self._class_of.get(key)
            taken = self._take(name)
            if known is not None:
                self._blocks.append(f"{taken} = {known}")
                return taken
            self._class_of[key] = taken
            fields = self._build_fields(properties, schema.get("required") or (), taken)
            self._add_class(taken, schema.get("description", ""), fields)
            return taken
        additional = schema.get("additionalProperties")
        if isinstance(additional, Mapping):
            return f"dict[str, {self._build_annotation(additional, f'{name}Value')}]"
        return "dict[str, Any]"

    def _build_fields(self, properties: Schema, required: Iterable[str], owner: str) -> list[_Field]:
        always = frozenset(required)
        taken: set[str] = set()
        fields = [
            self._build_field(
                encoded, schema, owner, taken, is_required=encoded in always and "default" not in schema
            )
            for encoded, schema in properties.items()
        ]
        return sorted(fields, key=lambda field: bool(field.default))

    def _build_field(
        self, encoded: str, schema: Schema, owner: str, taken: set[str], *, is_required: bool
    ) -> _Field:
        name = _choose_unused_name(_choose_field_name(encoded), taken)
        annotation = self._build_annotation(schema, owner + _build_class_part(encoded))
        is_optional = not is_required and annotation != "Any" and not annotation.endswith(" | None")
        return _Field(
            name=name,
            encoded=encoded,
            annotation=f"{annotation} | None" if is_optional else annotation,
            default="" if is_required else "None",
            description=_describe_schema(schema),
        )

    # ── source ───────────────────────────────────────────────────────────────

    def _take(self, name: str) -> str:
        return _choose_unused_name(name, self._names)

    def _add_class(self, name: str, description: str, fields: Iterable[_Field]) -> None:
        lines = [
            f"class {name}(Model, frozen=True, kw_only=True):",
            *_format_docstring(description or f"{name}. The definition does not describe it."),
        ]
        for field in fields:
            lines += ["", *_format_field(field)] if field.description else _format_field(field)
        self._blocks.append("\n".join(lines))


def _read_definition(definition: Document, version: str) -> tuple[Schema, str, str]:
    """Return the schema, the apiVersion and the kind."""
    if (definition.get("apiVersion"), definition.get("kind")) != (
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
    ):
        what = f"{definition.get('apiVersion')} {definition.get('kind')}"
        raise GenerationError(f"{what} is not a CustomResourceDefinition of apiextensions.k8s.io/v1")
    spec = definition["spec"]
    names = [item["name"] for item in spec["versions"]]
    is_wanted: Callable[[Schema], bool] = lambda item: item["name"] == version if version else item["storage"]  # noqa: E731
    chosen = next((item for item in spec["versions"] if is_wanted(item)), None)
    kind = spec["names"]["kind"]
    if chosen is None:
        raise GenerationError(f"{kind} has no version {version}: it has {', '.join(names)}")
    schema = (chosen.get("schema") or {}).get("openAPIV3Schema")
    if not schema:
        raise GenerationError(f"version {chosen['name']} of {kind} has no schema")
    return schema, f"{spec['group']}/{chosen['name']}", kind


def _find_literal(schema: Schema) -> str | None:
    """Return the Literal of an enum; None: there is none, or it has values that a Literal cannot have."""
    values = [value for value in schema.get("enum") or () if value is not None]
    if not values or not all(isinstance(value, str | int) for value in values):
        return None
    return f"Literal[{', '.join(_quote_source(value) if isinstance(value, str) else repr(value) for value in values)}]"


def _format_field(field: _Field) -> list[str]:
    value = field.default
    if camel_of(field.name) != field.encoded:
        default = f"default={field.default}, " if field.default else ""
        value = f"msgspec.field({default}name={_quote_source(field.encoded)})"
    line = f"    {field.name}: {field.annotation}" + (f" = {value}" if value else "")
    return [line, *_format_docstring(field.description)] if field.description else [line]


def _describe_schema(schema: Schema) -> str:
    facts = [
        f"{words}: `{msgspec.json.encode(schema[name]).decode()}`"
        for name, words in _FACTS.items()
        if name in schema
    ]
    return "\n\n".join(part for part in (schema.get("description", "").strip(), "; ".join(facts)) if part)


def _format_docstring(text: str) -> list[str]:
    """Return the lines of an indented docstring. Paragraphs are filled; indented ones and lists stay as they are."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        stripped = line.rstrip()
        is_prose = stripped and not stripped.startswith((" ", "\t", "-", "*", "|"))
        lines += (
            textwrap.wrap(stripped, _WIDTH - 4, break_long_words=False, break_on_hyphens=False)
            if is_prose
            else [stripped]
        )
    escaped = [_escape_docstring(line) for line in lines]
    if len(escaped) == 1:
        end = " " if escaped[0].endswith('"') else ""
        return [f'    """{escaped[0]}{end}"""']
    return [f'    """{escaped[0]}', *(f"    {line}".rstrip() for line in escaped[1:]), '    """']


def _escape_docstring(text: str) -> str:
    return (
        "".join(c if c == "\t" or c.isprintable() else " " for c in text)
        .replace("\\", "\\\\")
        .replace('"""', '\\"\\"\\"')
    )


def _quote_source(value: str) -> str:
    """Return the source of a string, in double quotes."""
    return msgspec.json.encode(value).decode()


def _choose_field_name(encoded: str) -> str:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", encoded)
    # `clusterIPs` is `cluster_ips`: an s behind capitals is their plural.
    spaced = re.sub(r"([A-Z]+)([A-Z](?!s(?:$|[^a-z]))[a-z])", r"\1_\2", spaced)
    name = re.sub(r"\W+", "_", spaced, flags=re.ASCII).strip("_").lower() or "field"
    name = f"field_{name}" if name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) or name in _TAKEN_FIELDS else name


def _build_class_part(encoded: str) -> str:
    words = re.split(r"[^A-Za-z0-9]+", encoded)
    return "".join(word[0].upper() + word[1:] for word in words if word) or "Field"


def _choose_singular(name: str) -> str:
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    if name.endswith(("sses", "xes", "ches", "shes")):
        return name[:-2]
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else f"{name}Item"


def _choose_unused_name(name: str, taken: set[str]) -> str:
    """Return the name, with a number at its end if the name is taken already."""
    result, number = name, 2
    while result in taken:
        result, number = f"{name}{'' if name.endswith('_') else '_'}{number}", number + 1
    taken.add(result)
    return result
