"""How much disk and memory the chosen settings need: the formulas, nothing else.

M is the model's bytes, K the number of clients, N that of samples in the data set.
"""

from dataclasses import dataclass

MIB = 2**20
SERVER_BYTES = 1200 * 10**6
"""The server app's process and Flower's and Ray's: 535 + 630 MB were measured."""
WORKER_BYTES = 670 * 10**6
"""A worker without model and data: 540 MB on digits, 665 on MNIST with the CNN.

All measured as proportional set sizes, on Linux with 2 CPUs and the pinned versions.
"""
CLIENT_CACHE = 256 * MIB
"""What a worker keeps of clients' samples; ``ClientCache``'s default."""
IN_FLIGHT = 256 * MIB
"""Of messages under way; ``fedapp.post.IN_FLIGHT``."""


@dataclass(frozen=True)
class Plan:
    """What is to be run: ``used`` samples, in float32, are dealt to clients.

    ``pixels`` is of one image, all channels.
    """

    model: int
    pixels: int
    samples: int
    used: int
    clients: int
    workers: int
    cpus: int


def decoded_bytes(plan: Plan) -> int:
    """Return N (pixels + 17): uint8 pixels, int64 label and owner, one flag."""
    return plan.samples * (plan.pixels + 17)


def sure_bytes(plan: Plan) -> int:
    """Return M: the final model in the run folder, which every method leaves."""
    return plan.model


def most_bytes(plan: Plan) -> int:
    """Return M (4 K + 2): what a method can leave at most in the run folder.

    Two versions of each client's memory and of its row in the bank, none larger than
    a model; the final model and as much of other state.
    """
    return plan.model * (4 * plan.clients + 2)


def window_bytes(plan: Plan) -> int:
    """Return the bytes of messages under way, as ``RoundStrategy`` bounds them."""
    window = max(2 * plan.cpus, min(64, IN_FLIGHT // max(1, plan.model)))
    return min(window, plan.clients) * plan.model


def worker_bytes(plan: Plan) -> int:
    """Return the process, 5 M, and the samples kept, 4 bytes a pixel.

    The five: parameters, gradients, momentum, what came, what goes. Activations of
    larger networks than the CNN are left out.
    """
    return (
        WORKER_BYTES + 5 * plan.model + min(CLIENT_CACHE, 4 * plan.used * plan.pixels)
    )


def server_bytes(plan: Plan) -> int:
    """Return Flower's, Ray's and the server's processes, 4 M, and the window twice.

    The four: parameters old and new, a sum in float64. The window lies in Ray's object
    store and in the server's memory.
    """
    return SERVER_BYTES + 4 * plan.model + 2 * window_bytes(plan)


def memory_bytes(plan: Plan) -> int:
    """Return what all processes need together."""
    return server_bytes(plan) + plan.workers * worker_bytes(plan)
