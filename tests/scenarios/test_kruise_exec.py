"""`kubectl kruise exec` chooses the pod and the container; kubectl runs the command."""

import stat
from pathlib import Path

import pytest
import yaml

from pykruise.kube.resources import SERVICES
from support.kruise import Kruise, Said
from support.scenario import Stage, cloneset

pytestmark = pytest.mark.virtual_time("only the choice of a pod is looked at, not what runs in it")


class Shell:
    """Runs commands with a fake kubectl that only records its arguments."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._kruise = Kruise(stage)
        self._folder = folder
        self.program = str(folder / "kubectl")
        self.became: list[str] = []

    def install_kubectl(self) -> None:
        program = Path(self.program)
        program.touch()
        program.chmod(stat.S_IRWXU)

    def remove_kubectl(self) -> None:
        Path(self.program).unlink()

    async def run(self, *words: str) -> Said:
        self.became = []

        def become(_program: str, argv: list[str]) -> int:
            self.became = argv
            return 0

        return await self._kruise.run(*words, environ={"PATH": str(self._folder)}, become=become)


@pytest.fixture
async def shell(stage: Stage, tmp_path: Path) -> Shell:
    """A shell in a cluster that has a CloneSet with one pod of two containers."""
    await stage.start_manager()
    containers = [{"name": name, "image": "nginx:1"} for name in ("main", "agent")]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}
    await stage.create(cloneset(replicas=1, template=template))
    await stage.settled("web", replicas=1)
    shell = Shell(stage, tmp_path)
    shell.install_kubectl()
    return shell


async def test_kubectl_gets_the_pod_the_container_and_the_global_flags(stage: Stage, shell: Shell) -> None:
    # given
    (pod,) = await stage.pods()
    flags = ("--context", "prod", "--as-group=a", "--as-group=b", "--request-timeout=1m")
    # when
    said = await shell.run("exec", *flags, "clone/web", "-c", "agent", "-it", "--", "sh", "-c", "exit 3")
    # then
    assert (said.code, said.err) == (0, "")
    assert shell.became == [
        *(shell.program, "exec", "--as-group=a", "--as-group=b", "--context=prod"),
        *("--request-timeout=60s", "--stdin", "--tty"),
        *("--namespace", stage.namespace, pod.name, "--container", "agent", "--", "sh", "-c", "exit 3"),
    ]


async def test_a_pod_of_a_service_is_used(stage: Stage, shell: Shell) -> None:
    # given
    (pod,) = await stage.pods()
    for name, selector in (("front", {"app": "web"}), ("empty", {})):
        spec = {"ports": [{"port": 80}], "selector": selector}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        await stage.create(service, resource=SERVICES)
    # when
    said = await shell.run("exec", "-q", "service/front", "--", "ls")
    # then
    assert (said.code, said.err) == (0, "")
    assert shell.became[-5:] == [pod.name, "--container", "main", "--", "ls"]
    # when the Service has no selector
    said = await shell.run("exec", "--pod-running-timeout=1s", "service/empty", "--", "ls")
    assert (said.code, "timed out" in said.err) == (1, True)


async def test_the_pod_of_the_object_of_a_file_is_used(stage: Stage, shell: Shell, tmp_path: Path) -> None:
    # given
    (pod,) = await stage.pods()
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(cloneset(replicas=1)))
    # when
    said = await shell.run("exec", "-f", str(file), "--", "ls")
    # then
    assert (said.code, shell.became[-5:]) == (0, [pod.name, "--container", "main", "--", "ls"])
    # when there is no `--`, then the only argument is the command
    said = await shell.run("exec", "-f", str(file), "ls")
    assert "is DEPRECATED" in said.err
    assert shell.became[-3:] == ["main", "--", "ls"]
    # when an argument names a pod too, then it is an error
    said = await shell.run("exec", pod.name, "-f", str(file), "--", "ls")
    assert (said.code, shell.became) == (1, [])
    assert "you may not specify resource arguments as well" in said.err


async def test_the_form_without_dashes_works_and_is_noted(stage: Stage, shell: Shell) -> None:
    # given
    (pod,) = await stage.pods()
    # when
    said = await shell.run("exec", pod.name, "ls")
    # then
    assert "is DEPRECATED" in said.err
    assert 'Defaulted container "main" out of: main, agent' in said.err
    assert shell.became[-4:] == ["--container", "main", "--", "ls"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("exec", "clone/web"), "you must specify at least one command for the container"),
        (("exec", "--", "ls"), "pod, type/name or --filename must be specified"),
        (("exec", "clone/web", "-c", "nope", "--", "ls"), "container nope not found in pod"),
    ],
)
async def test_an_impossible_exec_is_reported_in_one_line(
    shell: Shell, words: tuple[str, ...], expected: str
) -> None:
    said = await shell.run(*words)
    assert (said.code, shell.became) == (1, [])
    assert expected in said.err


async def test_exec_without_kubectl_reports_that_it_is_missing(shell: Shell) -> None:
    # given
    shell.remove_kubectl()
    # when
    said = await shell.run("exec", "clone/web", "--", "ls")
    # then
    assert said.code == 1
    assert "exec needs kubectl, which is not in PATH" in said.err
