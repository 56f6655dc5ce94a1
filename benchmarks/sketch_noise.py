"""How much noise do HDC-FL's sketches bear until the groups are lost?

MNIST under four rotations, as in experiments/hdc_fl_sketch, once, with heads; training
does not depend on groups, so sketches of these heads are what runs with sketches would
have sent. Prints two tables of the mean adjusted Rand index to the rotations over
twenty draws of noise and of projection:

1. after one refresh, by epsilon and length;
2. when the sketches of several refreshes are averaged, beside one sketch that reveals
   as much as all of them together.

    FEDAPP_DATA=/folder/of/data/sets python benchmarks/sketch_noise.py
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

import numpy as np
from data_folder import data_folder

from fedapp.bank import Bank
from fedapp.config import defaults
from fedapp.data.clients import Manifest
from fedapp.hdc.clipping import factors, norm, scaled
from fedapp.hdc.grouping import choose_groups
from fedapp.hdc.heads import Array, descriptor, gram, principal_directions
from fedapp.hdc.privacy import epsilon_of, sigma_for
from fedapp.hdc.sketch import sketch
from fedapp.hdc.stability import agreement
from fedapp.inline import run_inline

CLIENTS, EVERY, ROUNDS, DRAWS, DELTA = 20, 5, 40, 20, 1e-5
SETTINGS = {
    "data.name": "mnist",
    "data.clients": CLIENTS,
    "data.samples-per-client": 300,
    "data.test-fraction": 0.5,
    "model.name": "cnn-small",
    "rounds.count": ROUNDS,
    "rounds.evaluate-every": ROUNDS,
    "local.batch-size": 32,
    "hdc-fl.refresh-every": EVERY,
    "output.report": False,
    "output.name": "run",
}
Heads = dict[int, list[Array]]


def heads_of_a_run(data: Path, out: Path) -> tuple[Heads, list[int]]:
    """Return the heads of all clients at each refresh, and their latent groups."""
    heads: Heads = {round_: [] for round_ in range(EVERY, ROUNDS + 1, EVERY)}
    write = Bank.write

    def watched(self, client, payload, *, num_examples, round):
        if round in heads:
            heads[round].append(payload["head"]["weight"].double().numpy())
        write(self, client, payload, num_examples=num_examples, round=round)

    places = {"data.path": str(data / "mnist"), "output.dir": str(out)}
    with mock.patch.object(Bank, "write", watched):
        run_inline({**defaults(), **SETTINGS, **places})
    text = (out / "run" / "manifest.json").read_text("utf-8")
    return heads, [plan.group for plan in Manifest.from_json(text).clients]


def sketches(heads: Sequence[Array], *, length: int, seed: int) -> Array:
    """Return one sketch a row, without noise."""
    by = factors(norm(head) for head in heads)
    total = gram(scaled(heads, by))
    directions = principal_directions(total, energy=0.8, rank=0).directions
    return np.stack(
        [sketch(head, directions, length=length, seed=seed) for head in heads]
    )


def found(rows: Array, latent: Sequence[int]) -> float:
    """Return how well groups of received sketches agree with the latent ones."""
    units = [descriptor(row[None], np.ones((1, 1))) for row in rows]
    grouping = choose_groups(
        range(CLIENTS),
        np.stack([unit for unit in units if unit is not None]),
        max_groups=8,
        min_silhouette=0.05,
        seed=42,
        previous={},
    )
    return agreement(latent, grouping.labels.tolist())


def over_draws(one: Callable[[int, np.random.Generator], float]) -> str:
    """Return mean and sample deviation over draws."""
    values = [one(draw, np.random.default_rng([draw, 99])) for draw in range(DRAWS)]
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"


def by_length(heads: Heads, latent: Sequence[int]) -> None:
    """Print the first table, of the second refresh."""
    epsilons = (8, 32, 128, 256, 512)
    print(f"\n| length | no noise | {' | '.join(map(str, epsilons))} |")
    print("| ---: " * (len(epsilons) + 2) + "|")
    for length in (8, 16, 32, 64, 128):
        cells = []
        for epsilon in (0, *epsilons):
            sigma = sigma_for(epsilon=epsilon, delta=DELTA) if epsilon else 0.0

            def one(draw, rng, length=length, sigma=sigma):
                rows = sketches(heads[2 * EVERY], length=length, seed=draw)
                return found(rows + sigma * rng.standard_normal(rows.shape), latent)

            cells.append(over_draws(one))
        print(f"| {length} | {' | '.join(cells)} |", flush=True)


def by_refreshes(heads: Heads, latent: Sequence[int]) -> None:
    """Print the second table: 64 numbers, the last refreshes of the run."""
    print(
        "\n| epsilon of one | refreshes | epsilon of all | average | one as telling |"
    )
    print("| ---: " * 5 + "|")
    for epsilon in (32, 64, 128):
        sigma = sigma_for(epsilon=epsilon, delta=DELTA)
        for count in (1, 2, 4, 8):
            total = epsilon_of(sigma, delta=DELTA, releases=count)
            last = list(heads)[-count:]

            def average(draw, rng, last=last, sigma=sigma):
                rows = [sketches(heads[r], length=64, seed=draw) for r in last]
                return found(
                    np.mean(
                        [r + sigma * rng.standard_normal(r.shape) for r in rows], 0
                    ),
                    latent,
                )

            def single(draw, rng, sigma=sigma / count**0.5):
                rows = sketches(heads[ROUNDS], length=64, seed=draw)
                return found(rows + sigma * rng.standard_normal(rows.shape), latent)

            cells = f"{over_draws(average)} | {over_draws(single)}"
            print(f"| {epsilon} | {count} | {total:.1f} | {cells} |", flush=True)


def main() -> None:
    """Train once, then draw."""
    data = data_folder()
    with tempfile.TemporaryDirectory() as out:
        heads, latent = heads_of_a_run(data, Path(out))
    by_length(heads, latent)
    by_refreshes(heads, latent)


if __name__ == "__main__":
    main()
