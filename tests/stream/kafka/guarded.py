"""A broker with a second door, behind which users have a password and rights of their own."""

from __future__ import annotations

from frazil.devstack.kafka import Kafka
from frazil.devstack.ports import free_port

_PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"


class GuardedKafka(Kafka):
    """Who comes through the second door is eve, whose password is ice-cold."""

    def __init__(self) -> None:
        super().__init__()
        self.guarded_port = free_port()

    def as_eve(self, password: str) -> dict[str, str]:
        """The settings of a client."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.guarded_port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "eve",
            "sasl.password": password,
        }

    def _properties(self) -> dict[str, str]:
        found = super()._properties()
        login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
        return {
            **found,
            "listeners": f"{found['listeners']},SASL_PLAINTEXT://127.0.0.1:{self.guarded_port}",
            "listener.security.protocol.map": _PROTOCOLS,
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{login} user_eve="ice-cold";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            # A broker that was killed may come back when its last session is over. One that is only slow
            # must not lose it: its topics would have no leader.
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "4000",
        }
