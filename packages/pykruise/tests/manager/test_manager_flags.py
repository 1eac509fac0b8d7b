"""The manager's command line: all flags of OpenKruise, in the syntax of Go programs."""

from collections.abc import Mapping

import pytest

from pykruise.kinds.cloneset.kind import KIND as CLONE_SET
from pykruise.kinds.daemonset.kind import KIND as DAEMON_SET
from pykruise.kinds.gates import GateError, Gates
from pykruise.kinds.statefulset.kind import KIND as STATEFUL_SET
from pykruise.kube.program.flags import FlagError
from pykruise.kube.program.serving import Address
from pykruise.manager.flags import RESYNC_S, format_flag_help, list_all_flags, parse
from pykruise.manager.settings import ManagerSettings

# Flags of the published chart and of the plain manifests.
UPSTREAM = [
    "metrics-addr",
    "health-probe-addr",
    "pprof-addr",
    "enable-pprof",
    "allow-privileged",
    "enable-leader-election",
    "leader-election-namespace",
    "leader-election-id",
    "leader-election-resource-lock",
    "leader-election-lease-duration",
    "leader-election-renew-deadline",
    "leader-election-retry-period",
    "namespace",
    "sync-period",
    "controller-cache-sync-timeout",
    "webhook-initialize-timeout",
    "default-ttlseconds-for-always-nodeimage",
    "rest-config-qps",
    "rest-config-burst",
    "rate-limiter-base-delay",
    "rate-limiter-max-delay",
    "rate-limiter-qps",
    "rate-limiter-bucket-size",
    "expectation-timeout",
    "disable-no-deepcopy",
    "protection-log-path",
    "ws-enabled-versioned-status",
    "assign-pods-by-scheduler",
    "assign-bcj-pods-by-scheduler",
    "cloneset-scaling-exclude-preparing-delete",
    "nodeimage-creation-delay",
    "feature-gates",
    "logging-format",
    "v",
    "vmodule",
    "logtostderr",
    "alsologtostderr",
    "stderrthreshold",
    "log_file",
    "log_dir",
    "log_file_max_size",
    "skip_headers",
    "skip_log_headers",
    "one_output",
    "add_dir_header",
    "log-flush-frequency",
    "log-text-split-stream",
    "log-text-info-buffer-size",
    "log-json-split-stream",
    "log-json-info-buffer-size",
    "kubeconfig",
]


def settings(*argv: str, environ: Mapping[str, str] | None = None) -> ManagerSettings:
    return parse(argv, environ=environ or {}).settings


def test_every_flag_of_the_original_is_known() -> None:
    flags = list_all_flags()
    known = {flag.name for flag in flags}
    assert known >= {*UPSTREAM, "podprobemarker-workers", "nodepodprobe-workers"}
    assert len(known) == len(flags)


def test_openkruises_defaults_apply_without_flags() -> None:
    result = settings()
    assert result.serving.metrics == Address("", 8080)
    assert result.serving.health == Address("", 8000)
    assert result.serving.diagnosis == Address("", 8090)
    assert result.election.namespace == "kruise-system"
    assert result.election.name == "kruise-manager"
    assert (result.election.lease_s, result.election.renew_s, result.election.retry_s) == (15, 10, 2)
    assert set(result.tuning.workers.values()) == {3}
    assert (result.tuning.base_delay_s, result.tuning.max_delay_s) == (0.005, 1000)
    assert (result.tuning.retries_per_s, result.tuning.retry_burst) == (10, 100)
    assert result.webhook.port == 9876
    assert result.own_namespace == "kruise-system"
    assert result.notes == ()


@pytest.mark.parametrize(
    "argv",
    [
        ["--cloneset-workers=7"],
        ["-cloneset-workers=7"],
        ["--cloneset-workers", "7"],
        ["-cloneset-workers", "7"],
    ],
)
def test_a_value_of_a_flag_may_follow_in_each_form_with_one_or_two_dashes(argv: list[str]) -> None:
    assert settings(*argv).tuning.workers["cloneset"] == 7


def test_a_number_may_follow_a_flag_of_one_letter_immediately() -> None:
    """pflag parses `-v4` in this way."""
    assert settings("-v4").log.verbosity == 4
    with pytest.raises(FlagError, match="--verbos is not known; did you mean --verbose"):
        settings("-verbos")


