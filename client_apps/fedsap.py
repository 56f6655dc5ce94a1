"""FedSAP, client side (Casado-Diez et al. 2026, arXiv 2606.02172)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn

from client_apps.fedproto import bank_of, own_model, prototypes, reported
from fedapp.algorithm import (
    LocalAlgorithm,
    LocalTask,
    Memory,
    Penalty,
    Predictor,
    Update,
    local_sgd,
    seeded,
)
from fedapp.embeddings import ClassStatistics, embedded, statistics
from fedapp.models import Classifier, load, state_of
from fedapp.params import Params, Payload, join, select
from fedapp.prototype_log import MEASURED
from fedapp.prototypes import Bank, as_logits, cosine_distances
from fedapp.proxies import FACTOR, ProxyHead, Scaled, View, initial_proxies
from fedapp.proxy_losses import alignment, cosine_softmax, proxy_anchor, proxy_nca
from fedapp.pseudo_labels import Thresholds
from fedapp.pseudo_training import Pseudo, find_pseudo, with_pseudo
from fedapp.terms import GradientProbe, Term, penalty_of

Source = Literal["bank", "learned", "private"]


@dataclass(frozen=True)
class LocalFedSAP(LocalAlgorithm):
    """SGD on cross-entropy, a scheduled alignment and a separation on the sphere.

    The weight of the alignment comes with the message. Separation and prediction
    compare directions with the global prototypes, which cost nothing more to send.
    """

    separation: Annotated[
        Literal["cosine-softmax", "proxy-nca", "proxy-anchor"],
        Field(description="the loss that keeps classes apart"),
    ]
    separation_weight: Annotated[float, Field(ge=0, description="its weight")]
    temperature: Annotated[float, Field(gt=0, description="of cosine-softmax")]
    nca_scale: Annotated[float, Field(gt=0, description="of proxy-nca")]
    nca_include_positive: Annotated[
        bool, Field(description="proxy-nca: the right class competes, too")
    ]
    anchor_alpha: Annotated[float, Field(gt=0, description="scale of proxy-anchor")]
    anchor_delta: Annotated[float, Field(ge=0, description="margin of proxy-anchor")]
    distance: Annotated[
        Literal["mean", "sum"],
        Field(description="alignment: squared distance by coordinate, or in sum"),
    ]
    embedding_scale: Annotated[
        float, Field(gt=0, description="what embeddings are multiplied by")
    ]
    quantile: Annotated[
        float, Field(ge=0, le=1, description="of distances of right labels: threshold")
    ]
    threshold: Annotated[
        float, Field(ge=0, le=2, description="of pseudo-labels = fixed")
    ]
    prototypes_from: Annotated[
        Literal["labelled", "accepted"],
        Field(description="accepted: pseudo-labelled samples count half in prototypes"),
    ]
    diagnostics: Annotated[
        bool, Field(description="report gradient norms and spread: 16 bytes a reply")
    ]
    proxies: Source
    share_encoder: bool
    pseudo_labels: Literal["auto", "none", "all", "fixed", "oracle"]

    def train(self, task: LocalTask, memory: Memory) -> tuple[Update, Memory]:
        bank = bank_of(task)
        load(task.model, start_of(task, memory))
        working = replace(task, model=self._view(task, memory))
        apart = self._separation(working, bank)
        pseudo = self._pseudo(working, bank, memory)
        terms = self._terms(task, bank, apart)
        penalty = penalty_of(terms)
        if pseudo is not None:
            penalty = with_pseudo(penalty, working, pseudo, apart)
        probe = GradientProbe(working.model.head, task.loss, terms)
        local_sgd(working, penalty=self._watched(probe, penalty))
        found = prototypes(working.model.encoder, task)
        sent = {
            **reported(self._with_accepted(found, working, pseudo)),
            **self._shared(working, found),
        }
        metrics: dict[str, float] = {}
        if self.diagnostics:
            metrics = probe.metrics(*MEASURED) | {"spread": found.spread}
        if pseudo is not None:
            metrics |= pseudo.metrics(diagnostics=self.diagnostics)
        after = self._remembered(working, task, pseudo, memory)
        return Update(sent, task.num_examples, metrics), after

    def predictors(
        self, task: LocalTask, memory: Memory
    ) -> Iterator[tuple[str, Predictor]]:
        """Yield the own classifier, then the class of the nearest prototype."""
        load(task.model, start_of(task, memory))
        encoder = self._encoder(task.model)
        yield "own", View(encoder, task.model.head)
        bank = bank_of(task)
        if bank.known.any():
            yield "nearest", partial(self._nearest, encoder, bank)

    def _nearest(self, encoder: nn.Module, bank: Bank, images: Tensor) -> Tensor:
        apart = cosine_distances(encoder(images).float(), bank)
        return as_logits(apart, temperature=self.temperature)

    def _encoder(self, model: Classifier) -> nn.Module:
        scale = self.embedding_scale
        return model.encoder if scale == 1 else Scaled(model.encoder, scale)

    def _view(self, task: LocalTask, memory: Memory) -> Classifier:
        """Return the model that trains: the task's own, as the options have it."""
        encoder, head = self._encoder(task.model), task.model.head
        if self.proxies == "bank":
            return View(encoder, head)
        if self.proxies == "learned":
            drawn = task.received["proxies"]["values"]
        else:
            generator = seeded(task.seed, task.client)
            first = initial_proxies(task.classes, head.in_features, generator)
            drawn = memory.get("proxies", {"values": first})["values"]
        return View(encoder, ProxyHead(head, drawn.to(head.weight.device)))

    def _separation(self, task: LocalTask, bank: Bank) -> Term:
        head = task.model.head

        def loss(features: Tensor, labels: Tensor) -> Tensor:
            proxies = head.bank if isinstance(head, ProxyHead) else bank
            return self._apart(features, labels, proxies)

        return Term("separation", self.separation_weight, loss)

    def _apart(self, features: Tensor, labels: Tensor, proxies: Bank) -> Tensor:
        if self.separation == "proxy-nca":
            return proxy_nca(
                features,
                labels,
                proxies,
                scale=self.nca_scale,
                include_positive=self.nca_include_positive,
            )
        if self.separation == "proxy-anchor":
            alpha, delta = self.anchor_alpha, self.anchor_delta
            return proxy_anchor(features, labels, proxies, alpha=alpha, delta=delta)
        return cosine_softmax(features, labels, proxies, temperature=self.temperature)

    def _terms(self, task: LocalTask, bank: Bank, apart: Term) -> list[Term]:
        pull = partial(alignment, bank=bank, reduction=self.distance)
        return [Term("alignment", float(task.scalars["lam"]), pull), apart]

    def _watched(self, probe: GradientProbe, penalty: Penalty | None) -> Penalty | None:
        return probe.watching(penalty) if self.diagnostics else penalty

    def _pseudo(self, task: LocalTask, bank: Bank, memory: Memory) -> Pseudo | None:
        if "pseudo-weight" not in task.scalars or task.unlabelled is None:
            return None
        kept = memory.get("thresholds")
        return find_pseudo(
            task,
            bank,
            rule=self.pseudo_labels,
            quantile=self.quantile,
            fixed=self.threshold,
            before=Thresholds.of_state(kept) if kept is not None else None,
        )

    def _with_accepted(
        self, found: ClassStatistics, task: LocalTask, pseudo: Pseudo | None
    ) -> ClassStatistics:
        if pseudo is None or self.prototypes_from == "labelled":
            return found
        more = statistics(
            embedded(task.model.encoder, pseudo.samples),
            classes=task.classes,
            width=found.sums.shape[1],
        )
        return found.plus(more, weight=0.5)

    def _shared(self, task: LocalTask, found: ClassStatistics) -> Payload:
        """Return what options send beside prototypes."""
        sent: dict[str, Params] = {}
        head = task.model.head
        if self.proxies == "learned" and isinstance(head, ProxyHead):
            values = (head.root * FACTOR).detach().cpu()
            sent["proxies"] = {"values": values}
            sent["proxy-counts"] = {"values": found.counts.float()}
        if self.share_encoder:
            encoder = task.model.encoder
            inner = encoder.encoder if isinstance(encoder, Scaled) else encoder
            sent["encoder"] = state_of(inner)
        return sent

    def _remembered(
        self, view: LocalTask, task: LocalTask, pseudo: Pseudo | None, memory: Memory
    ) -> Memory:
        kept: dict[str, Params] = {"model": state_of(task.model)}
        if self.proxies == "private" and isinstance(view.model.head, ProxyHead):
            kept["proxies"] = {"values": (view.model.head.root * FACTOR).detach().cpu()}
        if pseudo is not None and pseudo.own is not None:
            kept["thresholds"] = pseudo.own.state
        elif "thresholds" in memory:
            kept["thresholds"] = memory["thresholds"]
        return kept


def start_of(task: LocalTask, memory: Memory) -> Params:
    """Return where training starts: the own model, its encoder shared if one came."""
    own = own_model(task, memory)
    if "encoder" not in task.received:
        return own
    return join(encoder=task.received["encoder"], head=select(own, "head"))
