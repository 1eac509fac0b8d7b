"""Rules for whole pod specs: the fields and messages of an API server's rejections."""

from typing import Any

import pytest

from pykruise.kube.pod_rules.pods import check_pod_spec
from pykruise.kube.schemas.releases import release_of

ONE: dict[str, Any] = {
    "name": "c",
    "image": "a:1",
    "imagePullPolicy": "Always",
    "terminationMessagePolicy": "File",
}
POD: dict[str, Any] = {
    "containers": [ONE],
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
}


def flaws(minor: str = "1.37", **fields: Any) -> list[str]:
    """The errors of a pod with these fields of its spec, as an API server shows them."""
    causes = check_pod_spec({**POD, **fields}, "spec", release=release_of(minor))
    return [f"{cause.field}: {cause.message}" for cause in causes]


def of_container(minor: str = "1.37", **fields: Any) -> list[str]:
    volumes: list[Any] = [{"name": name, "emptyDir": {}} for name in ("v", "w")]
    errors = flaws(minor, containers=[{**ONE, **fields}], volumes=volumes)
    return [flaw.removeprefix("spec.containers[0].") for flaw in errors]


def of_volume(**source: Any) -> list[str]:
    errors = flaws(volumes=[{"name": "v", **source}])
    return [flaw.removeprefix("spec.volumes[0].") for flaw in errors]


# ── hooks ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("hook", ["preStop", "postStart"])
@pytest.mark.parametrize(
    ("minor", "seconds", "says"),
    [
        ("1.37", 30, ""),
        ("1.37", 0, ""),
        ("1.37", 31, "must be non-negative and less than terminationGracePeriodSeconds (30)"),
        ("1.37", -1, "must be non-negative and less than terminationGracePeriodSeconds (30)"),
        ("1.30", 0, "must be greater than 0 and less than terminationGracePeriodSeconds (30)"),
        (
            "1.32",
            31,
            "must be greater than 0 and less than terminationGracePeriodSeconds (30). "
            "Enable AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep.",
        ),
    ],
)
def test_a_hook_sleeps_no_longer_than_the_grace_period(
    hook: str, minor: str, seconds: int, says: str
) -> None:
    errors = of_container(minor, lifecycle={hook: {"sleep": {"seconds": seconds}}})
    assert errors == ([f"lifecycle.{hook}.sleep: Invalid value: {seconds}: {says}"] if says else [])


def test_the_hooks_of_a_sidecar_have_the_same_limit() -> None:
    sidecar = {**ONE, "name": "s", "lifecycle": {"preStop": {"sleep": {"seconds": 60}}}}
    (errors,) = flaws(initContainers=[{**sidecar, "restartPolicy": "Always"}])
    assert errors.startswith("spec.initContainers[0].lifecycle.preStop.sleep: Invalid value: 60: ")


# ── security ─────────────────────────────────────────────────────────────

PROFILES = '"Localhost", "RuntimeDefault", "Unconfined"'


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"type": "RuntimeDefault"}, []),
        ({"type": "Localhost", "localhostProfile": "a/b.json"}, []),
        ({}, ["type: Required value: type is required when seccompProfile is set"]),
        (
            {"type": "RuntimDefault"},
            [f'type: Unsupported value: "RuntimDefault": supported values: {PROFILES}'],
        ),
        (
            {"type": "Localhost"},
            ["localhostProfile: Required value: must be set when seccomp type is Localhost"],
        ),
        (
            {"type": "Localhost", "localhostProfile": "/a"},
            ['localhostProfile: Invalid value: "/a": must be a relative path'],
        ),
        (
            {"type": "Localhost", "localhostProfile": "a/../b"},
            ["localhostProfile: Invalid value: \"a/../b\": must not contain '..'"],
        ),
    ],
)
def test_a_seccomp_profile_has_a_known_type(profile: dict[str, Any], expected: list[str]) -> None:
    for errors, path in (
        (of_container(securityContext={"seccompProfile": profile}), "securityContext.seccompProfile"),
        (flaws(securityContext={"seccompProfile": profile}), "spec.securityContext.seccompProfile"),
    ):
        assert errors == [f"{path}.{text}" for text in expected]


