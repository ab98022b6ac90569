"""Credentials for S3: a session of the warehouse's role, narrowed to one prefix."""

from __future__ import annotations

from frazil.catalog.aws.own_keys import key_source, sts_endpoint
from frazil.catalog.aws.sts import AssumeRole, Sts
from frazil.catalog.storage import S3Profile
from frazil.catalog.storage.credentials import S3AccessKey, S3SystemIdentity
from frazil.catalog.vending.base import Access, Vended
from frazil.catalog.vending.policy import session_policy
from frazil.catalog.vending.s3_trial import S3Trial

SESSION_NAME = "frazil"


class S3Vendor:
    """Asks STS for sessions with the credential of one warehouse.

    The role is `sts-role-arn`, else `assume-role-arn`, which is that of the server itself; it is taken on
    with the stored credential, not by way of the other role.
    """

    def __init__(self, profile: S3Profile, credential: S3AccessKey | S3SystemIdentity) -> None:
        self._profile = profile
        self._external_id = credential.external_id
        self._sts = Sts(sts_endpoint(profile), profile.region, key_source(credential), credential.secrets())
        self._client_config = _client_config(profile)

    async def vend(self, location: str, access: Access) -> Vended:
        profile = self._profile
        session = await self._sts.assume_role(
            AssumeRole(
                role_arn=profile.sts_role_arn or profile.assume_role_arn,
                session_name=SESSION_NAME,
                seconds=profile.sts_token_validity_seconds,
                policy=session_policy(profile, location, access),
                external_id=self._external_id,
                tags=profile.sts_session_tags,
            )
        )
        keys, expires = session.keys, str(session.expires_at_ms)
        config = {
            **self._client_config,
            "s3.access-key-id": keys.access_key_id,
            "s3.secret-access-key": keys.secret_access_key,
            "s3.session-token": keys.session_token or "",
            "s3.session-token-expires-at-ms": expires,
            "expiration-time": expires,
        }
        return Vended(location, config, session.expires_at_ms)

    def trial(self, vended: Vended) -> S3Trial:
        """The store as the holder of the credential sees it."""
        return S3Trial(self._profile, vended)

    async def close(self) -> None:
        await self._sts.close()


def _client_config(profile: S3Profile) -> dict[str, str]:
    """What the keys are for. It stands beside them, so that an entry can be used alone."""
    config = {"s3.region": profile.region, "client.region": profile.region}
    config["s3.path-style-access"] = "true" if profile.path_style_access else "false"
    if profile.endpoint:
        config["s3.endpoint"] = profile.endpoint
    if profile.aws_kms_key_arn:
        config["s3.sse.type"] = "kms"
        config["s3.sse.key"] = profile.aws_kms_key_arn
    return config
