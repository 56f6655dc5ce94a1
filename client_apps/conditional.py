"""Client-Conditional FL, client side (Brännvall 2026, arXiv 2603.11307)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from fedapp.algorithm import (
    LocalAlgorithm,
    LocalTask,
    Memory,
    Predictor,
    Update,
    local_sgd,
)
from fedapp.conditioning import Condition, set_condition
from fedapp.models import load, state_of
from fedapp.params import Params
from fedapp.statistics.moments import standardised
from fedapp.statistics.recipe import LabelScale, Length, Recipe, StatMode, statistic
from fedapp.statistics.rows import fingerprint
from fedapp.statistics.spectrum import Transform


def condition_of(table: Mapping[str, Any]) -> Condition:
    """Return how the model is widened, from the method's settings."""
    return Condition(table["length"], table["conditioning"])


@dataclass(frozen=True)
class LocalConditional(LocalAlgorithm):
    """FedAvg's training of a model that sees the client's own statistic s.

    s is computed once, kept in memory with what the server once sent for it, and
    computed anew only if the training samples are others. A client that never trained
    computes it to be evaluated.
    """

    stat_mode: StatMode
    length: Length
    label_scale: Annotated[
        LabelScale,
        Field(description="weight of labels beside pixels; auto: one for eig"),
    ]
    transform: Annotated[
        Transform, Field(description="of eigenvalues: log(1 + v), v, or v / sum")
    ]
    conditioning: Annotated[
        Literal["concat", "film"],
        Field(description="s beside the features, or as their scale and shift"),
    ]

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        memory = self._remembered(task, memory)
        if task.phase == "agree":
            s = memory["statistic"]["s"].float()
            sent = {"s": s} if self.stat_mode == "shuffled" else _with_squares(s)
            return Update({"statistic": sent}, task.num_examples), memory
        self._prepare(task, memory)
        local_sgd(task)
        return Update({"model": state_of(task.model)}, task.num_examples), memory

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        self._prepare(task, self._remembered(task, memory))
        yield "conditional", task.model

    def _prepare(self, task: LocalTask, memory: Memory) -> None:
        load(task.model, task.received["model"])
        set_condition(task.model, seen(memory).float())

    def _remembered(self, task: LocalTask, memory: Memory) -> Memory:
        """Return ``memory`` itself if it has all, else with what is new."""
        news = {
            part: task.received[part]
            for part in ("agreement", "other")
            if part in task.received and part not in memory
        }
        mark = fingerprint(task.labelled)
        if "statistic" not in memory or int(memory["statistic"]["of"]) != mark:
            s = statistic(
                self.recipe(task.seed),
                task.labelled,
                classes=task.classes,
                client=task.client,
                group=int(task.scalars.get("group", -1)),
            )
            news["statistic"] = {"s": torch.from_numpy(s), "of": torch.tensor(mark)}
        return {**memory, **news} if news else memory

    def recipe(self, seed: int) -> Recipe:
        """Return how s is made; the run's ``seed`` draws the public matrices."""
        return Recipe(
            mode=self.stat_mode,
            length=self.length,
            label_scale=self.label_scale,
            transform=self.transform,
            seed=seed,
        )


def seen(memory: Memory) -> Tensor:
    """Return what the model sees: s, standardised if constants were agreed on.

    With another client's (the control ``shuffled``) that one.
    """
    if "other" in memory:
        return memory["other"]["s"]
    s, agreed = memory["statistic"]["s"], memory.get("agreement")
    if agreed is None:
        return s
    mean, deviation = (agreed[name].double() for name in ("mean", "deviation"))
    found = standardised(s.numpy(), mean.numpy(), deviation.numpy())
    return torch.from_numpy(found)


def _with_squares(s: Tensor) -> Params:
    return {"s": s, "squares": s.square()}
