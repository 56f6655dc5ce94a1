"""Who is there: nodes are asked which client they are.

Node ids change with every run and every restart, so nothing else knows them.
"""

import time
from dataclasses import dataclass, field
from logging import WARNING, getLogger

from flwr.app import Message, MessageType
from flwr.serverapp import Grid

from fedapp import records
from fedapp.devices import OwnData
from fedapp.exchange import Alive, RunStopped, exchange, report_of
from fedapp.memory import Who
from fedapp.turn import Task

log = getLogger("flwr")

QUERY_SECONDS = 60.0
"""How long a node may take to say who it is: a new worker imports for many seconds."""


@dataclass
class Clients:
    """The clients that are there, and what they said of themselves.

    ``names`` are ids by client number, ``nodes`` has the node of each that is there.
    ``announced`` is the number of clients a simulation says it has. ``data`` has, by
    id, what devices said of their own data and ``models`` the models of their own; one
    that comes back with others is left out. ``strangers`` has the nodes that cannot
    take part, and why not.
    """

    simulated: bool = True
    announced: int = 0
    names: list[str] = field(default_factory=list)
    nodes: dict[int, int] = field(default_factory=dict)
    data: dict[str, OwnData] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    strangers: dict[int, str] = field(default_factory=dict)
    _known: dict[int, Who] = field(default_factory=dict)
    _heard: set[int] = field(default_factory=set)

    def refresh(
        self, grid: Grid, *, alive: Alive, seconds: float = QUERY_SECONDS
    ) -> None:
        """Learn of nodes that came or went since the last time."""
        present = set(grid.get_node_ids())
        for known in (self._known, self.strangers):
            for node in known.keys() - present:
                del known[node]
        self._heard &= present
        strangers = present - self._known.keys()
        if self.names:
            # What they said once will do: each question costs a phase its seconds.
            strangers -= self._heard
        if strangers:
            self._ask(grid, sorted(strangers), seconds, alive)
        if not self.names:
            return
        number = {name: index for index, name in enumerate(self.names)}
        self.nodes = {
            number[who.name]: node
            for node, who in self._known.items()
            if who.name in number
        }

    def await_all(
        self,
        grid: Grid,
        count: int,
        *,
        seconds: float,
        alive: Alive,
    ) -> None:
        """Wait until ``count`` clients are there (0: at least one, then who is there).

        Raises
        ------
        RunStopped
            If they do not come in time, are more, or two have the same id.
        """
        deadline = time.monotonic() + seconds
        while True:
            self.refresh(grid, alive=alive)
            if self._twice():
                # One of the two may be a node that is gone: it will not answer again.
                for node in [
                    n for n, w in self._known.items() if w.name in self._twice()
                ]:
                    del self._known[node]
                self.refresh(grid, alive=alive)
            self._refuse_confusion()
            found = sorted((who.name for who in self._known.values()), key=_natural)
            if count > 0 and max(len(found), self.announced) > count:
                break
            if self.simulated and 0 < self.announced < count:
                break
            if found and len(found) >= count:
                self.names = found
                self.refresh(grid, alive=alive)
                return
            if time.monotonic() > deadline:
                break
            alive()
            time.sleep(0.1)
        there = max(len(found), self.announced)
        raise RunStopped(
            f"{there} clients are there, but data.clients = {count}"
            + self._advice(count, there)
            + (f"\n  there: {', '.join(found)}" if 0 < len(found) <= 20 else "")
            + "".join(f"\n  node {n}: {why}" for n, why in self.strangers.items())
        )

    def await_back(self, grid: Grid, *, seconds: float, alive: Alive) -> None:
        """Wait until all clients are there again, at most ``seconds``."""
        deadline = time.monotonic() + seconds
        self.refresh(grid, alive=alive)
        while len(self.nodes) < len(self.names) and time.monotonic() < deadline:
            alive()
            time.sleep(0.5)
            self.refresh(grid, alive=alive)

    def _twice(self) -> set[str]:
        found = [who.name for who in self._known.values()]
        return {name for name in found if found.count(name) > 1}

    def _refuse_confusion(self) -> None:
        """Raise RunStopped if an id is taken twice or nodes are of two kinds."""
        for name in sorted(self._twice()):
            nodes = [n for n, who in self._known.items() if who.name == name]
            raise RunStopped(
                f"two nodes say they are client {name!r}: {nodes[0]} and {nodes[1]}; "
                "ids are unique, so give one of them another client-id"
            )
        kinds = {who.simulated: who.name for who in self._known.values()}
        if len(kinds) == 2:
            raise RunStopped(
                f"{kinds[False]!r} is a device, but node {kinds[True]!r} has neither "
                "client-id nor data-path in its node config (is it set up for another "
                "app?): give it both, or stop it"
            )

    def _advice(self, count: int, there: int) -> str:
        if self.simulated:
            start = "" if self._heard else "start SuperNodes, or in a simulation "
            return (
                f': {start}with flwr run, add --federation-config "num-supernodes='
                f'{count} client-resources-num-cpus=1" (fedapp run does that), or '
                "change data.clients"
            )
        if there > count:
            return ": stop the SuperNodes that are too many, or change data.clients"
        return (
            ": start more SuperNodes, change data.clients, or raise rounds.wait-seconds"
        )

    def _ask(self, grid: Grid, nodes: list[int], seconds: float, alive: Alive) -> None:
        asks = (
            (
                Task(-1, {}),
                Message(records.request({}, {}, {}), node, MessageType.QUERY),
            )
            for node in nodes
        )
        answers = exchange(grid, asks, window=64, seconds=seconds, alive=alive)
        for node, (_, answer) in zip(nodes, answers, strict=True):
            try:
                who = self._who(node, answer)
            except ValueError as error:
                if self.strangers.get(node) != str(error):
                    log.log(WARNING, "node %s is left out: %s", node, error)
                self.strangers[node] = str(error)
                continue
            self.strangers.pop(node, None)
            self._known[node] = who
            if who.data is not None:
                self.data[who.name] = who.data
                self.models[who.name] = who.model

    def _who(self, node: int, answer: Message | None) -> Who:
        who = _who(answer)
        self._heard.add(node)
        self.simulated, self.announced = who.simulated, who.clients
        if who.problem:
            raise ValueError(
                f"client {who.name!r}: {who.problem}" if who.name else who.problem
            )
        if self.names and who.data != self.data.get(who.name, who.data):
            raise ValueError(
                f"client {who.name!r} is back with other data: {who.data} instead of "
                f"{self.data[who.name]}"
            )
        if self.names and who.model != self.models.get(who.name, who.model):
            raise ValueError(
                f"client {who.name!r} is back with another model: "
                f"{who.model or 'the common one'} instead of "
                f"{self.models[who.name] or 'the common one'}"
            )
        return who


def _who(answer: Message | None) -> Who:
    if answer is None:
        raise ValueError("it does not answer")
    if not answer.has_content():
        raise ValueError(report_of(answer.error.reason))
    return records.read_who(answer.content)


def _natural(name: str) -> tuple[int, int, str]:
    return (0, int(name), name) if name.isdecimal() else (1, 0, name)