def test_a_boolean_alone_is_true_and_takes_no_word_after_it() -> None:
    result = settings("--cloneset-scaling-exclude-preparing-delete", "-v=5")
    assert result.read_kind_settings(CLONE_SET).exclude_preparing_delete
    assert not settings("--enable-leader-election=false").election.enabled


def test_the_last_of_several_flag_values_counts_but_gates_accumulate() -> None:
    result = settings(
        "--cloneset-workers=1",
        "--cloneset-workers=2",
        "--feature-gates=CloneSetShortHash=true",
        "--feature-gates",
        "CloneSetPartitionRollback=true",
    )
    assert result.tuning.workers["cloneset"] == 2
    assert result.read_kind_settings(CLONE_SET).short_hash
    assert result.read_kind_settings(CLONE_SET).partition_rollback


@pytest.mark.parametrize(
    ("gate", "field", "by_default"),
    [
        ("CloneSetShortHash", "short_hash", False),
        ("CloneSetPartitionRollback", "partition_rollback", False),
        ("PreparingUpdateAsUpdate", "preparing_update_as_update", False),
        ("InPlaceUpdateEnvFromMetadata", "in_place_env_from_metadata", True),
        ("InPlaceWorkloadVerticalScaling", "in_place_vertical_scaling", False),
        ("RecreatePodWhenChangeVCTInCloneSetGate", "recreate_on_claim_change", False),
    ],
)
def test_each_gate_of_cloneset_reaches_its_plans(gate: str, field: str, by_default: bool) -> None:
    assert getattr(settings().read_kind_settings(CLONE_SET), field) is by_default
    changed = settings(f"--feature-gates={gate}={not by_default}").read_kind_settings(CLONE_SET)
    assert getattr(changed, field) is not by_default


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--clonset-workers=1"], "did you mean --cloneset-workers?"),
        (["--nonsense"], "--nonsense is not known"),
        (["web"], "'web' is not a flag"),
        (["--cloneset-workers"], "--cloneset-workers needs a value"),
        (["--cloneset-workers=0"], "--cloneset-workers: 0 is not at least 1"),
        (["--cloneset-workers=x"], "--cloneset-workers: 'x' is not a whole number"),
        (["--enable-leader-election=maybe"], "'maybe' is not a boolean"),
        (["--metrics-addr=8080"], "'8080' is not an address"),
        (["--leader-election-lease-duration=15"], "'15' is not a duration"),
        (["--leader-election-resource-lock=configmaps"], "'configmaps' is not one of: leases"),
        (["--leader-election-renew-deadline=20s"], "must be longer than"),
        (["--logging-format=xml"], "'xml' is not one of: text, json"),
    ],
)
def test_a_wrong_flag_is_refused_with_a_message(argv: list[str], message: str) -> None:
    with pytest.raises(FlagError) as refused:
        parse(argv, environ={})
    assert message in str(refused.value)


def test_an_unknown_gate_is_refused() -> None:
    """operations case 1"""
    with pytest.raises(GateError, match="'Foo' is not known"):
        parse(["--feature-gates=Foo=true"], environ={})


@pytest.mark.parametrize(
    ("seconds", "is_accepted"), [("-1", False), ("0", True), ("2678400", True), ("2678401", False)]
)
def test_the_time_to_live_of_image_pulls_is_bounded(seconds: str, is_accepted: bool) -> None:
    """operations case 11"""
    flag = f"--default-ttlseconds-for-always-nodeimage={seconds}"
    if is_accepted:
        assert settings(flag).flags["default-ttlseconds-for-always-nodeimage"] == int(seconds)
    else:
        with pytest.raises(FlagError, match="is not from 0 to 2678400"):
            settings(flag)


@pytest.mark.parametrize("port", ["abc", "0", "70000"])
def test_an_invalid_webhook_port_is_refused(port: str) -> None:
    """operations case 12"""
    with pytest.raises(FlagError, match="WEBHOOK_PORT"):
        settings(environ={"WEBHOOK_PORT": port})


def test_the_resync_period_is_ten_hours_by_default() -> None:
    assert settings().resync_s == RESYNC_S == 36000
    assert settings("--sync-period=0").resync_s is None
    assert settings("--sync-period=10m").resync_s == 600


