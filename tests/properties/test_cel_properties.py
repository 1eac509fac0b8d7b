"""Selectors in CEL select exactly the same objects as the original selectors."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from pykruise.kube.values.cel import ALWAYS, NEVER, LabelSelection, any_of, build_selection, join_terms
from pykruise.kube.values.selectors import Requirement, Selector, SelectorOperator

KEYS = st.sampled_from(["app", "example.com/tier", "a-b"])
VALUES = st.sampled_from(["", "web", "0", "x.y_z"])
PLACES = st.sampled_from(["shop", "mail", "kube-public"])

SOME = (
    SelectorOperator.IN,
    SelectorOperator.EQUALS,
    SelectorOperator.DOUBLE_EQUALS,
    SelectorOperator.NOT_IN,
    SelectorOperator.NOT_EQUALS,
)
REQUIREMENTS = st.one_of(
    st.builds(Requirement, KEYS, st.sampled_from(SOME), st.lists(VALUES, min_size=1, max_size=3).map(tuple)),
    st.builds(Requirement, KEYS, st.sampled_from((SelectorOperator.EXISTS, SelectorOperator.DOES_NOT_EXIST))),
)
SELECTORS = st.builds(Selector, st.lists(REQUIREMENTS, max_size=3).map(tuple), selects_nothing=st.booleans())
MEANT = st.builds(LabelSelection, selector=SELECTORS, namespaces=st.lists(PLACES, max_size=2).map(tuple))
LABELS = st.none() | st.dictionaries(KEYS, VALUES)


def holds(expression: str, labels: dict[str, str] | None, namespace: str = "shop") -> bool:
    """Evaluate a CEL expression: the parts that are used are Python with other operators."""
    text = expression.replace("&&", "and").replace("||", "or").replace("!(", "not (")
    text = text.replace("true", "True") if expression == ALWAYS else text.replace("false", "False")
    names = {
        "object": SimpleNamespace(metadata=SimpleNamespace(labels=labels)),
        "request": SimpleNamespace(namespace=namespace),
        "has": lambda value: value is not None,
    }
    return bool(eval(text, {"__builtins__": {}}, names))


@given(st.lists(MEANT, max_size=4), LABELS, PLACES)
def test_an_object_matches_when_one_of_the_interests_selects_it(
    interests: list[LabelSelection], labels: dict[str, str] | None, namespace: str
) -> None:
    expression = build_selection({"SidecarSet": interests}, "SidecarSet")
    expected = any(
        interest.selector.matches(labels or {})
        and (not interest.namespaces or namespace in interest.namespaces)
        for interest in interests
    )
    assert holds(expression, labels, namespace) == expected


@given(st.lists(MEANT, max_size=4), st.randoms())
def test_the_selection_text_does_not_depend_on_the_order_of_objects(
    interests: list[LabelSelection], rng
) -> None:  # type: ignore[no-untyped-def]
    shuffled = [*interests, *interests[:1]]
    rng.shuffle(shuffled)
    assert build_selection({"K": shuffled}, "K") == build_selection({"K": interests}, "K")


@given(st.lists(st.sampled_from([ALWAYS, NEVER, '"app" in []', 'request.namespace in ["shop"]']), max_size=3))
def test_any_of_is_or_and_both_is_and(terms: list[str]) -> None:
    assert holds(any_of(terms), None) == any(holds(text, None) for text in terms)
    for term in terms:
        assert holds(join_terms(term, terms[0]), None) == (holds(term, None) and holds(terms[0], None))
