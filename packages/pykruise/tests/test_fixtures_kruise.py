"""The fixture `kruise`: its messages when a test waits in vain, and for unknown names."""

import pytest

from pykruise.fixtures.kruise import KruiseSandbox
from pykruise.insight import CommandError, MissingError
from support.scenario import cloneset


def test_a_rollout_that_never_ends_fails_with_its_explanation() -> None:
    with KruiseSandbox(nodes=1, failures=[{"image": "shop:2", "image_pull_error": True}]) as kruise:
        kruise.apply(cloneset("web", replicas=1, image="shop:2"))
        with pytest.raises(AssertionError) as failed:
            kruise.wait("clonesets/web", "Ready", within_s=30)
    lines = str(failed.value).splitlines()
    assert lines[:2] == [
        "not true within 30 s: clonesets/web has condition Ready",
        "  CloneSet default/web has this status:",
    ]
    explanation = lines[lines.index("  explanation:") + 1 :]
    assert explanation[0].startswith("    CloneSet default/web: Degraded.")
    assert any("ImagePull: web-" in line for line in explanation)
    assert any("SuccessfulCreate" in line for line in lines[lines.index("  last events:") :])


def test_the_verdict_of_a_missing_object_is_not_done() -> None:
    async def later() -> None:
        await kruise.client.create(  # as an operator under test creates objects
            resource, "default", cloneset("web", replicas=1)
        )

    with KruiseSandbox(nodes=1) as kruise:
        from pykruise.testing.contents import find_resource

        resource = kruise.run(find_resource(kruise.client, "clonesets"))
        kruise.loop.call_later(10, lambda: kruise.start(later()))
        kruise.until(lambda: kruise.explain("clonesets/web").verdict == "done")


def test_names_that_are_not_known_get_the_one_that_is_like_them() -> None:
    with KruiseSandbox(nodes=1) as kruise:
        kruise.apply(cloneset("web", replicas=1))
        for ask, hint in (
            (lambda: kruise.explain("clonset/web"), "'clonset' is not a known kind.*did you mean clonesets"),
            (lambda: kruise.explain("clonesets/wbe"), "no CloneSet default/wbe; did you mean web"),
            (lambda: kruise.plan("clonesets/web", "replcas=1"), "'replcas' .*did you mean replicas"),
            (lambda: kruise.plan("clonesets/wbe", "replicas=1"), "no CloneSet default/wbe; did you mean web"),
            (
                lambda: kruise.explain("pod/wbe", namespace="defualt"),
                "no namespace defualt; did you mean default",
            ),
        ):
            with pytest.raises(CommandError, match=hint):
                ask()
        with pytest.raises(MissingError):
            kruise.explain("clonesets/other")
        with pytest.raises(
            CommandError, match=r"does not serve apps\.kruise\.io/v1; did you mean apps\.kruise\.io/v1beta1\?"
        ):
            kruise.plan({**cloneset("web"), "apiVersion": "apps.kruise.io/v1"})
        with pytest.raises(
            LookupError, match=r"of apps\.kruise\.io/v1beta7; did you mean apps\.kruise\.io/v1beta1"
        ):
            kruise.apply({**cloneset("web"), "apiVersion": "apps.kruise.io/v1beta7"})
