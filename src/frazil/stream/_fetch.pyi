"""Records from librdkafka into Arrow's memory layout (native/fetch.c)."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias, final

from typing_extensions import Buffer

#: Data, where each string ends (int32, one more than strings), validity bitmap, number of nulls.
Strings: TypeAlias = tuple[Memory, Memory, Memory | None, int]
#: Number of headers, where those of each record end (int32), names, values; if none, not to be looked at.
Headers: TypeAlias = tuple[int, Memory, Strings, Strings]
#: Topic, partition, number of records, values, offsets, timestamps, keys, headers.
Batch: TypeAlias = tuple[str, int, int, Strings, Memory, Memory, Strings | None, Headers | None]

@final
class Memory(Buffer):
    """Read-only memory, freed with the last view of it."""

class Client:
    """A simple consumer of librdkafka; used by one thread at a time."""

    def __new__(
        cls,
        library: str,
        settings: Mapping[str, str],
        *,
        keys: bool,
        headers: bool,
        batch_records: int,
        batch_bytes: int,
    ) -> Client:
        """ImportError: the library cannot be used. ValueError: it does not take the settings."""

    def assign(self, slices: Sequence[tuple[str, int, int, int]], /) -> None:
        """Start reading (topic, partition, start, end) of each."""

    def poll(
        self, seconds: float, /
    ) -> tuple[list[Batch], list[tuple[str, int]], list[tuple[int, str, str | None, int]]]:
        """Batches, slices ended, and faults (code, text, topic, partition)."""

    def unassign(self) -> None:
        """Stop reading, and forget what was read ahead."""

    def close(self) -> None:
        """Let go of connections and threads."""
