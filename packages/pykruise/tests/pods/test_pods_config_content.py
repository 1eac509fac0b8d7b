"""ConfigMaps and Secrets of a template, the record of their content, and changes that the record allows in place."""

from typing import Any

import msgspec
import pytest

from pykruise.pods.in_place import InPlaceSettings, NotInPlace, UpdateSpec, find_difference
from pykruise.pods.template.config_content import (
    CONTENT_ANNOTATION,
    MOST_OBJECTS,
    START_ANNOTATION,
    ConfigUse,
    digest_content,
    find_follow_errors,
    list_config_uses,
    make_annotations,
    read_recorded,
    record_content,
    select_uses,
)
from pykruise.pods.workload.options import ROLL_ON_CONFIG

Document = dict[str, Any]

VOLUMES: list[Document] = [
    {"name": "files", "configMap": {"name": "app"}},
    {"name": "keys", "secret": {"secretName": "app", "optional": True}},
    {
        "name": "both",
        "projected": {"sources": [{"secret": {"name": "tls"}}, {"configMap": {"name": "extra"}}]},
    },
    {"name": "unused", "configMap": {"name": "unused"}},
]


class Revision(msgspec.Struct):
    template: Document
    annotations: dict[str, str] = {}


def pod_of(*containers: Document, **spec: Any) -> Document:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": list(containers), **spec}}


def container(name: str = "main", **fields: Any) -> Document:
    return {"name": name, "image": "nginx:1", **fields}


def mount(volume: str, **fields: Any) -> Document:
    return {"volumeMounts": [{"name": volume, "mountPath": "/etc/app", **fields}]}


def variable(kind: str, name: str, **fields: Any) -> Document:
    return {"name": "KEY", "valueFrom": {f"{kind}KeyRef": {"name": name, "key": "key", **fields}}}


READS_START: Document = {
    "name": "CONFIG",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{START_ANNOTATION}']"}},
}
READS_CONTENT: Document = {
    "name": "CONFIG",
    "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{CONTENT_ANNOTATION}']"}},
}

USES: list[tuple[Document, list[ConfigUse]]] = [
    (pod_of(container(**mount("files"))), [ConfigUse("ConfigMap", "app", is_mounted=True)]),
    (pod_of(container(**mount("files", subPath="a"))), [ConfigUse("ConfigMap", "app", at_start=("main",))]),
    (
        pod_of(container(**mount("files", subPathExpr="a"))),
        [ConfigUse("ConfigMap", "app", at_start=("main",))],
    ),
    (pod_of(container(**mount("keys"))), [ConfigUse("Secret", "app", is_optional=True, is_mounted=True)]),
    (
        pod_of(container(**mount("both"))),
        [ConfigUse("ConfigMap", "extra", is_mounted=True), ConfigUse("Secret", "tls", is_mounted=True)],
    ),
    (
        pod_of(container(env=[variable("configMap", "app")])),
        [ConfigUse("ConfigMap", "app", at_start=("main",))],
    ),
    (
        pod_of(container(env=[variable("secret", "app", optional=True)])),
        [ConfigUse("Secret", "app", is_optional=True, at_start=("main",))],
    ),
    (
        pod_of(container(envFrom=[{"configMapRef": {"name": "app"}}, {"secretRef": {"name": "app"}}])),
        [ConfigUse("ConfigMap", "app", at_start=("main",)), ConfigUse("Secret", "app", at_start=("main",))],
    ),
    (
        pod_of(container(), initContainers=[container("init", **mount("files"))]),
        [ConfigUse("ConfigMap", "app", at_start=("init",))],
    ),
    (
        pod_of(container(), initContainers=[container("side", restartPolicy="Always", **mount("files"))]),
        [ConfigUse("ConfigMap", "app", is_mounted=True)],
    ),
    (
        pod_of(
            container(env=[variable("configMap", "app", optional=True)]), container("other", **mount("files"))
        ),
        [ConfigUse("ConfigMap", "app", is_mounted=True, at_start=("main",))],
    ),
    ({"spec": {"containers": 3, "volumes": [7], "initContainers": [{"env": {"name": "a"}}]}}, []),
    ({"spec": None}, []),
]


@pytest.mark.parametrize(("template", "expected"), USES)
def test_each_use_of_an_object_is_found(template: Document, expected: list[ConfigUse]) -> None:
    if template.get("spec"):
        template["spec"].setdefault("volumes", VOLUMES)
    uses = select_uses(list_config_uses(template), {"all"})
    assert uses == expected


