"""The file for kube-state-metrics, compared with the series that the manager serves itself."""

from pykruise.kinds import build_crds, list_kinds
from pykruise.manager.kube_state_metrics import build_custom_resource_state
from pykruise.plans.progress import Count

RESOURCES = build_custom_resource_state()["spec"]["resources"]


def test_every_kind_with_a_definition_is_listed_in_its_stored_version() -> None:
    stored = {
        (crd["spec"]["names"]["kind"], version["name"])
        for crd in build_crds()
        for version in crd["spec"]["versions"]
        if version["storage"]
    }
    assert {
        (item["groupVersionKind"]["kind"], item["groupVersionKind"]["version"]) for item in RESOURCES
    } == stored


def test_each_named_place_is_a_field_of_the_crd() -> None:
    schemas = {
        crd["spec"]["names"]["kind"]: version["schema"]["openAPIV3Schema"]
        for crd in build_crds()
        for version in crd["spec"]["versions"]
        if version["storage"]
    }
    for item in RESOURCES:
        kind = item["groupVersionKind"]["kind"]
        for metric in item["metrics"]:
            [body] = [value for name, value in metric["each"].items() if name != "type"]
            path = body.get("path") or body["labelsFromPath"]["value"]
            if path[0] == "metadata":
                continue
            schema = schemas[kind]
            for step in path:
                schema = schema["properties"][step]


def test_numbers_in_one_field_have_the_names_of_the_managers_own_series() -> None:
    there = {
        f"{item['metricNamePrefix']}_{metric['name']}" for item in RESOURCES for metric in item["metrics"]
    }
    for kind in list_kinds():
        if kind.versions and kind.control is not None and kind.shown is not None and kind.shown.metrics:
            counts = kind.shown.metrics.counts
            own = {
                f"kruise_{kind.control.name}_{name}"
                for name, number in counts.items()
                if isinstance(number, Count)
            }
            assert own <= there
