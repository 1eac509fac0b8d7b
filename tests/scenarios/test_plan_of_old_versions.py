"""Manifests of v1alpha1 are judged by v1alpha1's rules: plan and simulate accept every manifest
that `kubectl apply` accepts."""

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

from pykruise.cli.errors import CommandError
from pykruise.cli.insight.known_kinds import convert_to_hub, find_kind_of_document
from pykruise.cli.plan import plan_document
from pykruise.cli.simulate import Conditions, run_simulate
from pykruise.kinds import list_conversions
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.errors import ApiError, ConflictError
from pykruise.kube.schemas.conversion import convert
from support.scenario import Object, Stage, cloneset, rolling
from support.yaml_documents import yaml_documents

EXAMPLES = Path(__file__).parents[2] / "examples"


def in_v1alpha1(**strategy: Any) -> Object:
    """A CloneSet as it was written before there was v1beta1."""
    document = cloneset()
    document["apiVersion"] = "apps.kruise.io/v1alpha1"
    document["spec"]["updateStrategy"] = strategy
    return document


async def test_a_strategy_that_only_v1alpha1_has_is_not_an_error(stage: Stage) -> None:
    # given a CloneSet that is there, written in v1alpha1
    await stage.start_manager()
    strategy = {"type": "InPlaceIfPossible", "maxUnavailable": 1}
    old = convert_to_hub(in_v1alpha1(**strategy))
    await stage.create(old)
    await stage.settled(replicas=3)
    # when the same, with another image, is planned in v1alpha1
    changed = in_v1alpha1(**strategy)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    result = await plan_document(stage.client, changed, namespace=stage.namespace, now=stage.clock())
    # then
    assert result.change == "changed"
    assert [str(field) for field in result.fields] == [
        "spec.template.spec.containers[main].image: nginx:1 → nginx:2"
    ]
    assert set(result.ways.values()) == {"in place"}  # type: ignore[union-attr]


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
async def test_an_unknown_field_is_an_error_that_names_it(stage: Stage, version: str) -> None:
    document = cloneset()
    document["apiVersion"] = f"apps.kruise.io/{version}"
    document["spec"]["replica"] = 5
    result = await plan_document(stage.client, document, namespace=stage.namespace, now=stage.clock())
    assert result.change == "refused"
    assert any("spec.replica" in error for error in result.errors), result.errors


async def test_changed_claim_templates_that_force_new_pods_are_reported_in_both_places(stage: Stage) -> None:
    # given pods with claims, updated in place where that is possible
    await stage.start_manager()
    strategy = rolling(podUpdatePolicy="InPlaceIfPossible")
    before, after = cloneset(updateStrategy=strategy), cloneset(updateStrategy=strategy, image="nginx:2")
    for document, size in ((before, "1Gi"), (after, "2Gi")):
        document["spec"]["volumeClaimTemplates"] = [
            {
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
            }
        ]
    await stage.create(before)
    await stage.settled(replicas=3)
    # when
    result: Any = await plan_document(stage.client, after, namespace=stage.namespace, now=stage.clock())
    # then How and Order agree
    done = {fate.do for batch in result.batches for fate in batch.fates}
    is_in_place = set(result.ways.values()) == {"in place"}
    assert is_in_place == ("update in place" in done), (result.ways, done)


def examples() -> list[Any]:
    """Every example whose kind has two versions."""
    return [
        pytest.param(document, id=f"{path.stem}-{document['metadata']['name']}")
        for path in sorted(EXAMPLES.glob("*.yaml"))
        for document in yaml_documents(path.read_text("utf-8"))
        if (document["apiVersion"].partition("/")[0], document["kind"]) in list_conversions()
    ]


EXAMPLE_OF_KIND = list({example.values[0]["kind"]: example for example in examples()}.values())


@pytest.mark.parametrize("document", EXAMPLE_OF_KIND)
async def test_an_example_of_each_kind_has_the_same_plan_in_both_versions(
    stage: Stage, document: Object
) -> None:
    # given
    group = document["apiVersion"].partition("/")[0]
    versions = list_conversions()[group, document["kind"]].versions
    written = [convert(document, f"{group}/{version}", list_conversions()) for version in versions]
    # when
    result = [
        await plan_document(stage.client, entry, namespace=stage.namespace, now=stage.clock())
        for entry in written
    ]
    # then
    says = [(item.kind, item.name, item.change, item.fields, len(item.batches)) for item in result]
    assert says[0] == says[1]
    # a refusal contains errors in both versions: a required object does not exist
    assert [bool(item.errors) for item in result] == [result[0].change == "refused"] * 2


