"""Peak anonymous memory of the server process, 200 clients of a 45 MB model.

One round of ResNet-18 on MNIST, each client with ten training images, so that moving
weights is all there is. Linux only: it reads /proc.

    FEDAPP_DATA=/folder/of/data/sets python benchmarks/server_memory.py [METHOD]
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from data_folder import data_folder

SETTINGS = (
    "data.name=mnist",
    "data.clients=200",
    "data.samples-per-client=10",
    "data.test-fraction=0.34",
    "data.partition=iid",
    "data.shift=none",
    "model.name=resnet18",
    "rounds.count=1",
    "local.lr=0.001",
)
FEDAPP = (sys.executable, "-c", "from fedapp.cli import main; main()", "run", "--quiet")


def server_memory() -> int:
    """Return the anonymous memory of the largest simulation process, in KiB."""
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if b"flwr-simulation" not in command:
                continue
            match = re.search(r"RssAnon:\s+(\d+)", (folder / "status").read_text())
        except OSError:
            continue
        found = max(found, int(match[1]) if match else 0)
    return found


def main() -> None:
    """Run once and print the peak."""
    data = data_folder() / "mnist"
    method = sys.argv[1] if len(sys.argv) > 1 else "fedavg"
    with tempfile.TemporaryDirectory() as out:
        words = [method, f"data.path={data}", f"output.dir={out}", *SETTINGS]
        process = subprocess.Popen([*FEDAPP, *words])
        peak = 0
        while process.poll() is None:
            peak = max(peak, server_memory())
            time.sleep(0.1)
    print(f"{method}: exit code {process.returncode}, peak {peak // 1024} MiB")
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()
