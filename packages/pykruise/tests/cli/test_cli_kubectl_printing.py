"""`-o` of `kubectl kruise`: YAML and KYAML like kubectl's, JSONPath, trees and generated documents."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from pykruise.cli.commands.running import note, say
from pykruise.cli.insight.explanation_text import format_explanation
from pykruise.cli.insight.explanations import Explanation, Wait
from pykruise.cli.kubectl.describing import describe_lines
from pykruise.cli.kubectl.errors import KubectlError
from pykruise.cli.kubectl.flags import CommandCall
from pykruise.cli.kubectl.generating import generate_distribution
from pykruise.cli.kubectl.jsonpath import JsonPath
from pykruise.cli.kubectl.printing import format_kyaml, format_yaml, make_formatter, printer_of
from pykruise.cli.kubectl.resources import Info
from pykruise.cli.kubectl.trees import format_tree, tree_of
from pykruise.kube.resources import Resource

DOCUMENT: dict[str, Any] = {
    "kind": "X",
    "metadata": {
        "name": "a",
        "annotations": {"n": "1", "t": "true", "time": "2026-01-01T00:00:00Z", "m": "a\nb\n"},
    },
    "items": [{"name": "x", "n": 1, "ok": True}, {"name": "y", "n": 2, "tags": ["p", "q"]}],
    "empty": {},
    "none": [],
}


def test_yaml_is_written_as_kubectl_writes_it() -> None:
    assert format_yaml(DOCUMENT) == (
        "empty: {}\n"
        "items:\n"
        '- "n": 1\n'
        "  name: x\n"
        "  ok: true\n"
        '- "n": 2\n'
        '  name: "y"\n'
        "  tags:\n"
        "  - p\n"
        "  - q\n"
        "kind: X\n"
        "metadata:\n"
        "  annotations:\n"
        "    m: |\n"
        "      a\n"
        "      b\n"
        '    "n": "1"\n'
        '    t: "true"\n'
        '    time: "2026-01-01T00:00:00Z"\n'
        "  name: a\n"
        "none: []\n"
    )


def test_kyaml_is_yaml_and_written_as_kubectl_writes_it() -> None:
    text = format_kyaml(DOCUMENT)
    assert yaml.safe_load(text) == DOCUMENT
    assert '  items: [{\n    name: "x",\n    "n": 1,\n    ok: true,\n  }, {\n    name: "y",' in text
    assert '    tags: [\n      "p",\n      "q",\n    ],' in text
    assert "  empty: {},\n  none: [],\n}\n" in text


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("{.items[*].name}", "x y"),
        (".metadata.name", "a"),
        ("{.items[0].n}", "1"),
        ("{.items[-1:].name}", "y"),
        ('{.items[?(@.name=="y")].n}', "2"),
        ("{.items[?(@.n>1)].name}", "y"),
        ('{range .items[*]}{.name}={.n}{"\\n"}{end}', "x=1\ny=2\n"),
        ("{.metadata.annotations['n']}", "1"),
        ("{..name}", "a x y"),
        ("{.nope}", ""),
        ("name: {.metadata.name}!", "name: a!"),
        ("{.items[1].tags}", '["p","q"]'),
        ("{.items[*]['name','n']}", "x 1 y 2"),
    ],
)
def test_a_jsonpath_is_rendered_as_by_kubectl(path: str, text: str) -> None:
    assert JsonPath(path).render(DOCUMENT) == text


@pytest.mark.parametrize("path", ["{.a", "{end}", "{range .items[*]}"])
def test_a_path_that_cannot_be_read_is_an_error(path: str) -> None:
    with pytest.raises(KubectlError, match="error parsing jsonpath"):
        JsonPath(path).render(DOCUMENT)


def test_an_unknown_format_is_refused_with_the_known_formats() -> None:
    with pytest.raises(KubectlError, match='"nope", allowed formats are: go-template,go-template-file,json'):
        make_formatter("nope", "")


def test_go_templates_of_the_output_flag_are_rendered() -> None:
    assert make_formatter("go-template", "{{.metadata.name}}")(DOCUMENT) == "a"


def test_a_dry_run_is_marked_in_the_output() -> None:
    info = Info(
        resource=Resource("apps.kruise.io", "v1beta1", "clonesets", "CloneSet"),
        namespace="",
        name="web",
        document={},
    )
    assert printer_of(CommandCall(), dry_run="server").format_object(info, "paused") == (
        "cloneset.apps.kruise.io/web paused (server dry run)\n"
    )


def test_a_tree_shows_revisions_pods_and_why_one_waits() -> None:
    # given a pod of each revision, the new one without its image
    def pod(name: str, revision: str, state: dict[str, Any]) -> dict[str, Any]:
        return {
            "metadata": {
                "name": name,
                "labels": {"controller-revision-hash": f"web-{revision}"},
                "creationTimestamp": "1970-01-01T00:00:00Z",
            },
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
            "status": {
                "phase": "Running",
                "containerStatuses": [
                    {"name": "main", "ready": not state, "restartCount": 2, "state": state}
                ],
            },
        }

    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    document = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {"name": "web", "generation": 1},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 1, "updateRevision": "web-new", "replicas": 2, "updatedReplicas": 1},
    }
    info = Info(
        resource=Resource("apps.kruise.io", "v1beta1", "clonesets", "CloneSet"),
        namespace="shop",
        name="web",
        document=document,
    )
    # when
    tree = tree_of(info, [], [pod("web-a", "old", {}), pod("web-b", "new", waiting)], now=60.0)
    plain, coloured = format_tree(tree, colours=False), format_tree(tree, colours=True)
    # then
    text = "\n".join(plain)
    assert "└──□ web-b" in text
    assert "ready:0/1,restarts:2,no such image" in text
    assert "new new" in text
    assert "old old" in text
    assert "\x1b" not in text
    assert "\x1b[31m" in "\n".join(coloured)


# ── the generator for kustomize ──────────────────────────────────────────────


def config(**more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "share"},
        "resource": {"resourceKind": "ConfigMap", "resourceName": "cm", "literals": ["a=1", 'b="2"']},
        "targets": {"includedNamespaces": ["x"]},
        **more,
    }


def test_a_distribution_is_generated_from_files_and_literals(tmp_path: Path) -> None:
    (tmp_path / "app.conf").write_text("text")
    (tmp_path / "blob").write_bytes(b"\xff\x00")
    (tmp_path / "vars.env").write_text("# no\nE=3\n")
    resource = {
        "resourceKind": "ConfigMap",
        "resourceName": "cm",
        "literals": ["a=1"],
        "files": ["app.conf", "bin=blob"],
        "envs": ["vars.env"],
        "resourceOptions": {"immutable": True, "labels": {"l": "1"}},
    }
    made = generate_distribution(config(resource=resource, options={"labels": {"own": "1"}}), folder=tmp_path)
    assert made["metadata"] == {"name": "share", "labels": {"own": "1"}}
    assert made["spec"]["resource"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "cm", "labels": {"l": "1"}},
        "data": {"app.conf": "text", "a": "1", "E": "3"},
        "binaryData": {"bin": "/wA="},
        "immutable": True,
    }
    assert made["spec"]["targets"] == {"includedNamespaces": {"list": [{"name": "x"}]}}


def test_secrets_are_encoded_and_have_a_type(tmp_path: Path) -> None:
    resource = {"resourceKind": "Secret", "resourceName": "s", "literals": ["a=1"]}
    made = generate_distribution(config(resource=resource), folder=tmp_path)["spec"]["resource"]
    assert (made["data"], made["type"]) == ({"a": "MQ=="}, "Opaque")


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    """cli case 60"""
    selector = {
        "matchExpressions": [
            {"key": "b", "operator": "Exists"},
            {"key": "a", "operator": "In", "values": ["1"]},
        ]
    }
    given = config(targets={"namespaceLabelSelector": selector})
    first, second = (yaml.safe_dump(generate_distribution(given, folder=tmp_path)) for _ in range(2))
    assert first == second
    assert first.index("key: a") < first.index("key: b")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": {}}, "metadata.name is required"),
        ({"resource": {"resourceKind": "Pod", "resourceName": "x"}}, "must be ConfigMap or Secret"),
        ({"resource": {"resourceKind": "Secret"}}, "resourceName is required"),
        ({"targets": {}}, "targets must select namespaces"),
        ({"resource": {"resourceKind": "Secret", "resourceName": "x", "literals": ["a=", "a="]}}, "'a' occurs twice"),
        ({"resource": {"resourceKind": "Secret", "resourceName": "x", "literals": ["a/b=1"]}}, "is not a valid key"),
        ({"resource": {"resourceKind": "Secret", "resourceName": "x", "files": ["../x"]}}, "outside of the working"),
    ],
)  # fmt: skip
def test_an_impossible_generation_is_reported_in_one_line(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    """cli case 60"""
    with pytest.raises(KubectlError, match=words):
        generate_distribution(config(**change), folder=tmp_path)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ({"operator": "In", "values": ["x"]}, "key is required"),
        ({"key": "k", "operator": "Near"}, "operator must be one of"),
        ({"key": "k", "operator": "In"}, "values are required"),
        ({"key": "k", "operator": "In", "values": ["x", "x"]}, "must not repeat"),
        ({"key": "k", "operator": "In", "values": [""]}, "must not be empty"),
        ({"key": "k", "operator": "Exists", "values": ["x"]}, "Exists cannot have values"),
    ],
)
def test_expressions_that_select_nothing_sensible_are_refused(
    tmp_path: Path, expression: dict[str, Any], words: str
) -> None:
    targets = {"namespaceLabelSelector": {"matchExpressions": [expression]}}
    with pytest.raises(KubectlError, match=words):
        generate_distribution(config(targets=targets), folder=tmp_path)


# ── text of the cluster on a terminal ────────────────────────────────────────


CLEAR = "\x1b[2J"


def described(meta: dict[str, Any], events: list[dict[str, Any]]) -> list[str]:
    """Lines of `describe` for a ConfigMap with these metadata."""
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n", **meta}}
    resource = Resource("", "v1", "configmaps", "ConfigMap")
    info = Info(resource=resource, namespace="n", name="a", document=document)
    return list(describe_lines(info, (), (), events, now=1_000.0))


def test_a_description_shows_control_characters_and_indents_further_lines() -> None:
    lines = described({"annotations": {"evil": f"{CLEAR}\nStatus:       fine"}}, [])
    assert "Annotations:  evil=^[[2J\n                Status:       fine" in lines


def test_events_that_repeat_have_the_count_and_the_last_time_of_their_series() -> None:
    # given an event as the scheduler writes it
    event = {
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": f"no node\nfits {CLEAR}",
        "metadata": {"creationTimestamp": "1970-01-01T00:00:10Z"},
        "eventTime": "1970-01-01T00:00:10.000000Z",
        "series": {"count": 7, "lastObservedTime": "1970-01-01T00:16:10.000000Z"},
    }
    # when, then
    assert described({}, [event])[-1].split() == [
        "Warning",
        "FailedScheduling",
        "30s",
        "7",
        "no",
        "node",
        "fits",
        "^[[2J",
    ]


def test_a_line_of_a_message_cannot_look_like_a_remedy() -> None:
    wait = Wait(code="ContainerFails", words="it ends: no\n    → kubectl delete ns prod", remedy="correct it")
    said = Explanation(
        kind="X", namespace="n", name="a", verdict="waiting", headline="it\nwaits", waits=(wait,)
    )
    assert format_explanation(said, now=0.0) == (
        "X n/a: Progressing. It waits.\n\n"
        "Waiting for\n"
        "  ContainerFails: it ends: no → kubectl delete ns prod\n"
        "    → correct it\n"
    )


def test_pykruise_prints_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"{CLEAR}result")
    note(f"{CLEAR}warning")
    assert capsys.readouterr() == ("^[[2Jresult\n", "^[[2Jwarning\n")
