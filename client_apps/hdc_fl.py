"""HDC-FL, client side: FedPer's training, and a copy of the head goes to the server."""

from dataclasses import dataclass

from client_apps.fedper import LocalFedPer
from fedapp.algorithm import LocalTask, Memory, Update


@dataclass(frozen=True)
class LocalHdcFl(LocalFedPer):
    """Train as FedPer does and report the head beside the encoder.

    What is evaluated is the received encoder, personal or shared, under the client's
    own head; both are put in a scratch model and forgotten (specification 23.2).
    """

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        update, memory = super().train(task, memory)
        sent = {**update.sent, "head": memory["head"]}
        return Update(sent, update.num_examples), memory
