"""Hashes in pods that identify their sidecars."""

from typing import Any

from pykruise.kinds.sidecarset.conversion import CONVERSION
from pykruise.kinds.sidecarset.defaults import add_defaults
from pykruise.kinds.sidecarset.hashes import Hashes, build_hashed_text, hashes_of
from pykruise.kube.documents import annotations_of
from pykruise.kube.schemas.conversion import convert
from support.sidecarsets import container, sidecarset

ONE = {"name": "container1", "image": "test-image"}
REGULAR = Hashes(
    "w26c4x8fz245642fdv499b464248f974xddx4x55z5dw55bc6x66464fxz77dc78",
    "8wzddb4dvv9c6x8zdc77z4z75987424f457dfv6724ddw6zbdx467wz5x24fc759",
)
NATIVE = Hashes(
    "4xwx4d4844vd4v9x79wb4xbxf4xb29475cc4446v8cz2c2f2f5c5bw448vd42z8w",
    "5725fw8bwbx249bw57v5892c847dzf48bww9zb7c86xb95264fdz26654847b2c8",
)


def test_the_golden_values_result() -> None:
    """sidecarset case 3"""
    assert build_hashed_text([ONE], None) == (
        '{"containers":[{"name":"container1","image":"test-image","resources":{},'
        '"upgradeStrategy":{},"shareVolumePolicy":{}}]}'
    )
    assert hashes_of({"containers": [ONE]}) == REGULAR
    assert hashes_of({"containers": [ONE], "initContainers": [ONE]}) == REGULAR
    assert hashes_of({"containers": [ONE], "initContainers": [{**ONE, "restartPolicy": "Always"}]}) == NATIVE


def test_both_versions_have_the_same_hash() -> None:
    """sidecarset case 3"""
    old = sidecarset("log", container("log"))
    old["apiVersion"] = "apps.kruise.io/v1alpha1"
    table = {(CONVERSION.resource.group, CONVERSION.resource.kind): CONVERSION}
    new = convert(old, "apps.kruise.io/v1beta1", table)
    assert hashes_of(new["spec"]) == hashes_of(old["spec"])


def test_hashed_fields_have_their_declared_order_without_empty_ones() -> None:
    sidecar: dict[str, Any] = {
        "volumeMounts": [{"mountPath": "/a", "readOnly": False, "name": "a"}],
        "env": [{"value": "<&>", "name": "B"}, {"name": "A", "value": ""}],
        "image": "i",
        "name": "n",
        "tty": False,
        "args": [],
        "resources": {"requests": {"memory": "1024Mi", "cpu": "1000m"}, "limits": {}},
        "securityContext": {"privileged": False, "runAsUser": 0},
        "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 0},
        "upgradeStrategy": {"hotUpgradeEmptyImage": "", "upgradeType": "ColdUpgrade"},
        "somethingNewer": 1,
    }
    assert build_hashed_text([sidecar], None) == (
        '{"containers":[{"name":"n","image":"i","env":[{"name":"B","value":"\\u003c\\u0026\\u003e"},'
        '{"name":"A"}],"resources":{"requests":{"cpu":"1","memory":"1Gi"}},'
        '"volumeMounts":[{"name":"a","mountPath":"/a"}],"livenessProbe":{"httpGet":{"port":80}},'
        '"securityContext":{"privileged":false,"runAsUser":0},'
        '"upgradeStrategy":{"upgradeType":"ColdUpgrade"},"shareVolumePolicy":{}}]}'
    )


def test_an_empty_service_of_a_grpc_probe_is_not_an_absent_one() -> None:
    """section 3.2, step 2"""
    absent, empty = (
        build_hashed_text([{**ONE, "livenessProbe": {"grpc": {"port": 1, **service}}}], None)
        for service in ({}, {"service": ""})
    )
    assert '"grpc":{"port":1,"service":null}' in absent
    assert '"grpc":{"port":1,"service":""}' in empty


