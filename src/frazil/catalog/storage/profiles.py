"""Storage profiles: Lakekeeper's JSON for `s3`, `gcs` and `adls`, and `local`, which it does not have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import force_setattr

from frazil.catalog.storage.checks import (
    FIELD,
    check_account,
    check_adls_host,
    check_authority_host,
    check_bucket,
    check_choice,
    check_filesystem,
    check_gcs_bucket,
    check_gcs_endpoint,
    check_key_prefix,
    check_local_path,
    check_url,
    wrong,
)
from frazil.catalog.storage.credentials import AzSharedAccessKey, Credential
from frazil.catalog.storage.layout import StorageLayout, check_layout_type
from frazil.catalog.storage.parsing import convert, require_object
from frazil.core.errors import InvalidInput

_FLAVORS = ("aws", "s3-compat")
_URL_STYLES = ("path", "virtual_host", "auto")
_REGION = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STS_SECONDS = (1, 43_200)
# A user delegation key lives for 7 days at most.
_SAS_SECONDS = (60, 604_800)


class S3Profile(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag_field="type", tag="s3"):
    """An S3 bucket, or what speaks its protocol."""

    bucket: str
    region: str
    key_prefix: str | None = None
    endpoint: str | None = None
    flavor: str = "aws"
    path_style_access: bool = False
    allow_alternative_protocols: bool = False
    assume_role_arn: str | None = None
    aws_kms_key_arn: str | None = None
    legacy_md5_behavior: bool | None = None
    push_s3_delete_disabled: bool = True
    remote_signing_enabled: bool = True
    remote_signing_url_style: str = "auto"
    storage_layout: StorageLayout | None = None
    sts_enabled: bool = False
    sts_endpoint: str | None = None
    sts_role_arn: str | None = None
    sts_session_tags: dict[str, str] = {}
    sts_token_validity_seconds: int = 3600

    def __post_init__(self) -> None:
        if self.flavor == "minio":
            force_setattr(self, "flavor", "s3-compat")
        check_choice("flavor", self.flavor, _FLAVORS)
        check_choice("remote-signing-url-style", self.remote_signing_url_style, _URL_STYLES)
        check_bucket(self.bucket)
        if not _REGION.fullmatch(self.region):
            raise wrong("region", self.region, "1 to 64 letters, digits, '-' or '_', such as eu-central-1")
        force_setattr(self, "key_prefix", check_key_prefix(self.key_prefix))
        force_setattr(self, "endpoint", check_url("endpoint", self.endpoint))
        force_setattr(self, "sts_endpoint", check_url("sts-endpoint", self.sts_endpoint))
        self._check_sts()

    def _check_sts(self) -> None:
        low, high = _STS_SECONDS
        if not low <= self.sts_token_validity_seconds <= high:
            raise wrong("sts-token-validity-seconds", self.sts_token_validity_seconds, f"{low} to {high}")
        if self.sts_enabled and self.flavor == "aws" and not (self.sts_role_arn or self.assume_role_arn):
            raise InvalidInput(
                f"{FIELD}.sts-role-arn: required when sts-enabled is true and flavor is aws "
                "(or give assume-role-arn)"
            )

    @property
    def base(self) -> str:
        """The location that everything in the warehouse lies below."""
        return f"s3://{self.bucket}/{self.key_prefix}" if self.key_prefix else f"s3://{self.bucket}"

    @property
    def at_aws(self) -> bool:
        """Whether the store is AWS's own, whose behaviour is documented."""
        return self.flavor == "aws" and self.endpoint is None

    @property
    def alternatives(self) -> bool:
        """Whether callers may spell locations with s3a:// and s3n://."""
        return self.allow_alternative_protocols


class GcsProfile(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag_field="type", tag="gcs"):
    """A bucket of Google Cloud Storage."""

    bucket: str
    key_prefix: str | None = None
    #: Not Lakekeeper's: a private endpoint of Google, or an emulator.
    endpoint: str | None = None
    storage_layout: StorageLayout | None = None
    sts_enabled: bool = True

    def __post_init__(self) -> None:
        check_gcs_bucket(self.bucket)
        force_setattr(self, "key_prefix", check_key_prefix(self.key_prefix))
        force_setattr(self, "endpoint", check_gcs_endpoint(check_url("endpoint", self.endpoint)))

    @property
    def base(self) -> str:
        """The location that everything in the warehouse lies below."""
        return f"gs://{self.bucket}/{self.key_prefix}" if self.key_prefix else f"gs://{self.bucket}"

    @property
    def alternatives(self) -> bool:
        """There are none."""
        return False

    @property
    def emulated(self) -> bool:
        """Google speaks TLS only. What does not is an emulator, and no token may reach it."""
        return self.endpoint is not None and self.endpoint.startswith("http://")


