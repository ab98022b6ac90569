"""Python transforms: found by `module:function`, and told apart by what they do."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from frazil.core.errors import InvalidConfig

_FORM = "write module:function, such as transforms:clean"


def find_function(reference: str, directory: Path | None) -> Callable[..., Any]:
    """The function; its module may lie in `directory`, which stays on Python's path."""
    module_name, colon, path = reference.partition(":")
    if not colon or not all(part.isidentifier() for part in f"{module_name}.{path}".split(".")):
        raise InvalidConfig(f"'{reference}' names no function: {_FORM}")
    if directory is not None and str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
        importlib.invalidate_caches()
    found: Any = _module(module_name, reference, directory)
    if directory is not None:
        _send_by_value(directory)
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise InvalidConfig(f"the module {module_name} has no '{path}'; {_FORM}")
    if not callable(found):
        raise InvalidConfig(f"{reference} is a {type(found).__name__}, not a function of a DataFrame")
    return check_function(found, reference)


def check_function(function: Any, reference: str) -> Callable[..., Any]:
    """One that can be called with a DataFrame alone."""
    try:
        inspect.signature(function).bind(object())
    except TypeError as error:
        raise InvalidConfig(f"{reference} cannot be called with one DataFrame: {error}") from None
    except ValueError:
        pass  # Some that are written in C do not tell.
    called: Callable[..., Any] = function
    return called


def _module(name: str, reference: str, directory: Path | None) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            where = f" in {directory} or" if directory is not None else ""
            raise InvalidConfig(
                f"{reference}: no module {error.name}{where} on Python's path; {_FORM}"
            ) from None
        raise InvalidConfig(f"{reference}: importing {name} failed: {error}") from None
    except Exception as error:  # noqa: BLE001 (the user's module may raise anything)
        raise InvalidConfig(
            f"{reference}: importing {name} failed with {type(error).__name__}: {error}"
        ) from None


def _send_by_value(directory: Path) -> None:
    """Functions of modules beside the file travel to Spark's workers whole: those could not import them."""
    from pyspark import cloudpickle

    register: Callable[[Any], None] = cloudpickle.register_pickle_by_value
    for name, module in list(sys.modules.items()):
        top = sys.modules.get(name.partition(".")[0])
        file = Path(getattr(top, "__file__", None) or "/")
        if directory == (file.parent.parent if file.name == "__init__.py" else file.parent):
            register(module)


def reference_of(function: Callable[..., Any]) -> str:
    """`module:function`; a script that was started by its file goes by the name of the file."""
    module = getattr(function, "__module__", None) or "?"
    if module == "__main__":
        file = getattr(sys.modules["__main__"], "__file__", None)
        module = Path(file).stem if file else module
    return f"{module}:{getattr(function, '__qualname__', type(function).__name__)}"


def fingerprint(function: Callable[..., Any]) -> str:
    """A hash of what the function does: its statements, or its byte code; decorators and comments aside."""
    plain = inspect.unwrap(function)
    try:
        (statement,) = ast.parse(textwrap.dedent(inspect.getsource(plain))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        statement = None
    if isinstance(statement, ast.FunctionDef):
        statement.decorator_list = []
        text = ast.dump(statement).encode()
    else:
        code = getattr(plain, "__code__", None)
        text = b"" if code is None else _code(code)
    return hashlib.sha256(text).hexdigest()[:16]


def _code(code: CodeType) -> bytes:
    constants = b"".join(_constant(one) for one in code.co_consts)
    return code.co_code + constants + repr((code.co_names, code.co_varnames)).encode()


def _constant(value: object) -> bytes:
    if isinstance(value, CodeType):
        return _code(value)
    # A set has another order in every process.
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value).encode()
