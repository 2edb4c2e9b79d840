"""A cluster to try things on: ``python -m tests.cluster [WORKERS]``, until Ctrl-C."""

from __future__ import annotations

import signal
import sys

from tests.cluster.machines import Cluster
from tests.cluster.network import ClusterError


def main(workers: int) -> None:
    with Cluster.start(workers) as cluster:
        driver = cluster.host("driver")
        print(f"{workers} workers run. A driver is started with\n")
        print("  " + " ".join(["ip netns exec", driver.namespace, "python …"]))
        print("\nand these settings of its session:\n")
        for name, value in cluster.settings(driver).items():
            print(f"  {name} {value}")
        print(f"\n{cluster.uri('')} is {cluster.bucket}. Ctrl-C ends all of it.")
        signal.pause()


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
    except ClusterError as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt:
        pass
