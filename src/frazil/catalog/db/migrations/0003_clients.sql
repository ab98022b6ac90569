-- Programs that log in at the token endpoint, for installations with no identity provider.
CREATE TABLE client (
    -- The name that its owner chose; it is also the `client_id` of OAuth2.
    client_id TEXT NOT NULL PRIMARY KEY,
    -- Slow hash of the secret, with its parameters; see frazil.catalog.identity.hashing.
    secret TEXT NOT NULL,
    -- Another one for each secret: a token names the secret it was got with and ends with it.
    secret_id TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    rotated_at BIGINT
);
