"""kubectl's JSONPath templates: `{.items[*].metadata.name}`, `{range .items[?(@.a=="b")]}{.x}{"\\n"}{end}`.

template ──▶ JsonPath ──▶ render(document)

Pure. The grammar is kubectl's own, which no library has: text around braces, `range` and `end`, quotes.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.cli.kubectl.errors import KubectlError
from pykruise.kube.values.go_text import encode_go_json

_TOKEN: Final = re.compile(r"\{((?:[^{}\"']|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')*)\}")
_STEP: Final = re.compile(
    r"(?P<descend>\.\.)|\.?\[(?P<bracket>(?:[^\[\]\"']|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\[[^\]]*\])*)\]"
    r"|\.(?P<star>\*)|\.?(?P<field>(?:\\.|[^.\[\]\s\\])+)|\.$"
)
_COMPARE: Final = re.compile(r"^(.*?)\s*(==|!=|<=|>=|<|>)\s*(.*)$", re.DOTALL)


class JsonPath:
    """A template. Raises KubectlError when it is invalid."""

    def __init__(self, template: str, *, allow_missing: bool = True) -> None:
        self._template = template if "{" in template else "{" + _add_leading_dot(template) + "}"
        self._allow_missing = allow_missing
        self._parts = list(_split_template(self._template))

    def render(self, document: Any) -> str:
        """Render the template for a document."""
        return self._render(self._parts, document, document)

    def as_json(self, document: Any) -> str:
        """Values that the template selects, as a JSON list."""
        values = [
            value
            for is_code, part in self._parts
            if is_code
            for value in self._evaluate(part, document, document)
        ]
        return json.dumps(values, indent=4, ensure_ascii=False) + "\n"

    def _render(self, parts: Sequence[tuple[bool, str]], current: Any, root: Any) -> str:
        said, position = "", 0
        while position < len(parts):
            is_code, part = parts[position]
            position += 1
            if not is_code:
                said += part
            elif part.startswith("range "):
                end = _find_end(parts, position)
                for value in self._evaluate(part[6:].strip(), current, root):
                    said += self._render(parts[position:end], value, root)
                position = end + 1
            elif part == "end":
                raise KubectlError("error parsing jsonpath: not in range, nothing to end")
            else:
                said += " ".join(_format_value(value) for value in self._evaluate(part, current, root))
        return said

    def _evaluate(self, path: str, current: Any, root: Any) -> list[Any]:
        """Values of the expressions in one pair of braces, in order."""
        values: list[Any] = []
        for word in _split_words(path):
            if word[0] in "\"'":
                values.append(_unquote(word))
            else:
                values += self._walk(word, current, root)
        return values

    def _walk(self, path: str, current: Any, root: Any) -> list[Any]:
        values = [root if path.startswith("$") else current]
        rest = path[1:] if path[:1] in ("$", "@") else path
        while rest:
            match = _STEP.match(rest)
            if match is None:
                raise KubectlError(
                    f"error parsing jsonpath {self._template}, unrecognized character in action: {rest}"
                )
            rest = rest[match.end() :]
            if match["descend"]:
                values = [inner for value in values for inner in _descend(value)]
                rest = rest if rest.startswith("[") else f".{rest}"
            elif match["bracket"] is not None:
                values = [
                    inner
                    for value in values
                    for inner in self._select_in_brackets(value, match["bracket"], root)
                ]
            elif match["star"]:
                values = [inner for value in values for inner in _list_values(value)]
            elif match["field"]:
                values = self._select_fields(values, re.sub(r"\\(.)", r"\1", match["field"]))
        return values

    def _select_fields(self, values: Sequence[Any], name: str) -> list[Any]:
        fields = []
        for value in values:
            if isinstance(value, Mapping) and name in value:
                fields.append(value[name])
            elif not self._allow_missing:
                raise KubectlError(
                    f"error executing jsonpath {json.dumps(self._template)}: {name} is not found"
                )
        return fields

    def _select_in_brackets(self, value: Any, inside: str, root: Any) -> list[Any]:
        inside = inside.strip()
        if inside == "*":
            return list(_list_values(value))
        if inside.startswith("?(") and inside.endswith(")"):
            return [item for item in _list_values(value) if self._is_true(inside[2:-1], item, root)]
        if inside[:1] in "\"'" and inside:
            names = [_unquote(part.strip()) for part in inside.split(",")]
            return [field for name in names for field in self._select_fields([value], name)]
        bracket: list[Any] = []
        for part in inside.split(","):
            bracket += _index_list(value, part.strip())
        return bracket

    def _is_true(self, condition: str, value: Any, root: Any) -> bool:
        match = _COMPARE.match(condition)
        if match is None:
            return bool(self._evaluate(condition.strip(), value, root))
        left, operator, right = match.groups()
        lefts, rights = (
            self._list_operand_values(left, value, root),
            self._list_operand_values(right, value, root),
        )
        return bool(lefts and rights) and _compare(lefts[0], operator, rights[0])

    def _list_operand_values(self, text: str, value: Any, root: Any) -> list[Any]:
        text = text.strip()
        if text[:1] in ("@", "$", "."):
            return self._walk(text, value, root)
        if text[:1] in ('"', "'"):
            return [_unquote(text)]
        try:
            return [json.loads(text)]
        except ValueError:
            return [text]


def _add_leading_dot(template: str) -> str:
    return template if template.startswith((".", "[", "$", "@")) else f".{template}"


def _split_template(template: str) -> Iterator[tuple[bool, str]]:
    position = 0
    for match in _TOKEN.finditer(template):
        if match.start() > position:
            yield False, template[position : match.start()]
        yield True, match[1].strip()
        position = match.end()
    rest = template[position:]
    if "{" in rest:
        raise KubectlError(f"error parsing jsonpath {template}, unclosed action")
    if rest:
        yield False, rest


def _find_end(parts: Sequence[tuple[bool, str]], position: int) -> int:
    depth = 1
    for number in range(position, len(parts)):
        is_code, part = parts[number]
        depth += is_code and part.startswith("range ")
        depth -= is_code and part == "end"
        if not depth:
            return number
    raise KubectlError("error parsing jsonpath: unexpected end of range, missing {end}")


def _split_words(text: str) -> list[str]:
    """Split at spaces outside of quotes and brackets."""
    words: list[str] = []
    word, depth, quote = "", 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote and not word.endswith("\\") else quote
        elif char in "\"'":
            quote = char
        depth += (not quote and char in "[(") - (not quote and char in "])")
        if char == " " and not depth and not quote:
            words, word = ([*words, word] if word else words), ""
        else:
            word += char
    return [*words, word] if word else words


def _unquote(word: str) -> str:
    body = word[1:-1]
    if word[0] == "'":
        body = body.replace("\\'", "'").replace('"', '\\"')
    try:
        return str(json.loads(f'"{body}"'))
    except ValueError as error:
        raise KubectlError(f"error parsing jsonpath: {word} is not a text") from error


def _list_values(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descend(value: Any) -> Iterator[Any]:
    yield value
    for inner in _list_values(value):
        yield from _descend(inner)


def _index_list(value: Any, text: str) -> list[Any]:
    if not isinstance(value, list):
        return []
    try:
        numbers = [int(part) if part else None for part in text.split(":")]
    except ValueError as error:
        raise KubectlError(f"error parsing jsonpath: invalid array index {text}") from error
    if len(numbers) > 1:
        return value[slice(*numbers)]
    index = numbers[0] or 0
    if -len(value) <= index < len(value):
        return [value[index]]
    raise KubectlError(f"array index out of bounds: index {index}, length {len(value)}")


def _compare(left: Any, operator: str, right: Any) -> bool:
    if operator in ("==", "!="):
        return bool(left == right) == (operator == "==")
    try:
        results = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
        return bool(results[operator])
    except TypeError:
        return False


def _format_value(value: Any) -> str:
    match value:
        case str():
            return value
        case None:
            return ""
    return encode_go_json(value, sort_keys=True)
