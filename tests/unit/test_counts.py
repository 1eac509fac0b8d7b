"""Numbers with their nouns: `1 pod`, `2 pods`. Each text takes both from the one helper of its language.

sources ──▶ f-strings, templates and texts with placeholders ──▶ a number before a plural that no helper chose

The test looks only at letters, so a word that ends in s and is no noun must be in VERBS. Words of other programs, which
scripts and people compare, are as those programs write them: OF_OTHERS.
"""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch

import pytest

from pykruise.kube.values.counts import format_count
from support.sources import ROOT

SOURCES = sorted(ROOT.glob("packages/*/src/**/*.py"))
PAGES = sorted(ROOT.glob("packages/dashboard/src/**/*.js"))

OF_OTHERS = {
    "packages/sandbox/src/pykruise/sandbox/*": "of the API server, the scheduler and the kubelet",
    "packages/kube/src/pykruise/kube/pod_rules/*": "of the API server's validation",
    "packages/pykruise/src/pykruise/plans/foreign.py": "of kubectl's `rollout status`",
    "packages/pykruise/src/pykruise/plans/shown_lines.py": "of `rollout status` of kubectl and kubectl-kruise",
    "packages/pykruise/src/pykruise/kinds/broadcastjob/status.py": "of OpenKruise's conditions",
}
"""The origin of these words, by file."""

VERBS = frozenset(
    {
        *(
            "allows",
            "answers",
            "asks",
            "becomes",
            "breaks",
            "believes",
            "belongs",
            "cannot",
            "changes",
            "counts",
            "covers",
        ),
        *(
            "creates",
            "declares",
            "differs",
            "embeds",
            "ends",
            "expires",
            "fails",
            "fits",
            "gets",
            "goes",
            "grows",
        ),
        *(
            "guards",
            "has",
            "holds",
            "is",
            "its",
            "joins",
            "keeps",
            "lacks",
            "leads",
            "leaves",
            "logs",
            "matches",
        ),
        *(
            "means",
            "mounts",
            "names",
            "needs",
            "occurs",
            "options",
            "owns",
            "points",
            "protects",
            "pulls",
            "refers",
            "requires",
        ),
        *("restores", "runs", "says", "scales", "serves", "shows", "simulates", "spreads", "stores", "takes"),
        *(
            "applies",
            "exists",
            "sets",
            "this",
            "violates",
            "waits",
            "wants",
            "was",
            "ms",
            "less",
            "as",
            "does",
        ),
    }
)
"""Words that may follow a name: verbs. `ms` is a unit, and `logs` and `options` are parts of commands."""

NAMES = frozenset({"allowed", "group", "highest", "name", "named", "others"})
"""Names of values that are texts, although a plural follows: `pods of {name} are`."""

WORD = r"(?:(?:more|other|new|old|older|active|ready|updated|failed) )?([A-Za-z]+s|are|have|were)\b"
AFTER = re.compile(rf" {WORD}")
FILLED_IN = re.compile(rf"\{{[a-z_]*\}} {WORD}")
IN_TEMPLATE = re.compile(rf"\$\{{([^{{}}]*)\}} {WORD}")


def is_plural(word: str) -> bool:
    return word not in VERBS and not word.endswith("ss")


def in_python(text: str) -> Iterator[str]:
    """Places in a source where a value precedes a plural."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            for value, words in zip(node.values, node.values[1:], strict=False):
                if isinstance(value, ast.FormattedValue) and isinstance(words, ast.Constant):
                    match = AFTER.match(str(words.value))
                    if match and is_plural(match[1]) and not _is_known(value):
                        yield f"{node.lineno}: {{{ast.unparse(value.value)}}} {match[0].strip()}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            yield from (
                f"{node.lineno}: {match[0]}"
                for match in FILLED_IN.finditer(node.value)
                if is_plural(match[1])
            )


def _is_known(formatted: ast.FormattedValue) -> bool:
    """Whether the value is a text, a fraction, a constant that the writer knows, or a count with its own noun."""
    value = formatted.value
    if formatted.format_spec is not None and re.search(r"\.[1-9]", ast.unparse(formatted.format_spec)):
        return True
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == format_count.__name__
    name = value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""
    return name.isupper() or name in NAMES


def in_script(text: str) -> Iterator[str]:
    """Places in a script where a value precedes a plural."""
    for number, line in enumerate(text.splitlines(), start=1):
        yield from (f"{number}: {match[0]}" for match in IN_TEMPLATE.finditer(line) if is_plural(match[2]))


def is_of_others(path: str) -> bool:
    return any(fnmatch(path, pattern) for pattern in OF_OTHERS)


def test_no_text_combines_a_number_with_its_own_plural() -> None:
    places = []
    for path in (*SOURCES, *PAGES):
        name = str(path.relative_to(ROOT))
        if not is_of_others(name):
            look = in_script if path.suffix == ".js" else in_python
            places += [f"{name}:{place}" for place in look(path.read_text("utf-8"))]
    assert places == []


@pytest.mark.parametrize("pattern", OF_OTHERS)
def test_words_of_others_are_still_there(pattern: str) -> None:
    """A file without such words must not be in the list, so that it is checked like all others."""
    paths = [path for path in SOURCES if fnmatch(str(path.relative_to(ROOT)), pattern)]
    assert any(place for path in paths for place in in_python(path.read_text("utf-8")))


@pytest.mark.parametrize(
    "text",
    [
        'f"{count} pods"',
        'f"{len(pods)} of {total} pods are ready"',
        'f"{left} more are not shown"',
        '"{failed} images could not be pulled"',
    ],
)
def test_a_text_with_a_number_and_a_plural_is_detected(text: str) -> None:
    assert list(in_python(text))


@pytest.mark.parametrize(
    "text", ["f\"{counted(count, 'pod')} of it\"", 'f"{MOST} pods"', 'f"{name} holds it"', '"pods: {count}"']
)
def test_a_text_with_the_helper_or_about_a_name_is_not_detected(text: str) -> None:
    assert not list(in_python(text))


def test_scripts_of_the_page_are_checked_too() -> None:
    assert list(in_script("`${given.more} more are not shown`"))
    assert not list(in_script('`${many(given.more, "more is", "more are")} not shown`'))


def test_a_count_of_one_is_singular() -> None:
    assert [format_count(number, "pod is", "pods are") for number in (0, 1, 2)] == [
        "0 pods are",
        "1 pod is",
        "2 pods are",
    ]
