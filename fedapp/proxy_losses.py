"""Losses that compare embeddings with one prototype or proxy per class.

All take features (n, d), labels (n,) and a ``Bank``; samples whose class is not known
add nothing, and the mean is over the others. No sample left, or too few classes to
compare: zero. Prototypes of a bank are constants unless they require gradients.
"""

import torch
from torch import Tensor
from torch.nn import functional

from fedapp.prototypes import Bank, unit


def _zero(features: Tensor) -> Tensor:
    return features.float().sum() * 0


def _compared(
    features: Tensor, labels: Tensor, bank: Bank
) -> tuple[Tensor, Tensor] | None:
    """Return cosines of valid samples with known classes, and labels among those."""
    valid = bank.known[labels]
    if not bool(valid.any()):
        return None
    place = bank.known.cumsum(0) - 1
    proxies = unit(bank.values[bank.known])
    # In 16 bits a cosine has two or three digits, and a scale of 32 makes much of them.
    with torch.autocast(features.device.type, enabled=False):
        cosines = unit(features[valid].float()) @ proxies.T
    return cosines, place[labels[valid]]


def alignment(
    features: Tensor, labels: Tensor, bank: Bank, *, reduction: str = "mean"
) -> Tensor:
    """Return the mean over samples of ``||z - P_y||^2``, by coordinate or in ``sum``.

    FedProto, equation 7, with the reference code's mean over the d coordinates.
    """
    valid = bank.known[labels]
    if not bool(valid.any()):
        return _zero(features)
    apart = features[valid].float() - bank.values[labels[valid]]
    squares = apart.square()
    each = squares.mean(1) if reduction == "mean" else squares.sum(1)
    return each.mean()


def cosine_softmax(
    features: Tensor, labels: Tensor, bank: Bank, *, temperature: float
) -> Tensor:
    """Return ``-log softmax_c(cos(z, P_c) / T)`` at the right class (FedSAP).

    Classes that are not known do not compete; with fewer than two there is nothing to
    separate.
    """
    found = _compared(features, labels, bank)
    if found is None or int(bank.known.sum()) < 2:
        return _zero(features)
    cosines, place = found
    return functional.cross_entropy(cosines / temperature, place)


def proxy_nca(
    features: Tensor,
    labels: Tensor,
    bank: Bank,
    *,
    scale: float,
    include_positive: bool,
) -> Tensor:
    """Return ProxyNCA (Movshovitz-Attias et al. 2017) with ``D = 2 - 2 cos``.

    ``include_positive`` leaves the right class in the denominator, as common libraries
    do: it is then a soft-max of cosines with temperature 1 / (2 scale).
    """
    found = _compared(features, labels, bank)
    if found is None or int(bank.known.sum()) < 2:
        return _zero(features)
    cosines, place = found
    logits = -scale * (2 - 2 * cosines)
    if include_positive:
        return functional.cross_entropy(logits, place)
    right = functional.one_hot(place, logits.shape[1]).bool()
    others = logits.masked_fill(right, -torch.inf)
    return (torch.logsumexp(others, dim=1) - logits[right]).mean()


def proxy_anchor(
    features: Tensor, labels: Tensor, bank: Bank, *, alpha: float, delta: float
) -> Tensor:
    """Return Proxy-Anchor (Kim et al. 2020, equation 4).

    The positive part is a mean over classes of the batch, the negative part over all
    known classes.
    """
    found = _compared(features, labels, bank)
    if found is None:
        return _zero(features)
    cosines, place = found
    right = functional.one_hot(place, cosines.shape[1]).bool()
    near = (-alpha * (cosines - delta)).masked_fill(~right, -torch.inf)
    far = (alpha * (cosines + delta)).masked_fill(right, -torch.inf)
    # log(1 + sum exp x) is logsumexp over x and a zero: alpha = 32 overflows otherwise.
    zero = cosines.new_zeros(1, cosines.shape[1])
    positive = torch.logsumexp(torch.cat([near, zero]), dim=0)
    negative = torch.logsumexp(torch.cat([far, zero]), dim=0)
    return positive.sum() / right.any(dim=0).sum() + negative.mean()
