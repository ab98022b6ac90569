"""frazil: a streaming lakehouse in Python."""

from importlib import import_module as _import_module

__version__ = "0.1.0"

#: Imported when they are asked for: `import frazil` itself costs nothing. Their types are in `__init__.pyi`.
_EXPORTS = {
    "Client": "frazil.client",
    "Pipeline": "frazil.stream.config",
    "changes": "frazil.hot.changes",
    "complete_until": "frazil.stream.stateful.completeness",
    "correct": "frazil.hot.correct",
    "hot_writer": "frazil.hot.write.put",
    "load_pipelines": "frazil.stream.config",
    "pin": "frazil.hot.read.pins",
    "pipeline": "frazil.stream.config",
    "read": "frazil.hot.read.spark",
    "read_stream": "frazil.hot.read.streaming",
    "register": "frazil.hot.read.spark",
    "run": "frazil.stream.api",
}
__all__ = [
    "Client",
    "Pipeline",
    "__version__",
    "changes",
    "complete_until",
    "correct",
    "hot_writer",
    "load_pipelines",
    "pin",
    "pipeline",
    "read",
    "read_stream",
    "register",
    "run",
]


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'frazil' has no attribute {name!r}")
    found: object = getattr(_import_module(_EXPORTS[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
