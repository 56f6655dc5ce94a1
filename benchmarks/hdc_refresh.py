"""What a refresh of HDC-FL costs the server, from 20 clients to 20,000.

Synthetic heads (10 x 512) and encoders (100,000 numbers) with four planted groups are
written to a bank; then the shipped code refreshes and forms a personal encoder. The
bank's pages are dropped from the page cache before each cold figure, file by file, so
that no rights are needed. Anonymous memory is sampled every 20 ms. At last 100,000
clients with heads of 10 x 64 are grouped without a bank. Linux only: it reads /proc.

    python benchmarks/hdc_refresh.py [--clients 20 200 2000 20000] [--folder DIR]
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fedapp.bank import Bank
from fedapp.config import build, defaults
from fedapp.hdc.bank_rows import bank_heads
from fedapp.hdc.blocks import Descriptors
from fedapp.hdc.described import from_heads
from fedapp.hdc.finding import find_groups
from fedapp.hdc.head_store import Heads
from fedapp.hdc.heads import gram, principal_directions
from fedapp.hdc.refresh import refresh
from fedapp.hdc.refresh_state import groups_of
from fedapp.hdc.stability import Gate, Thresholds
from fedapp.params import Params
from fedapp.turn import State, Turn
from strategies.hdc_fl import HdcFl

ENCODER = 100_000
HEAD = (10, 512)
GROUPS = 4
NOISE = 2.0
"""Of a head's numbers, against the 1.0 of its group's."""

SPARE = 2**30
"""Bytes to leave free on the disk."""

CLIENTS = (20, 200, 2_000, 20_000)
SMALL = (100_000, (10, 64))

OPTIONS = {
    "max_groups": 8,
    "min_silhouette": 0.05,
    "temperature": 0.1,
    "seed": 42,
    "previous": {},
}


class Peak:
    """The largest anonymous memory of this process while the block runs, in MiB."""

    def __enter__(self) -> "Peak":
        self.anonymous = self.file = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            status = Path("/proc/self/status").read_text()
            for name in ("anonymous", "file"):
                field = "RssAnon" if name == "anonymous" else "RssFile"
                found = re.search(rf"{field}:\s+(\d+)", status)
                assert found is not None
                size = int(found[1]) / 1024
                setattr(self, name, max(getattr(self, name), size))


def timed(what: Callable[[], object]) -> float:
    """Return the seconds that ``what`` takes."""
    started = time.perf_counter()
    what()
    return time.perf_counter() - started


def planted(clients: int) -> np.ndarray:
    """Return the group of each client."""
    return np.random.default_rng(1).permutation(np.arange(clients) % GROUPS)


def heads(groups: np.ndarray, shape: tuple[int, int]) -> Iterator[np.ndarray]:
    """Yield one head per client: a common start, its group's move, its own."""
    rng = np.random.default_rng(2)
    centres = rng.standard_normal((GROUPS, *shape), dtype=np.float32)
    for group in groups:
        own = rng.standard_normal(shape, dtype=np.float32)
        yield 0.1 * (centres[group] + np.float32(NOISE) * own)


def fill(bank: Bank, groups: np.ndarray) -> None:
    """Write a row for every client, in round 1."""
    rng = np.random.default_rng(3)
    for client, head in enumerate(heads(groups, HEAD)):
        encoder = torch.from_numpy(rng.standard_normal(ENCODER, dtype=np.float32))
        payload = {
            "encoder": {"w": encoder.view(100, -1)},
            "head": {"weight": torch.from_numpy(head), "bias": torch.zeros(HEAD[0])},
        }
        bank.write(client, payload, num_examples=1 + client % 7, round=1)
    bank.commit(1)


def files(folder: Path) -> list[Path]:
    """Return the files of the bank, in the order of clients."""
    return sorted(folder.glob("*/*.safetensors"))


