"""What the settings would run, in numbers."""

from fedapp.config import Settings
from fedapp.doctor.images import Look
from fedapp.doctor.needs import Plan
from fedapp.methods import network
from fedapp.models import state_of
from fedapp.params import num_bytes


def planned(settings: Settings, found: Look, *, workers: int, cpus: int) -> Plan:
    """Return sizes and counts of a run on the data that was found.

    Raises
    ------
    ValueError
        If the network cannot be built for such images.
    """
    data = settings.data
    model = network(settings, found.image, found.classes, seed=settings.seed)
    used = found.samples
    if data.samples_per_client:
        each = data.samples_per_client / (1 - data.test_fraction)
        used = min(used, round(data.clients * each))
    return Plan(
        model=num_bytes({"model": state_of(model)}),
        pixels=found.image.channels * found.image.height * found.image.width,
        samples=found.samples,
        used=used,
        clients=data.clients,
        workers=workers,
        cpus=cpus,
    )
