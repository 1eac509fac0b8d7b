"""The configurations of `harness/` as kube-burner and clusterloader2 read them, rendered in this process.

`gotpl` executes the templates as Go's text/template does; the functions below are those of the two programs that the
configurations use. The test fails if a template uses another function.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from gotpl import Template

__all__ = ["HARNESS", "render_cluster_loader", "render_kube_burner", "render_object"]

HARNESS: Final = Path(__file__).parents[2] / "harness"
KUBE_BURNER: Final = HARNESS / "kube-burner"
CLUSTER_LOADER: Final = HARNESS / "clusterloader2"

Values = Mapping[str, Any]

_FUNCTIONS: Final[dict[Path, dict[str, Callable[..., Any]]]] = {
    KUBE_BURNER: {
        "get": lambda values, key: values.get(key, ""),
        "default": lambda fallback, value=None: value or fallback,
        "splitList": lambda separator, text: text.split(separator),
        "mul": lambda *numbers: int(numbers[0]) * int(numbers[1]),
    },
    CLUSTER_LOADER: {
        "DefaultParam": lambda value, fallback: fallback if value is None else value,
        "StringSplit": lambda text: text.split(","),
        "AddInt": lambda left, right: int(left) + int(right),
        "MultiplyInt": lambda left, right: int(left) * int(right),
        "DivideInt": lambda left, right: int(left) // int(right),
        "DivideFloat": lambda left, right: float(left) / float(right),
    },
}


def render_kube_burner(**environment: str) -> Any:
    """The configuration of kube-burner, with these variables of the environment."""
    return _render(KUBE_BURNER, "workloads.yml", {"UUID": "some-run", **environment})


def render_cluster_loader(**environment: str) -> Any:
    """The configuration of clusterloader2, with its modules in place of their references."""
    settings = re.findall(r"\.(CL2_\w+)", (CLUSTER_LOADER / "config.yaml").read_text())
    values = {**dict.fromkeys(settings), **environment}
    config = _render(CLUSTER_LOADER, "config.yaml", values)
    config["steps"] = [step for listed in config["steps"] for step in _steps_of(listed)]
    return config


def render_object(path: Path, **values: Any) -> Any:
    """An object, from its template."""
    folder = next(folder for folder in _FUNCTIONS if folder in path.parents)
    return _render(folder, str(path.relative_to(folder)), values)


def _steps_of(step: Values) -> list[Any]:
    if "module" not in step:
        return [step]
    module = step["module"]
    steps: list[Any] = _render(CLUSTER_LOADER, module["path"], module["params"])["steps"]
    return steps


def _render(folder: Path, name: str, values: Values) -> Any:
    template = Template.from_sources({name: (folder / name).read_text()}, functions=_FUNCTIONS[folder])
    return yaml.safe_load(template.render_template(name, dict(values)))
