"""Credential plugins of kubeconfigs: a command that prints an ExecCredential (client.authentication.k8s.io).

a user's `exec` entry ──▶ ExecPlugin.read(entry) ──▶ .run(cluster) ──▶ the status of the printed ExecCredential

Same rules as client-go: the plugin gets KUBERNETES_EXEC_INFO. It may use the terminal if a terminal exists and the
entry's `interactiveMode` allows this.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pykruise.kube.config.kubeconfig_files import format_one_line
from pykruise.kube.errors import ConfigurationError

__all__ = ["ExecPlugin"]

GROUP: Final = "client.authentication.k8s.io"
_VERSIONS: Final = tuple(f"{GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))


class _Variable(msgspec.Struct):
    name: str
    value: str = ""


class ExecPlugin(msgspec.Struct, rename="camel"):
    """The `exec` entry of a kubeconfig's user, as client-go knows it."""

    api_version: str
    command: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"

    @classmethod
    def read(cls, entry: object, where: str) -> "ExecPlugin":
        """Parse and check the entry. Raises ConfigurationError, which begins with `where`."""
        if not isinstance(entry, dict) or not entry.get("command") or not entry.get("apiVersion"):
            raise ConfigurationError(f"{where}: command and apiVersion are required")
        try:
            plugin = msgspec.convert(entry, cls)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"{where}: {format_one_line(error)}") from error
        if plugin.api_version not in _VERSIONS:
            known = ", ".join(_VERSIONS)
            raise ConfigurationError(
                f"{where}: apiVersion {plugin.api_version} is not supported; use one of: {known}"
            )
        return plugin

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables that the entry adds."""
        return {variable.name: variable.value for variable in self.env or ()}

    def run(
        self,
        *,
        cluster: Mapping[str, Any],
        folder: Path,
        environ: Mapping[str, str],
        where: str,
        is_attended: bool = False,
    ) -> dict[str, Any]:
        """Run the command and return the status that it prints. Blocks. Raises ConfigurationError.

        `cluster`: cluster information that the plugin gets if its entry requests it. `folder`: relative paths of the
        command start there. `is_attended`: the command's messages are shown to the person who runs this program;
        otherwise they are part of the error.
        """
        is_interactive = self.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
        if self.interactive_mode == "Always" and not is_interactive:
            raise ConfigurationError(f"{where}: {self.command} needs a terminal (interactiveMode: Always)")
        spec: dict[str, Any] = {"interactive": is_interactive}
        if self.provide_cluster_info:
            spec["cluster"] = dict(cluster)
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        program = str(folder / self.command) if os.sep in self.command else self.command
        try:
            ended = subprocess.run(
                [program, *(self.args or ())],
                env={**environ, **self.variables, "KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=None if is_interactive else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=None if is_interactive or is_attended else subprocess.PIPE,
                check=False,
            )
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{where}: {self.command} failed: {format_one_line(error)}") from error
        if ended.returncode:
            words = format_one_line((ended.stderr or b"").decode("utf-8", "replace"))
            raise ConfigurationError(
                f"{where}: {self.command} failed: exit code {ended.returncode}"
                + (f": {words}" if words else "")
            )
        return self._parse_status(ended.stdout, where)

    def _parse_status(self, printed: bytes, where: str) -> dict[str, Any]:
        try:
            document = json.loads(printed)
        except ValueError as error:
            raise ConfigurationError(f"{where}: {self.command} printed no JSON") from error
        if not isinstance(document, dict) or document.get("kind") != "ExecCredential":
            raise ConfigurationError(f"{where}: {self.command} printed no ExecCredential")
        if document.get("apiVersion") != self.api_version:
            answered = format_one_line(document.get("apiVersion"))
            raise ConfigurationError(
                f"{where}: {self.command} printed an ExecCredential of apiVersion {answered}, but the"
                f" kubeconfig requires {self.api_version}"
            )
        status = document.get("status")
        if not isinstance(status, dict):
            raise ConfigurationError(f"{where}: {self.command} printed an ExecCredential without a status")
        return status
