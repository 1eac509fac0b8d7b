"""Words that a machine can check: first words of docstrings, names of variables and classes, words in texts for people.

Every sentence has a subject that acts and a verb, in the field's words (CONTRIBUTING.md). Most of that is a matter of
reading; these rules hold the mechanical part.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
NO_FIRST_WORDS: Final = frozenset(
    (
        *("What", "Of", "Who", "Those", "These", "By", "In", "Looked", "As", "Which", "Where", "How"),
        *("With", "From", "To", "For", "Not", "That", "Whose", "Most"),
    )
)
"""A docstring begins with a noun, or with a verb: "Pods that wait for a slot.", not "What waits for a slot."."""
NO_WORDS: Final = re.compile(
    r"\b(nobody|somebody|whoever|anew|on paper|(is|are) (told|said|meant)|hears?|that are none)\b",
    re.IGNORECASE,
)
"""Words of the house's old dialect, which a docstring does without."""
NO_WORDS_OF_MESSAGES: Final = re.compile(
    NO_WORDS.pattern
    + r"|\b(any more|meanwhile|by itself|again and again|(is|are) not there|(is|are) gone|(has|have|had) to"
    r"|(is|are) to be|(be|is|are) made|made of|taken (up|off)|look(s|ed)? at|is spoken|at once|asks? for|asked to be"
    r"|lets? go|puts?|alike|goes|comes|says|(is|was|are) asked|of (it|them) is none)\b",
    re.IGNORECASE,
)
"""Words that messages do without: reasons, remedies, conditions, events, help, errors and log lines."""
NO_WORDS_OF_TESTS: Final = re.compile(
    NO_WORDS_OF_MESSAGES.pattern
    + r"|\b(asks?|asked|asking|say|said|saying|told|tells?|gone|going|goes|come|comes|coming|came|mean|means|meant"
    r"|stands?|stood|turned away|found out|left alone|(made|taken|put) (again|back|away)|however|whatever|whichever"
    r"|in the end|of (its|their) own|all the same|as it comes|by (itself|themselves))\b",
    re.IGNORECASE,
)
"""Words that names of tests do without: a name has a subject, a verb and an object in Kubernetes' words."""
NO_FIRST_WORDS_OF_TESTS: Final = frozenset(word.lower() for word in NO_FIRST_WORDS - {"In", "Not"}) | {
    "whoever"
}
"""A test is named by its subject first: `a_deleted_pod_is_not_read_again`. `in_place_…`, `not_found_…` are nouns."""
TESTS: Final = ("packages/*/tests", "tests", "examples")
FOLDERS: Final = ("packages/*/src/pykruise", *TESTS, "tools", "testbed", "conftest.py")
"""Folders and files that contributors read: the product, its tests and its tools."""
NO_VARIABLES: Final = frozenset(("one", "found"))
"""A variable is named after the thing: `for pod in pods`."""
VERBS: Final = frozenset((Path(__file__).parent / "verbs.txt").read_text("utf-8").split())
"""First words of the names of private functions: a verb, or a preposition: `_with_image` returns a changed copy,
`_on_pod` handles an event. Public names are promises, and properties are nouns.
"""
NOUN_DECORATOR: Final = re.compile(r"property|contextmanager")
PLAIN_ACCESSOR: Final = re.compile(r"_now|_\w+_of")
"""Names of functions that only read a field: `_spec_of`."""
NAMED_BY_KIND: Final = re.compile(r"kinds/\w+/(types|v1alpha1)\.py|pods/images/api\.py|models/\w+\.py")
"""Types of the API, whose users reach them through their kind: `kruise.cloneset.UpdateStrategy`."""


NAMED_IN_DIAGRAM: Final = re.compile(r"(?:^|[▶◀│+,]|──)\s*([A-Z][a-z]\w*)(?=\s*(?:$|[─+,◀(.]))", re.MULTILINE)
"""Names of values between the arrows of a diagram: `JobTally` in `count_pods() ──▶ JobTally ──▶ …`."""
NOT_IN_THE_CODE: Final = frozenset(("Components", "EventSource", "Origin"))
"""Names in diagrams that are words of English, of browsers or of HTTP."""


class ModuleWords(NamedTuple):
    """Words of one module, each with its line. The tree is not kept: the trees of all modules fill 700 MB."""

    path: str
    docstrings: Sequence[tuple[int, str]]
    messages: Sequence[tuple[int, str]]
    variables: Sequence[tuple[int, str]]
    classes: Sequence[str]
    functions: Sequence[tuple[int, str]]

    @property
    def place(self) -> str:
        """Path below `pykruise` in a distribution; empty: the module belongs to no distribution."""
        return self.path.partition("/src/pykruise/")[2]


@cache
def modules() -> Sequence[ModuleWords]:
    """Words of all modules of the repository."""
    folders = (folder for pattern in FOLDERS for folder in sorted(ROOT.glob(pattern)))
    files = (
        path for folder in folders for path in (sorted(folder.rglob("*.py")) if folder.is_dir() else [folder])
    )
    return [read_words(path) for path in files]


