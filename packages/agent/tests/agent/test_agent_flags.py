"""The agent has the command line of OpenKruise's daemon."""

import pytest

from pykruise.agent.flags import FLAGS, AgentGates, AgentSettings, format_help, parse
from pykruise.kube.program.flags import FlagError
from pykruise.kube.program.serving import Address

NODE = {"NODE_NAME": "n1"}


def settings(*argv: str) -> AgentSettings:
    settings = parse(argv, environ=NODE)
    assert settings is not None
    return settings


def test_the_defaults_are_the_daemon_s() -> None:
    result = settings()
    assert result.node == "n1"
    assert (result.serving, result.diagnosis) == (Address("", 10221), Address("", 10222))
    assert str(result.runtime_dir) == "/hostvarrun"
    assert str(result.plugin_config) == "/kruise/CredentialProviderPlugin.yaml"
    assert str(result.plugin_folder) == "/kruise/plugins"
    assert result.most_pulls == 0
    assert result.gates == AgentGates()
    assert result.notes == ()


def test_a_missing_node_name_is_reported() -> None:
    """operations case 30"""
    with pytest.raises(FlagError, match="NODE_NAME"):
        parse((), environ={})


def test_flags_of_the_daemon_s_manifests_are_taken() -> None:
    result = settings(
        "--addr=:10221",
        "--pprof-addr=localhost:10222",
        "--enable-pprof=true",
        "--logtostderr=true",
        "-v=4",
        "--feature-gates=ImagePullJobGate=true",
        "--socket-file=",
        "--rest-config-qps=50",
    )
    assert result.log.verbosity == 4
    assert result.notes == (
        "--rest-config-qps has no effect: the client adapts its request rate to the API server's responses",
    )


@pytest.mark.parametrize(
    ("argv", "most"),
    [
        (("--max-workers-for-pull-image=2",), 2),
        (("--max-workers-for-pull-image", "-1"), 0),
        (("--max-concurrency=5",), 5),
    ],
)
def test_the_limit_of_pulls_has_two_names(argv: tuple[str, ...], most: int) -> None:
    """images pitfall q"""
    assert settings(*argv).most_pulls == most


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ("DaemonWatchingPod=false", AgentGates(watches_pods=False)),
        ("PodProbeMarkerGate=false", AgentGates(probes=False)),
        ("InPlaceUpdateEnvFromMetadata=false,CloneSetShortHash=true", AgentGates(reports_environment=False)),
        (
            "KruiseDaemon=false,PodProbeMarkerGate=true",
            AgentGates(watches_pods=False, reports_environment=False, probes=False),
        ),
        ("AllBeta=false", AgentGates(watches_pods=False, reports_environment=False, probes=False)),
        (
            "KruiseDaemon=true,AllBeta=false,PodProbeMarkerGate=true",
            AgentGates(watches_pods=False, reports_environment=False, probes=True),
        ),
    ],
)
def test_feature_gates_set_the_agent_gates(text: str, gates: AgentGates) -> None:
    assert settings(f"--feature-gates={text}").gates == gates


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (("--feature-gates=PodProbeMarkerGate=maybe",), "PodProbeMarkerGate"),
        (("--adr=:1",), "did you mean --addr"),
        (("--max-concurrency=x",), "--max-concurrency"),
        (("--addr=nowhere",), "--addr"),
    ],
)
def test_wrong_flags_are_refused_by_name(argv: tuple[str, ...], what: str) -> None:
    with pytest.raises(FlagError, match=what):
        settings(*argv)


def test_help_names_every_flag() -> None:
    assert parse(("--help",), environ={}) is None
    text = format_help()
    assert all(f"--{flag.name}" in text for flag in FLAGS)
