"""Personal encoders from the bank, one at a time (specification 23.3 i, 23.6).

All rows are read once for the prototypes; a client's own encoder is read again only if
it has a share. What has no weight is not read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedapp.bank import Bank
from fedapp.hdc.bank_rows import own_encoder, prototypes_in
from fedapp.hdc.heads import Array
from fedapp.hdc.mixture import group_weights, mix_encoders
from fedapp.hdc.refresh import Groups
from fedapp.params import Params

Convert = Callable[[Params], Params]
"""Makes an encoder one that can be mixed."""


@dataclass(frozen=True)
class Mixtures:
    """All that the personal encoders of one evaluation have in common.

    ``place`` has the row in ``weights`` (n x G) of every client with a personal
    encoder.
    """

    bank: Bank
    place: Mapping[int, int]
    prototypes: Sequence[Params | None]
    weights: Array
    mix: float
    convert: Convert

    def encoder(self, client: int) -> Params | None:
        """Return a client's personal encoder, None if it has none."""
        index = self.place.get(client)
        if index is None:
            return None
        own = None
        if self.mix < 1:
            found = own_encoder(self.bank, client)
            if found is None:
                return None
            own = self.convert(found)
        return mix_encoders(self.prototypes, self.weights[index], own, mix=self.mix)


def mixtures(
    bank: Bank, groups: Groups, *, mix: float, since: int, convert: Convert
) -> Mixtures:
    """Return what personal encoders are mixed from, given the groups.

    ``since`` is the oldest round of a row that enters prototypes. Without a prototype
    nobody has a personal encoder, unless ``mix`` is 0 and none is needed.
    """
    prototypes: Sequence[Params | None] = ()
    weights = np.zeros((len(groups.clients), 0))
    nobody = False
    if mix > 0:
        prototypes, counts = prototypes_in(
            bank,
            groups.clients,
            groups.labels,
            groups=len(groups.ids),
            since=since,
            convert=convert,
        )
        nobody = not counts.any()
        if not nobody:
            weights = group_weights(groups.weights, groups.labels, counts)
    rounds = {} if nobody else bank.rounds
    place = {c: index for index, c in enumerate(groups.clients) if c in rounds}
    return Mixtures(bank, place, prototypes, weights, mix, convert)
