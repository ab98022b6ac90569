"""Whether a store compares bodies with signed hashes.

The store of the tests does not (see test_store); one that does, as AWS, is played here by a few lines.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from frazil.catalog.aws import Keys, StaticKeys
from frazil.catalog.signing.binding import Binding
from frazil.catalog.storage import S3Profile
from frazil.core.errors import FrazilError, NotAllowed, StorageError

KEYS = StaticKeys(Keys("key", "secret"))


@contextmanager
def store(*, compares: bool, honest: int = 200) -> Iterator[tuple[S3Profile, list[int]]]:
    answers: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            same = hashlib.sha256(body).hexdigest() == self.headers["x-amz-content-sha256"]
            answers.append(honest if same or not compares else 400)
            self.send_response(answers[-1])
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        yield (
            S3Profile(bucket="lake", region="r", endpoint=endpoint, path_style_access=True, key_prefix="a&b"),
            answers,
        )
        server.shutdown()


async def twice(binding: Binding) -> list[type[FrazilError] | None]:
    async def once() -> type[FrazilError] | None:
        try:
            await binding.check()
        except FrazilError as error:
            return type(error)
        return None

    return list(await asyncio.gather(once(), once()))


def test_a_store_that_compares_is_tried_once() -> None:
    with store(compares=True) as (profile, answers):
        assert asyncio.run(twice(Binding(profile, KEYS))) == [None, None]
    assert answers == [200, 400]


def test_a_store_that_does_not_compare_is_remembered() -> None:
    with store(compares=False) as (profile, answers):
        assert asyncio.run(twice(Binding(profile, KEYS))) == [NotAllowed, NotAllowed]
    assert answers == [200, 200]


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_a_store_that_refuses_an_honest_request_proves_nothing(status: int) -> None:
    with store(compares=True, honest=status) as (profile, answers):
        assert asyncio.run(twice(Binding(profile, KEYS))) == [StorageError, StorageError]
    assert answers == [status, status]


def test_a_store_that_does_not_answer_proves_nothing() -> None:
    with store(compares=True) as (profile, _):
        pass
    assert asyncio.run(twice(Binding(profile, KEYS))) == [StorageError, StorageError]
