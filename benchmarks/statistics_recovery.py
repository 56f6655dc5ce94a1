"""How much of the latent groups each statistic tells, before any training.

Clients of n digits drawn from one pool, four groups of five clients, under each kind
of shift; the share of clients whose nearest other statistic is of their own group, mean
over five seeds (section 22.2). Chance is 4 in 19.

python benchmarks/statistics_recovery.py
"""

import numpy as np
import torch
from sklearn.datasets import load_digits

from fedapp.data.samples import Samples
from fedapp.data.shift import permutations, rotate, window
from fedapp.statistics.recipe import Recipe, statistic
from fedapp.statistics.recovery import recovered

MODES = ("eig", "eig-w", "eig-rp", "probe", "moments", "moments-local", "contrasts")
SHIFTS = ("E1", "E2", "E3", "E4a", "E4b")
DIGITS = load_digits()
CLIENTS, GROUPS, CLASSES = 20, 4, 10


def client(shift: str, group: int, count: int, seed: int, rng) -> Samples:
    """Return ``count`` digits as a client of a latent group sees them."""
    images = torch.from_numpy(DIGITS.images).float()[:, None] / 16
    labels = torch.from_numpy(DIGITS.target)
    first, second = (group % 2, group // 2) if shift == "E4b" else (group, group)
    allowed = np.arange(len(labels))
    if shift in ("E1", "E4a"):
        seen = sorted(window(group, groups=GROUPS, classes=CLASSES))
        allowed = np.flatnonzero(np.isin(DIGITS.target, seen))
    rows = rng.choice(allowed, count, replace=False)
    images, labels = images[rows], labels[rows]
    if shift in ("E2", "E4a", "E4b"):
        images = rotate(images, index=first, groups=GROUPS)
    if shift in ("E3", "E4b"):
        maps = permutations(GROUPS, CLASSES, seed)
        labels = torch.tensor(maps[second])[labels]
    return Samples((images - 0.3053) / 0.3759, labels)


def share(mode: str, shift: str, count: int, seed: int) -> float:
    """Return how many of the clients have a neighbour of their group."""
    rng = np.random.default_rng([seed, count])
    recipe = Recipe(mode, 32, "auto", "log", seed)
    groups = [k % GROUPS for k in range(CLIENTS)]
    rows = np.array(
        [
            statistic(
                recipe,
                client(shift, group, count, seed, rng),
                classes=CLASSES,
                client=k,
            )
            for k, group in enumerate(groups)
        ]
    )
    if mode == "moments":
        rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    return recovered(rows, groups)


def main() -> None:
    """Print a Markdown table."""
    print("| shift, samples | " + " | ".join(MODES) + " |")
    print("|---|" + "---|" * len(MODES))
    for shift in SHIFTS:
        for count in (300, 30):
            means = [
                np.mean([share(mode, shift, count, seed) for seed in range(5)])
                for mode in MODES
            ]
            cells = " | ".join(f"{mean:.2f}" for mean in means)
            print(f"| {shift}, {count} | {cells} |")


if __name__ == "__main__":
    main()