def test_only_the_seccomp_type_localhost_has_a_file() -> None:
    profile = {"type": "Unconfined", "localhostProfile": "a"}
    (errors,) = flaws(securityContext={"seccompProfile": profile})
    assert errors.startswith("spec.securityContext.seccompProfile.localhostProfile: Invalid value: ")
    assert errors.endswith(": can only be set when seccomp type is Localhost")


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"type": "Unconfined"}, []),
        ({"type": "Localhost", "localhostProfile": "p"}, []),
        ({}, ["type: Required value: type is required when appArmorProfile is set"]),
        ({"type": "unconfined"}, [f'type: Unsupported value: "unconfined": supported values: {PROFILES}']),
        (
            {"type": "Localhost", "localhostProfile": ""},
            ["localhostProfile: Required value: must be set when AppArmor type is Localhost"],
        ),
        (
            {"type": "Localhost", "localhostProfile": " p"},
            ['localhostProfile: Invalid value: " p": must not be padded with whitespace'],
        ),
        (
            {"type": "Localhost", "localhostProfile": "p" * 4096},
            ["localhostProfile: Too long: may not be more than 4095 bytes"],
        ),
        (
            {"type": "RuntimeDefault", "localhostProfile": "p"},
            ['localhostProfile: Invalid value: "p": can only be set when AppArmor type is Localhost'],
        ),
    ],
)
def test_an_app_armor_profile_has_a_known_type(profile: dict[str, Any], expected: list[str]) -> None:
    for errors, path in (
        (of_container(securityContext={"appArmorProfile": profile}), "securityContext.appArmorProfile"),
        (flaws(securityContext={"appArmorProfile": profile}), "spec.securityContext.appArmorProfile"),
    ):
        assert errors == [f"{path}.{text}" for text in expected]


@pytest.mark.parametrize(
    ("mount", "on_host", "expected"),
    [
        ("Default", True, []),
        ("Unmasked", False, []),
        ("Unmasked", True, ['Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`']),
        ("Masked", False, ['Unsupported value: "Masked": supported values: "Default", "Unmasked"']),
    ],
)
def test_an_unmasked_proc_needs_an_own_user_namespace(mount: str, on_host: bool, expected: list[str]) -> None:
    container = {**ONE, "securityContext": {"procMount": mount}}
    errors = flaws(containers=[container], hostUsers=on_host)
    assert errors == [f"spec.containers[0].securityContext.procMount: {text}" for text in expected]


@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        ("fsGroupChangePolicy", ["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", ["Merge", "Strict"]),
        ("seLinuxChangePolicy", ["MountOption", "Recursive"]),
    ],
)
def test_a_policy_of_the_security_context_is_one_of_two(field: str, allowed: list[str]) -> None:
    shown = ", ".join(f'"{value}"' for value in allowed)
    for value in allowed:
        assert flaws(securityContext={field: value}) == []
    assert flaws(securityContext={field: "Never"}) == [
        f'spec.securityContext.{field}: Unsupported value: "Never": supported values: {shown}'
    ]


def test_names_of_sysctls_are_valid_and_differ() -> None:
    names = ["net.core.somaxconn", "kernel/shm_rmid_forced", "", "Net.core", "net.core.somaxconn", "a" * 254]
    rule = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*"
    rule += "[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
    errors = flaws(securityContext={"sysctls": [{"name": name, "value": "1"} for name in names]})
    path = "spec.securityContext.sysctls"
    assert errors[:3] == [
        f"{path}[2].name: Required value",
        f'{path}[3].name: Invalid value: "Net.core": {rule}',
        f'{path}[4].name: Duplicate value: "net.core.somaxconn"',
    ]
    assert errors[3].startswith(f"{path}[5].name: Invalid value: ")


# ── operating system ─────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("linux", []),
        ("windows", []),
        ("", ["spec.os.name: Required value"]),
        ("Linux", ['spec.os: Unsupported value: "Linux": supported values: "linux", "windows"']),
    ],
)
def test_a_pod_requires_a_known_operating_system(name: str, expected: list[str]) -> None:
    assert flaws(os={"name": name}) == expected


def test_settings_of_the_other_operating_system_are_refused() -> None:
    # given a pod and a container with settings of both systems
    own = {"fsGroup": 0, "sysctls": [{"name": "a", "value": "1"}], "windowsOptions": {}}
    container = {**ONE, "securityContext": {"capabilities": {}, "runAsUser": 1, "windowsOptions": {}}}
    both: dict[str, Any] = {
        "containers": [container],
        "securityContext": own,
        "hostPID": True,
        "hostIPC": False,
    }
    # then
    refused = "Forbidden: windows options cannot be set for a linux pod"
    assert flaws(os={"name": "linux"}, **both) == [
        f"spec.securityContext.windowsOptions: {refused}",
        f"spec.containers[0].securityContext.windowsOptions: {refused}",
    ]
    places = [
        *("securityContext.fsGroup", "securityContext.sysctls", "hostPID"),
        *(f"containers[0].securityContext.{field}" for field in ("capabilities", "runAsUser")),
    ]
    assert flaws(os={"name": "windows"}, **both) == [
        f"spec.{place}: Forbidden: cannot be set for a windows pod" for place in places
    ]
    assert flaws(**both) == []


# ── mounts and volumes ───────────────────────────────────────────────────

