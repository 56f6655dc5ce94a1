"""Where the data sets of the benchmarks lie."""

import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """Return the folder FEDAPP_DATA names; end the program with advice if none."""
    folder = Path(os.environ.get("FEDAPP_DATA", ""))
    if not (folder / "mnist").is_dir():
        sys.exit(
            "set FEDAPP_DATA to a folder of data sets; mnist/ in it is what is read"
        )
    return folder
