"""A command of the command line as data, and the flags that many commands share.

text(), switch(), number() ──▶ KubectlFlag ──▶ Command.flags      GLOBAL: flags of every command

Pure.
"""

from typing import Final

import msgspec

from pykruise.cli.kubectl.flags import KubectlFlag


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A command or subcommand."""

    name: str
    short: str
    """Description in one line."""
    usage: str = ""
    run: str = ""
    """`module:function` in this package; empty if the command only has subcommands."""
    flags: tuple[KubectlFlag, ...] = ()
    aliases: tuple[str, ...] = ()
    children: tuple["Command", ...] = ()
    examples: tuple[str, ...] = ()
    takes: str = "resources"
    """Type of the arguments: resources, nothing, or words (also words that begin with a dash). The values `kubectl` and
    `pykruise` name another program that runs the command.
    """
    group: str = ""
    """Heading in the help text."""
    is_hidden: bool = False


def text(name: str, help: str, short: str = "", default: str = "", alone: str = "") -> KubectlFlag:
    """A flag with a text. `alone`: its value when the command line names the flag without a value."""
    return KubectlFlag(name=name, help=help, short=short, default=default, alone=alone)


def switch(name: str, help: str, short: str = "", default: str = "false") -> KubectlFlag:
    """A flag that is on or off."""
    return KubectlFlag(name=name, help=help, short=short, type="bool", default=default)


def number(name: str, help: str, default: str = "0", short: str = "") -> KubectlFlag:
    """A flag with a whole number."""
    return KubectlFlag(name=name, help=help, short=short, type="int", default=default)


GLOBAL: Final = (
    text("as", "Username to impersonate."),
    KubectlFlag(name="as-group", help="Group to impersonate, may be repeated.", type="list"),
    text("as-uid", "UID to impersonate."),
    KubectlFlag(
        name="as-user-extra",
        help="Extra field of the user to impersonate: KEY=VALUE, may be repeated.",
        type="list",
    ),
    text("cache-dir", "Not used: nothing is cached."),
    text("certificate-authority", "File with the certificate authority."),
    text("client-certificate", "File with a client certificate."),
    text("client-key", "File with the key of a client certificate."),
    text("cluster", "Cluster of the kubeconfig to use."),
    text("context", "Context of the kubeconfig to use."),
    switch("disable-compression", "Not used: responses are never compressed."),
    switch("insecure-skip-tls-verify", "Do not verify the server's certificate."),
    text("kubeconfig", "The kubeconfig file."),
    switch("match-server-version", "Not used: every server version works."),
    text("namespace", "The namespace.", "n"),
    text("password", "Password for basic authentication."),
    text("profile", "Not used.", default="none"),
    text("profile-output", "Not used.", default="profile.pprof"),
    text("proxy-url", "Proxy to the API server."),
    KubectlFlag(
        name="request-timeout", help="Time limit of a request; 0 means 30s.", type="seconds", default="0"
    ),
    text("server", "Address of the API server.", "s"),
    text("tls-server-name", "Name that the server's certificate must contain."),
    text("token", "Bearer token."),
    text("user", "User of the kubeconfig to use."),
    text("username", "Username for basic authentication."),
    number("v", "Verbosity of request logs; 6: a line per request.", short="v"),
    switch("warnings-as-errors", "End with exit code 1 if the server returns a warning."),
)
"""Flags of every command."""

HELP: Final = switch("help", "Show what the command does.", "h")

FILES: Final = (
    KubectlFlag(
        name="filename",
        short="f",
        type="words",
        help="Files, folders or URLs with the objects; - reads stdin.",
    ),
    text("kustomize", "A kustomization folder.", "k"),
    switch("recursive", "Read subfolders too.", "R"),
)
SELECTOR: Final = text("selector", "Label selector of the objects.", "l")
ALL: Final = switch("all", "All objects of the type in the namespace.")
EVERYWHERE: Final = switch("all-namespaces", "Use the objects of all namespaces.", "A")
OUTPUT: Final = (
    text("output", "Format of the output: json, yaml, kyaml, name, jsonpath=…, go-template=….", "o"),
    text("template", "Template for -o go-template and jsonpath."),
    switch("show-managed-fields", "Show metadata.managedFields too."),
    switch("allow-missing-template-keys", "Ignore missing keys in templates.", default="true"),
)
DRY_RUN: Final = text("dry-run", "Dry run: none, client or server.", default="none", alone="unchanged")
MANAGER: Final = text("field-manager", "Name of the field manager in managedFields.")
RECORD: Final = KubectlFlag(
    name="record",
    type="bool",
    default="false",
    help="Write the command into the annotation kubernetes.io/change-cause.",
    deprecated="--record will be removed in the future",
)
LOCAL: Final = switch("local", "Change the objects of files and print them, without a cluster.")
TIMEOUT: Final = KubectlFlag(
    name="timeout", type="seconds", default="0", help="Time limit; 0 means no limit."
)

CHANGES: Final = (*FILES, *OUTPUT, SELECTOR, MANAGER)
SETS: Final = (*FILES, *OUTPUT, SELECTOR, ALL, LOCAL, DRY_RUN, MANAGER, RECORD)

TYPES: Final = "(TYPE NAME | TYPE/NAME)"
