"""The parts of a run folder as checked values: summary.json and rows of CSV files.

What a failed run did not come to write has a neutral default here; what a newer
release adds is ignored.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Number = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Part(BaseModel):
    """A value that never changes."""

    model_config = ConfigDict(frozen=True)


class Accuracy(Part):
    """Accuracies over clients at the last evaluation, as fractions."""

    mean: Share | None = None
    weighted_mean: Share | None = None
    std: float | None = None
    worst: Share | None = None
    bottom20: Share | None = None
    gap: Share | None = None


class Few(Part):
    """Accuracies over a few clients."""

    mean: Share
    worst: Share | None = None


class Unseen(Few):
    """The clients that never train by the settings; ``models``: by what was scored."""

    clients: Number
    models: dict[str, Few] = {}


class ClientResult(Part):
    """How one client did at the last evaluation."""

    client: Number
    name: str
    examples: Number
    accuracy: Share
    loss: float
    latent_group: int | None = None
    trained: bool


class Traffic(Part):
    """Bytes sent; the first two in training phases."""

    down_bytes: int = 0
    up_bytes: int = 0
    evaluate_down_bytes: int = 0
    evaluate_up_bytes: int = 0


class Seconds(Part):
    """What the time of a run was spent on."""

    startup: float = 0.0
    train: float = 0.0
    evaluate: float = 0.0
    server: float = 0.0
    total: float = 0.0


class Dropped(Part):
    """A reply that did not count, and why."""

    round: Number
    phase: str
    client: Number
    cause: str


class Summary(Part):
    """summary.json."""

    status: str = "running"
    error: str | None = None
    method: str = ""
    seed: int | None = None
    rounds: Number = 0
    clients: Number = 0
    accuracy: Accuracy = Accuracy()
    unseen: Unseen | None = None
    per_client: tuple[ClientResult, ...] = ()
    traffic: Traffic = Traffic()
    traffic_vs_fedavg: float | None = None
    seconds: Seconds = Seconds()
    failures: tuple[Dropped, ...] = ()


class ScoreRow(Part):
    """One row of metrics.csv."""

    round: Number
    client: Number
    model: str
    examples: Number
    loss: float
    accuracy: Share
    trained: bool
    last_trained_round: int


class TimeRow(Part):
    """One row of timing.csv; without a client it is of a whole phase."""

    round: Number
    phase: str
    client: Number | None
    seconds: float


class RefreshRow(Part):
    """One row of hdc-fl/refreshes.csv."""

    round: Number
    groups: Number
    rank: Number = 0
    energy: Share | None = None
    silhouette: float | None
    ari_previous: float | None
    descriptor_change: float | None = None
    ari_latent: float | None
    stable: bool
    active: bool
    head_change: float | None = None
    method: str = "exact"

    @property
    def sampled(self) -> bool:
        """Whether tables and comparisons have some of the clients only."""
        return self.method != "exact"


class MembershipRow(Part):
    """One row of hdc-fl/memberships.csv."""

    round: Number
    client: Number
    group: int
    membership: float
    assigned: bool


class NewcomerRow(Part):
    """One row of hdc-fl/newcomers.csv."""

    round: Number
    client: Number
    group: int
    membership: float
    similarity: float


class SilhouetteRow(Part):
    """One row of hdc-fl/silhouettes.csv."""

    round: Number
    groups: Number
    silhouette: float
    chosen: bool


class SpectrumRow(Part):
    """One row of hdc-fl/spectrum.csv."""

    round: Number
    direction: Number
    share: float
    kept: bool


class AgeRow(Part):
    """One row of hdc-fl/ages.csv."""

    round: Number
    client: Number
    age: Number
    in_prototypes: bool


class SwapRow(Part):
    """One row of hdc-fl/swap.csv."""

    target: Number
    donor: Number
    similarity: float
    gain: float
    same_latent_group: bool
    same_group: bool
