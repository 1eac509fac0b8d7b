"""Models of the kinds: every field of every version, to documents and back."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykruise.kinds import build_crds
from pykruise.kube.schemas.crds import build_structural_schema
from pykruise.models import LabelSelector, ObjectMeta, document, model_of, parse, v1alpha1, v1beta1
from support.yaml_documents import yaml_documents

_FOLDER = Path(__file__).parents[4] / "examples"
EXAMPLES = sorted([*_FOLDER.glob("*.yaml"), *_FOLDER.glob("requests/*.yaml")])
SERVED = [
    (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"])
    for crd in build_crds()
    for version in crd["spec"]["versions"]
    if crd["spec"]["group"].endswith("kruise.io")
]


@pytest.mark.parametrize(("api_version", "kind"), SERVED)
def test_every_version_of_every_kind_has_a_model(api_version: str, kind: str) -> None:
    model = model_of(api_version, kind)
    module = v1alpha1 if api_version.endswith("v1alpha1") else v1beta1
    assert getattr(module, kind) is model
    assert kind.lower() in module.__all__


@pytest.mark.parametrize(("api_version", "kind"), SERVED)
def test_a_model_has_the_fields_of_its_definition(api_version: str, kind: str) -> None:
    crd = next(crd for crd in build_crds() if crd["spec"]["names"]["kind"] == kind)
    name = api_version.partition("/")[2]
    version = next(version for version in crd["spec"]["versions"] if version["name"] == name)
    served = version["schema"]["openAPIV3Schema"]["properties"]
    made = build_structural_schema(model_of(api_version, kind))["properties"]
    for part in ("spec", "status"):
        assert set(made.get(part, {}).get("properties", {})) == set(
            served.get(part, {}).get("properties", {})
        )


def kruise_documents(path: Path) -> list[dict[str, Any]]:
    documents = yaml_documents(path.read_text())
    return [item for item in documents if item and "kruise.io" in item["apiVersion"]]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_written_as_they_were_read(path: Path) -> None:
    for given in kruise_documents(path):
        once = document(parse(given))
        assert document(parse(once)) == once
        # fields that have their default are left out, and nothing else
        assert _without_defaults(given, once) == once


def _without_defaults(given: Any, wanted: Any) -> Any:
    if isinstance(given, dict) and isinstance(wanted, dict):
        return {
            name: _without_defaults(value, wanted[name]) for name, value in given.items() if name in wanted
        }
    return given


def test_a_field_of_the_wrong_type_is_named() -> None:
    given = kruise_documents(next(path for path in EXAMPLES if path.name == "cloneset.yaml"))[0]
    given["spec"]["replicas"] = "many"
    with pytest.raises(msgspec.ValidationError, match=r"spec\.replicas"):
        parse(given)


def test_a_kind_that_is_not_one_of_these_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        parse({"apiVersion": "apps/v1", "kind": "Deployment"})


def test_an_object_is_built_by_names_of_python_and_sent_by_those_of_json() -> None:
    spec = v1beta1.cloneset.CloneSetSpec(
        replicas=2,
        selector=LabelSelector(match_labels={"app": "web"}),
        template={"metadata": {"labels": {"app": "web"}}},
        scale_strategy=v1beta1.cloneset.ScaleStrategy(max_unavailable="10%"),
    )
    made = document(v1beta1.CloneSet(metadata=ObjectMeta(generate_name="web-"), spec=spec))
    assert made == {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {"generateName": "web-"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}},
            "scaleStrategy": {"maxUnavailable": "10%"},
        },
    }


def test_equal_kinds_of_both_versions_keep_their_api_version() -> None:
    given = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": "a"},
        "spec": {"template": {}},
    }
    model = parse(given)
    assert isinstance(model, v1alpha1.BroadcastJob)
    assert document(model)["apiVersion"] == "apps.kruise.io/v1alpha1"
