"""Storage of a new warehouse, from options, files, the environment or a question."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from frazil.cli.remote import read_json
from frazil.core.errors import InvalidInput

F = TypeVar("F", bound=Callable[..., Any])
Json = dict[str, Any]

_FILE_KEYS = {"warehouse-name", "project-id", "storage-profile", "storage-credential", "delete-profile"}
_S3_ONLY = ("key_prefix", "region", "endpoint", "path_style", "flavor", "role_arn", "sts", "credential_file")


def storage_options(command: F) -> F:
    """The options that say where a warehouse is."""
    options = [
        click.option("--local", metavar="PATH", help="A directory that server and engines share."),
        click.option("--s3", metavar="BUCKET", help="A bucket on S3 or on what speaks its protocol."),
        click.option("--from-file", metavar="FILE", help="The request as JSON; - is standard input."),
        click.option("--key-prefix", metavar="PREFIX", help="Where in the bucket."),
        click.option("--region", help="Region of the bucket."),
        click.option("--endpoint", metavar="URL", help="Of a store that is not AWS; implies --path-style."),
        click.option("--path-style/--virtual-hosts", default=None, help="How the bucket is addressed."),
        click.option("--flavor", type=click.Choice(["aws", "s3-compat"]), help="By default from --endpoint."),
        click.option(
            "--role-arn", metavar="ARN", help="Role that vended keys are sessions of; implies --sts."
        ),
        click.option(
            "--sts/--no-sts",
            default=None,
            help="Vend short-lived keys. Pipelines and `frazil tier` need them.",
        ),
        click.option("--credential-file", metavar="FILE", help="JSON of the storage-credential."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def storage_given(given: Mapping[str, Any]) -> tuple[Json, Json | None, Json | None]:
    """Profile, credential and delete profile."""
    chosen = [name for name in ("local", "s3", "from_file") if given.get(name)]
    if len(chosen) != 1:
        raise click.UsageError("give one of --local, --s3 and --from-file")
    if given.get("s3"):
        return _s3_profile(given), credential_given("s3", given.get("credential_file")), None
    useless = [name for name in _S3_ONLY if given.get(name) is not None]
    if useless:
        flag = useless[0].replace("_", "-")
        raise click.UsageError(f"--{flag} goes with --s3; in a file, it is a part of the storage-profile")
    if given.get("local"):
        return {"type": "local", "path": os.path.abspath(given["local"])}, None, None  # noqa: PTH100
    return _from_file(given["from_file"])


def credential_given(kind: str, file: str | None) -> Json:
    """A storage credential from the file, the environment or a question, in this order."""
    if file is not None:
        found = read_json(file, "--credential-file")
        if not isinstance(found, dict):
            raise InvalidInput(f"--credential-file: {file} does not hold a JSON object")
        return found
    if kind != "s3":
        raise click.UsageError(f"keys for {kind} storage come from a file: give --credential-file")
    access, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if os.environ.get("AWS_SESSION_TOKEN"):
        raise InvalidInput(
            "AWS_SESSION_TOKEN is set, so the keys in the environment are short-lived; a warehouse needs "
            "lasting ones"
        )
    if not (access and secret):
        if not sys.stdin.isatty():
            raise click.UsageError(
                "no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give --credential-file"
            )
        access = click.prompt("Access key id", err=True)
        secret = click.prompt("Secret access key", hide_input=True, err=True)
    keys = {"access-key-id": access, "secret-access-key": secret}
    return {"type": "s3", "credential-type": "access-key", **keys}


def _s3_profile(given: Mapping[str, Any]) -> Json:
    if not given.get("region"):
        raise click.UsageError("--s3 needs --region; stores that have none mostly take us-east-1")
    endpoint = given.get("endpoint")
    path_style = given.get("path_style")
    sts = given.get("sts")
    profile = {
        "type": "s3",
        "bucket": given["s3"],
        "key-prefix": given.get("key_prefix"),
        "region": given["region"],
        "endpoint": endpoint,
        "flavor": given.get("flavor") or ("s3-compat" if endpoint else "aws"),
        "path-style-access": bool(endpoint) if path_style is None else path_style,
        "sts-role-arn": given.get("role_arn"),
        "sts-enabled": bool(given.get("role_arn")) if sts is None else sts,
    }
    return {key: value for key, value in profile.items() if value is not None}


def _from_file(file: str) -> tuple[Json, Json | None, Json | None]:
    found = read_json(file, "--from-file")
    if not isinstance(found, dict) or not isinstance(found.get("storage-profile"), dict):
        raise InvalidInput(f'--from-file: {file} does not hold a JSON object with a "storage-profile"')
    unknown = sorted(set(found) - _FILE_KEYS)
    if unknown:
        legal = ", ".join(sorted(_FILE_KEYS))
        raise InvalidInput(f"--from-file: {unknown[0]!r} is unknown. Legal: {legal}")
    return found["storage-profile"], found.get("storage-credential"), found.get("delete-profile")