def forget(paths: Sequence[Path]) -> None:
    """Drop the files from the page cache."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def read(paths: Sequence[Path]) -> None:
    """Read every file whole, one after another, into the same memory."""
    memory = bytearray(max(path.stat().st_size for path in paths))
    for path in paths:
        with path.open("rb", buffering=0) as stream:
            stream.readinto(memory)


@dataclass(frozen=True)
class Server:
    """HDC-FL and its bank after one round, as the strategy would hold them."""

    rule: HdcFl
    turn: Turn
    params: Params
    start: State

    def refresh(self) -> State:
        """Return the state after a refresh."""
        return self.rule._after_training(self.start, self.turn)

    def first_personal(self, state: State) -> None:
        """Form all prototypes and the personal encoder of one client."""
        evaluation = replace(self.turn, phase="evaluate")
        (task,) = self.rule.personal(self.params, state, [0], evaluation)
        assert task.scalars["personalised"]


def server(bank: Bank, clients: int) -> Server:
    """Return HDC-FL with its default settings, always active."""
    prefix = "hdc-fl."
    table = {
        name.removeprefix(prefix).replace("-", "_"): value
        for name, value in defaults().items()
        if name.startswith(prefix)
    }
    rule = build(HdcFl, {**table, "activation": "always"})
    start = {"initial-head": {"weight": torch.full(HEAD, 0.01)}}
    everyone = tuple(range(clients))
    turn = Turn(
        round=1,
        rounds=2,
        phase="train",
        step=0,
        num_clients=clients,
        sampled=everyone,
        seed=42,
        bank=bank,
    )
    return Server(rule, turn, {"w": torch.zeros(100, ENCODER // 100)}, start)


def parts(rows: Heads) -> dict[str, float]:
    """Return the seconds of the parts of a refresh, heads being in memory.

    Clustering goes over the descriptors several times; once is what it costs apart.
    """
    matrix = gram(rows.each())
    directions = principal_directions(matrix, energy=0.8, rank=0).directions
    described = Descriptors(rows, directions)
    return {
        "gram": timed(lambda: gram(rows.each())),
        "descriptors": timed(lambda: list(map(len, described.blocks()))),
        "clustering": timed(lambda: find_groups(described, **OPTIONS)),
    }


def ari(state: State, groups: np.ndarray) -> float:
    """Return how well the groups found match those planted."""
    found = groups_of(state)
    assert found is not None
    return float(adjusted_rand_score(groups[list(found.clients)], found.labels))


def measure(clients: int, folder: Path) -> str:
    """Return a line of the table for one number of clients."""
    groups = planted(clients)
    bank = Bank(folder)
    written = timed(lambda: fill(bank, groups))
    paths = files(folder)
    hdc = server(bank, clients)
    forget(paths)
    cold, warm = timed(lambda: read(paths)), timed(lambda: read(paths))
    forget(paths)
    with Peak() as peak:
        started, worked = time.perf_counter(), time.process_time()
        state = hdc.refresh()
        refreshed = time.perf_counter()
        hdc.first_personal(state)
        ended, worked = time.perf_counter(), time.process_time() - worked
    again = timed(lambda: hdc.first_personal(hdc.refresh()))
    each = parts(bank_heads(bank))
    size = sum(path.stat().st_size for path in paths) / 1e9
    cells = [
        f"{clients:,}",
        f"{size:.2f}",
        f"{cold:.2f} / {warm:.2f}",
        f"{ended - started:.2f} / {again:.2f}",
        f"{(ended - started) / cold:.2f}",
        f"{refreshed - started:.2f} + {ended - refreshed:.2f}",
        f"{worked:.2f}",
        " / ".join(f"{seconds:.2f}" for seconds in each.values()),
        f"{peak.anonymous:,.0f} ({peak.file:,.0f})",
        f"{ari(state, groups):.3f}",
        f"{written:.0f}",
    ]
    return row(cells)


def measure_small() -> str:
    """Group 100,000 clients with heads of 10 x 64, without a bank."""
    clients, shape = SMALL
    groups = planted(clients)
    kept = np.stack(list(heads(groups, shape)))

    def stored(wanted: Sequence[int]) -> Iterator[tuple[int, np.ndarray]]:
        return ((client, kept[client]) for client in wanted)

    with Peak() as peak:
        started = time.perf_counter()
        rows = Heads(stored, range(clients))
        found = refresh(
            rows.clients,
            from_heads(rows, np.full(shape, 0.01), energy=0.8, rank=0),
            before=None,
            previous={},
            next_id=0,
            gate=Gate(),
            max_groups=8,
            temperature=0.1,
            thresholds=Thresholds(0.05, 0.8, 0.2, 0.8, 2, True),
            seed=42,
        )
        seconds = time.perf_counter() - started
    match = adjusted_rand_score(groups, found.groups.labels)
    return (
        f"{clients:,} clients, heads of {shape[0]} x {shape[1]}, {found.method}: "
        f"{seconds:.1f} s, {peak.anonymous:,.0f} MiB anonymous, ARI {match:.3f}"
    )


def row(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


TITLES = (
    "clients",
    "GB",
    "read, cold / warm",
    "refresh and first personal encoder, cold / warm",
    "cold to cold",
    "of it refresh + prototypes",
    "CPU seconds",
    "Gram / descriptors / clustering",
    "MiB anonymous (mapped)",
    "ARI",
    "written in",
)


def check_room(folder: Path, clients: int) -> None:
    """Stop if the bank would not fit on the disk."""
    size = clients * (4 * (ENCODER + HEAD[0] * (HEAD[1] + 1)) + 1024)
    free = shutil.disk_usage(folder).free
    if free < size + SPARE:
        sys.exit(
            f"{folder} has {free / 1e9:.1f} GB free; {clients:,} clients need "
            f"{(size + SPARE) / 1e9:.1f} GB: give another --folder or fewer --clients"
        )


def main() -> None:
    """Measure each number of clients and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="*", default=list(CLIENTS))
    parser.add_argument("--folder", type=Path, help="where to write the bank")
    words = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=words.folder, prefix="hdc-bank-") as made:
        check_room(Path(made), max(words.clients, default=0))
        print(row(TITLES), row(["---"] * len(TITLES)), sep="\n", flush=True)
        with threadpool_limits(limits=1):
            for clients in words.clients:
                folder = Path(made) / "bank"
                print(measure(clients, folder), flush=True)
                shutil.rmtree(folder)
            print(measure_small())


if __name__ == "__main__":
    main()
