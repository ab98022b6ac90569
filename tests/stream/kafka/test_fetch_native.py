"""The native reader by itself: what it refuses, and that it keeps within its memory."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import hatch_build
import pytest
from confluent_kafka import Producer

from frazil.devstack.kafka import Kafka
from frazil.stream.kafka.native import librdkafka

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
# Where it can be built it has to be there: the tests fail, they do not skip.
needs_native = needs_compiler
_NATIVE = Path(hatch_build.__file__).parent / hatch_build.PACKAGE / "native"
_OPTIONS = {"keys": False, "headers": False, "batch_records": 10, "batch_bytes": 100}


def run(code: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip()


@needs_compiler
def test_it_compiles_without_warnings(tmp_path: Path) -> None:
    strict = [*hatch_build.FLAGS, "-Werror", "-Wshadow", "-Wstrict-prototypes", "-Wpointer-arith", "-Wundef"]
    sources = [_NATIVE / "fetch.c"]
    assert hatch_build.compile_module(tmp_path / "_fetch.abi3.so", sources, strict) is None


@needs_native
def test_arguments_are_checked() -> None:
    from frazil.stream._fetch import Client

    for wrong in ({"batch_records": 0}, {"batch_bytes": 0}, {"batch_bytes": 2**31 - 1}):
        with pytest.raises(ValueError, match="1 GiB at most"):
            Client(librdkafka(), {}, **{**_OPTIONS, **wrong})  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Client(librdkafka(), {"a": 1}, **_OPTIONS)  # type: ignore[arg-type, dict-item]
    client = Client(librdkafka(), {}, keys=False, headers=False, batch_records=10, batch_bytes=100)
    with pytest.raises(RuntimeError, match="nothing is assigned"):
        client.poll(0)
    for slices in ([("a", -1, 0, 5)], [("a", 0, -1, 5)]):
        with pytest.raises(ValueError, match=r"."):
            client.assign(slices)
    for odd in (7, ["a"], [("a", 0)]):
        with pytest.raises(TypeError):
            client.assign(odd)  # type: ignore[arg-type]
    client.assign([("a", 0, 0, 5)])
    client.close()
    client.close()
    for call in (client.unassign, lambda: client.poll(0), lambda: client.assign([])):
        with pytest.raises(RuntimeError, match="closed"):
            call()


@needs_native
def test_a_child_of_the_process_leaves_it_alone() -> None:
    """Its threads are not in the child: closing it there would wait for them for ever."""
    code = """
        import os
        from frazil.stream._fetch import Client
        from frazil.stream.kafka.native import librdkafka
        client = Client(librdkafka(), {}, keys=False, headers=False, batch_records=1, batch_bytes=1)
        client.assign([("a", 0, 0, 5)])
        child = os.fork()
        if child == 0:
            try:
                client.poll(0)
            except RuntimeError as error:
                print(error, flush=True)
            client.close()
            del client
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        client.close()
    """
    assert run(code) == "made before the fork of this process"


def test_it_can_be_done_without() -> None:
    code = "from frazil.stream.kafka.native import native_usable as usable; print(usable())"
    assert run(code, FRAZIL_NATIVE="0") == "False"
    hidden = "import sys; sys.modules['frazil.stream._fetch'] = None; " + code
    assert run(hidden) == "False"
    no_library = "from frazil.stream.kafka import native; native.librdkafka = lambda: '/nowhere.so'; " + code
    assert run(no_library) == "False"
    other_library = no_library.replace("/nowhere.so", "libc.so.6")
    assert run(other_library) == "False"


_READS = """
    import importlib.util, random, sys
    module, servers, topic, count, rounds = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
    if module:
        import frazil.stream
        spec = importlib.util.spec_from_file_location("frazil.stream._fetch", module)
        sys.modules[spec.name] = frazil.stream._fetch = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(frazil.stream._fetch)
    from frazil.stream.kafka.fetch import SliceReader
    from frazil.stream.kafka.native import NativeFetcher
    from frazil.stream.source import Slice
    random.seed(7)
    for number in range(rounds):
        reader = SliceReader(
            {"bootstrap.servers": servers},
            keys=number % 2 == 0,
            headers=number % 3 == 0,
            batch_records=random.choice([1, 7, 8, 9, 1024, 1025, 65536]),
            batch_bytes=random.choice([1, 1000, 65536, 1 << 20]),
        )
        start = random.randrange(count)
        for _ in range(3):
            read = reader.read([Slice(topic, p, start, random.randrange(start, count) + 1) for p in (0, 1)])
            for batch in read:
                batch.values.validate(full=True)
                assert batch.values.to_pylist() == [
                    None if o % 5 == 0 else b"%d" % o * (o % 400) for o in batch.offsets.to_pylist()
                ]
                if number % 3 == 0:
                    batch.headers.validate(full=True)
                    assert batch.headers.to_pylist() == [
                        [{"key": "n", "value": b"%d" % o}] * (o % 4) for o in batch.offsets.to_pylist()
                    ]
                if number % 7 == 3:
                    read.close()
                    break
            else:
                assert isinstance(reader._fetcher, NativeFetcher)
        reader.close()
    print("read")
"""


def fill(kafka: Kafka, name: str, count: int) -> str:
    kafka.create_topic(name, partitions=2)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0, "enable.idempotence": True}
    )
    chance = random.Random(1)
    for offset in range(count):
        value = None if offset % 5 == 0 else b"%d" % offset * (offset % 400)
        for partition in (0, 1):
            key = chance.choice([None, b"", b"k" * chance.randrange(2000)])
            headers: list[tuple[str, str | bytes | None]] = [("n", b"%d" % offset)] * (offset % 4)
            producer.produce(name, value, key, partition, headers=headers)
        producer.poll(0)
    assert producer.flush(120) == 0
    return name


@needs_compiler
@pytest.mark.exhaustive
def test_memory_as_the_sanitizers_see_it(kafka: Kafka, tmp_path: Path) -> None:
    found = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip("the compiler has no sanitizers here")
    sanitizers = [
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-O1",
        "-g",
        "-fPIC",
        "-shared",
    ]
    module = tmp_path / "_fetch.abi3.so"
    assert hatch_build.compile_module(module, [_NATIVE / "fetch.c"], sanitizers) is None
    name = fill(kafka, "fetch-sanitized", 4000)
    asan = {"LD_PRELOAD": found, "ASAN_OPTIONS": "detect_leaks=0"}
    assert run(_READS, str(module), kafka.bootstrap_servers, name, "4000", "40", **asan) == "read"


@needs_native
@pytest.mark.exhaustive
def test_memory_stays_flat(kafka: Kafka) -> None:
    name = fill(kafka, "fetch-flat", 4000)
    used = []
    for rounds in (10, 100):
        code = _READS + "    import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        used.append(int(run(code, "", kafka.bootstrap_servers, name, "4000", str(rounds)).split()[-1]))
    assert used[1] < used[0] + 40 * 1024
