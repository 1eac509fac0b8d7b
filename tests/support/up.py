"""A running `pykruise up` in a process of its own, and kubectl against it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PYKRUISE = (sys.executable, "-c", "from pykruise.cli.main import main; main()")


def pykruise(*arguments: str, timeout_s: float = 60.0) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        [*PYKRUISE, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )


class Up:
    """One `pykruise up` that is ready."""

    def __init__(self, process: "subprocess.Popen[str]", kubeconfig: Path, greeting: str) -> None:
        self.process = process
        self.kubeconfig = kubeconfig
        self.greeting = greeting

    def kubectl(self, *arguments: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run kubectl against it."""
        return subprocess.run(
            [self._kubectl, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            input=stdin,
            env=self._environment,
        )

    def start(self, *arguments: str) -> Callable[[], str]:
        """Start kubectl in the background; call the result for its output once it has ended."""
        process = subprocess.Popen(
            [self._kubectl, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        return lambda: process.communicate(timeout=60)[0]

    @property
    def _kubectl(self) -> str:
        found = shutil.which("kubectl")
        assert found is not None
        return found

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.kubeconfig.parent)}

    def says(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints; it must succeed."""
        done = self.kubectl(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def refuses(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints as an error; it must fail."""
        done = self.kubectl(*arguments, stdin=stdin)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)}: {done.stdout}"
        return done.stderr

    def until(self, *arguments: str, shows: str, within_s: float = 30.0) -> str:
        """Repeat a kubectl command until its output has `shows` in it."""
        end = time.monotonic() + within_s
        while True:
            output = self.kubectl(*arguments).stdout
            if shows in output:
                return output
            assert time.monotonic() < end, f"kubectl {' '.join(arguments)} never showed {shows!r}:\n{output}"
            time.sleep(0.1)


@contextmanager
def running_up(folder: Path, *arguments: str) -> Iterator[Up]:
    """Start `pykruise up`, wait for its greeting, and end it with Ctrl-C."""
    kubeconfig = folder / "kubeconfig"
    process = subprocess.Popen(
        [*PYKRUISE, "up", "--kubeconfig", str(kubeconfig), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        greeting = ""
        for line in process.stdout:
            greeting += line
            if "Ctrl-C" in line:
                break
        assert process.poll() is None, f"pykruise up ended: {process.communicate()}"
        yield Up(process, kubeconfig, greeting)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
