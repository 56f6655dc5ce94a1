"""Figures of clients' statistics: where they lie, and accuracy by number of samples."""

from collections.abc import Sequence
from pathlib import Path

from fedapp.files import TensorFile
from fedapp.report.axes import per_cent_axis
from fedapp.report.drawing import (
    GROUPS,
    MAIN,
    PAPER,
    Drawn,
    canvas,
    files_of,
)
from fedapp.report.parts import ClientResult
from fedapp.report.words import per_cent
from fedapp.statistics.recovery import by_chance, on_a_plane, recovered
from fedapp.statistics.rows import Floats

FILE = Path("conditional") / "statistics.safetensors"


def read_statistics(path: Path) -> Floats | None:
    """Return the statistic of each client of a run, or None if it has none.

    Raises
    ------
    ValueError
        If the file is broken.
    """
    if not (path / FILE).is_file():
        return None
    found = TensorFile(path / FILE).part("statistics")
    if "s" not in found or found["s"].dim() != 2:
        raise ValueError(f"{path / FILE} holds no statistics")
    return found["s"].double().numpy()


def statistics_map(s: Floats, groups: Sequence[int], *, unseen_from: int) -> Drawn:
    """Draw the statistics on their two principal axes, coloured by latent group."""
    figure, (axes,) = canvas(3.8)
    places, kept = on_a_plane(s)
    latent = sorted(set(groups))
    for group in latent:
        for unseen in (False, True):
            mine = [
                k
                for k, own in enumerate(groups)
                if own == group and (k >= unseen_from) == unseen
            ]
            colour = GROUPS[group % len(GROUPS)]
            axes.plot(
                places[mine, 0],
                places[mine, 1],
                "o",
                color=colour,
                mfc=PAPER if unseen else colour,
                mew=1.5,
                ms=6.5,
                label=None if unseen or len(latent) > 10 else str(group),
            )
    axes.set_xlabel("first principal axis")
    axes.set_ylabel("second")
    axes.grid(True)
    if 1 < len(latent) <= 10:
        figure.legend(
            loc="outside upper left", ncols=10, title="latent group", alignment="left"
        )
    svg, png = files_of(figure)
    told = f"Its nearest other client is of the same group for {_told(s, groups)}."
    hollow = " Hollow: unseen clients." if unseen_from < len(s) else ""
    return Drawn(
        "statistics",
        "What the model is told of each client",
        f"Statistics on two principal axes, which keep {per_cent(kept)} of the "
        f"variance.{hollow} {told}",
        f"Map of {len(s)} clients in {len(latent)} latent groups. {told}",
        svg,
        png,
    )


def _told(s: Floats, groups: Sequence[int]) -> str:
    found, chance = recovered(s, groups), by_chance(groups)
    return f"{per_cent(found)} of clients (by chance: {per_cent(chance)})"


def unlike(samples: Sequence[int]) -> bool:
    """Return whether the numbers of samples differ by a tenth or more."""
    few, many = min(samples), max(samples)
    return many > few and 10 * many >= 11 * few


def accuracy_by_samples(
    clients: Sequence[ClientResult], samples: Sequence[int]
) -> Drawn:
    """Draw each client's accuracy against its number of training samples."""
    figure, (axes,) = canvas(3.3)
    for client in clients:
        group = client.latent_group
        colour = MAIN if group is None else GROUPS[group % len(GROUPS)]
        axes.plot(
            samples[client.client],
            100 * client.accuracy,
            "o",
            color=colour,
            mfc=colour if client.trained else PAPER,
            mew=1.5,
            ms=6,
        )
    counts = [samples[client.client] for client in clients]
    if max(counts) > 10 * max(1, min(counts)):
        axes.set_xscale("log")
    axes.set_xlabel("training samples of the client")
    per_cent_axis(axes, low=100 * min(client.accuracy for client in clients))
    svg, png = files_of(figure)
    few = min(clients, key=lambda c: (samples[c.client], c.client))
    many = max(clients, key=lambda c: (samples[c.client], -c.client))
    return Drawn(
        "samples",
        "Accuracy against number of samples",
        "Each client at the last evaluation; colours are latent groups, hollow ones "
        "never trained.",
        f"Client {few.name} with {min(counts)} training samples has "
        f"{per_cent(few.accuracy)}, client {many.name} with {max(counts)} has "
        f"{per_cent(many.accuracy)}.",
        svg,
        png,
    )
