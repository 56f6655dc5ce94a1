"""The hooks of a method's server side, in the order in which a round calls them.

They take values and return values, and never see Flower; docs/design.md has the
picture.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fedapp.algorithm import Update
from fedapp.params import Params, Payload
from fedapp.turn import Expected, State, Task, Turn, specs_of


class Hooks(ABC):
    """What a method may decide; all but ``update`` have a default."""

    @classmethod
    def conflicts(cls, table: Mapping[str, object]) -> list[str]:
        """Return a line for each of the method's settings that another rules out."""
        return []

    def init(self, initial: Params) -> tuple[Params, State]:
        """Return what the server starts from, given the common initial model."""
        return initial, {}

    def phases(self, turn: Turn) -> Sequence[str]:
        """Return the names of this round's phases; each sees the state so far."""
        return ("train",)

    def trains(self, turn: Turn) -> bool:
        """Return whether a reply in this phase makes its client one that trained.

        A round goes on without the replies of a phase that trains nobody, unless
        ``rounds.min-replies`` asks for every one.
        """
        return True

    def participants(self, state: State, turn: Turn) -> Sequence[int]:
        """Return who takes part in a phase: by default the shared sample S_t."""
        return turn.sampled

    def broadcast(self, params: Params, state: State, turn: Turn) -> Payload:
        """Return what every participant receives."""
        return {"model": params}

    def tasks(self, params: Params, state: State, turn: Turn) -> Iterator[Task]:
        """Yield the messages of a phase, in client order or another that is fixed.

        Several to one client are allowed.

        A client's messages of one phase all start from the same memory.
        """
        payload = self.broadcast(params, state, turn)
        for client in sorted(self.participants(state, turn)):
            yield Task(client, payload)

    def expects(self, params: Params, state: State, turn: Turn) -> Expected:
        """Return what a reply must hold: by default what ``broadcast`` sends."""
        sent = self.broadcast(params, state, turn)
        return {part: specs_of(tree) for part, tree in sent.items()}

    def check(self, update: Update, state: State, turn: Turn) -> None:  # noqa: B027
        """Raise ValueError for a reply whose values cannot be; it is dropped."""

    @abstractmethod
    def update(
        self, params: Params, state: State, updates: Iterable[Update], turn: Turn
    ) -> tuple[Params, State]:
        """Return the new model and state from valid replies.

        ``updates`` yields each reply once, in the order of ``tasks``, which is client
        order by default, one in memory at a time.
        """

    def personal(
        self, params: Params, state: State, clients: Iterable[int], turn: Turn
    ) -> Iterator[Task]:
        """Yield what each of ``clients`` receives for evaluation and deployment.

        The round's updates are in: ``turn.bank`` has them. By default the broadcast.
        """
        payload = self.broadcast(params, state, turn)
        for client in clients:
            yield Task(client, payload)
