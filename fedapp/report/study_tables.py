"""Studies of a cache as rows of text: the screen and the report show the same."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedapp.report.words import per_cent, points_of

Summary = Mapping[str, Any]
Rows = list[list[str]]

VARIANTS = (
    "variant",
    "mean",
    "worst client",
    "bottom 20 %",
    "gap",
    "loss",
    "minus soft",
    "better",
    "alike",
    "worse",
)
GROUPING = (
    "heads",
    "groups",
    "silhouette",
    "ARI before",
    "ARI latent",
    "mean silhouette",
    "mean ARI before",
)
SWAP = ("what", "value")


def variant_rows(summary: Summary) -> Rows:
    """Return a row for each variant, under ``VARIANTS``."""
    return [
        [
            name,
            *(per_cent(found["accuracy"][k]) for k in _ACCURACIES),
            f"{found['loss']:.4f}",
            points_of(found["minus_soft"]["mean"]),
            *(str(found["minus_soft"][k]) for k in ("better", "alike", "worse")),
        ]
        for name, found in summary["variants"].items()
    ]


def grouping_rows(summary: Summary) -> Rows:
    """Return a row for descriptors and one for raw heads, under ``GROUPING``."""
    numbers = ("silhouette", "ari_previous", "ari_latent")
    means = ("mean_silhouette", "mean_ari_previous")
    return [
        [kind, str(found["groups"]), *(_number(found[k]) for k in (*numbers, *means))]
        for kind, found in summary["grouping"].items()
        if found is not None
    ]


def variant_notes(summary: Summary) -> list[str]:
    """Return what to know of the variants, in sentences."""
    return [
        "Whose encoders a client gets: shared: the server's; own: its own cached one; "
        "population: everybody's mean; hard: the nearest group's mean; soft: those of "
        "all groups by memberships, the method; raw: the same by raw heads; "
        "random-groups: as soft, who is in which group drawn.",
        "Minus soft: percentage points, mean over clients; better, alike, worse: "
        "clients.",
        *(f"{note[0].upper()}{note[1:]}." for note in summary["notes"]),
        _as_run(summary["as_run"]),
    ]


def _as_run(own: Summary | None) -> str:
    if own is None:
        return "The run itself was not evaluated in that round."
    if own["equal"]:
        return (
            f"The run's own evaluation came out again, bit for bit: {own['variant']}."
        )
    return (
        f"The run's own evaluation should be {own['variant']}, but the scores differ: "
        "it was made on another kind of machine, or with other library versions."
    )


def swap_rows(summary: Summary) -> Rows:
    """Return name and value of each number of a donor swap, under ``SWAP``."""
    nearest = summary["nearest"]
    rows = [
        ["Spearman of similarity and gain, mean of targets", _number(summary["rho"])],
        ["AUROC of similarity for a gain, all pairs", _number(summary["auroc"])],
        ["AUROC, mean of targets", _number(summary["auroc_by_target"])],
        ["swaps that lower the loss", per_cent(summary["beneficial"])],
        ["accuracy, nearest donor", per_cent(nearest["accuracy"])],
        ["accuracy, random donor", per_cent(nearest["random_accuracy"])],
        ["nearest minus random", _points(nearest["benefit"])],
    ]
    for kind in ("latent", "found"):
        rows += _group_rows(kind, summary[f"{kind}_groups"])
    for key, what in (("jaccard", "class sets"), ("cosine", "label histograms")):
        rows += _overlap_rows(what, summary["overlap"][key]["by_target"])
    return rows


def _group_rows(kind: str, found: Summary | None) -> Rows:
    if found is None:
        return []
    return [
        [f"nearest donor of the same {kind} group", per_cent(found["purity"])],
        [f"the same by chance ({kind})", per_cent(found["base_rate"])],
        [f"accuracy change within {kind} groups", _points(found["same"])],
        [f"accuracy change between {kind} groups", _points(found["other"])],
    ]


def _overlap_rows(what: str, found: Summary) -> Rows:
    return [
        [f"Spearman of similarity and {what}", _number(found["similarity_overlap"])],
        [f"Spearman of gain and {what}", _number(found["gain_overlap"])],
        [f"similarity and gain, {what} held fixed", _number(found["partial"])],
    ]


def swap_title(summary: Summary) -> str:
    """Return what was swapped."""
    return (
        f"Donor swap at round {summary['round']}: {summary['pairs']} ordered pairs of "
        f"{summary['clients']} clients"
    )


_ACCURACIES: Sequence[str] = ("mean", "worst", "bottom20", "gap")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _points(share: float | None) -> str:
    return "-" if share is None else f"{points_of(share)} pp"
