"""Settings of real nodes, as far as they can be checked without a node."""

import ipaddress
import json
import os

import pytest

from testbed import node
from testbed.build import MissingError
from testbed.node_settings import CRI_SOCKET, address_of, list_network_commands, pods_of, run_files
from testbed.settings import MOST_NODES


def test_a_missing_root_right_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingError, match=r"^real nodes need root on Linux[^\n]*$"):
        node.check()


def test_packages_that_are_missing_are_named_with_the_command_that_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a user with the permissions, on a machine without the programs
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(node, "_may_make_namespaces", lambda: True)
    monkeypatch.setattr(node, "PROGRAMS", ("no-such-program",))
    # then
    with pytest.raises(
        MissingError, match=r"no-such-program.*: apt-get install .*containerd runc .*iptables"
    ):
        node.check()


def test_nodes_have_unique_addresses_and_routes_to_each_others_pods() -> None:
    numbers = range(1, MOST_NODES + 1)
    networks = [ipaddress.ip_network(pods_of(number)) for number in numbers]
    assert not any(
        network.overlaps(other) for network in networks for other in networks if network is not other
    )
    for number in numbers:
        commands = list_network_commands(number)
        others = set(numbers) - {number}
        ways = {f"route add {pods_of(other)} via {address_of(other)}" for other in others}
        assert ways <= set(commands)


def test_fields_of_the_kubelets_configuration_may_be_changed() -> None:
    files = run_files(1, {"maxPods": 7}, cgroup="/group/node-1")
    config = json.loads(files["kubelet.yaml"])
    assert (config["maxPods"], config["cgroupRoot"]) == (7, "/group/node-1")
    assert config["containerRuntimeEndpoint"] == f"unix://{CRI_SOCKET}"
