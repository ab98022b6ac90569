"""Made-up sensor readings stream into a generic table, as files of JSON.

    python examples/sensors/sensors.py
    spark-submit examples/sensors/sensors.py
    frazil example sensors

are the same program, which is in `frazil.cli.example_sensors`; README.md beside this file tells about it.
Settings are read from the environment, and from `.env.local` here or in the current directory.
"""

from __future__ import annotations

from pathlib import Path

from frazil.cli.example_sensors import main

if __name__ == "__main__":
    main([Path(".env.local"), Path(__file__).with_name(".env.local")])
