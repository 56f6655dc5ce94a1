"""The inline engine: ServerApp and ClientApp in this one process, without Ray.

For a debugger and for tiny experiments. Results have the same bits as under Ray.
"""

from collections.abc import Iterable
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fedapp.config import Flat


class InlineGrid(Grid):
    """A grid whose nodes are contexts here; a client runs when its reply is pulled."""

    def __init__(self, client_app: object, num_nodes: int, config: Flat) -> None:
        self._client_app = client_app
        self._waiting: dict[str, Message] = {}
        # The numbers are arbitrary but must not equal partition ids: Flower's do not.
        self.contexts = {
            1_000_003 + node: Context(
                run_id=0,
                node_id=1_000_003 + node,
                node_config={"partition-id": node, "num-partitions": num_nodes},
                state=RecordDict(),
                run_config=dict(config),
            )
            for node in range(num_nodes)
        }

    def set_run(self, run: Run) -> None:
        """Take no notice: there is one run."""

    @property
    def run(self) -> Run:
        """There is no run record."""
        raise NotImplementedError("the inline engine keeps no run record")

    def create_message(self, *args: object, **kwargs: object) -> Message:
        """Refuse: Flower deprecates this; use ``Message``."""
        raise NotImplementedError("use Message(...)")

    def get_node_ids(self) -> Iterable[int]:
        """Return all nodes."""
        return list(self.contexts)

    def get_nodes(self) -> Iterable[object]:  # type: ignore[override]
        """Refuse: nothing here needs more than ids."""
        raise NotImplementedError("use get_node_ids()")

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Take messages; return their ids."""
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            self._waiting[message.metadata.message_id] = message
            ids.append(message.metadata.message_id)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Run the client of the first of these messages; return its reply."""
        for message_id in message_ids:
            message = self._waiting.pop(message_id, None)
            if message is not None:
                return [self._run_client(message)]
        return []

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Run every client in turn; return all replies."""
        ids = list(self.push_messages(messages))
        return [reply for i in ids for reply in self.pull_messages([i])]

    def _run_client(self, message: Message) -> Message:
        context = self.contexts[message.metadata.dst_node_id]
        try:
            return self._client_app(message, context)  # type: ignore[operator]
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            return Message(Error(code=0, reason=reason), reply_to=message)


def run_inline(config: Flat) -> None:
    """Run the app on a complete flat config, in this process.

    Raises whatever ends the run; the run folder's summary.json says it as well.
    """
    from fedapp.client_app import app as client_app
    from fedapp.server_app import app as server_app

    # Messages can be made inside a run only: this is one.
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    grid = InlineGrid(client_app, int(config["data.clients"]), config)
    context = Context(
        run_id=1,
        node_id=1,
        node_config={},
        state=RecordDict(),
        run_config=dict(config),
    )
    server_app(grid, context)
