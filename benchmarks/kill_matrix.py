"""SIGKILL at random moments: has every resumed run the bits of an undisturbed one?

For each method a run of six rounds is made; then, as often as asked, one is started,
its whole process tree is killed at a random moment, and it is resumed. All tensors,
metrics.csv, manifest.json and the tables of HDC-FL are compared byte by byte.

    python benchmarks/kill_matrix.py --engine inline --kills 10
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

METHODS = ("fedavg", "fedper", "hdc-fl", "neighbours")
"""The last reads its peers' models of last round; it comes from the example plug-in."""

PLUGIN = Path(__file__).parent.parent / "tests" / "plugin_example"
SETTINGS = (
    "rounds.count=6",
    "rounds.evaluate-every=2",
    "rounds.fraction=0.7",
    "hdc-fl.refresh-every=2",
    "data.clients=10",
    "output.report=false",
)
FEDAPP = (sys.executable, "-c", "from fedapp.cli import main; main()", "run", "--quiet")


def bits(run: Path) -> dict[str, bytes]:
    """Return every file that must be the same, by relative path."""
    wanted = ("*.safetensors", "metrics.csv", "manifest.json", "hdc-fl/*.csv")
    return {
        file.relative_to(run).as_posix(): file.read_bytes()
        for pattern in wanted
        for file in run.rglob(pattern)
    }


def descendants(pid: int) -> list[int]:
    """Return a process and all that came from it, by /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, rest = [], [pid]
    while rest:
        found.append(rest.pop())
        rest += children.get(found[-1], [])
    return found


def kill_at(command: list[str], run: Path, moment: float) -> bool:
    """Start a run, kill its tree ``moment`` seconds after it began to train."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and not (run / "timing.csv").exists():
        time.sleep(0.01)
    time.sleep(moment)
    alive = process.poll() is None
    for pid in descendants(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()
    return alive


def main() -> None:
    """Print one line for each method; the exit code is 1 if any bits differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("ray", "inline"), default="inline")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    options = parser.parse_args()
    chance, bad = random.Random(0), 0
    with tempfile.TemporaryDirectory() as site, tempfile.TemporaryDirectory() as out:
        shutil.copytree(PLUGIN, Path(site) / "source")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
        pip += ["--no-build-isolation", "--target", site, f"{site}/source"]
        subprocess.run(pip, check=True)
        os.environ["PYTHONPATH"] = site
        for method in options.methods:
            words = [*FEDAPP, "--engine", options.engine, f"output.dir={out}"]
            whole = Path(out) / f"{method}-whole"
            start = [*words, method, *SETTINGS]
            subprocess.run([*start, f"output.name={whole.name}"], check=True)
            rows = (whole / "timing.csv").read_text().splitlines()
            spent = sum(float(r.split(",")[3]) for r in rows if r.split(",")[2] == "")
            killed = same = 0
            for index in range(options.kills):
                run = Path(out) / f"{method}-{index}"
                command = [*start, f"output.name={run.name}"]
                killed += kill_at(command, run, chance.uniform(0, 0.9 * spent))
                if '"completed"' not in _text(run / "summary.json"):
                    # The rest of the tree notices by itself and lets go of the lock.
                    for _ in range(60):
                        resumed = subprocess.run([*words, "--resume", str(run)])
                        if resumed.returncode == 0:
                            break
                        time.sleep(0.5)
                same += bits(run) == bits(whole)
            bad += options.kills - same
            print(f"{method}: {same} of {options.kills} the same ({killed} killed)")
    sys.exit(bad > 0)


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


if __name__ == "__main__":
    main()