class AdlsProfile(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag_field="type", tag="adls"):
    """A file system of Azure Data Lake Storage."""

    account_name: str
    filesystem: str
    key_prefix: str | None = None
    host: str = "dfs.core.windows.net"
    authority_host: str = "https://login.microsoftonline.com"
    #: Not Lakekeeper's: where the account's blob service is, if not where its host says.
    endpoint: str | None = None
    allow_alternative_protocols: bool = False
    sas_enabled: bool = True
    sas_token_validity_seconds: int = 3600
    storage_layout: StorageLayout | None = None

    def __post_init__(self) -> None:
        check_account(self.account_name)
        check_filesystem(self.filesystem)
        check_adls_host(self.host)
        force_setattr(self, "authority_host", check_authority_host(self.authority_host))
        force_setattr(self, "key_prefix", check_key_prefix(self.key_prefix))
        force_setattr(self, "endpoint", check_url("endpoint", self.endpoint))
        low, high = _SAS_SECONDS
        if not low <= self.sas_token_validity_seconds <= high:
            raise wrong("sas-token-validity-seconds", self.sas_token_validity_seconds, f"{low} to {high}")

    @property
    def base(self) -> str:
        """The location that everything in the warehouse lies below."""
        root = f"abfss://{self.filesystem}@{self.account_name}.{self.host}"
        return f"{root}/{self.key_prefix}" if self.key_prefix else root

    @property
    def alternatives(self) -> bool:
        """Whether callers may spell locations with abfs:// and wasbs://."""
        return self.allow_alternative_protocols

    @property
    def blob_endpoint(self) -> str:
        """The account's blob service, which serves the same files as its `dfs` host."""
        return self.endpoint or f"https://{self.account_name}.{self.host.replace('dfs.', 'blob.', 1)}"


class LocalProfile(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", tag_field="type", tag="local"):
    """A directory of the machine that the server and all its clients share."""

    path: str
    storage_layout: StorageLayout | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "path", check_local_path(self.path))

    @property
    def base(self) -> str:
        """The location that everything in the warehouse lies below."""
        return f"file://{self.path}"

    @property
    def alternatives(self) -> bool:
        """There are none: every spelling of a local path is understood."""
        return False


Profile = S3Profile | GcsProfile | AdlsProfile | LocalProfile

_KINDS: dict[str, type[Profile]] = {
    "s3": S3Profile,
    "gcs": GcsProfile,
    "adls": AdlsProfile,
    "local": LocalProfile,
}
_IMMUTABLE: dict[type[Profile], tuple[str, ...]] = {
    S3Profile: ("bucket", "key_prefix"),
    GcsProfile: ("bucket", "key_prefix"),
    AdlsProfile: ("account_name", "host", "filesystem", "key_prefix"),
    LocalProfile: ("path",),
}
#: The `type` of the credentials that go with a profile; Lakekeeper calls Azure's `az`.
_CREDENTIAL_TYPES: dict[type[Profile], str] = {S3Profile: "s3", GcsProfile: "gcs", AdlsProfile: "az"}


def parse_profile(raw: object) -> Profile:
    """Read a `storage-profile`, from a request or from the database."""
    given = require_object(raw, FIELD)
    kind = given.get("type")
    if not isinstance(kind, str) or kind not in _KINDS:
        shown = "missing" if kind is None else f"{kind!r:.80} is unknown"
        raise InvalidInput(f"{FIELD}.type: {shown}. Legal: {', '.join(_KINDS)}")
    try:
        check_layout_type(given)
        return convert(given, _KINDS[kind], FIELD)
    except InvalidInput as error:
        raise _below_profile(error) from None


def encode_profile(profile: Profile) -> bytes:
    """The JSON that `parse_profile` reads back; it holds no secret."""
    return msgspec.json.encode(profile)


def profile_document(profile: Profile) -> Mapping[str, Any]:
    """The profile as builtins, for an answer."""
    document: dict[str, Any] = msgspec.to_builtins(profile)
    return document


def check_update(old: Profile, new: Profile) -> Profile:
    """The profile after an update: where the data lies cannot change."""
    if type(old) is not type(new):
        kinds = {kind: name for name, kind in _KINDS.items()}
        raise InvalidInput(f"{FIELD}.type: cannot change from {kinds[type(old)]} to {kinds[type(new)]}")
    for name in _IMMUTABLE[type(old)]:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            field = name.replace("_", "-")
            raise InvalidInput(f"{FIELD}.{field}: cannot change from {before!r} to {after!r}")
    return new


def check_pair(profile: Profile, credential: Credential | None) -> None:
    """Refuse a credential that does not go with the profile."""
    wanted = _CREDENTIAL_TYPES.get(type(profile))
    if wanted is None:
        if credential is not None:
            raise InvalidInput("storage-credential: a local profile takes none")
        return
    kind = next(name for name, struct in _KINDS.items() if struct is type(profile))
    if credential is None:
        raise InvalidInput(f"storage-credential: required for the storage profile of type {kind}")
    if credential.type != wanted:
        raise InvalidInput(
            f"storage-credential.type: {credential.type} does not go with a storage profile of type {kind}. "
            f"Legal: {wanted}"
        )
    if (
        isinstance(profile, AdlsProfile)
        and profile.endpoint
        and not isinstance(credential, AzSharedAccessKey)
    ):
        # A key signs and stays here; a token would be sent, and it opens all that its owner may use.
        raise InvalidInput(
            f"{FIELD}.endpoint: goes with a credential of type shared-access-key only; others would send "
            "a token to it"
        )


def _below_profile(error: InvalidInput) -> InvalidInput:
    """Layouts do not know which profile they are part of."""
    if error.message.startswith(FIELD):
        return error
    return InvalidInput(f"{FIELD}.{error.message}", kind=error.kind)