MOUNT = {"name": "v", "mountPath": "/v"}
HOW = '"Bidirectional", "HostToContainer", "None"'
PRIVILEGED = "Bidirectional mount propagation is available only to privileged containers"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"mountPropagation": "HostToContainer"}, []),
        ({"readOnly": True, "recursiveReadOnly": "Enabled", "mountPropagation": "None"}, []),
        ({"recursiveReadOnly": "Disabled"}, []),
        (
            {"mountPropagation": "Shared"},
            [f'mountPropagation: Unsupported value: "Shared": supported values: {HOW}'],
        ),
        ({"mountPropagation": "Bidirectional"}, [f"mountPropagation: Forbidden: {PRIVILEGED}"]),
        (
            {"recursiveReadOnly": "enabled"},
            [
                'recursiveReadOnly: Unsupported value: "enabled": supported values: "Disabled", "Enabled", '
                '"IfPossible"'
            ],
        ),
        (
            {"recursiveReadOnly": "IfPossible", "mountPropagation": "HostToContainer"},
            [
                "recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
                "recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified",
            ],
        ),
    ],
)
def test_the_propagation_of_mounts_is_valid(fields: dict[str, Any], expected: list[str]) -> None:
    assert of_container(volumeMounts=[{**MOUNT, **fields}]) == [f"volumeMounts.{text}" for text in expected]


def test_a_privileged_container_may_mount_in_both_directions() -> None:
    mount = {**MOUNT, "mountPropagation": "Bidirectional"}
    assert of_container(volumeMounts=[mount], securityContext={"privileged": True}) == []


def test_a_device_is_used_once_and_not_also_mounted() -> None:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("v", "w")]
    devices = [
        {"name": "v", "devicePath": "/dev/a"},
        {"name": "v", "devicePath": "/dev/b"},
        {"name": "w", "devicePath": "/dev/../c"},
    ]
    container = {**ONE, "volumeDevices": devices}
    assert flaws(volumes=volumes, containers=[container]) == [
        'spec.containers[0].volumeDevices[1].name: Invalid value: "v": must be unique',
        'spec.containers[0].volumeDevices[2].devicePath: Invalid value: "/dev/../c": '
        "can not contain backsteps ('..')",
    ]
    both = {**ONE, "volumeDevices": devices[:1], "volumeMounts": [MOUNT]}
    assert flaws(volumes=volumes, containers=[both]) == [
        'spec.containers[0].volumeMounts[0].name: Invalid value: "v": must not already exist in volumeDevices',
        'spec.containers[0].volumeDevices[0].name: Invalid value: "v": must not already exist in volumeMounts',
    ]


MODE = "must be a number between 0 and 0777 (octal), both inclusive"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"key": "k", "path": "a/b", "mode": 0o400}, []),
        ({"path": "a"}, ["key: Required value"]),
        ({"key": "k"}, ["path: Required value"]),
        ({"key": "k", "path": "/a"}, ['path: Invalid value: "/a": must be a relative path']),
        ({"key": "k", "path": "../a"}, ["path: Invalid value: \"../a\": must not contain '..'"]),
        ({"key": "k", "path": "..a"}, ["path: Invalid value: \"..a\": must not start with '..'"]),
        ({"key": "k", "path": "a", "mode": 0o1000}, [f"mode: Invalid value: 512: {MODE}"]),
    ],
)
def test_the_file_of_an_entry_has_a_path_below_the_volume_and_a_mode(
    item: dict[str, Any], expected: list[str]
) -> None:
    for source, path in (
        ({"secret": {"secretName": "s", "items": [item]}}, "secret"),
        ({"configMap": {"name": "m", "items": [item]}}, "configMap"),
        (
            {"projected": {"sources": [{"secret": {"name": "s", "items": [item]}}]}},
            "projected.sources[0].secret",
        ),
        (
            {"projected": {"sources": [{"configMap": {"name": "m", "items": [item]}}]}},
            "projected.sources[0].configMap",
        ),
    ):
        assert of_volume(**source) == [f"{path}.items[0].{text}" for text in expected]


