"""What the server saw of the clients' heads, in words."""

from fedapp.config import defaults
from fedapp.hdc.privacy import epsilon_of, sigma_for
from fedapp.report.folder import HDC_FL, RunData

PLAIN = (
    "their encoders, the Gram matrix of each head and how far it had moved, none of "
    "which is hidden"
)


def revealed(run: RunData) -> str | None:
    """Return a few sentences for the page of a run of HDC-FL, None for others."""
    if run.settings.get("method") != HDC_FL:
        return None
    given = {**defaults(), **run.settings}
    if given["hdc-fl.exchange"] == "heads":
        return "The server saw the heads of all clients that trained, as they are."
    count, length = len(run.refreshes), int(given["hdc-fl.sketch-length"])
    what = f"{count} sketches of {length} numbers from each client"
    told = f"No head left its client. The server saw {PLAIN}, and at most {what}, "
    epsilon, delta = float(given["hdc-fl.epsilon"]), float(given["hdc-fl.delta"])
    if epsilon == 0:
        return told + "without noise."
    sigma = sigma_for(epsilon=epsilon, delta=delta)
    told += f"with noise of deviation {sigma:.3g} in each number. "
    if count == 0:
        return told
    total = epsilon_of(sigma, delta=delta, releases=count)
    return told + (
        f"By itself a sketch is ({epsilon:g}, {delta:g})-differentially private, "
        f"{count} of one client together are ({total:.4g}, {delta:g})-private; that "
        "is said of sketches alone, not of the rest. In a simulation the noise "
        "follows from the seed and hides nothing from those who know it."
    )
