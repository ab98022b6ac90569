"""AssumeRole, with a server on loopback that answers what a test wants: no store says such things."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from frazil.catalog.aws import Keys, StaticKeys
from frazil.catalog.aws.sts import AssumeRole, Session, Sts
from frazil.core.errors import StorageError

KEYS = Keys("AKIDEXAMPLE", "very-secret-key")
ROLE = AssumeRole("arn:aws:iam::1:role/r", "frazil", 900, policy="{}", external_id="the-external-id")
GOOD = """<?xml version="1.0" encoding="UTF-8"?>
<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s3cr3t</SecretAccessKey><SessionToken>t0ken</SessionToken>
<Expiration>2030-01-02T03:04:05Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
ERROR = "<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"


class FakeSts:
    """Gives the answers of a list, then the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.asked: list[bytes] = []
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                fake.asked.append(self.rfile.read(int(self.headers["content-length"])))
                status, body = fake.answers.pop(0) if len(fake.answers) > 1 else fake.answers[0]
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"

    def say(self, *answers: tuple[int, str]) -> None:
        self.answers = [(status, body.encode()) for status, body in answers]


@pytest.fixture
def fake() -> Iterator[FakeSts]:
    fake = FakeSts()
    threading.Thread(target=fake.server.serve_forever, daemon=True).start()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


async def assume(fake: FakeSts, request: AssumeRole = ROLE) -> Session:
    sts = Sts(fake.endpoint, "eu-central-1", StaticKeys(KEYS), ("the-external-id",))
    try:
        return await sts.assume_role(request)
    finally:
        await sts.close()


async def test_a_session(fake: FakeSts) -> None:
    fake.say((200, GOOD))
    session = await assume(fake)
    assert session == Session(Keys("ASIA1", "s3cr3t", "t0ken"), 1_893_553_445_000)
    assert b"ExternalId=the-external-id" in fake.asked[0]


async def test_without_a_role_none_is_sent(fake: FakeSts) -> None:
    fake.say((200, GOOD))
    await assume(fake, AssumeRole(None, "frazil", 900))
    assert b"RoleArn" not in fake.asked[0]
    assert b"Policy" not in fake.asked[0]


@pytest.mark.parametrize("code", ["AccessDenied", "ValidationError", "PackedPolicyTooLarge"])
async def test_a_refusal_is_named_and_not_repeated(fake: FakeSts, code: str) -> None:
    fake.say((403, ERROR.format(code=code, message="very-secret-key of the-external-id may not")))
    with pytest.raises(StorageError) as caught:
        await assume(fake)
    message = caught.value.message
    assert code in message
    assert "arn:aws:iam::1:role/r" in message
    assert "very-secret-key" not in message
    assert "the-external-id" not in message
    assert len(fake.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [
        (503, "busy"),
        (500, ERROR.format(code="InternalFailure", message="")),
        (400, ERROR.format(code="Throttling", message="")),
    ],
)
async def test_what_may_pass_is_tried_again(fake: FakeSts, answer: tuple[int, str]) -> None:
    fake.say(answer, answer, (200, GOOD))
    assert (await assume(fake)).keys.access_key_id == "ASIA1"
    assert len(fake.asked) == 3
    fake.say(answer)
    with pytest.raises(StorageError, match=str(answer[0])):
        await assume(fake)


BOMB = '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]>'


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "not XML"),
        ("<html>", "not XML"),
        ("x" * 100_000, "longer than"),
        (GOOD.replace("<AssumeRoleResponse", f"{BOMB}<AssumeRoleResponse"), "document type"),
        (GOOD.replace("t0ken", ""), "SessionToken"),
        (GOOD.replace("t0ken", "to ken"), "SessionToken"),
        (GOOD.replace("t0ken", "tökn"), "SessionToken"),
        (GOOD.replace("<AccessKeyId>ASIA1</AccessKeyId>", ""), "AccessKeyId"),
        (GOOD.replace("2030-01-02T03:04:05Z", "tomorrow"), "not a time"),
        (GOOD.replace("2030-01-02T03:04:05Z", "2030-01-02T03:04:05"), "no time zone"),
        (GOOD.replace("</AssumeRoleResult>", "<Credentials/></AssumeRoleResult>"), "2 elements"),
        (ERROR.format(code="AccessDenied", message=""), "0 elements"),
    ],
)
async def test_an_answer_that_is_not_understood(fake: FakeSts, answer: str, why: str) -> None:
    fake.say((200, answer))
    with pytest.raises(StorageError, match=why) as caught:
        await assume(fake)
    assert "s3cr3t" not in caught.value.message


async def test_an_answer_in_another_encoding_is_not_understood(fake: FakeSts) -> None:
    fake.answers = [(200, GOOD.replace("UTF-8", "UTF-16").encode("utf-16"))]
    with pytest.raises(StorageError, match="not understood"):
        await assume(fake)
