"""One long kubectl session against a running `pykruise up`, compared word for word with the real control plane.

SESSION (support/kubectl_session.py) ──▶ kubectl ──▶ normalised answers ──▶ compared with recorded/kubectl_session.json

    pytest tests/scenarios/test_kubectl_verbs.py    the sandbox against the recording
    ... --cluster=real, KUBERNETES=1.32             a real control plane against it
    ... --record as well                            keep what it answers

What is masked: names with hashes, uids, times, ages, addresses, versions, widths of columns. What differs on
purpose is in `kubectl_session.DIFFERENCES`, with the reason.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kubectl_session import DIFFERENCES, SESSION, Answer, Step, play
from support.up import Kubectl, running_real, running_up

pytestmark = pytest.mark.real_time

RECORDED_MINOR = "1.32"
RECORDING = Path(__file__).parent / "recorded" / "kubectl_session.json"


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Answer]]:
    """The whole session, played once."""
    folder = tmp_path_factory.mktemp("session")
    if request.config.getoption("--cluster") == "real":
        plane = request.getfixturevalue("plane")
        if plane.kubernetes != RECORDED_MINOR:
            pytest.skip(f"recorded with {RECORDED_MINOR}, this is {plane.kubernetes}")
        with running_real(plane, nodes=3) as kubectl:
            # The same kubectl on both sides: its own texts are not what is compared.
            found = play(Kubectl(kubectl.kubeconfig), folder)
            if request.config.getoption("--record"):
                RECORDING.parent.mkdir(exist_ok=True)
                RECORDING.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
            yield found
        return
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    with running_up(folder, "--nodes", "3") as up:
        yield play(up, folder)


@pytest.mark.parametrize("step", SESSION, ids=[step.title for step in SESSION])
def test_kubectl_says_what_it_says_of_a_real_cluster(
    step: Step, answers: dict[str, Answer], request: pytest.FixtureRequest
) -> None:
    # given
    is_real = request.config.getoption("--cluster") == "real"
    recorded: dict[str, Answer] = json.loads(RECORDING.read_text())
    # then
    wanted, found = recorded[step.title], answers[step.title]
    if step.title in DIFFERENCES and not is_real:
        if found == wanted:
            pytest.fail(f"there is no difference any more: {DIFFERENCES[step.title]}")
        pytest.xfail(DIFFERENCES[step.title])
    assert found == wanted


def test_every_known_difference_is_of_a_step() -> None:
    assert set(DIFFERENCES) <= {step.title for step in SESSION}
