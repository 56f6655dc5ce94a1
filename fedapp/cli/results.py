"""The results of a run, as tables."""

from collections.abc import Mapping
from typing import Any

from fedapp.cli.console import out, per_cent, print_table

SHOWN = 5
"""Failed replies shown one by one."""


def show_summary(summary: Mapping[str, Any], *, per_client: bool) -> None:
    """Print the results of a run."""
    accuracy = summary.get("accuracy") or {}
    names = {
        "mean": "mean",
        "worst": "worst client",
        "bottom20": "bottom 20 %",
        "gap": "gap",
        "weighted_mean": "weighted mean",
    }
    if accuracy.get("mean") is not None:
        row = [per_cent(accuracy.get(name)) for name in names]
        print_table("Test accuracy", list(names.values()), [row], right=True)
    clients = summary.get("per_client") or []
    if per_client and clients:
        head = ["client", "test samples", "accuracy", "latent group", "trained"]
        rows = [
            [
                str(c.get("name", c["client"])),
                str(c["examples"]),
                per_cent(c["accuracy"]),
                "-" if c.get("latent_group") is None else str(c["latent_group"]),
                "yes" if c.get("trained") else "no",
            ]
            for c in clients
        ]
        print_table("Clients", head, rows, right=True)
    failures = summary.get("failures") or []
    out.print(f"failed replies: {len(failures)}")
    # A run that failed has said them already.
    shown = failures[:SHOWN] if summary.get("status") == "completed" else []
    for failure in shown:
        where = f"round {failure['round']}, phase {failure['phase']}"
        first = str(failure["cause"]).partition("\n")[0]
        out.print(f"  {where}, client {failure['client']}: {first}", soft_wrap=True)
    if len(failures) > len(shown) > 0:
        out.print(f"  and {len(failures) - SHOWN} more: summary.json has them all")