FIELDS = '"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"'
NAME = {"apiVersion": "v1", "fieldPath": "metadata.name"}


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"path": "a", "fieldRef": NAME}, []),
        ({"path": "a", "fieldRef": {**NAME, "fieldPath": "metadata.labels['app']"}}, []),
        ({"path": "a", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}, []),
        (
            {"path": "a", "fieldRef": {**NAME, "apiVersion": "v2"}},
            [
                '.fieldRef.fieldPath: Invalid value: "metadata.name": '
                "error converting fieldPath: unsupported pod version: v2"
            ],
        ),
        ({"fieldRef": NAME}, [".path: Required value"]),
        ({"path": "a"}, [": Required value: one of fieldRef and resourceFieldRef is required"]),
        (
            {"path": "a", "fieldRef": {**NAME, "fieldPath": "status.podIP"}},
            [f'.fieldRef.fieldPath: Unsupported value: "status.podIP": supported values: {FIELDS}'],
        ),
        (
            {"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}},
            [".resourceFieldRef.containerName: Required value"],
        ),
        (
            {"path": "a", "fieldRef": NAME, "resourceFieldRef": {}},
            [
                ': Invalid value: "resource": fieldRef and resourceFieldRef can not be specified simultaneously'
            ],
        ),
        ({"path": "a", "fieldRef": NAME, "mode": -1}, [f".mode: Invalid value: -1: {MODE}"]),
    ],
)
def test_a_file_of_the_downward_api_has_one_source(item: dict[str, Any], expected: list[str]) -> None:
    """The path of an error does not contain the item, as in Kubernetes."""
    for source, path in (
        ({"downwardAPI": {"items": [item]}}, "downwardAPI"),
        (
            {"projected": {"sources": [{"downwardAPI": {"items": [item]}}]}},
            "projected.sources[0].downwardAPI",
        ),
    ):
        assert of_volume(**source) == [f"{path}{text}" for text in expected]


TOKEN = {"path": "token", "expirationSeconds": 600}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"serviceAccountToken": TOKEN}, []),
        ({"secret": {}}, ["sources[0].secret.name: Required value"]),
        (
            {"serviceAccountToken": {**TOKEN, "expirationSeconds": 599}},
            [
                "sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: "
                "may not specify a duration less than 10 minutes"
            ],
        ),
        (
            {"serviceAccountToken": {**TOKEN, "expirationSeconds": 2**32 + 1}},
            [
                "sources[0].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: "
                "may not specify a duration larger than 2^32 seconds"
            ],
        ),
        ({"serviceAccountToken": {"expirationSeconds": 600}}, ["path: Required value"]),
        (
            {"secret": {"name": "s"}, "configMap": {"name": "m"}},
            ["sources[0]: Forbidden: may not specify more than 1 volume type per source"],
        ),
    ],
)
def test_a_projected_source_is_complete_and_alone(source: dict[str, Any], expected: list[str]) -> None:
    assert of_volume(projected={"sources": [source]}) == [f"projected.{text}" for text in expected]


def test_projected_files_have_different_paths() -> None:
    item = {"key": "k", "path": "a"}
    sources = [
        {"secret": {"name": "s", "items": [item]}},
        {"configMap": {"name": "m", "items": [item]}},
        {"downwardAPI": {"items": [{"path": "a", "fieldRef": NAME}]}},
    ]
    assert of_volume(projected={"sources": sources}) == [
        'projected: Invalid value: "m": conflicting duplicate paths',
        'projected: Invalid value: "a": conflicting duplicate paths',
    ]


def test_a_csi_driver_and_its_secret_have_valid_names() -> None:
    assert of_volume(csi={"driver": "CSI.example.com", "nodePublishSecretRef": {"name": "s"}}) == []
    assert of_volume(csi={"driver": "d" * 64}) == ["csi.driver: Too long: may not be more than 63 bytes"]
    wrong = of_volume(csi={"driver": "a_b", "nodePublishSecretRef": {"name": "A"}})
    assert [text.partition(": a lowercase")[0] for text in wrong] == [
        'csi.driver: Invalid value: "a_b"',
        'csi.name: Invalid value: "A"',
    ]
    assert of_volume(csi={"driver": "d", "nodePublishSecretRef": {}}) == [
        "csi.nodePublishSecretRef.name: Required value"
    ]


# ── DNS ──────────────────────────────────────────────────────────────────


def test_the_search_list_and_the_options_of_the_resolver_have_limits() -> None:
    many, long = ["a"] * 33, ["a" * 60 + "." + "b" * 60] * 17
    assert flaws(dnsConfig={"searches": many[:32], "options": [{"name": "ndots", "value": "2"}]}) == []
    (errors,) = flaws(dnsConfig={"searches": many})
    assert errors.startswith('spec.dnsConfig.searches: Invalid value: []string{"a", "a", ')
    assert errors.endswith(": must not have more than 32 search paths")
    (errors,) = flaws(dnsConfig={"searches": long})
    assert errors.endswith(": must not have more than 2048 characters (including spaces) in the search list")
    assert flaws(dnsConfig={"options": [{"value": "2"}]}) == [
        "spec.dnsConfig.options[0]: Required value: must not be empty"
    ]
    assert flaws(dnsConfig={"nameservers": ["10.0.0.1"] * 4}) == [
        'spec.dnsConfig.nameservers: Invalid value: []string{"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1"}: '
        "must not have more than 3 nameservers"
    ]
