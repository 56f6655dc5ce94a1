from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from client_apps.sgd import LocalSGD
from fedapp import methods
from fedapp.config import SettingsError, defaults
from fedapp.methods import (
    GROUP,
    METHODS,
    Method,
    check_for_simulation,
    check_settings,
    settings_of,
    table,
)
from strategies.fedavg import FedAvg


class Prox(BaseModel):
    """Settings of the plug-in below."""

    model_config = ConfigDict(extra="forbid")

    prox_weight: float
    steps: int = 3


MINE = Method(FedAvg, LocalSGD, "a method of another package", plugin=Prox)


@dataclass
class Point:
    """An installed entry point."""

    name: str
    thing: object
    value: str = "their.module:METHOD"
    dist: Any = None

    def load(self):
        if isinstance(self.thing, Exception):
            raise self.thing
        return self.thing


@pytest.fixture
def installed(monkeypatch):
    """Install entry points for the time of a test."""

    def install(*points):
        found = {GROUP: points}
        monkeypatch.setattr(methods, "entry_points", lambda group: found.get(group, ()))
        table.cache_clear()

    yield install
    monkeypatch.undo()
    table.cache_clear()


def problems(**changes):
    changed = {name.replace("__", "."): value for name, value in changes.items()}
    with pytest.raises(SettingsError) as caught:
        check_settings(defaults() | changed)
    return str(caught.value).splitlines()


def plugin(text, name="mine"):
    flat = defaults() | {"method": name, "plugin.settings": text}
    return check_settings(flat)


def plugin_problems(text, name="mine"):
    return problems(method=name, plugin__settings=text)


def test_an_unknown_method_is_answered_with_the_closest():
    known = "method = 'fedavgg': there is no such method; did you mean 'fedavg'?"
    assert problems(method="fedavgg") == [known]
    lost = "method = 'zzz': there is no such method; see: fedapp methods"
    assert problems(method="zzz") == [lost]


def test_unknown_data_model_and_shift_are_reported_together():
    data, model, shift = problems(
        data__name="digts", model__name="zzz", data__shift="rotatoin"
    )
    assert data.startswith("data.name = 'digts': expected one of digits, ")
    assert data.endswith("; did you mean 'digits'?")
    assert model.startswith("model.name = 'zzz': expected one of mlp, ")
    assert model.endswith("; see: fedapp settings")
    assert shift.startswith("data.shift = 'rotatoin'; use 'none' or ")


@pytest.mark.parametrize(
    ("dist", "package"),
    [(None, "their.module:METHOD"), (SimpleNamespace(name="theirs"), "theirs")],
)
def test_a_package_that_cannot_be_loaded_is_named(installed, dist, package):
    installed(Point("mine", ModuleNotFoundError("No module named 'x'"), dist=dist))
    with pytest.raises(SettingsError) as caught:
        table()
    assert str(caught.value) == (
        f"the method 'mine' of package '{package}' cannot be loaded "
        "(ModuleNotFoundError: No module named 'x'): repair or uninstall the package"
    )


def test_data_of_ones_own_needs_a_path():
    custom = check_settings(defaults() | {"data.name": "custom"})
    with pytest.raises(SettingsError, match=r"^data\.path: "):
        check_for_simulation(custom)
    there = {"data.name": "custom", "data.path": "/somewhere"}
    check_for_simulation(check_settings(defaults() | there))


def test_the_table_has_the_methods_of_other_packages_after_ours(installed):
    installed(Point("mine", MINE))
    assert list(table()) == [*METHODS, "mine"]
    assert table()["mine"] is MINE
    assert "mine" not in METHODS


def test_entry_points_of_other_groups_are_not_asked(installed, monkeypatch):
    installed()
    others = {"other.group": [Point("mine", MINE)]}
    monkeypatch.setattr(methods, "entry_points", lambda group: others.get(group, ()))
    assert list(table()) == list(METHODS)


def test_a_name_that_is_taken_is_refused(installed):
    installed(Point("fedavg", MINE))
    with pytest.raises(SettingsError, match=r"'their.module:METHOD'.*'fedavg'.*taken"):
        table()


def test_two_packages_may_not_share_a_name(installed):
    installed(Point("mine", MINE), Point("mine", MINE, "third.module:METHOD"))
    with pytest.raises(SettingsError, match=r"third.module:METHOD.*taken"):
        table()


@pytest.mark.parametrize("thing", [FedAvg, None, "fedavg"])
def test_an_entry_point_that_is_no_method_is_refused(installed, thing):
    installed(Point("mine", thing))
    with pytest.raises(SettingsError, match=r"their\.module:METHOD .* not a Method"):
        table()


def test_settings_of_a_plug_in_are_those_of_its_own_model(installed):
    installed(Point("mine", MINE))
    assert plugin("prox_weight = 0.5").table == {"prox_weight": 0.5, "steps": 3}
    assert settings_of(MINE) == ["prox_weight", "steps"]


def test_plug_in_settings_that_are_no_toml_are_refused(installed):
    installed(Point("mine", MINE))
    (problem,) = plugin_problems("prox_weight: 1")
    assert problem.startswith("plugin.settings: not TOML: ")


def test_each_wrong_plug_in_setting_has_a_line(installed):
    installed(Point("mine", MINE))
    missing, wrong = plugin_problems("steps = 'many'")
    assert missing == "plugin.settings: prox_weight: missing; give it a value"
    assert wrong.startswith("plugin.settings: steps = 'many': input should be ")


def test_an_unknown_plug_in_setting_is_answered_with_the_plug_ins_own(installed):
    installed(Point("mine", MINE))
    (problem,) = plugin_problems("prox_weight = 1.0\nstps = 2")
    assert problem == (
        "plugin.settings: stps: there is no such setting; did you mean 'steps'?"
    )


def test_plug_in_settings_for_a_method_of_ours_are_refused():
    (problem,) = plugin_problems("prox_weight = 1.0", "fedavg")
    assert problem == "plugin.settings: method 'fedavg' is not from a plug-in"


def test_settings_of_a_method_are_those_of_both_halves():
    assert settings_of(METHODS["fedavg"]) == []
    assert settings_of(METHODS["fedavg-se"]) == ["head_mode"]
