"""The reference page says what the definitions say."""

from pathlib import Path

from pykruise.kinds import crds
from tools.api_reference import reference

PAGE = Path(__file__).parents[3] / "docs" / "api.md"


def test_the_page_is_up_to_date() -> None:
    """When it is not: python -m tools.api_reference > docs/api.md"""
    assert PAGE.read_text() == reference()


def test_every_kind_is_on_the_page_with_the_fields_of_its_spec() -> None:
    sections = reference().split("\n## ")
    for crd in crds():
        names = crd["spec"]["names"]
        (section,) = [each for each in sections if each.startswith(f"{names['kind']}\n")]
        stored = next(version for version in crd["spec"]["versions"] if version["storage"])
        spec = stored["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for field in spec["properties"]:
            assert f"`spec.{field}" in section