def read_words(path: Path) -> ModuleWords:
    """The words of a module. `variables`: assigned names and parameters; `functions`: without those that are nouns."""
    tree = ast.parse(path.read_text("utf-8"))
    nodes = list(ast.walk(tree))
    stored = (node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    parameters = (node for node in nodes if isinstance(node, ast.arg))
    return ModuleWords(
        path=str(path.relative_to(ROOT)),
        docstrings=list(docstrings(nodes)),
        messages=list(messages(nodes)),
        variables=[
            *((node.lineno, node.id) for node in stored),
            *((node.lineno, node.arg) for node in parameters),
        ],
        classes=[node.name for node in nodes if isinstance(node, ast.ClassDef)],
        functions=[
            (node.lineno, node.name)
            for node in nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and not any(NOUN_DECORATOR.search(ast.unparse(item)) for item in node.decorator_list)
        ],
    )


@cache
def names_of_tests() -> Sequence[tuple[str, str]]:
    """Path and name of all tests of the repository, without `test_` and with spaces."""
    files = (
        path
        for pattern in TESTS
        for folder in ROOT.glob(pattern)
        for path in sorted(folder.rglob("test_*.py"))
    )
    return [
        (str(path.relative_to(ROOT)), name.replace("_", " "))
        for path in files
        for name in re.findall(r"^ *(?:async )?def test_(\w+)", path.read_text("utf-8"), re.MULTILINE)
    ]


def docstrings(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Line and text of all docstrings: of modules, classes, functions and attributes."""
    for node in nodes:
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for number, part in enumerate(body):
            if not isinstance(part, ast.Expr) or not isinstance(part.value, ast.Constant):
                continue
            is_first = number == 0 and isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            )
            is_attribute = number > 0 and isinstance(body[number - 1], ast.Assign | ast.AnnAssign)
            if (is_first or is_attribute) and isinstance(part.value.value, str):
                yield part.lineno, part.value.value


def messages(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """Line and text of the string literals that people may read: all with at least two words, except docstrings.

    The expressions of an f-string are left out.
    """
    apart = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = [part for part in node.values if isinstance(part, ast.Constant)]
            apart.update(map(id, parts))
            text = "{}".join(str(part.value) for part in parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
            text = node.value
        else:
            continue
        if " " in text.strip():
            yield node.lineno, text


def test_a_docstring_begins_with_its_noun_or_verb() -> None:
    wrong = [
        f"{module.path}:{line}: {text[:60]}"
        for module in modules()
        for line, text in module.docstrings
        if re.split(r"\W", text, maxsplit=1)[0] in NO_FIRST_WORDS
    ]
    assert wrong == []


def test_a_docstring_has_no_word_of_the_old_dialect() -> None:
    wrong = [
        f"{module.path}:{line}: {match[0]}: {text[:80]}"
        for module in modules()
        for line, text in module.docstrings
        if (match := NO_WORDS.search(text)) is not None
    ]
    assert len(modules()) > 1_000
    assert wrong == []


def test_a_message_has_no_word_of_the_old_dialect() -> None:
    wrong = [
        f"{module.path}:{line}: {match[0]}: {text[:80]}"
        for module in modules()
        for line, text in module.messages
        if module.place and (match := NO_WORDS_OF_MESSAGES.search(text)) is not None
    ]
    assert wrong == []


def test_the_name_of_a_test_begins_with_its_subject() -> None:
    wrong = [
        f"{path}: {name}"
        for path, name in names_of_tests()
        if name.split(" ", maxsplit=1)[0] in NO_FIRST_WORDS_OF_TESTS
    ]
    assert wrong == []


def test_the_name_of_a_test_has_no_word_of_the_old_dialect() -> None:
    wrong = [
        f"{path}: {match[0]}: {name}"
        for path, name in names_of_tests()
        if (match := NO_WORDS_OF_TESTS.search(name)) is not None
    ]
    assert len(names_of_tests()) > 7_000
    assert wrong == []


def test_a_variable_is_named_after_the_thing() -> None:
    wrong = [
        f"{module.path}:{line}"
        for module in modules()
        for line, name in module.variables
        if name in NO_VARIABLES
    ]
    assert wrong == []


def test_the_name_of_a_private_function_begins_with_a_verb() -> None:
    wrong = [
        f"{module.path}:{line}: {name}"
        for module in modules()
        for line, name in module.functions
        if module.place and re.match(r"_[a-z]", name)
        if name.split("_")[1] not in VERBS and not PLAIN_ACCESSOR.fullmatch(name)
    ]
    assert wrong == []


def test_one_search_finds_a_public_class() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        if not module.place or NAMED_BY_KIND.fullmatch(module.place):
            continue
        for name in module.classes:
            if not name.startswith("_"):
                places[name].append(module.place)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_a_diagram_names_only_what_exists() -> None:
    texts = {
        path: path.read_text("utf-8")
        for folder in sorted(ROOT.glob("packages/*/src/pykruise"))
        for path in folder.rglob("*.py")
    }
    diagrams = {
        path: "\n".join(line for line in text.split('"""', 2)[1].splitlines() if re.search("[▶◀]", line))
        for path, text in texts.items()
        if text.startswith('"""')
    }
    code = (text.split('"""', 2)[2] if path in diagrams else text for path, text in texts.items())
    known = {name for text in code for name in re.findall(r"[A-Za-z_]\w*", text)} | NOT_IN_THE_CODE
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, diagram in diagrams.items()
        for name in NAMED_IN_DIAGRAM.findall(diagram)
        if name not in known and name.removesuffix("s") not in known
    ]
    assert len([diagram for diagram in diagrams.values() if diagram]) > 500
    assert wrong == []
