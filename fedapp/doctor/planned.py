"""What the settings would run, in numbers."""

from fedapp.config import Settings
from fedapp.doctor.images import Look
from fedapp.doctor.needs import Plan
from fedapp.methods import network
from fedapp.model_mix import names_in
from fedapp.models import state_of
from fedapp.params import num_bytes


def planned(settings: Settings, found: Look, *, workers: int, cpus: int) -> Plan:
    """Return sizes and counts of a run on the data that was found.

    Raises
    ------
    ValueError
        If a network cannot be built for such images.
    """
    data, shape = settings.data, (found.image, found.classes)
    largest = max(
        num_bytes({"": state_of(network(settings, *shape, seed=0, name=name))})
        for name in names_in(settings.model.mix) or [settings.model.name]
    )
    used = found.samples
    if data.samples_per_client:
        each = data.samples_per_client / (1 - data.test_fraction)
        used = min(used, round(data.clients * each))
    return Plan(
        model=largest,
        pixels=found.image.channels * found.image.height * found.image.width,
        samples=found.samples,
        used=used,
        clients=data.clients,
        workers=workers,
        cpus=cpus,
    )
