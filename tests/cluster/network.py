"""Hosts on one machine: network namespaces, each with a link to one switch.

The switch is a bridge in a namespace of its own, so that nothing outside is touched, and that all
is gone when the namespaces are. What a host received and sent is counted on its port of the switch.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

PREFIX = "skewless-cluster-"  # whatever bears it is ours, and may be removed
SWITCH = f"{PREFIX}switch"
BRIDGE = "bridge"
SUBNET = "10.213.77"
PATIENCE_S = 10.0
OTHERS = 9  # the class of what comes from nobody in particular


class ClusterError(Exception):
    """The cluster cannot be set up, or has lost a part that nobody took away."""


def ip(*words: str) -> str:
    return _run("ip", *words)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"`{' '.join(words)}` failed: {done.stderr.strip()}")
    return done.stdout


@dataclass(frozen=True)
class Host:
    """A namespace with an address. Its port of the switch has its name."""

    name: str
    address: str

    @property
    def namespace(self) -> str:
        return f"{PREFIX}{self.name}"

    def command(self, words: Sequence[str]) -> list[str]:
        """What runs a program on this host. It ends with the process that started it."""
        return ["ip", "netns", "exec", self.namespace, "setpriv", "--pdeathsig", "KILL", *words]

    def pids(self) -> list[int]:
        return pids_in(self.namespace)


@dataclass(frozen=True)
class Traffic:
    """Bytes over one host's link."""

    received: int
    sent: int

    def since(self, before: Traffic) -> Traffic:
        return Traffic(self.received - before.received, self.sent - before.sent)


@dataclass
class Network:
    """All hosts. What an earlier run left behind goes first."""

    hosts: dict[str, Host] = field(default_factory=dict)
    senders: dict[str, list[str]] = field(default_factory=dict)  # that are told apart, by receiver

    def __enter__(self) -> Network:
        remove_leftovers()
        ip("netns", "add", SWITCH)
        ip("-n", SWITCH, "link", "add", "name", BRIDGE, "type", "bridge")
        ip("-n", SWITCH, "link", "set", BRIDGE, "up")
        return self

    def __exit__(self, *_: object) -> None:
        remove_leftovers()

    def add(self, name: str) -> Host:
        """One more host; port names have at most 15 letters."""
        host = Host(name, f"{SUBNET}.{len(self.hosts) + 1}")
        inside = ("-n", host.namespace)
        ip("netns", "add", host.namespace)
        ip("-n", SWITCH, "link", "add", "name", name, "type", "veth",
           "peer", "name", "eth0", "netns", host.namespace)  # fmt: skip
        ip("-n", SWITCH, "link", "set", "dev", name, "master", BRIDGE, "up")
        ip(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            ip(*inside, "link", "set", link, "up")
        self.hosts[name] = host
        return host

    def cut(self, host: Host) -> None:
        """Nothing comes or goes until the link is mended. Nobody is told: connections stay."""
        ip("-n", SWITCH, "link", "set", "dev", host.name, "nomaster")

    def mend(self, host: Host) -> None:
        ip("-n", SWITCH, "link", "set", "dev", host.name, "master", BRIDGE)

    def tell_apart(self, host: Host, senders: Sequence[Host]) -> None:
        """Count from now on what comes to a host from some others, each in a class of its own."""
        on = ("dev", host.name)
        _run("tc", "-n", SWITCH, "qdisc", "add", *on, "root", "handle", "1:", "htb",
             "default", str(OTHERS))  # fmt: skip
        for number in (*range(1, len(senders) + 1), OTHERS):
            _run("tc", "-n", SWITCH, "class", "add", *on, "parent", "1:",
                 "classid", f"1:{number}", "htb", "rate", "10gbit")  # fmt: skip
        for number, sender in enumerate(senders, 1):
            _run("tc", "-n", SWITCH, "filter", "add", *on, "parent", "1:", "protocol", "ip",
                 "u32", "match", "ip", "src", f"{sender.address}/32",
                 "flowid", f"1:{number}")  # fmt: skip
        self.senders[host.name] = [sender.name for sender in senders]

    def received_from(self, host: Host) -> dict[str, int]:
        """Bytes since they are told apart, by sender; `others` are all the rest."""
        told = _run("tc", "-n", SWITCH, "-s", "class", "show", "dev", host.name)
        found = re.findall(r"class htb 1:(\d+) .*\n Sent (\d+) bytes", told)
        names = dict(enumerate(self.senders[host.name], 1))
        return {names.get(int(number), "others"): int(count) for number, count in found}

    def traffic(self) -> dict[str, Traffic]:
        """Since the beginning, by host. What leaves the switch is what the host receives."""
        told = json.loads(ip("-n", SWITCH, "-s", "-j", "link", "show"))
        return {
            port["ifname"]: Traffic(port["stats64"]["tx"]["bytes"], port["stats64"]["rx"]["bytes"])
            for port in told
            if port["ifname"] in self.hosts
        }


def namespaces() -> list[str]:
    """Ours, those of an earlier run included."""
    names = [line.split()[0] for line in ip("netns", "list").splitlines() if line.strip()]
    return [name for name in names if name.startswith(PREFIX)]


def pids_in(namespace: str) -> list[int]:
    return [int(pid) for pid in ip("netns", "pids", namespace).split()]


def kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def remove_leftovers() -> None:
    """Kill what runs on our hosts, by its ids, and remove them; again if somebody was started
    meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    while left := namespaces():
        for name in left:
            kill(pids_in(name))
            if not pids_in(name):
                ip("netns", "delete", name)
        if time.monotonic() > deadline:
            raise ClusterError(f"these hosts cannot be removed: {', '.join(left)}")
        time.sleep(0.05)
