"""A sample of embeddings, by the clients' own models, where a simulation left them.

Nothing of this travels: models lie in ``memory/`` of the run folder and images in the
cache of the app, both on the machine of the simulation. On devices there is no sample.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from fedapp.config import Scalar
from fedapp.data.clients import Manifest, client_samples
from fedapp.data.images import open_cached
from fedapp.data.samples import Samples
from fedapp.model_mix import dealt
from fedapp.models import build, load
from fedapp.report.prototype_parts import Array
from fedapp.versions import Versions, owner_name

CLIENTS = 8
"""Most clients whose embeddings are taken."""
SAMPLES = 40
"""Most test samples of one client."""


class Sample(NamedTuple):
    """Embeddings (n, d) of test samples, and the class of each."""

    rows: Array
    classes: tuple[int, ...]

    @property
    def silhouette(self) -> float | None:
        """How well classes are apart, by cosine: 1 fully, 0 not at all; or None."""
        from sklearn.metrics import silhouette_score

        if not 1 < len(set(self.classes)) < len(self.classes):
            return None
        return float(silhouette_score(self.rows, self.classes, metric="cosine"))


def sample_embeddings(
    path: Path,
    manifest: Manifest,
    settings: dict[str, Scalar],
    *,
    cache: Path,
    rounds: int,
) -> Sample | None:
    """Return embeddings of some test samples of some clients; None without models.

    Raises
    ------
    ValueError, OSError
        If the decoded data set is not in ``cache`` any more, or a file is broken.
    """
    versions = Versions(path / "memory")
    images = open_cached(cache, manifest.key)
    # Its prototypes are of scaled embeddings.
    scaled = settings.get("method") == "fedsap"
    scale = float(settings["fedsap.embedding-scale"]) if scaled else 1.0
    rows: list[Array] = []
    classes: list[int] = []
    step = -(-len(manifest.clients) // CLIENTS)
    for client in range(0, len(manifest.clients), step):
        file = versions.latest(owner_name(client), before=(rounds + 1, 0))
        state = file.payload().get("model") if file is not None else None
        if state is None:
            continue
        name, mix = str(settings["model.name"]), str(settings.get("model.mix", ""))
        model = build(
            dealt(client, name=name, mix=mix),
            manifest.image,
            manifest.classes,
            seed=0,
            projection=int(settings.get("model.projection", 0)),
        )
        load(model, state)
        test = client_samples(images, manifest, client).test
        rows.append(scale * _embedded(model.encoder, test))
        classes += test.labels[:SAMPLES].tolist()
    return Sample(np.concatenate(rows), tuple(classes)) if rows else None


@torch.no_grad()
def _embedded(encoder: nn.Module, samples: Samples) -> Array:
    encoder.eval()
    images, _ = samples.batch(slice(0, SAMPLES))
    return encoder(images).double().numpy()
