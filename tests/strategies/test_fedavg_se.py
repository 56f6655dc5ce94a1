import pytest

SETTINGS = {"rounds__fraction": 0.5, "rounds__count": 3}


@pytest.mark.parametrize(
    ("mode", "twin", "memories"),
    [("global", "fedavg", False), ("local", "fedper", True)],
)
def test_each_reading_is_bit_identical_to_its_twin(run, mode, twin, memories):
    se = run("fedavg-se", **SETTINGS, **{"fedavg-se__head-mode": mode})
    other = run(twin, **SETTINGS)
    assert se.bits() == other.bits()
    assert (se.path / "memory").exists() == memories


def test_the_two_readings_differ(run):
    first, second = (
        run("fedavg-se", **SETTINGS, **{"fedavg-se__head-mode": mode})
        for mode in ("global", "local")
    )
    assert first.rows("metrics.csv") != second.rows("metrics.csv")
