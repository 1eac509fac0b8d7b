"""YAML as the programs of Kubernetes read and write it: with the values that JSON has.

text ──▶ read_yaml(), read_yaml_documents() ──▶ documents
documents ──▶ format_yaml(), format_yaml_stream() ──▶ text

kubectl and API servers use sigs.k8s.io/yaml. It reads some plain texts differently than PyYAML: `22:30`, dates and `=`
are texts; `1e3`, `0o17` and `089` are numbers; `y` is true. This module reads them in the same way. It writes quotes
around each text that some reader of YAML takes for another value.
"""

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import yaml

__all__ = [
    "KubernetesDumper",
    "KubernetesLoader",
    "format_yaml",
    "format_yaml_stream",
    "read_yaml",
    "read_yaml_documents",
]

_BOOL: Final = "tag:yaml.org,2002:bool"
_INT: Final = "tag:yaml.org,2002:int"
_FLOAT: Final = "tag:yaml.org,2002:float"
_REPLACED: Final = frozenset({_BOOL, _INT, _FLOAT, "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"})
_TRUE: Final = frozenset({"y", "yes", "true", "on"})
_INFINITE: Final = r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_EXPONENT: Final = "(?:[eE][-+]?[0-9_]+)?"
_RESOLVERS: Final = (
    (
        _BOOL,
        re.compile(
            r"(?:y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF|true|True|TRUE|false|False|FALSE)$"
        ),
        "yYnNoOtTfF",
    ),
    (
        _INT,
        re.compile(r"[-+]?(?:0[bB][01_]+|0[xX][0-9a-fA-F_]+|0[oO]?[0-7_]+|0|[1-9][0-9_]*)$"),
        "-+0123456789",
    ),
    (
        _FLOAT,
        re.compile(
            rf"(?:\.[0-9]+{_EXPONENT}|[-+]\.[0-9_]+{_EXPONENT}|[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?{_EXPONENT}|{_INFINITE})$"
        ),
        "-+.0123456789",
    ),
)
"""Tag, plain texts, first characters: the rule of sigs.k8s.io/yaml 1.6 (goyaml.v2, resolve.go)."""


class KubernetesLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loads plain texts and keys as sigs.k8s.io/yaml does. Uses libyaml if it is installed."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
        """Return a mapping whose keys are texts: the key `1` is "1", and the key `y` is "true"."""
        self.flatten_mapping(node)
        return {self._read_key(key): self.construct_object(value, deep=deep) for key, value in node.value}

    def _read_key(self, node: Any) -> str:
        key = self.construct_object(node, deep=True)
        if isinstance(key, str):
            return key
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, int | float):
            return str(key)
        raise yaml.constructor.ConstructorError(
            "while constructing a mapping",
            node.start_mark,
            "found a key that is no text or number",
            node.start_mark,
        )


class KubernetesDumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes YAML that programs of Kubernetes and other readers understand in the same way. Uses libyaml if it is
    installed: Python code takes a third of a second for the CRDs alone.

    It writes no anchors, because anchors are hard to read for people.
    """

    def ignore_aliases(self, _data: object) -> bool:
        return True


KubernetesLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _pattern, _first in _RESOLVERS:
    KubernetesLoader.add_implicit_resolver(_tag, _pattern, list(_first))
    KubernetesDumper.add_implicit_resolver(_tag, _pattern, list(_first))


def _read_bool(loader: Any, node: Any) -> bool:
    return str(loader.construct_scalar(node)).lower() in _TRUE


def _read_int(loader: Any, node: Any) -> Any:
    """Return a number, or the text if it has no digits, such as `0x_`."""
    text = str(loader.construct_scalar(node))
    try:
        result = _read_digits(text)
    except ValueError:
        return text
    return result if -(2**63) <= result < 2**64 else float(result)


def _read_digits(text: str) -> int:
    """Return the number of a text such as `-0x1F`, `017` or `1_000`. Raises ValueError."""
    digits = text.replace("_", "").lower()
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if digits.startswith("0") and digits != "0" and digits[1] not in "box":
        digits = f"0o{digits}"
    return sign * int(digits, 0)


def _read_float(loader: Any, node: Any) -> Any:
    """Return a number, as int if JSON writes it without a fraction; the text if it is too large or has no digits."""
    text = str(loader.construct_scalar(node))
    digits = text.replace("_", "").lower()
    if digits.endswith(("inf", "nan")):
        return float(digits.replace(".", ""))
    try:
        result = float(digits)
    except ValueError:
        return text
    if math.isinf(result):
        return text
    return int(result) if result.is_integer() and abs(result) < 1e21 else result


KubernetesLoader.add_constructor(_BOOL, _read_bool)
KubernetesLoader.add_constructor(_INT, _read_int)
KubernetesLoader.add_constructor(_FLOAT, _read_float)


def read_yaml(text: str) -> Any:
    """Return the only value of a text. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=KubernetesLoader)


def read_yaml_documents(text: str) -> Iterator[Any]:
    """Return the values of a text with `---` between them; None for an empty one. Raises yaml.YAMLError."""
    return iter(yaml.load_all(text, Loader=KubernetesLoader))


def format_yaml(
    value: Any,
    *,
    sort_keys: bool = False,
    allow_unicode: bool = False,
    width: int = 120,
    dumper: type[KubernetesDumper] = KubernetesDumper,
) -> str:
    """Return one value as YAML. `width`: columns after which long texts are folded."""
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=sort_keys, allow_unicode=allow_unicode, width=width)
    return text


def format_yaml_stream(documents: Iterable[Any]) -> str:
    """Return all documents, each after a line `---`."""
    return "".join(f"---\n{format_yaml(document)}" for document in documents)
