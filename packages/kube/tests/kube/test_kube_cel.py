"""Label selectors in CEL. tests/properties/test_cel_properties.py checks that they select the right objects."""

from pykruise.kube.values.cel import (
    ALWAYS,
    MOST_NAMESPACES,
    MOST_TERMS,
    NEVER,
    LabelSelection,
    build_selection,
    join_terms,
)
from pykruise.kube.values.selectors import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    SelectorOperator,
    parse_selector,
)

WEB = parse_selector({"matchLabels": {"app": "web"}})
HAS_WEB = 'has(object.metadata.labels) && "app" in object.metadata.labels && object.metadata.labels["app"] in ["web"]'


def meant(*meants: LabelSelection) -> str:
    return build_selection({"K": meants}, "K")


def test_no_interests_select_nothing_and_unknown_interests_select_everything() -> None:
    assert meant() == NEVER
    assert meant(LabelSelection(selector=NOTHING)) == NEVER
    assert build_selection({}, "K") == ALWAYS


def test_an_expression_is_readable() -> None:
    assert meant(LabelSelection(selector=WEB)) == HAS_WEB
    assert (
        meant(LabelSelection(selector=WEB, namespaces=("b", "a")))
        == f'(request.namespace in ["a", "b"]) && ({HAS_WEB})'
    )


def test_namespaces_of_the_same_selector_are_one_list() -> None:
    item, other = (
        LabelSelection(selector=EVERYTHING, namespaces=("a",)),
        LabelSelection(selector=EVERYTHING, namespaces=("b",)),
    )
    assert meant(item, other) == 'request.namespace in ["a", "b"]'
    assert meant(item, other, LabelSelection(selector=EVERYTHING)) == ALWAYS


def test_a_selection_too_long_to_express_selects_everything() -> None:
    def labelled(count: int) -> str:
        return meant(
            *(LabelSelection(selector=parse_selector({"matchLabels": {"n": str(n)}})) for n in range(count))
        )

    assert labelled(MOST_TERMS) != ALWAYS
    assert labelled(MOST_TERMS + 1) == ALWAYS
    many = LabelSelection(selector=WEB, namespaces=tuple(f"n{n}" for n in range(MOST_NAMESPACES + 1)))
    assert meant(many) == HAS_WEB


def test_an_invalid_label_cannot_break_the_expression() -> None:
    """No stored object has such a label. An expression that cannot be read would block every pod."""
    for broken in ('x" || true || "', "ü", "-"):
        for operator in (SelectorOperator.IN, SelectorOperator.NOT_IN):
            assert (
                meant(LabelSelection(selector=Selector((Requirement("app", operator, (broken,)),)))) == ALWAYS
            )
        assert (
            meant(LabelSelection(selector=Selector((Requirement(broken, SelectorOperator.EXISTS),))))
            == ALWAYS
        )
    assert meant(LabelSelection(selector=EVERYTHING, namespaces=('"',))) == ALWAYS


def test_join_terms_drops_an_always_true_term() -> None:
    assert join_terms(ALWAYS, ALWAYS) == ALWAYS
    assert join_terms("a", ALWAYS) == join_terms(ALWAYS, "a") == "a"
    assert join_terms("a", NEVER) == NEVER
    assert join_terms("a", "b || c") == "(a) && (b || c)"