def test_a_resync_period_that_cannot_be_read_is_noted_and_ignored() -> None:
    """operations case 23"""
    result = settings("--sync-period=abc")
    assert result.resync_s == RESYNC_S
    assert result.notes == (
        "--sync-period: 'abc' is not a duration such as 15s, 2m0s or 500ms; the default applies",
    )


def test_flags_without_effect_are_taken_and_noted() -> None:
    result = settings("--rest-config-qps=30", "--logtostderr=true", "-v", "4")
    assert result.notes == (
        "--rest-config-qps has no effect: the client adapts its request rate to the API server's responses",
    )
    assert result.log.verbosity == 4


def test_an_end_that_may_take_longer_than_the_grace_period_of_the_pods_is_noted() -> None:
    assert settings("--shutdown-timeout=10s").notes == ()
    assert settings("--shutdown-timeout=20s").notes == (
        "--shutdown-timeout, --shutdown-delay: the end of this manager may take 38 s; terminationGracePeriodSeconds of"
        " its pods must be longer",
    )


def test_gates_that_differ_from_the_flag_are_noted() -> None:
    assert settings("--feature-gates=PodWebhook=false,WorkloadSpread=true").notes == (
        "gate WorkloadSpread is off because PodWebhook is off",
    )


def test_the_environment_sets_the_managers_namespace_and_webhook_host() -> None:
    result = settings(
        "--leader-election-namespace=",
        environ={"POD_NAMESPACE": "here", "WEBHOOK_HOST": "10.0.0.1", "SECRET_NAME": "s"},
    )
    assert result.own_namespace == result.election.namespace == "here"
    assert (result.webhook.host, result.webhook.secret) == ("10.0.0.1", "s")


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("Asia/Shanghai", "Asia/Shanghai"),
        (":Asia/Shanghai", "Asia/Shanghai"),
        ("/usr/share/zoneinfo/Asia/Shanghai", "Asia/Shanghai"),
        (":/usr/share/zoneinfo/US/Pacific", "US/Pacific"),
        ("UTC", "UTC"),
        (":", "UTC"),
        ("", "UTC"),
    ],
)
def test_the_time_zone_of_the_environment_may_be_a_name_or_a_file_of_the_machine(
    text: str, zone: str
) -> None:
    result = settings(environ={"TZ": text})
    assert (result.time_zone, result.notes) == (zone, ())


@pytest.mark.parametrize("text", ["Mars/Base", ":/etc/localtime", "local"])
def test_an_unknown_time_zone_of_the_environment_is_noted_and_utc_applies(text: str) -> None:
    result = settings(environ={"TZ": text})
    assert result.time_zone == "UTC"
    assert result.notes == (
        f"TZ in the environment: the time zone '{text}' is unknown; UTC applies to AdvancedCronJobs without a time"
        " zone",
    )


def test_a_server_can_be_switched_off() -> None:
    result = settings("--metrics-addr=0", "--enable-pprof=false")
    assert result.serving.metrics is None
    assert result.serving.diagnosis is None


def test_the_help_names_every_flag() -> None:
    assert parse(["--help"], environ={}).wants_help
    text = format_flag_help()
    assert all(f"--{flag.name}" in text for flag in list_all_flags())


def test_settings_of_the_api_server_apply_to_all_kinds() -> None:
    settings = ManagerSettings(uses_resize=False)
    for kind in (CLONE_SET, DAEMON_SET, STATEFUL_SET):
        assert settings.read_kind_settings(kind).uses_resize is False
        assert ManagerSettings().read_kind_settings(kind).uses_resize is True


@pytest.mark.parametrize("has_daemon", [True, False])
def test_gates_of_pulling_ahead_get_to_their_kinds(has_daemon: bool) -> None:
    """inplace-update 6.15: each kind has its own gate, and no gate has an effect without the agent on the nodes"""
    gates = Gates.of(PreDownloadImageForDaemonSetUpdate=True, KruiseDaemon=has_daemon)
    settings = ManagerSettings(gates=gates)
    assert settings.read_kind_settings(DAEMON_SET).pre_download is has_daemon
    assert not settings.read_kind_settings(CLONE_SET).pre_download
