"""The containers and volumes that the message of an API server names."""

import pytest

from pykruise.runtime.refusals import list_refused_parts


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        (
            'pods "a" is forbidden: violates PodSecurity "baseline:latest": hostPath volumes (volumes "b", "c"),'
            ' privileged (container "d" must not set securityContext.privileged=true)',
            [("volume", "b"), ("volume", "c"), ("container", "d")],
        ),
        (
            'pods "a" is forbidden: failed quota: team: must specify limits.cpu for: b,c; requests.cpu for: b',
            [("container", "b"), ("container", "c")],
        ),
        ('pods "a" is forbidden: no PriorityClass with name "b" was found', []),
    ],
)
def test_the_parts_of_a_message_are_listed(message: str, parts: list[tuple[str, str]]) -> None:
    assert list_refused_parts(message) == parts
