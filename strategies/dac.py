"""DAC, server side (Listo Zec et al. 2022, arXiv 2206.08839): a relay of mail.

The paper has no server. Here one keeps every client's newest model and what clients
found of each other, and hands out the models of the round before, so that no client
sees a newer one than another.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field

from fedapp.algorithm import Update
from fedapp.params import Params, Payload
from fedapp.peers import draw_peers, sharpness, similarity_of, two_hops
from fedapp.strategy import RoundStrategy
from fedapp.turn import Expected, Spec, State, Task, Turn, specs_of


@dataclass(kw_only=True)
class Dac(RoundStrategy):
    """Each participant gets its own model and those of peers that seem alike.

    In its first round a client trains alone. Peers that nobody it measured knows
    either have similarity 0 in the soft-max.
    """

    peers: Annotated[int, Field(ge=1, description="models of others a client gets")]
    tau: Annotated[float, Field(ge=0, description="sharpness of the draw of peers")]
    schedule: Annotated[
        Literal["variable", "fixed"],
        Field(description="variable: sharpness grows from 1 to tau + 1 (DAC-var)"),
    ]
    growth: Annotated[float, Field(ge=0, description="how fast it grows, per round")]
    evaluate: Annotated[
        Literal["best", "last"],
        Field(description="a client's model: lowest validation loss so far, or newest"),
    ]

    def init(self, initial: Params) -> tuple[Params, State]:
        if not self.num_clients:
            raise ValueError("method 'dac' needs to know how many clients there are")
        square = (self.num_clients, self.num_clients)
        found = {
            "similarity": torch.zeros(square, dtype=torch.float64),
            "known": torch.zeros(square, dtype=torch.bool),
        }
        return {}, {"initial": initial, "peers": found}

    def tasks(self, params: Params, state: State, turn: Turn) -> Iterator[Task]:
        rng, there = turn.generator(), turn.bank.clients()
        similarity = state["peers"]["similarity"].numpy()
        for client in sorted(self.participants(state, turn)):
            own = turn.bank.read(client)
            if own is None:
                yield Task(client, {}, {"peers": ""})
                continue
            others = [other for other in there if other != client]
            chosen = draw_peers(
                others,
                similarity[client, others],
                count=self.peers,
                tau=self._sharpness(turn),
                rng=rng,
            )
            yield self._parcel(client, chosen, turn)

    def _sharpness(self, turn: Turn) -> float:
        if self.schedule == "fixed":
            return self.tau
        return sharpness(turn.round - 1, most=self.tau, growth=self.growth)

    def _parcel(self, client: int, chosen: list[int], turn: Turn) -> Task:
        """Return a client's own model and its peers', with their example counts."""
        payload: dict[str, Params] = {}
        counts = []
        for place, other in enumerate([client, *chosen]):
            row = turn.bank.read(other)
            assert row is not None
            payload["model" if place == 0 else f"peer-{place}"] = row.part("model")
            counts.append(str(row.num_examples))
        peers = " ".join(map(str, chosen))
        return Task(client, payload, {"peers": peers, "counts": " ".join(counts)})

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        return {
            "model": specs_of(state["initial"]),
            "losses": {"losses": Spec((None,))},
        }

    def check(self, update: Update, state: State, turn: Turn) -> None:
        losses, asked = update.sent["losses"]["losses"], _peers(update)
        if len(losses) != len(asked):
            raise ValueError(f"it has {len(losses)} losses of {len(asked)} peers")
        if bool((losses < 0).any()):
            raise ValueError("a loss of it is negative")

    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        similarity = state["peers"]["similarity"].numpy().copy()
        known = state["peers"]["known"].numpy().copy()
        for update in updates:
            count, sent = update.num_examples, {"model": update.sent["model"]}
            turn.bank.write(update.client, sent, num_examples=count, round=turn.round)
            others = _peers(update)
            losses = update.sent["losses"]["losses"].double().numpy()
            similarity[update.client, others] = similarity_of(losses)
            known[update.client, others] = True
            self._log(update.client, others, losses, turn)
        found = two_hops(similarity, known)
        peers = {
            "similarity": torch.from_numpy(found),
            "known": torch.from_numpy(known),
        }
        return params, {**state, "peers": peers}

    def personal(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        """Yield a client's newest model, if that is what counts: it keeps its best."""
        for client in clients:
            row = turn.bank.read(client) if self.evaluate == "last" else None
            payload: Payload = {"model": row.part("model")} if row else {}
            yield Task(client, payload)

    def _log(
        self, client: int, others: list[int], losses: np.ndarray, turn: Turn
    ) -> None:
        for other, loss in zip(others, losses, strict=True):
            turn.log(
                "dac/peers.csv",
                {
                    "round": turn.round,
                    "client": client,
                    "peer": other,
                    "loss": float(loss),
                },
            )


def _peers(update: Update) -> list[int]:
    return [int(word) for word in str(update.asked.get("peers", "")).split()]
