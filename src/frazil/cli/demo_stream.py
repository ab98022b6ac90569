"""The streaming part of `frazil demo`: services, orders, and the commands that a user would type."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from frazil.cli.demo_engines import Facts, Say, code
from frazil.core.errors import ServiceError

if TYPE_CHECKING:
    from types import TracebackType

    from frazil.devstack.frazil_server import FrazilServer
    from frazil.devstack.kafka import Kafka
    from frazil.devstack.seaweed import ObjectStore

WAREHOUSE, TOPIC = "demo", "orders"
_FIRST = 50_000
_PER_SECOND = 500
_STATUSES = ("paid", "paid", "paid", "open", "returned")
_PIPELINES = """\
catalog:
  uri: {uri}
  warehouse: {warehouse}
kafka:
  bootstrap.servers: {servers}
pipelines:
  orders:
    source: {{topics: orders}}
    schema: &order
      order_id: long required
      customer: string
      amount: decimal(10, 2)
      status: string
      placed: timestamptz
    table: shop.orders
    partitioning: [day(placed)]
    event_time: placed
    freshness: 1s
  returns:
    source: {{topics: orders}}
    schema: *order
    transform: SELECT order_id, customer, -amount AS refund, placed FROM source WHERE status = 'returned'
    table: shop.returns
    freshness: 2s
  readings:
    source: {{sensors: {{sensors: 5, rate: 50}}}}
    dataset: iot.readings
    freshness: 3s
