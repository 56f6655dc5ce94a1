"""Does memory grow over 300 rounds, and does the run folder?

A tiny run under Ray; every two seconds the anonymous memory of the server process and
of the workers is read, and the size of the run folder. Linux only: it reads /proc.

    python benchmarks/flat_memory.py memory.png
"""

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from matplotlib.figure import Figure

SETTINGS = (
    "hdc-fl",
    "data.clients=6",
    "model.name=mlp",
    "rounds.count=300",
    "rounds.evaluate-every=10",
    "output.report=false",
    "output.name=run",
)
FEDAPP = (sys.executable, "-c", "from fedapp.cli import main; main()", "run", "--quiet")
NAMES = {"server": b"flwr-simulation", "workers": b"ray::ClientAppActor"}


def anonymous(name: bytes) -> float:
    """Return the anonymous memory of all processes of a name, in MiB."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if name not in (folder / "cmdline").read_bytes():
                continue
            match = re.search(r"RssAnon:\s+(\d+)", (folder / "status").read_text())
        except OSError:
            continue
        total += int(match[1]) if match else 0
    return total / 1024


def folder_size(run: Path) -> float:
    """Return the size of the run folder without its tables, in MiB."""
    sizes = 0
    for file in run.rglob("*.*"):
        try:
            sizes += 0 if file.suffix == ".csv" else file.stat().st_size
        except OSError:
            continue
    return sizes / 2**20


def main() -> None:
    """Run, sample, print a quarter's mean each and draw."""
    samples: list[tuple[float, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as out:
        process = subprocess.Popen([*FEDAPP, *SETTINGS, f"output.dir={out}"])
        run, started = Path(out) / "run", time.monotonic()
        while process.poll() is None:
            if (run / "timing.csv").exists():
                row = {kind: anonymous(name) for kind, name in NAMES.items()}
                row["run folder"] = folder_size(run)
                samples.append((time.monotonic() - started, row))
            time.sleep(2)
    # The last samples are of a run that ends.
    samples = samples[2:-2]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for kind in (*NAMES, "run folder"):
        values = [row[kind] for _, row in samples]
        quarter = max(1, len(values) // 4)
        means = [
            sum(values[i * quarter : (i + 1) * quarter]) / quarter for i in range(4)
        ]
        print(kind, "MiB by quarter:", ", ".join(f"{mean:.1f}" for mean in means))
        axes.plot([at for at, _ in samples], values, label=kind)
    axes.set(xlabel="seconds", ylabel="MiB", ylim=(0, None))
    axes.legend()
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "memory.png")
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()
