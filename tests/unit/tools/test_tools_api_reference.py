"""The reference page matches the definitions."""

from pathlib import Path

from pykruise.kinds import build_crds
from tools.api_reference import render_reference

PAGE = Path(__file__).parents[3] / "docs" / "api.md"


def test_the_page_is_up_to_date() -> None:
    """Run `python -m tools.api_reference > docs/api.md` to update the page."""
    assert PAGE.read_text() == render_reference()


def test_every_kind_is_on_the_page_with_the_fields_of_its_spec() -> None:
    sections = render_reference().split("\n## ")
    for crd in build_crds():
        names = crd["spec"]["names"]
        (section,) = [each for each in sections if each.startswith(f"{names['kind']}\n")]
        stored = next(version for version in crd["spec"]["versions"] if version["storage"])
        spec = stored["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for field in spec["properties"]:
            assert f"`spec.{field}" in section