"""


class Stack:
    """The services of the demo, with their data in one directory that is removed at the end."""

    def __init__(self, *, s3: bool) -> None:
        from frazil.devstack.frazil_server import FrazilServer
        from frazil.devstack.kafka import Kafka

        self.directory = Path(tempfile.mkdtemp(prefix="frazil-demo-"))
        self.server: FrazilServer = FrazilServer(self.directory / "catalog")
        self.kafka: Kafka = Kafka(self.directory / "kafka")
        self.store: ObjectStore | None = None
        if s3:
            from frazil.devstack.seaweed import ObjectStore

            self.store = ObjectStore(self.directory / "store")
        self._exit = ExitStack()

    @property
    def pipelines_file(self) -> Path:
        return self.directory / "pipelines.yaml"

    def start(self, say: Say) -> Facts:
        services = [self.server, self.kafka, *([self.store] if self.store else [])]
        for service in services:
            self._exit.callback(service.close)
            service.start()
        say(f"The catalog answers at {self.server.uri}, Kafka at {self.kafka.bootstrap_servers}.")
        if self.store is not None:
            say("Tables will be on a local S3 store, reached with keys that the catalog vends.")
        facts: Facts = {"uri": self.server.uri, "kafka": self.kafka.bootstrap_servers}
        return facts | {"s3": self.store is not None}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def create_warehouse(say: Say, stack: Stack) -> Facts:
    from frazil.client import Client

    with Client(stack.server.uri) as client:
        client.server.bootstrap()
        if stack.store is not None:
            profile, credential = stack.store.warehouse_storage("lake", "warehouse")
            made = client.warehouses.create(WAREHOUSE, profile, credential)
        else:
            path = stack.directory / "warehouse"
            path.mkdir()
            made = client.warehouses.create(WAREHOUSE, {"type": "local", "path": str(path)})
    say(code(json.dumps(made.storage_profile)))
    say(f"The server tried the storage with a probe object; the id is {made.warehouse_id}.")
    return {"name": WAREHOUSE, "id": made.warehouse_id}


def produce(say: Say, stack: Stack) -> Orders:
    stack.kafka.create_topic(TOPIC, partitions=2)
    orders = Orders(stack.kafka)
    orders.send(_FIRST)
    say(f"{_FIRST:,} orders are in the topic {TOPIC}; {_PER_SECOND} a second will follow.")
    return orders


def plan(say: Say, stack: Stack, *, to_stderr: bool) -> Facts:
    """The file that a user writes; `frazil plan` says what would be done."""
    text = _PIPELINES.format(uri=stack.server.uri, warehouse=WAREHOUSE, servers=stack.kafka.bootstrap_servers)
    stack.pipelines_file.write_text(text)
    say(code(text))
    frazil(say, "plan", str(stack.pipelines_file), to_stderr=to_stderr)
    return {"pipelines": ["orders", "returns", "readings"]}


def run(say: Say, stack: Stack, orders: Orders, seconds: float, *, to_stderr: bool) -> Facts:
    """`frazil run`, as a user would type it, ended by what Ctrl-C sends; then a bounded run for the rest."""
    command = arguments("run", str(stack.pipelines_file))
    say(code(" ".join(["frazil", *command[3:]])))
    with orders.steadily():
        process = subprocess.Popen(command, stdout=sys.stderr if to_stderr else None)
        with ended(process):
            _await_first_commit(stack, process)
            _wait(process, seconds)
            process.send_signal(signal.SIGINT)
            if process.wait(timeout=120):
                raise ServiceError(f"frazil run ended with {process.returncode}: see above")
    say(f"{orders.sent:,} orders were sent. What came in after the last commit:")
    frazil(say, "run", str(stack.pipelines_file), "--once", "--plain", to_stderr=to_stderr)
    return {"produced": orders.sent}


def verify(say: Say, stack: Stack, *, to_stderr: bool) -> Facts:
    frazil(say, "verify", str(stack.pipelines_file), "orders", "returns", to_stderr=to_stderr)
    return {"verified": True}


def look_at_sensors(say: Say, stack: Stack) -> Facts:
    """The files of the dataset, read by Python alone with keys that reach nothing else."""
    files = _dataset(stack)
    readings = [reading for text in files.values() for reading in json.loads(text)]
    say(f"iot.readings is a generic table: a file with a JSON array for each round, {len(files)} by now.")
    for name, text in list(files.items())[:1]:
        say(code(f"{name}\n{text[:240]}…"))
    if [reading["reading"] for reading in readings] != list(range(len(readings))):
        raise ServiceError("readings are missing or there twice: this is a bug, please report it")
    say(f"All {len(readings):,} readings are there, each once.")
    return {"files": len(files), "readings": len(readings)}


def _dataset(stack: Stack) -> dict[str, str]:
    """By name, in the order of names."""
    from pyarrow import fs

    from frazil.client import Client

    with Client(stack.server.uri, warehouse=WAREHOUSE) as client:
        where = client.generic_tables.load("iot", "readings").location
        if stack.store is None:
            files: fs.FileSystem = fs.LocalFileSystem()
            place = where.removeprefix("file://")
        else:
            keys = client.generic_tables.credentials("iot", "readings", read_only=True)
            files, place = keys.to_pyarrow(), keys.path
    found = files.get_file_info(fs.FileSelector(place))
    paths = sorted(info.path for info in found if info.path.endswith(".json"))
    return {path.rpartition("/")[2]: files.open_input_file(path).read().decode() for path in paths}


class Orders:
    """Sends orders, some at once or a few each second."""

    def __init__(self, kafka: Kafka) -> None:
        from confluent_kafka import Producer

        self.sent = 0
        self._random = random.Random(7)  # noqa: S311 - orders that are the same in each demo
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": "lz4",
                "linger.ms": 20,
                "log_level": 0,
            }
        )

    def send(self, count: int) -> None:
        for _ in range(count):
            order = {
                "order_id": self.sent,
                "customer": f"customer-{self._random.randrange(2000)}",
                "amount": f"{self._random.randrange(100, 50_000) / 100:.2f}",
                "status": self._random.choice(_STATUSES),
                "placed": datetime.now(UTC).isoformat(timespec="milliseconds"),
            }
            self._producer.produce(TOPIC, json.dumps(order).encode(), partition=self.sent % 2)
            self.sent += 1
            if self.sent % 10_000 == 0:
                self._producer.flush()
        self._producer.flush()

    @contextlib.contextmanager
    def steadily(self) -> Iterator[None]:
        thread = threading.Thread(target=self._go_on, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _go_on(self) -> None:
        while not self._stop.wait(0.1):
            self.send(_PER_SECOND // 10)


def _await_first_commit(stack: Stack, process: subprocess.Popen[bytes]) -> None:
    """Spark takes a while to start; the seconds are those of the pipelines."""
    from frazil.client import Client
    from frazil.core.errors import NotFound

    with Client(stack.server.uri, warehouse=WAREHOUSE) as client:
        for _ in range(600):
            require_running(process, "frazil run")
            with contextlib.suppress(NotFound):
                if client.tables.load("shop", "orders", snapshots="refs").metadata.get("refs"):
                    return
            time.sleep(0.2)
    raise ServiceError("frazil run committed nothing in two minutes: see above")


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=seconds)
    require_running(process, "frazil run")


def require_running(process: subprocess.Popen[bytes], command: str) -> None:
    if process.poll() is not None:
        raise ServiceError(f"{command} ended by itself with {process.returncode}: see above")


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """It does not outlive the demo, however that ends."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def frazil(say: Say, *command: str, to_stderr: bool) -> None:
    """A command as a user would type it."""
    say(code(" ".join(["frazil", *command])))
    answer = subprocess.run(arguments(*command), stdout=sys.stderr if to_stderr else None, check=False)
    if answer.returncode:
        raise ServiceError(f"frazil {command[0]} ended with {answer.returncode}: see above")


def arguments(*command: str) -> list[str]:
    return [sys.executable, "-m", "frazil.cli", *command]
