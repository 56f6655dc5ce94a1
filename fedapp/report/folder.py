"""Loading a run folder into plain values, whatever became of the run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedapp.config import Scalar, defaults, flatten
from fedapp.data.manifest import Manifest
from fedapp.report.curves import main_rows
from fedapp.report.parts import (
    AgeRow,
    ClientResult,
    MembershipRow,
    NewcomerRow,
    RefreshRow,
    ScoreRow,
    SilhouetteRow,
    SpectrumRow,
    Summary,
    TimeRow,
)
from fedapp.report.prototype_parts import BANKS, PseudoRow, RoundRow
from fedapp.report.reading import (
    Row,
    check,
    check_types,
    read_config,
    read_manifest,
    read_rows,
    read_summary,
)

HDC_FL = "hdc-fl"
PLACES = ("output.dir", "output.name", "output.report")
"""Settings that say where a run lies and what is made of it, not what it did."""


@dataclass(frozen=True)
class RunData:
    """What a run folder holds; ``missing`` says in sentences what it lacks."""

    path: Path
    settings: Mapping[str, Scalar]
    versions: Mapping[str, str]
    summary: Summary
    scores: tuple[ScoreRow, ...]
    times: tuple[TimeRow, ...]
    manifest: Manifest | None
    refreshes: tuple[RefreshRow, ...]
    memberships: tuple[MembershipRow, ...]
    silhouettes: tuple[SilhouetteRow, ...]
    spectrum: tuple[SpectrumRow, ...]
    ages: tuple[AgeRow, ...]
    newcomers: tuple[NewcomerRow, ...]
    missing: tuple[str, ...]
    prototypes: tuple[RoundRow, ...] = ()
    pseudo: tuple[PseudoRow, ...] = ()

    @property
    def clients(self) -> int:
        """The number of clients, unseen ones included."""
        known = max((row.client + 1 for row in self.scores), default=0)
        given = int(self.settings.get("data.clients", 0))
        return self.summary.clients or max(known, given)

    @property
    def unseen_from(self) -> int:
        """The first client that never trains by the settings."""
        return self.clients - int(self.settings.get("data.unseen-clients", 0))

    @property
    def evaluated(self) -> int:
        """The round of the last evaluation, 0 if there was none."""
        return max((row.round for row in self.scores), default=0)

    @property
    def whole_rounds(self) -> int:
        """The rounds that count, as far as is known."""
        return max(self.summary.rounds, self.evaluated)

    @property
    def results(self) -> tuple[ClientResult, ...]:
        """How each client did, from metrics.csv if summary.json does not say it."""
        if self.summary.per_client or not self.scores:
            return self.summary.per_client
        plans = self.manifest.clients if self.manifest else ()
        groups = {client: plan.group for client, plan in enumerate(plans)}
        return tuple(
            ClientResult(
                client=row.client,
                name=str(row.client),
                examples=row.examples,
                accuracy=row.accuracy,
                loss=row.loss,
                latent_group=groups.get(row.client),
                trained=row.trained,
            )
            for row in main_rows(self.scores)[self.evaluated]
        )

    @property
    def changed(self) -> dict[str, Scalar]:
        """The settings that differ from their defaults, places left out."""
        usual = defaults()
        return {
            name: value
            for name, value in self.settings.items()
            if name not in PLACES and (name not in usual or usual[name] != value)
        }


def load(path: Path) -> RunData:
    """Return what ``path`` holds.

    Raises
    ------
    RunFolderError
        If it is no run folder, or its config.toml or summary.json is broken.
    """
    path = path.expanduser().absolute()
    check(path)
    missing: list[str] = []
    config = read_config(path / "config.toml", missing)
    versions = {str(k): str(v) for k, v in config.pop("versions", {}).items()}
    settings = flatten(config)
    check_types(path / "config.toml", settings)
    summary = read_summary(path, missing)
    scores = read_rows(
        path, "metrics.csv", ScoreRow, missing, "no evaluation was finished"
    )
    times = read_rows(path, "timing.csv", TimeRow, missing, "no reply arrived")
    grouped = settings.get("method") == HDC_FL
    why = "there was no refresh of groups" if grouped else ""
    manifest = read_manifest(path / "manifest.json", missing)
    return RunData(
        path=path,
        settings=settings,
        versions=versions,
        summary=summary,
        scores=scores,
        times=times,
        manifest=manifest,
        refreshes=read_rows(path, f"{HDC_FL}/refreshes.csv", RefreshRow, missing, why),
        memberships=read_rows(
            path, f"{HDC_FL}/memberships.csv", MembershipRow, missing, why
        ),
        # Not every refresh tries several counts, and earlier releases wrote none.
        silhouettes=read_rows(
            path, f"{HDC_FL}/silhouettes.csv", SilhouetteRow, missing, ""
        ),
        spectrum=read_rows(path, f"{HDC_FL}/spectrum.csv", SpectrumRow, missing, ""),
        ages=read_rows(path, f"{HDC_FL}/ages.csv", AgeRow, missing, ""),
        newcomers=read_rows(path, f"{HDC_FL}/newcomers.csv", NewcomerRow, missing, ""),
        prototypes=_table(path, settings, "rounds.csv", RoundRow, missing),
        pseudo=_table(path, settings, "pseudo_labels.csv", PseudoRow, missing),
        missing=tuple(missing),
    )


def _table(
    path: Path,
    settings: Mapping[str, Scalar],
    name: str,
    kind: type[Row],
    missing: list[str],
) -> tuple[Row, ...]:
    """Return a table of a prototype method, if the run is of one and has it."""
    method = str(settings.get("method", ""))
    if method not in BANKS:
        return ()
    return read_rows(path, f"{method}/{name}", kind, missing, "")
