from frazil.client import Client as Client
from frazil.hot.changes import changes as changes
from frazil.hot.correct import correct as correct
from frazil.hot.read.pins import pin as pin
from frazil.hot.read.spark import read as read
from frazil.hot.read.spark import register as register
from frazil.hot.read.streaming import read_stream as read_stream
from frazil.hot.write.put import hot_writer as hot_writer
from frazil.stream.api import run as run
from frazil.stream.config import Pipeline as Pipeline
from frazil.stream.config import load_pipelines as load_pipelines
from frazil.stream.config import pipeline as pipeline
from frazil.stream.stateful.completeness import complete_until as complete_until

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

__version__: str
