"""Hosts, without anything on them: who hears whom, what is counted, and that nothing remains."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from tests.cluster import network, tools
from tests.cluster.network import Host, Network, namespaces

PREFIX = "skewless-test-hosts-"  # the cluster of the other tests runs on

LISTEN = """
import socket
server = socket.create_server(("0.0.0.0", 5000))
while True:
    connection, _ = server.accept()
    while connection.recv(1 << 16):
        pass
    connection.close()
"""
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 5000), timeout=float(sys.argv[2])) as connection:
    connection.sendall(b"x" * 1_000_000)
"""
HOLD = f"""
import signal, subprocess, sys
from tests.cluster import network
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
network.PREFIX, network.SWITCH = "{PREFIX}", "{PREFIX}switch"
with network.Network() as hosts:
    # It tells its number when it is on the host, and is to end with this process.
    subprocess.Popen(hosts.add("a").command(["sh", "-c", "echo $$; exec sleep 600"]))
    signal.pause()
"""


@pytest.fixture(autouse=True)
def _own_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if (reason := tools.missing()) is not None:
        pytest.skip(reason)
    monkeypatch.setattr(network, "PREFIX", PREFIX)
    monkeypatch.setattr(network, "SWITCH", f"{PREFIX}switch")
    yield
    network.remove_leftovers()


def python(host: Host, program: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        host.command([sys.executable, "-c", program, *words]), stderr=subprocess.DEVNULL
    )


def send(source: Host, target: Host, patience_s: float) -> int:
    return python(source, SEND, target.address, str(patience_s)).wait(60)


def is_running(pid: int) -> bool:
    """Not ended, though maybe nobody has asked how it ended."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_bytes_are_counted_and_links_cut() -> None:
    with Network() as hosts:
        a, b, c = (hosts.add(name) for name in "abc")
        python(b, LISTEN)
        while send(a, b, 5):
            time.sleep(0.1)
        before = hosts.traffic()
        assert send(a, b, 5) == 0
        now = {name: traffic.since(before[name]) for name, traffic in hosts.traffic().items()}
        assert 1_000_000 < now["a"].sent < 1_300_000
        assert 1_000_000 < now["b"].received < 1_300_000
        assert now["c"].received < 10_000
        hosts.cut(b)
        assert send(a, b, 1) != 0
        hosts.mend(b)
        assert send(c, b, 10) == 0
        listener = b.pids()
        assert len(listener) == 1
    assert namespaces() == []
    assert not is_running(listener[0])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_remains(how: signal.Signals) -> None:
    """Ctrl-C removes all; what a killed process leaves, the next one removes."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert holder.stdout is not None
    sleeper = int(holder.stdout.readline())
    assert namespaces() and is_running(sleeper)
    holder.send_signal(how)
    holder.communicate(timeout=60)
    if how == signal.SIGKILL:
        assert namespaces()
        with Network():
            assert namespaces() == [network.SWITCH]
    assert namespaces() == []
    assert not is_running(sleeper)
