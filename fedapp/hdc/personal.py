"""Personal encoders from the bank, one at a time (specification 23.3 i, 23.5, 23.6).

All rows are read once for the prototypes; a client's own encoder is read again only if
it has a share. What has no weight is not read.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from fedapp.bank import Bank
from fedapp.hdc.bank_rows import own_encoder, prototypes_in
from fedapp.hdc.heads import Array
from fedapp.hdc.mixture import (
    from_second_moments,
    group_weights,
    mix_encoders,
    to_second_moments,
)
from fedapp.hdc.refresh import Groups
from fedapp.params import Params


@dataclass(frozen=True)
class Mixtures:
    """All that the personal encoders of one evaluation have in common.

    ``weights`` has those of the prototypes for every client with a personal encoder.
    ``shared`` stands for the own encoder of ``newcomers``, who have no row, and has the
    types of the result. With ``moments``, variances are mixed as second moments.
    """

    bank: Bank
    weights: Mapping[int, Array]
    newcomers: Set[int]
    prototypes: Sequence[Params | None]
    shared: Params
    mix: float
    moments: bool

    def encoder(self, client: int) -> Params | None:
        """Return a client's personal encoder, None if it has none."""
        if client not in self.weights:
            return None
        own: Params | None = None
        if self.mix < 1:
            late = client in self.newcomers
            own = self.shared if late else own_encoder(self.bank, client)
            if own is None:
                return None
            own = _mixable(own, moments=self.moments)
        mixed = mix_encoders(self.prototypes, self.weights[client], own, mix=self.mix)
        return from_second_moments(mixed, self.shared) if self.moments else mixed


def mixtures(
    bank: Bank,
    groups: Groups,
    late: Mapping[int, Array],
    shared: Params,
    *,
    mix: float,
    since: int,
    moments: bool,
) -> Mixtures | None:
    """Return what personal encoders are mixed from, None if no row counts.

    ``late`` has the memberships of clients that were not at the last refresh. ``since``
    is the oldest round of a row that enters prototypes; with a ``mix`` of 0 there are
    none to enter. Who was in a group and has no row any more has no personal encoder.
    """
    prototypes: Sequence[Params | None] = ()
    soft = np.concatenate([groups.weights, *(row[None] for row in late.values())])
    if mix > 0:
        prototypes, counts = prototypes_in(
            bank,
            groups.clients,
            groups.labels,
            groups=len(groups.ids),
            since=since,
            convert=lambda tree: _mixable(tree, moments=moments),
        )
        if not counts.any():
            return None
        soft = group_weights(soft, groups.labels, counts)
    else:
        soft = soft[:, :0]
    rounds = bank.rounds
    found = zip([*groups.clients, *late], soft, strict=True)
    weights = {c: row for c, row in found if c in late or c in rounds}
    newcomers = late.keys() - rounds.keys()
    return Mixtures(bank, weights, newcomers, prototypes, shared, mix, moments)


def _mixable(encoder: Params, *, moments: bool) -> Params:
    return to_second_moments(encoder) if moments else encoder
