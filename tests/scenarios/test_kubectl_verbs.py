"""One long kubectl session against a running `pykruise up`, compared word for word with the real control plane.

SESSION (support/kubectl_session.py) ──▶ kubectl ──▶ masked answers ──▶ compared with recorded/kubectl_session_*.json

    pytest tests/scenarios/test_kubectl_verbs.py    the sandbox against the recording
    ... --cluster=real, KUBERNETES=1.32             a real control plane against the recording of its minor
    ... --record as well                            record its answers

The sandbox is held to every recorded minor. Masked parts: names with hashes, uids, times, ages, addresses, versions,
widths of columns. `kubectl_session.DIFFERENCES` has the intended differences, with the reasons.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.kubectl_session import DIFFERENCES, DIFFERENCES_OF, SESSION, Answer, Step, masked, play
from support.up import Kubectl, running_real, running_up

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.timeout(600),  # the first test waits for the whole session
    pytest.mark.not_in_brief("the sandbox is compared with the recordings"),
]

FOLDER = Path(__file__).parent / "recorded"
MINORS = ("1.32", "1.37")


def recording(minor: str) -> Path:
    """File with the recorded answers of a real control plane of that minor."""
    return FOLDER / f"kubectl_session_{minor}.json"


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Answer]]:
    """The whole session, played once."""
    folder = tmp_path_factory.mktemp("session")
    if request.config.getoption("--cluster") == "real":
        plane = request.getfixturevalue("plane")
        with running_real(plane, nodes=3) as kubectl:
            # The same kubectl on both sides: its own texts are not what is compared.
            answers = play(Kubectl(kubectl.kubeconfig), folder)
            if request.config.getoption("--record"):
                text = json.dumps(answers, indent=1, ensure_ascii=False)
                recording(plane.kubernetes).write_text(f"{text}\n")
            yield answers
        return
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    with running_up(folder, "--nodes", "3") as up:
        yield play(up, folder)


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("step", SESSION, ids=[step.title for step in SESSION])
def test_kubectl_prints_the_same_as_for_a_real_cluster(
    step: Step, minor: str, answers: dict[str, Answer], request: pytest.FixtureRequest
) -> None:
    # given
    is_real = request.config.getoption("--cluster") == "real"
    if is_real and request.getfixturevalue("plane").kubernetes != minor:
        pytest.skip("this is a real control plane of another minor")
    recorded: dict[str, Answer] = json.loads(recording(minor).read_text())
    # then
    wanted, result = recorded[step.title], answers[step.title]
    why = "" if is_real else DIFFERENCES.get(step.title) or DIFFERENCES_OF.get(minor, {}).get(step.title, "")
    if why:
        if result == wanted:
            pytest.fail(f"there is no difference any more: {why}")
        pytest.xfail(why)
    assert result == wanted


def test_every_known_difference_is_of_a_step() -> None:
    titles = {step.title for step in SESSION}
    assert set(DIFFERENCES) <= titles
    for minor, differences in DIFFERENCES_OF.items():
        assert minor in MINORS
        assert set(differences) <= titles


@pytest.mark.parametrize("digits", range(5, 11))
def test_the_name_of_a_pod_is_masked_for_any_length_of_its_template_hash(digits: int) -> None:
    assert masked(f"pod/web-{'b46w5c7x8z'[:digits]}-b46w5") == "pod/web-HASH-POD"