MOUNTED = pod_of(container(**mount("files")), volumes=VOLUMES)
STARTED = pod_of(container(envFrom=[{"configMapRef": {"name": "app"}}]))
RESTARTED = pod_of(container(env=[READS_START], envFrom=[{"configMapRef": {"name": "app"}}]))
MOUNTED_RESTARTED = pod_of(container(env=[READS_CONTENT], **mount("files")), volumes=VOLUMES)
IN_INIT = pod_of(container(), initContainers=[container("init", **mount("files"))], volumes=VOLUMES)

WORKED = """
use                                     | recorded in                  | InPlaceIfPossible
volume                                  | pykruise.io/config-content   | in place, no restart
volume, and a variable with the record  | pykruise.io/config-content   | in place, the container restarts
env, envFrom, subPath                   | pykruise.io/config-at-start  | recreated
the same, and a variable with the record| pykruise.io/config-at-start  | in place, the container restarts
init container                          | pykruise.io/config-at-start  | recreated
"""
"""The table of docs/roll-on-config.md."""

TEMPLATES = (MOUNTED, MOUNTED_RESTARTED, STARTED, RESTARTED, IN_INIT)


def recorded(template: Document, content: str) -> Document:
    uses = select_uses(list_config_uses(template), {"all"})
    digests = {(use.kind, use.name): content for use in uses}
    return record_content(template, make_annotations(uses, digests))


def change(template: Document, settings: InPlaceSettings | None = None) -> UpdateSpec | NotInPlace:
    return find_difference(
        Revision(recorded(template, "1")),
        Revision(recorded(template, "2")),
        revision="new",
        settings=settings or InPlaceSettings(),
    )


@pytest.mark.parametrize(
    ("row", "template"), list(zip(WORKED.strip().splitlines()[1:], TEMPLATES, strict=True))
)
def test_a_changed_content_is_brought_to_pods_as_the_table_shows(row: str, template: Document) -> None:
    _, annotation, how = (part.strip() for part in row.split("|"))
    assert list(read_recorded(recorded(template, "1"))) == [annotation]
    result = change(template)
    if isinstance(result, NotInPlace):
        shown = "recreated"
    else:
        shown = "in place, the container restarts" if result.ref_metadata else "in place, no restart"
    assert shown == how


def test_a_container_that_reads_at_the_start_is_recreated_without_the_gate_for_variables() -> None:
    assert isinstance(change(RESTARTED, InPlaceSettings(env_from_metadata=False)), NotInPlace)


def test_a_record_that_is_removed_restarts_nothing() -> None:
    result = find_difference(
        Revision(recorded(STARTED, "1")),
        Revision(record_content(STARTED, {})),
        revision="new",
        settings=InPlaceSettings(),
    )
    assert isinstance(result, UpdateSpec)


def test_the_digest_of_a_secret_depends_on_its_uid() -> None:
    def document(uid: str, **fields: Any) -> Document:
        return {"metadata": {"name": "app", "uid": uid}, "data": {"key": "c2VjcmV0"}, **fields}

    first, second = document("1"), document("2")
    assert digest_content("Secret", first) != digest_content("Secret", second)
    assert digest_content("ConfigMap", first) == digest_content("ConfigMap", second)
    assert digest_content("ConfigMap", first) == digest_content("ConfigMap", document("1", immutable=True))


def test_an_absent_object_differs_from_an_empty_one() -> None:
    uses = select_uses(list_config_uses(STARTED), {"all"})
    empty = digest_content("ConfigMap", {"metadata": {"name": "app"}})
    assert make_annotations(uses, {}) != make_annotations(uses, {("ConfigMap", "app"): empty})


def test_a_record_keeps_other_annotations_and_replaces_old_records() -> None:
    template = {
        **STARTED,
        "metadata": {"annotations": {"a": "b", CONTENT_ANNOTATION: "old", START_ANNOTATION: "old"}},
    }
    assert record_content(template, {START_ANNOTATION: "new"})["metadata"]["annotations"] == {
        "a": "b",
        START_ANNOTATION: "new",
    }


@pytest.mark.parametrize(
    ("value", "template", "problem"),
    [
        ("all", STARTED, ""),
        ("all", pod_of(container()), ""),
        ("app", STARTED, ""),
        (" app , app", STARTED, ""),
        ("app,other", STARTED, "the template names no ConfigMap or Secret other"),
        (
            "all",
            pod_of(container(envFrom=[{"secretRef": {"name": f"s{n}"}} for n in range(MOST_OBJECTS + 1)])),
            f"selects more than {MOST_OBJECTS} ConfigMaps and Secrets",
        ),
        ("all", None, ""),
    ],
)
def test_an_option_that_selects_nothing_or_too_much_is_an_error(
    value: str, template: Any, problem: str
) -> None:
    metadata = {"annotations": {ROLL_ON_CONFIG.annotation: value}}
    errors = [error.message for error in find_follow_errors(metadata, template)]
    assert [problem in message for message in errors] == ([True] if problem else [])
