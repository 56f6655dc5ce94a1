"""FedMPS: supervised contrast against prototypes, distillation of soft labels."""

import torch
from torch import Tensor
from torch.nn import functional

from fedapp.prototypes import Bank

BASE = 0.07
"""The temperature that the loss of SupCon's code is scaled by."""


def supervised_contrast(
    vectors: Tensor, labels: Tensor, *, temperature: float
) -> Tensor:
    """Return SupCon (Khosla et al. 2020, equation 2) over unit vectors (n, d).

    The mean is over anchors that have another vector of their class, and is multiplied
    by temperature / 0.07 as in its code.
    """
    with torch.autocast(vectors.device.type, enabled=False):
        logits = vectors @ vectors.T / temperature
    itself = torch.eye(len(vectors), dtype=torch.bool, device=vectors.device)
    same = (labels[:, None] == labels) & ~itself
    others = logits.masked_fill(itself, -torch.inf)
    chances = logits - torch.logsumexp(others, dim=1, keepdim=True)
    number = same.sum(1)
    anchors = number > 0
    if not bool(anchors.any()):
        return vectors.sum() * 0
    sums = torch.where(same, chances, 0.0).sum(1)
    return -(sums[anchors] / number[anchors]).mean() * (temperature / BASE)


def contrast_with_bank(
    features: Tensor, labels: Tensor, bank: Bank, *, temperature: float
) -> Tensor:
    """Return the contrast of normalised features and their global prototypes.

    Where the prototype is not known, the sample's own feature stands for it; neither
    has a gradient.
    """
    rows = functional.normalize(features.float(), dim=1, eps=1e-12)
    known = bank.known[labels]
    theirs = torch.where(known[:, None], bank.values[labels], rows.detach())
    return supervised_contrast(
        torch.cat([rows, theirs]), labels.repeat(2), temperature=temperature
    )


def distillation(
    logits: Tensor, labels: Tensor, soft: Bank, *, temperature: float
) -> Tensor:
    """Return ``KL(softmax(q_y / T) || softmax(logits / T))``, a mean over samples.

    ``soft`` has logits q (C, C) of each class; samples whose class has none are left
    out.
    """
    valid = soft.known[labels]
    if not bool(valid.any()):
        return logits.float().sum() * 0
    student = functional.log_softmax(logits[valid].float() / temperature, dim=1)
    teacher = functional.log_softmax(soft.values[labels[valid]] / temperature, dim=1)
    return functional.kl_div(student, teacher, reduction="batchmean", log_target=True)