class Judged(NamedTuple):
    """The response of a command to a manifest: whether it accepts it, and the errors."""

    is_taken: bool
    says: str = ""


async def applied(stage: Stage, document: Object) -> Judged:
    """The response of the API server to a strict dry run of the creation, as in `kubectl apply`."""
    group, version = document["apiVersion"].split("/")
    resource = msgspec.structs.replace(find_kind_of_document(document).resource, group=group, version=version)
    namespace = stage.namespace if resource.namespaced else ""
    try:
        await stage.client.create(resource, namespace, document, dry_run=True, field_validation="Strict")
    except (ApiError, ConflictError) as error:
        return Judged(False, str(error))
    return Judged(True)


async def plan_of(stage: Stage, document: Object) -> Judged:
    result = await plan_document(stage.client, document, namespace=stage.namespace, now=stage.clock())
    return Judged(result.change != "refused", "\n".join(result.errors))


async def simulated(document: Object, file: Path) -> Judged:
    """The response of `pykruise simulate`; kinds that it does not play get a line that says so."""
    await asyncio.to_thread(file.write_text, yaml.safe_dump(document))
    printed: list[str] = []
    try:
        await run_simulate(
            file, changes=(), conditions=Conditions(), svg=None, output="json", say=printed.append, now=0.0
        )
    except CommandError as error:
        return Judged(False, str(error))
    return Judged('"outcome": "refused"' not in printed[0], printed[0])


def in_both_versions(document: Object) -> list[Object]:
    group = document["apiVersion"].partition("/")[0]
    versions = list_conversions()[group, document["kind"]].versions
    return [convert(document, f"{group}/{version}", list_conversions()) for version in versions]


@pytest.mark.parametrize("document", examples())
async def test_plan_and_apply_accept_the_same_examples(stage: Stage, document: Object) -> None:
    written = in_both_versions(document)
    plans = [await plan_of(stage, entry) for entry in written]
    applies = [await applied(stage, entry) for entry in written]
    assert [plan.is_taken for plan in (*plans, *applies)] == [applies[0].is_taken] * 4, (plans, applies)


@pytest.mark.parametrize("document", EXAMPLE_OF_KIND)
async def test_an_example_of_each_kind_is_simulated_identically_in_both_versions(
    document: Object, tmp_path: Path
) -> None:
    first, second = [
        await simulated(version, tmp_path / "app.yaml") for version in in_both_versions(document)
    ]
    assert first == second


@pytest.mark.parametrize("document", EXAMPLE_OF_KIND)
async def test_plan_and_apply_name_the_same_errors(stage: Stage, document: Object) -> None:
    for version in in_both_versions(document):
        numbers = {field: -1 for field, value in version["spec"].items() if isinstance(value, int)}
        for field, value in {"notThere": 7, "selector": {"matchLabels": "x"}, **numbers}.items():
            broken = {**version, "spec": {**version["spec"], field: value}}
            plan, apply = await plan_of(stage, broken), await applied(stage, broken)
            assert plan.is_taken == apply.is_taken, (broken["apiVersion"], field, plan, apply)
            if not plan.is_taken:
                assert f"spec.{field}" in plan.says
                assert f"spec.{field}" in apply.says


async def test_simulate_accepts_both_versions_with_the_same_output(stage: Stage, tmp_path: Path) -> None:
    printed: dict[str, list[str]] = {"v1alpha1": [], "v1beta1": []}
    for version, lines in printed.items():
        document = convert(cloneset(), f"{CLONE_SETS.group}/{version}", list_conversions())
        file = tmp_path / "app.yaml"
        file.write_text(yaml.safe_dump(document))
        code = await run_simulate(
            file, changes=(), conditions=Conditions(), svg=None, output="json", say=lines.append
        )
        assert code == 0
        assert '"outcome": "complete"' in lines[0]
    assert printed["v1alpha1"] == printed["v1beta1"]
