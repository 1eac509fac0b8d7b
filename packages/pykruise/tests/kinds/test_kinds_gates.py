"""Feature gates: names, defaults and dependencies. Cases are those of operations."""

import msgspec
import pytest

from pykruise.kinds import list_kinds
from pykruise.kinds.gates import GATES, GateError, Gates, list_all_gates, parse
from pykruise.plans.kind import Kind
from pykruise.pods.settings import Gate


def on(gates: Gates) -> set[str]:
    """Names of the gates that are on."""
    return {name for name, is_on in gates if is_on}


DEFAULTS = {name for name, gate in list_all_gates().items() if gate.default}
ALPHA = {name for name, gate in GATES.items() if gate.stage == "alpha"}


def test_the_defaults_apply_without_a_text() -> None:
    assert on(parse()) == on(Gates()) == DEFAULTS
    assert {"PodWebhook", "WorkloadSpread", "InPlaceUpdateEnvFromMetadata"} <= DEFAULTS
    assert not {"ResourcesDeletionProtection", "ImagePullJobGate", "EnableExternalCerts"} & DEFAULTS


def test_an_unknown_gate_is_refused_with_those_that_are_known() -> None:
    """operations case 1"""
    with pytest.raises(GateError, match="'Foo' is not known") as refused:
        parse(["Foo=true"])
    assert str(refused.value).endswith(", ".join(("AllAlpha", "AllBeta", *sorted(list_all_gates()))))
    with pytest.raises(KeyError):
        Gates()["Foo"]


@pytest.mark.parametrize("text", ["CloneSetShortHash", "CloneSetShortHash=", "CloneSetShortHash=yes"])
def test_a_value_that_is_not_a_boolean_is_refused(text: str) -> None:
    with pytest.raises(GateError, match="CloneSetShortHash=true or CloneSetShortHash=false"):
        parse([text])


@pytest.mark.parametrize(
    "text", ["AllAlpha=true,CloneSetShortHash=false", "CloneSetShortHash=false,AllAlpha=true"]
)
def test_a_gate_set_by_name_overrides_its_stage_in_either_order(text: str) -> None:
    """operations cases 2 and 3"""
    gates = parse([text])
    # DeletionProtectionForCRDCascadingGate needs a gate that is not alpha.
    assert ALPHA - on(gates) == {"CloneSetShortHash", "DeletionProtectionForCRDCascadingGate"}


def test_all_beta_switches_beta_gates_off_too() -> None:
    assert on(parse(["AllBeta=false"])) == set()
    assert "ResourcesDeletionProtection" in on(parse(["AllBeta=true"]))


def test_several_gate_texts_are_combined() -> None:
    assert {"CloneSetShortHash", "SidecarTerminator"} <= on(
        parse(["CloneSetShortHash=true", "SidecarTerminator=1"])
    )


def test_spaces_do_not_matter() -> None:
    assert "CloneSetShortHash" in on(parse([" CloneSetShortHash = true , "]))


def test_a_gate_set_both_on_and_off_is_refused() -> None:
    with pytest.raises(GateError, match="both on and off"):
        parse(["CloneSetShortHash=true", "CloneSetShortHash=false"])


def test_gates_that_need_the_pod_webhook_are_off_without_it_and_a_note_reports_it() -> None:
    """operations case 4"""
    gates = parse(["PodWebhook=false,WorkloadSpread=true"])
    assert not gates["WorkloadSpread"]
    assert not gates["PodUnavailableBudgetDeleteGate"]
    assert gates.notes == ("gate WorkloadSpread is off because PodWebhook is off",)
    # a gate that has its requested value needs no note
    assert parse(["PodWebhook=false,WorkloadSpread=false"]).notes == ()


def test_a_disabled_daemon_disables_image_pull_jobs() -> None:
    """operations case 5"""
    assert not parse(["KruiseDaemon=false,ImagePullJobGate=true"])["ImagePullJobGate"]


