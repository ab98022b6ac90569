"""A second broker of a cluster, whose death leaves topics without a leader."""

from __future__ import annotations

import subprocess
from pathlib import Path

from frazil.devstack.kafka import Kafka

#: A broker that is gone is noticed within this time; one that is only slow must not be taken for that.
SETTINGS = {"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "6000"}


class SecondBroker(Kafka):
    """It joins the cluster of the first one, as number 2."""

    def __init__(self, first: Kafka) -> None:
        super().__init__(settings=SETTINGS)
        self._first = first

    def _properties(self) -> dict[str, str]:
        voters = self._first._properties()["controller.quorum.voters"]
        return {
            **super()._properties(),
            "process.roles": "broker",
            "node.id": "2",
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
        }

    def _format(self, properties: Path) -> None:
        cluster = str(self._first.admin.list_topics(timeout=120).cluster_id)
        main = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
        subprocess.run(self._java(main=main), capture_output=True, check=True)
