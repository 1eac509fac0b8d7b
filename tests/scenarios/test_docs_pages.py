"""README and the pages in docs/ show the real outputs (support/pages.py describes how pages are written and played)."""

import re
import shlex
from pathlib import Path
from typing import Final

import click
import pytest

from pykruise.cli.main import app
from pykruise.manager.flags import parse
from support.pages import LANGUAGES, PAGES, ROOT, Page, commands_of, play, read_page, same_output

pytestmark = [pytest.mark.sandbox_only, pytest.mark.real_time]

READ: Final = tuple(map(read_page, PAGES))

LEFT_OUT: Final = {
    "assistants.md": [
        "pip install ./packages/kube ./packages/agent ./packages/sandbox './packages/pykruise[mcp]'   # from the root"
        " of a checkout"
    ],
    "README.md": [
        "make demo    # a cluster in one process: a CloneSet is created, scaled up and down, and updated",
        "make push REGISTRY=registry.example.com/team     # builds three images in a minute, without an engine",
    ],
    "dashboard.md": [
        "pip install ./packages/kube ./packages/agent ./packages/sandbox ./packages/pykruise ./packages/dashboard"
        "   # from a checkout",
        "helm upgrade … --set dashboard.enabled=true",
    ],
    "gitops.md": [
        "helm install web ./chart --wait    # Helm 4",
        "pykruise manifests karmada | kubectl apply --server-side -f -",
    ],
    "harness.md": [
        "git clone https://github.com/kube-burner/kube-burner && (cd kube-burner && go build -o"
        " /usr/local/bin/kube-burner ./cmd/kube-burner)",
        "cd harness",
        "HARNESS_WORKLOADS=3 HARNESS_PODS=20 kube-burner init -c kube-burner/workloads.yml",
    ],
    "install.md": [
        "make push REGISTRY=registry.example.com/team    # builds three images in a minute, without a container engine",
        "pip install 'pykruise[sandbox]'                 # pykruise and kubectl kruise; or: uv tool install …",
        "helm install kruise oci://registry.example.com/team/charts/pykruise --version 0.1.0",
        "podman build -t registry.example.com/team/kruise-manager:v0.1.0 -f Containerfile \\",
        "helm install kruise charts/pykruise --set image.registry=registry.example.com/team",
        "pykruise manager --enable-leader-election=false --enable-webhooks=false",
        "WEBHOOK_HOST=192.0.2.10 pykruise manager",
    ],
    "operators.md": [
        "pip install ./packages/kube './packages/sandbox[testing]'   # from the root of a checkout",
        "kubectl apply -f crd.yaml && python page_operator.py",
        "make bench-kopf N=10000 CHANGES=1000 ROUNDS=2",
    ],
    "migration.md": [
        "helm upgrade kruise charts/pykruise --reset-then-reuse-values \\",
        "pykruise storage show",
    ],
    "planted-bugs.md": ["cd examples/planted_bugs && python -m pytest"],
    "progressive-delivery.md": ["apiVersion: rollouts.kruise.io/v1beta1"],
    "releasing.md": [
        "make release VERSION=1.2.3 REGISTRY=registry.example.com/team"
        " REPOSITORY=https://git.example.com/team/pykruise"
    ],
    "performance.md": ["make bench N=1000 NODES=50           # the phases of a CloneSet in the sandbox"],
    "simulation.md": ["make simulate SEEDS=1000"],
    "roll-on-config.md": ["containers:"],
    "upgrading.md": ["kubectl -n kruise-system rollout status deployment/kruise-controller-manager"],
    "testing.md": [
        "pip install ./packages/kube ./packages/agent './packages/sandbox[testing]' ./packages/pykruise"
        "   # from the root of a checkout"
    ],
}
"""First lines of blocks that cannot run here; their pages say why. Keep the list short."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", [page for page in READ if page.is_played], ids=lambda page: page.path.stem)
def test_the_outputs_shown_on_a_page_are_the_real_ones(page: Page, tmp_path: Path) -> None:
    """If only outputs changed, write them again: PYKRUISE_GOLDEN=write pytest tests/scenarios/test_docs_pages.py"""
    problems = play(page, tmp_path)
    assert not problems, "\n\n".join(problems)


def test_all_that_is_left_out_is_listed_here() -> None:
    left_out = {page.path.name: [block.first_line for block in page.blocks if block.not_run] for page in READ}
    assert {name: lines for name, lines in left_out.items() if lines} == LEFT_OUT


@pytest.mark.parametrize("page", READ, ids=lambda page: page.path.stem)
def test_every_block_of_a_page_declares_its_language(page: Page) -> None:
    shown = [
        block
        for block in page.blocks
        if block.line and block.language not in ("setup", "apply", "failures", "cluster")
    ]
    assert [block.first_line for block in shown if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("page", READ, ids=lambda page: page.path.stem)
def test_a_part_of_a_file_is_shown_as_it_is_in_the_file(page: Page) -> None:
    shown = [block for block in page.blocks if "from" in block.notes]
    assert [
        block.first_line
        for block in shown
        if block.text not in (ROOT / block.notes["from"]).read_text("utf-8") + "\n"
    ] == []


_OURS: Final = re.compile(r"^(?:[A-Z_]+=\S+ )?(?:\.venv/bin/)?pykruise (?P<words>[^|>]*)")


@pytest.mark.parametrize(
    "line",
    sorted(
        {
            line.strip()
            for page in READ
            for block in page.blocks
            if block.not_run
            for command in commands_of(block)
            for line in command.line.splitlines()
            if _OURS.match(line.strip())
        }
    ),
)
def test_a_command_that_is_left_out_is_known_with_its_options(line: str) -> None:
    match = _OURS.match(line)
    assert match is not None
    words = shlex.split(match["words"], comments=True)
    if words[:1] == ["manager"]:
        parse(words[1:], environ={})
        return
    with app.make_context("pykruise", words) as context:
        name, command, rest = app.resolve_command(context, words)
        assert isinstance(command, click.Command), name
        command.make_context(name, rest, parent=context).close()


def test_the_readme_fits_one_screen() -> None:
    text = re.sub(r"<!--.*?-->\n", "", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert len(text.splitlines()) <= 80


@pytest.mark.parametrize(
    ("shown", "said", "is_same"),
    [
        ("web-4wbgv  ready", "web-x7k2m    ready", True),
        ("web-4wbgv ready", "db-x7k2m ready", False),
        ("in 18s", "in 4m44s", True),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…\nd", "a\nd\ne", False),
        ("begins … ends", "begins with something and ends", True),
        ("3 of 4 pods serve", "2 of 4 pods serve", False),
        ("", "something", False),
    ],
)
def test_outputs_are_compared_without_what_differs_each_time(shown: str, said: str, is_same: bool) -> None:
    assert (same_output(shown, said) is not None) == is_same