def test_nothing_is_pulled_in_advance_without_the_daemon() -> None:
    """operations case 6"""
    gates = parse(["KruiseDaemon=false,PreDownloadImageForInPlaceUpdate=true"])
    assert not gates["PreDownloadImageForInPlaceUpdate"]
    assert not gates["PreDownloadImageForDaemonSetUpdate"]
    assert not gates["ImagePullJobGate"]


def test_downloading_ahead_needs_image_pull_jobs() -> None:
    """operations case 7"""
    gates = parse(["PreDownloadImageForDaemonSetUpdate=true"])
    assert gates["ImagePullJobGate"]
    assert gates.notes == ()


@pytest.mark.parametrize("cause", ["PreDownloadImageForInPlaceUpdate", "PreDownloadImageForDaemonSetUpdate"])
def test_no_image_pull_jobs_while_downloading_ahead_is_noted(cause: str) -> None:
    gates = parse([f"{cause}=true,ImagePullJobGate=false"])
    assert gates["ImagePullJobGate"]
    assert gates.notes == (f"gate ImagePullJobGate is on because {cause} is on",)


def test_cascading_protection_of_crds_needs_deletion_protection() -> None:
    """operations case 8"""
    assert not parse(["DeletionProtectionForCRDCascadingGate=true"])["DeletionProtectionForCRDCascadingGate"]


def test_deletion_protection_does_not_need_the_pod_webhook() -> None:
    """operations case 9"""
    assert parse(["ResourcesDeletionProtection=true,PodWebhook=false"])["ResourcesDeletionProtection"]


def test_the_old_switch_in_the_environment_changes_the_default_only() -> None:
    """operations case 10"""
    environ = {"CUSTOM_RESOURCE_ENABLE": "CloneSet"}
    assert not parse(environ=environ)["PodWebhook"]
    assert parse(["PodWebhook=true"], environ=environ)["PodWebhook"]
    assert parse(environ={"CUSTOM_RESOURCE_ENABLE": "CloneSet, SidecarSet"})["PodWebhook"]


def test_spellings_of_the_documentation_are_understood_and_noted() -> None:
    gates = parse(["EnhancedLivenessProbeGate=true"])
    assert gates["EnhancedLivenessProbe"]
    assert gates.notes == (
        "gate EnhancedLivenessProbeGate is another name of EnhancedLivenessProbe; write EnhancedLivenessProbe",
    )


def test_gates_print_as_a_text_that_parses_to_the_same() -> None:
    gates = parse(["AllAlpha=true,PodWebhook=false"])
    assert on(parse([str(gates)])) == on(gates)
    assert str(Gates()) == ""
    # and the text contains only values that differ from the defaults
    assert str(parse(["CloneSetShortHash=true,WorkloadSpread=true"])) == "CloneSetShortHash=true"


def test_kinds_may_define_their_own_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    crew = msgspec.structs.replace(
        next(iter(list_kinds())), own_gates={"CrewGate": Gate(False, "alpha", "crews")}
    )
    monkeypatch.setattr("pykruise.kinds.gates.list_kinds", lambda: [crew])
    # then
    assert not parse()["CrewGate"]
    for text in ("CrewGate=true", "AllAlpha=true"):
        gates = parse([text])
        assert gates["CrewGate"]
        assert "CrewGate=true" in str(gates)


ON_BETA = (
    *("PodWebhook", "KruiseDaemon", "DaemonWatchingPod", "WorkloadSpread", "PodUnavailableBudgetDeleteGate"),
    *("InPlaceUpdateEnvFromMetadata", "StatefulSetAutoDeletePVC", "PodProbeMarkerGate", "PodIndexLabel"),
)
OFF_BETA = ("ResourcesDeletionProtection", "ResourceDistributionGate")
OFF_ALPHA = (
    *("PodUnavailableBudgetUpdateGate", "CloneSetShortHash", "KruisePodReadinessGate"),
    *("PreDownloadImageForInPlaceUpdate", "PreDownloadImageForDaemonSetUpdate", "CloneSetPartitionRollback"),
    *("TemplateNoDefaults", "SidecarSetPatchPodMetadataDefaultsAllowed", "SidecarTerminator"),
    *("CloneSetEventHandlerOptimization", "PreparingUpdateAsUpdate", "ImagePullJobGate"),
    *("DeletionProtectionForCRDCascadingGate", "EnhancedLivenessProbe"),
    *("RecreatePodWhenChangeVCTInCloneSetGate", "StatefulSetStartOrdinal", "EnableExternalCerts"),
    *("StatefulSetAutoResizePVCGate", "ForceDeleteTimeoutExpectationGate", "InPlaceWorkloadVerticalScaling"),
    *("EnablePodProbeMarkerOnServerless", "EnableSortSidecarContainerByName", "InPlacePodVerticalScaling"),
    *("DefaultHostNetworkHostPortsInPodTemplates", "DaemonSetPruneIneligibleNodes"),
)


