from frazil.client import Client as Client
from frazil.stream.api import run as run
from frazil.stream.config import Pipeline as Pipeline
from frazil.stream.config import load_pipelines as load_pipelines
from frazil.stream.config import pipeline as pipeline

__all__ = ["Client", "Pipeline", "__version__", "load_pipelines", "pipeline", "run"]

__version__: str
