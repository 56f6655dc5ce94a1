"""The record of who has which samples, as a value and as JSON."""

import json
from dataclasses import asdict, dataclass

from fedapp.data.shift import Shift, parse_shift
from fedapp.models import ImageShape

VERSION = 1
Setting = str | int | float | bool


@dataclass(frozen=True)
class ClientPlan:
    """One client's part of a manifest.

    ``classes`` and ``histogram`` (by class, of the training samples) are labels as the
    client sees them, after its label map. ``factors`` are its indices in the shift.
    ``unlabelled`` are training samples whose labels are hidden, beside ``train``.
    """

    train: tuple[int, ...]
    test: tuple[int, ...]
    group: int
    factors: tuple[int, ...]
    classes: tuple[int, ...]
    histogram: tuple[int, ...]
    unlabelled: tuple[int, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """Who has which samples of a data set, and what was done to them.

    ``settings`` are those of the data section that shape it, by their names there;
    ``label_maps`` has one map for each index of a label permutation.
    """

    name: str
    key: str
    classes: int
    image: ImageShape
    mean: tuple[float, ...]
    std: tuple[float, ...]
    seed: int
    settings: dict[str, Setting]
    label_maps: tuple[tuple[int, ...], ...]
    clients: tuple[ClientPlan, ...]
    notes: tuple[str, ...]

    @property
    def shift(self) -> Shift:
        """The shift that the settings name."""
        return parse_shift(
            str(self.settings["shift"]), str(self.settings["shift-groups"])
        )

    def to_json(self) -> str:
        """Return plain JSON; the same manifest gives the same bytes."""
        facts = {"version": VERSION, **asdict(self)}
        # With all labels known, nothing is said of unlabelled samples.
        for plan in facts["clients"]:
            if not plan["unlabelled"]:
                del plan["unlabelled"]
        return json.dumps(facts, sort_keys=True, separators=(",", ":")) + "\n"

    @staticmethod
    def from_json(text: str) -> "Manifest":
        """Read what ``to_json`` wrote."""
        facts = json.loads(text)
        version = facts.pop("version", None)
        if version != VERSION:
            raise ValueError(
                f"manifest of version {version}; this release reads {VERSION}: "
                "make it anew, or use the release that wrote it"
            )
        plans = facts.pop("clients")
        facts["image"] = ImageShape(*facts["image"])
        facts["label_maps"] = tuple(tuple(row) for row in facts["label_maps"])
        for name in ("mean", "std", "notes"):
            facts[name] = tuple(facts[name])
        return Manifest(clients=tuple(_plan(plan) for plan in plans), **facts)


def _plan(facts: dict[str, int | list[int]]) -> ClientPlan:
    group = facts["group"]
    assert isinstance(group, int)
    lists = {name: tuple(v) for name, v in facts.items() if isinstance(v, list)}
    return ClientPlan(group=group, **lists)