def test_names_defaults_and_stages_are_open_kruises() -> None:
    """operations 4.2; ImagePullJobGate is off in the program, and on in the chart"""
    expected = {
        **dict.fromkeys(ON_BETA, (True, "beta")),
        **dict.fromkeys(OFF_BETA, (False, "beta")),
        **dict.fromkeys(OFF_ALPHA, (False, "alpha")),
    }
    assert {name: (gate.default, gate.stage) for name, gate in GATES.items()} == expected


WITHOUT = {
    "PodWebhook": {
        *("KruisePodReadinessGate", "PodUnavailableBudgetDeleteGate", "PodUnavailableBudgetUpdateGate"),
        *("WorkloadSpread", "SidecarSetPatchPodMetadataDefaultsAllowed", "EnhancedLivenessProbe"),
        "EnablePodProbeMarkerOnServerless",
    },
    "KruiseDaemon": {
        *("PreDownloadImageForInPlaceUpdate", "PreDownloadImageForDaemonSetUpdate", "DaemonWatchingPod"),
        *("InPlaceUpdateEnvFromMetadata", "PodProbeMarkerGate", "SidecarTerminator", "ImagePullJobGate"),
        "EnhancedLivenessProbe",
    },
    "ResourcesDeletionProtection": {"DeletionProtectionForCRDCascadingGate"},
}


@pytest.mark.parametrize("name", GATES)
def test_a_gate_that_is_off_switches_off_what_needs_it_and_no_other(name: str) -> None:
    """operations 4.3, with all other gates on"""
    others = [other for other in GATES if other != name]
    gates = parse([",".join([f"{name}=false", *(f"{other}=true" for other in others)])])
    # The gates for pulling images ahead switch ImagePullJobGate on again.
    off = {name} - {"ImagePullJobGate"}
    assert set(GATES) - on(gates) == off | WITHOUT.get(name, set())


NEEDS = {
    "containerrecreaterequest": {"KruiseDaemon"},
    "nodeimage": {"KruiseDaemon"},
    "imagepulljob": {"KruiseDaemon", "ImagePullJobGate"},
    "imagelistpulljob": {"KruiseDaemon", "ImagePullJobGate"},
    "nodepodprobe": {"KruiseDaemon", "PodProbeMarkerGate"},
    "podprobemarker": {"KruiseDaemon", "PodProbeMarkerGate"},
    "workloadspread": {"WorkloadSpread"},
    "resourcedistribution": {"ResourceDistributionGate"},
    "sidecarterminator": {"SidecarTerminator"},
    "enhanced-liveness": {"EnhancedLivenessProbe"},
    "podunavailablebudget": {"PodUnavailableBudgetDeleteGate", "PodUnavailableBudgetUpdateGate"},
}
"""A budget needs one of its two gates; all other kinds need each of theirs."""


@pytest.mark.parametrize("kind", list(list_kinds()), ids=lambda kind: kind.name)
def test_kinds_need_the_gates_that_open_kruises_need_and_no_other(kind: Kind) -> None:
    """operations 4.3 (controllers), admission 3.5 (webhooks)"""
    if kind.name == "nodepodprobe" and kind.control is None:
        return  # no controller runs, and no webhook refuses it
    result = {*kind.gates, *kind.any_gate}
    assert result == NEEDS.get(kind.name, set())
    assert bool(kind.any_gate) == (kind.name == "podunavailablebudget")
