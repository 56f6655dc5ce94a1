"""Draw accuracy against samples per client, from the table of sparsity.

python experiments/conditional/sparsity_figure.py
"""

import csv
from pathlib import Path

from matplotlib import rc_context

from fedapp.report.compare_sweep import sweep_figure
from fedapp.report.drawing import STYLE

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Write a figure for each kind of shift beside the table."""
    with (HERE / "mnist_sparsity.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["status"] == "finished"]
    for shift in ("E3", "E4b"):
        lines: dict[str, dict[int, float]] = {}
        for row in rows:
            kind, _, samples = row["column"].partition(", ")
            if kind == shift:
                count = int(samples.split()[0])
                lines.setdefault(row["row"], {})[count] = float(row["mean"])
        ordered = {name: dict(sorted(line.items())) for name, line in lines.items()}
        with rc_context(STYLE):
            drawn = sweep_figure(ordered, "data.samples-per-client")
        (HERE / f"sparsity_{shift.lower()}.png").write_bytes(drawn.png)


if __name__ == "__main__":
    main()
