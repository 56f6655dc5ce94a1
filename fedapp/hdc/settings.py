"""The settings of HDC-FL's server, and which of them rule out each other."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from fedapp.bank import Precision
from fedapp.hdc.sketch import Exchange, SketchLength
from fedapp.hdc.stability import Thresholds


@dataclass(kw_only=True)
class HdcFlSettings:
    """What ``[hdc-fl]`` says to the server; numbers are those of section 23."""

    refresh_every: Annotated[
        int, Field(ge=1, description="rounds between refreshes; the last round has one")
    ]
    energy: Annotated[
        float, Field(gt=0, le=1, description="share of head energy the subspace keeps")
    ]
    rank: Annotated[int, Field(ge=0, description="fixed subspace rank; 0: by energy")]
    max_groups: Annotated[int, Field(ge=1, description="largest group count tried")]
    min_silhouette: Annotated[
        float, Field(ge=-1, le=1, description="below it all clients form one group")
    ]
    min_ari: Annotated[
        float, Field(ge=-1, le=1, description="agreement with the refresh before")
    ]
    max_change: Annotated[
        float, Field(ge=0, description="change of head similarities allowed")
    ]
    stable_refreshes: Annotated[
        int, Field(ge=1, description="stable refreshes in a row that activate")
    ]
    min_head_change: Annotated[
        float,
        Field(ge=0, description="median move of heads from their start, relative"),
    ]
    activation: Annotated[
        Literal["stable", "always"],
        Field(description="when personal encoders are used"),
    ]
    force_final: Annotated[
        bool, Field(description="use them in the last round in any case")
    ]
    latch: Annotated[bool, Field(description="once active, stay active")]
    temperature: Annotated[
        float, Field(gt=0, description="soft-max temperature of memberships")
    ]
    mix: Annotated[
        float, Field(ge=0, le=1, description="1: group mixture, 0: own encoder")
    ]
    max_age: Annotated[
        int,
        Field(ge=0, description="rounds until an entry leaves prototypes; 0: never"),
    ]
    bn_variance: Annotated[
        Literal["linear", "total"],
        Field(
            description="mix BatchNorm variances linearly, or as a mixture's variance"
        ),
    ]
    exchange: Exchange
    sketch_length: SketchLength
    newcomer_epochs: Annotated[
        int,
        Field(ge=0, description="head-only epochs that place a newcomer; 0: none do"),
    ]
    newcomer_alone_epochs: Annotated[
        int,
        Field(
            ge=0,
            description="at the end newcomers also train alone, to compare; 0: none do",
        ),
    ]

    bank_precision: Annotated[
        Precision,
        Field(description="float16: encoders and heads in half the room on disk"),
    ]

    @property
    def thresholds(self) -> Thresholds:
        """What a stable refresh must reach."""
        return Thresholds(
            min_silhouette=self.min_silhouette,
            min_ari=self.min_ari,
            max_change=self.max_change,
            min_head_change=self.min_head_change,
            stable_refreshes=self.stable_refreshes,
            latch=self.latch,
        )


def conflicts(table: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each setting that another one rules out."""
    if table["exchange"] == "heads" and table["epsilon"]:
        yield (
            f"hdc-fl.epsilon = {table['epsilon']}: heads are sent as they are; "
            "noise needs hdc-fl.exchange = 'sketch'"
        )
    epochs, alone = table["newcomer_epochs"], table["newcomer_alone_epochs"]
    if table["exchange"] == "sketch" and epochs:
        yield (
            f"hdc-fl.newcomer-epochs = {epochs}: a newcomer is placed by the head that "
            "it sends, and with hdc-fl.exchange = 'sketch' heads stay with their "
            "clients; leave out one of the two"
        )
    if alone and not epochs:
        yield (
            f"hdc-fl.newcomer-alone-epochs = {alone}: there are newcomers to compare "
            "only if hdc-fl.newcomer-epochs is positive"
        )