def test_fields_that_go_clients_always_write_are_hashed_when_missing() -> None:
    """section 3.2, step 2"""
    sidecar: dict[str, Any] = {
        "ports": [{"name": "p"}],
        "env": [
            {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": None}}},
            {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1000m"}}},
        ],
        "resources": {"limits": None, "requests": {}},
        "livenessProbe": {"grpc": {"port": 1}},
        "securityContext": {},
        "restartPolicy": "",
        "tty": None,
    }
    assert build_hashed_text([sidecar], None) == (
        '{"containers":[{"name":"","ports":[{"name":"p","containerPort":0}],"env":['
        '{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"0"}}},'
        '{"name":"B","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"0"}}},'
        '{"name":"C","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"1"}}}],'
        '"resources":{},"restartPolicy":"","livenessProbe":{"grpc":{"port":1,"service":null}},'
        '"securityContext":{},"upgradeStrategy":{},"shareVolumePolicy":{}}]}'
    )
    assert build_hashed_text(None, None) == '{"containers":null}'


def test_fields_of_an_unexpected_type_are_hashed_unchanged() -> None:
    """Fields of containers have no schema; admission reports an invalid type later."""
    sidecar: dict[str, Any] = {"name": {"a": 1}, "command": [{"b": 2}], "envFrom": ["x"], "lifecycle": "y"}
    assert build_hashed_text([sidecar], None) == (
        '{"containers":[{"name":{"a":1},"command":[{"b":2}],"envFrom":["x"],"resources":{},"lifecycle":"y",'
        '"upgradeStrategy":{},"shareVolumePolicy":{}}]}'
    )


def test_fields_outside_the_sidecar_containers_are_not_hashed() -> None:
    """sidecarset case 4"""
    plain = sidecarset("log", container("log"))["spec"]
    more = {
        **plain,
        "volumes": [{"name": "v", "emptyDir": {}}],
        "patchPodMetadata": [{"annotations": {"a": "b"}}],
        "initContainers": [container("init")],
        "imagePullSecrets": [{"name": "s"}],
    }
    assert hashes_of(plain) == hashes_of(more)


def test_only_the_image_is_left_out_of_the_second_hash() -> None:
    hashes, two = (hashes_of({"containers": [container("log", image)]}) for image in ("log:1", "log:2"))
    other = hashes_of({"containers": [container("log", "log:1", env=[{"name": "A", "value": "b"}])]})
    assert hashes.full != two.full
    assert hashes.without_image == two.without_image != other.without_image


def test_defaults_are_written_and_hashes_overwritten() -> None:
    """sidecarset cases 1 and 2"""
    # given
    wrong = {"annotations": {"kruise.io/sidecarset-hash": "wrong", "mine": "stays"}}
    # when
    result = add_defaults(sidecarset("log", container("log", "log"), metadata=wrong))
    # then
    spec = result["spec"]
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "maxUnavailable": 1, "partition": 0}
    assert spec["revisionHistoryLimit"] == 10
    assert spec["containers"][0] == {
        "name": "log",
        "image": "log",
        "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "podInjectPolicy": "BeforeAppContainer",
        "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
        "shareVolumePolicy": {"type": "disabled"},
    }
    hashes = hashes_of(spec)
    assert annotations_of(result) == {
        "mine": "stays",
        "kruise.io/sidecarset-hash": hashes.full,
        "kruise.io/sidecarset-hash-without-image": hashes.without_image,
    }
    assert add_defaults(result) == result


def test_startup_probes_get_no_defaults_and_a_missing_field_reference_is_left() -> None:
    probe = {"httpGet": {"port": 80}}
    transfer = [
        {"sourceContainerNameFrom": {}},
        {"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "x"}}},
    ]
    result = add_defaults(
        sidecarset("log", container("log", startupProbe=probe, livenessProbe=probe, transferEnv=transfer))
    )
    sidecar = result["spec"]["containers"][0]
    assert sidecar["startupProbe"] == probe
    assert sidecar["livenessProbe"]["httpGet"] == {"port": 80, "path": "/", "scheme": "HTTP"}
    assert sidecar["transferEnv"][0] == transfer[0]
    assert sidecar["transferEnv"][1]["sourceContainerNameFrom"]["fieldRef"]["apiVersion"] == "v1"
