"""What there is to choose from."""

import re

from command_line import fedapp

from fedapp.config import SettingsError, defaults
from fedapp.methods import METHODS


def test_methods_lists_each_method():
    output = fedapp("methods").output

    for name, method in METHODS.items():
        assert re.search(rf"^ *{name} .*{re.escape(method.summary)}", output, re.M)


def test_a_package_that_cannot_be_loaded_is_a_complaint(monkeypatch):
    def broken():
        raise SettingsError("the method 'mine' cannot be loaded")

    monkeypatch.setattr("fedapp.methods.table", broken)
    found = fedapp("methods")

    assert found.exit_code == 2
    assert found.stderr == "the method 'mine' cannot be loaded\n"


def test_datasets_lists_each_data_set():
    assert "scikit-learn" in fedapp("datasets").output


def test_every_setting_is_listed_with_its_default():
    output = fedapp("settings").output
    for name in METHODS:
        output += fedapp("settings", name).output

    for name, default in defaults().items():
        shown = str(default).lower() if isinstance(default, bool) else str(default)
        row = rf"^ *{re.escape(name)} +{re.escape(shown or chr(34) * 2)} "
        assert re.search(row, output, re.M), name


def test_settings_show_what_is_allowed():
    output = fedapp("settings").output

    assert re.search(r"local\.momentum +0\.9 +number, >= 0, < 1 ", output)
    assert re.search(r"local\.device +auto +auto, cpu, cuda ", output)


def test_settings_of_an_unknown_method():
    result = fedapp("settings", "fedprr")

    assert result.exit_code == 2
    assert "did you mean 'fedper'?" in result.stderr
