"""What a table shows, how it is printed, and how seeds become one number."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SHARE, POINTS, PLAIN = "per cent", "percentage points", "plain"
"""How a number is printed; the first two are fractions in files."""

Numbers = Mapping[str, float | None]
"""What is known of a run, by name; None where a number is not defined."""


@dataclass(frozen=True)
class Measure:
    """Numbers with their titles and kinds, the one beside the paper's, and what
    readers must know of them. ``study`` is the one that finds them, if one must.
    """

    main: str
    titles: Mapping[str, tuple[str, str]]
    about: Sequence[str]
    study: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the numbers, in the order of the table."""
        return tuple(self.titles)


VARIANTS, SWAP = "variants", "swap"
"""The studies of ``fedapp hdc``."""

REPORTED = {
    "mean": ("mean", SHARE),
    "worst": ("worst client", SHARE),
    "bottom20": ("bottom 20 %", SHARE),
    "gap": ("gap", SHARE),
}
"""The accuracies that every table of accuracies shows, by names in summary.json."""

OF_ACCURACY = (
    "In per cent: mean ± sample deviation over seeds. Clients count equally; the",
    "bottom 20 % is the mean of the lowest fifth, the gap is best minus worst. The",
    "last round is reported, never the best one.",
)


ARI = "ari_latent"
"""The adjusted Rand index of groups and latent groups: no share, 1 is the best."""

OF_ARI = ("The ARI is that of the last refresh: 1 is the best, 0 is chance.",)

UNSEEN, NEWCOMERS = "unseen-accuracy", "newcomer-accuracy"
"""The measures of clients that never train."""

OF_UNSEEN = ("Unseen clients never trained; the other columns are without them.",)

OF_NEWCOMERS = (
    "In per cent: mean ± sample deviation over seeds. Clients count equally. `mean` is",
    "over clients that train; the other columns are of clients that never do: with",
    "what the method gives them, with the shared encoder under the same fitted head,",
    "with a model each trained alone. The last round is reported, never the best one.",
)

OF_SWAPS = (
    "Mean ± sample deviation over seeds, after the last round. rho: Spearman",
    "correlation of head similarity and loss gain, mean over targets; AUROC:",
    "similarity as a sign of a gain, all pairs; beneficial: swaps with a gain, per",
    "cent; nearest - random: accuracy with the nearest donor minus a random one,",
    "points; same group: nearest donors of the target's latent group, and what",
    "chance gives, per cent; within and between groups: change of accuracy against",
    "the own encoder, points. rho(s, overlap): similarity and Jaccard overlap of",
    "class sets; partial rho: similarity and gain with this overlap held fixed, or",
    "with the cosine of label histograms held fixed.",
)

OF_GROUPING = (
    "Mean ± sample deviation over seeds, at the last refresh. ARI: adjusted Rand",
    "index, to the refresh before and to the latent groups; the last two columns",
    "are means over all refreshes. Silhouettes of projected and of raw heads are",
    "each in the space that was clustered.",
)


def _accuracy(main: str, title: str = "") -> Measure:
    more = {} if main in REPORTED else {main: (title, SHARE)}
    return Measure(main, {**REPORTED, **more}, OF_ACCURACY)


MEASURES = {
    "final-accuracy": _accuracy("mean"),
    "weighted-accuracy": _accuracy("weighted_mean", "weighted mean"),
    "worst-accuracy": _accuracy("worst"),
    "bottom20-accuracy": _accuracy("bottom20"),
    "accuracy-gap": _accuracy("gap"),
    "latent-ari": Measure(
        ARI, {**REPORTED, ARI: ("ARI, latent groups", PLAIN)}, OF_ACCURACY + OF_ARI
    ),
    UNSEEN: Measure(
        "unseen",
        {
            **REPORTED,
            "unseen": ("unseen: mean", SHARE),
            "unseen_worst": ("unseen: worst", SHARE),
        },
        OF_ACCURACY + OF_UNSEEN,
    ),
    NEWCOMERS: Measure(
        "unseen",
        {
            "mean": ("mean", SHARE),
            "unseen": ("unseen: mean", SHARE),
            "unseen_worst": ("unseen: worst", SHARE),
            "unseen_shared": ("shared encoder: mean", SHARE),
            "unseen_shared_worst": ("shared encoder: worst", SHARE),
            "unseen_alone": ("alone: mean", SHARE),
            "unseen_alone_worst": ("alone: worst", SHARE),
        },
        OF_NEWCOMERS,
    ),
    "donor-swap": Measure(
        "rho",
        {
            "rho": ("rho", PLAIN),
            "auroc": ("AUROC", PLAIN),
            "beneficial": ("beneficial", SHARE),
            "benefit": ("nearest - random", POINTS),
            "purity": ("same group", SHARE),
            "base_rate": ("by chance", SHARE),
            "same": ("within groups", POINTS),
            "other": ("between groups", POINTS),
            "overlap": ("rho(s, overlap)", PLAIN),
            "partial": ("partial rho", PLAIN),
            "partial_cosine": ("partial rho, cosine", PLAIN),
        },
        OF_SWAPS,
        SWAP,
    ),
    "grouping": Measure(
        "silhouette",
        {
            "groups": ("groups", PLAIN),
            "silhouette": ("silhouette", PLAIN),
            "ari_previous": ("ARI before", PLAIN),
            "ari_latent": ("ARI latent", PLAIN),
            "mean_silhouette": ("mean silhouette", PLAIN),
            "mean_ari_previous": ("mean ARI before", PLAIN),
        },
        OF_GROUPING,
        VARIANTS,
    ),
}
"""What a table may show, by the word in its file."""


def needed(measure: str) -> tuple[str, ...]:
    """Return the names of the numbers that a table with this measure shows."""
    return MEASURES[measure].names


def paper_value(measure: str, said: float | None) -> float | None:
    """Return what a paper prints as it stands in files: accuracies as fractions."""
    found = MEASURES[measure]
    plain = found.titles[found.main][1] == PLAIN
    return said if said is None or plain else round(said / 100, 6)


def printed(kind: str, value: float, deviation: float | None) -> str:
    """Return a number and its deviation as a table has them."""
    if kind == PLAIN:
        return f"{value:.3f}" + ("" if deviation is None else f" ± {deviation:.3f}")
    sign = "+" if kind == POINTS else ""
    spread = "" if deviation is None else f" ± {100 * deviation:.2f}"
    return f"{100 * value:{sign}.2f}{spread}"


ALSO = ("rank", "tail-rank", "traffic", "seconds")
"""What a table may show besides: places among the rows of a column, and costs."""

RANKED = ("rank", "tail-rank")
"""Which of these compare accuracies."""

COSTS = {"traffic": "bytes", "seconds": "seconds"}
"""Which of these are numbers of a run, and their names in the results."""


def over_seeds(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and the sample deviation, which one value does not have."""
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, None
    squares = math.fsum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(squares / (len(values) - 1))


def costs(also: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the costs among what a table also shows."""
    return tuple(name for word, name in COSTS.items() if word in also)


def summarise(
    runs: Sequence[Numbers], names: Sequence[str]
) -> dict[str, tuple[float, float | None]]:
    """Return mean and deviation over ``runs`` of each named number.

    One that is not defined in some run is left out: a mean over the others would be of
    other seeds than its neighbours.
    """
    columns = {name: [run.get(name) for run in runs] for name in names}
    return {
        name: over_seeds([value for value in column if value is not None])
        for name, column in columns.items()
        if None not in column
    }
