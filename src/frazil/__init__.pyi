from frazil.client import Client as Client
from frazil.stream.api import run as run
from frazil.stream.config import Pipeline as Pipeline
from frazil.stream.config import load_pipelines as load_pipelines
from frazil.stream.config import pipeline as pipeline
from frazil.stream.stateful.completeness import complete_until as complete_until

__all__ = ["Client", "Pipeline", "__version__", "complete_until", "load_pipelines", "pipeline", "run"]

__version__: str
