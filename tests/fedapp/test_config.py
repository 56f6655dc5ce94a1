import math

import pytest

from client_apps.hdc_fl import LocalHdcFl
from fedapp import methods
from fedapp.config import (
    SECTIONS,
    SettingsError,
    build,
    check,
    defaults,
    flatten,
    parse_pairs,
    table_fields,
)
from fedapp.methods import METHODS, check_settings
from strategies.fedavg import FedAvg
from strategies.hdc_fl import HdcFl


def checked(changes, method="hdc-fl"):
    return check_settings(defaults() | {"method": method} | changes)


def problems(changes, method="hdc-fl"):
    with pytest.raises(SettingsError) as caught:
        checked(changes, method)
    return str(caught.value).splitlines()


def parse_problems(*words):
    with pytest.raises(SettingsError) as caught:
        parse_pairs(words)
    return str(caught.value).splitlines()


def kebab(names):
    return {name.replace("_", "-") for name in names}


@pytest.mark.parametrize("method", METHODS)
def test_every_default_is_accepted_and_arrives_unchanged(method):
    settings = checked({}, method)
    shared = flatten(settings.model_dump(by_alias=True))
    own = f"{METHODS[method].section or method}."
    table = {k.removeprefix(own): v for k, v in defaults().items() if k.startswith(own)}
    assert shared.items() <= (defaults() | {"method": method}).items()
    assert {name.replace("_", "-"): v for name, v in settings.table.items()} == table


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("rounds.cuont", "; did you mean 'rounds.count'?"),
        ("momentum", "; did you mean 'local.momentum'?"),
        ("optimizer-of-clients.lr", "; did you mean 'local.lr'?"),
        ("zzz", "; see: fedapp settings"),
    ],
)
def test_an_unknown_setting_is_answered_with_the_closest(name, hint):
    expected = [f"{name}: there is no such setting{hint}"]
    assert problems({name: 3}) == expected
    assert parse_problems(f"{name}=3") == expected


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("rounds.count", "ten", "a valid integer"),
        ("rounds.count", 2.0, "a valid integer"),
        ("rounds.count", True, "a valid integer"),
        ("seed", 1.5, "a valid integer"),
        ("local.lr", "0.1", "a valid number"),
        ("local.lr", True, "a valid number"),
        ("data.augment", 1, "a valid boolean"),
        ("data.name", 5, "a valid string"),
        ("hdc-fl.rank", 0.5, "a valid integer"),
        ("hdc-fl.latch", "yes", "a valid boolean"),
    ],
)
def test_a_run_config_of_a_wrong_type_is_refused(name, value, rule):
    assert problems({name: value}) == [f"{name} = {value!r}: input should be {rule}"]


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("rounds.count=ten", "rounds.count = 'ten': expected a whole number"),
        ("rounds.count=2.0", "rounds.count = '2.0': expected a whole number"),
        ("local.lr=fast", "local.lr = 'fast': expected a number"),
        ("data.augment=1", "data.augment = '1': expected true or false"),
        ("rounds.count", "rounds.count: expected key=value, as in rounds.count=10"),
    ],
)
def test_a_word_that_is_no_setting_with_a_value_is_refused(word, problem):
    assert parse_problems(word) == [problem]


def test_a_key_given_twice_is_refused():
    twice = parse_problems("rounds.count=2", "rounds.count=3")
    assert twice == ["rounds.count: given twice"]


def test_words_are_typed_by_the_default_of_their_setting():
    words = ["rounds.count=2", "local.lr=1", "data.augment=True", "data.path=1"]
    found = parse_pairs([*words, "plugin.settings=mu = 1"])
    expected = {
        "rounds.count": 2,
        "local.lr": 1.0,
        "data.augment": True,
        "data.path": "1",
        "plugin.settings": "mu = 1",
    }
    assert found == expected
    assert [type(v) for v in found.values()] == [type(v) for v in expected.values()]


@pytest.mark.parametrize(
    ("name", "allowed", "refused", "rule"),
    [
        ("seed", 0, -1, "greater than or equal to 0"),
        ("seed", 2**31 - 1, 2**31, f"less than {2**31}"),
        ("data.clients", 1, 0, "greater than or equal to 1"),
        ("data.unseen-clients", 0, -1, "greater than or equal to 0"),
        ("data.alpha", 1e-9, 0.0, "greater than 0"),
        ("data.alpha", 1e6, 1.1e6, "less than or equal to 1000000"),
        ("data.classes-per-client", 1, 0, "greater than or equal to 1"),
        ("data.samples-per-client", 0, -1, "greater than or equal to 0"),
        ("data.test-fraction", 0.01, 0.0, "greater than 0"),
        ("data.test-fraction", 0.99, 1.0, "less than 1"),
        ("rounds.count", 1, 0, "greater than or equal to 1"),
        ("rounds.fraction", 0.01, 0.0, "greater than 0"),
        ("rounds.fraction", 1.0, 1.01, "less than or equal to 1"),
        ("rounds.evaluate-every", 1, 0, "greater than or equal to 1"),
        ("rounds.min-replies", 0.0, -0.1, "greater than or equal to 0"),
        ("rounds.min-replies", 1.0, 1.1, "less than or equal to 1"),
        ("rounds.wait-seconds", 0.1, 0.0, "greater than 0"),
        ("rounds.reply-seconds", 0.1, 0.0, "greater than 0"),
        ("local.epochs", 1, 0, "greater than or equal to 1"),
        ("local.batch-size", 1, 0, "greater than or equal to 1"),
        ("local.lr", 1e-9, 0.0, "greater than 0"),
        ("local.momentum", 0.0, -0.1, "greater than or equal to 0"),
        ("local.momentum", 0.99, 1.0, "less than 1"),
        ("local.weight-decay", 0.0, -0.1, "greater than or equal to 0"),
        ("local.threads", 1, 0, "greater than or equal to 1"),
        ("hdc-fl.energy", 1.0, 1.1, "less than or equal to 1"),
    ],
)
def test_a_value_out_of_range_is_refused_and_the_last_allowed_one_is_not(
    name, allowed, refused, rule
):
    checked({"data.unseen-clients": 0, name: allowed})
    assert problems({name: refused}) == [f"{name} = {refused}: input should be {rule}"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, value in defaults().items()
        if isinstance(value, float) and name.partition(".")[0] in {*SECTIONS, "hdc-fl"}
    ],
)
def test_a_number_must_be_finite(name, value):
    (problem,) = problems({name: value})
    assert problem.startswith(f"{name} = {value}: ")


def test_a_bad_choice_is_answered_with_all_choices_and_the_closest():
    assert problems({"data.partition": "dirichelt"}) == [
        "data.partition = 'dirichelt': input should be 'iid', 'dirichlet', "
        "'label-subset', 'label-proportions', 'n-way-k-shot' or "
        "'natural'; did you mean 'dirichlet'?"
    ]
    assert problems({"fedavg-se.head-mode": "globl"}, "fedavg-se") == [
        "fedavg-se.head-mode = 'globl': input should be 'global' or 'local'"
        "; did you mean 'global'?"
    ]


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"data.clients": 3, "data.unseen-clients": 3}, "data.unseen-clients = 3: "),
        (
            {"local.precision": "bfloat16", "local.device": "cpu"},
            "local.precision = 'bfloat16': ",
        ),
        ({"output.name": "a/b"}, "output.name = 'a/b': "),
        ({"output.name": "/tmp"}, "output.name = '/tmp': "),
        ({"output.name": ".."}, "output.name = '..': "),
        ({"output.name": "."}, "output.name = '.': "),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(changes, start):
    (problem,) = problems(changes)
    assert problem.startswith(start)


@pytest.mark.parametrize(
    "changes",
    [
        {"data.clients": 3, "data.unseen-clients": 2},
        {"local.precision": "bfloat16", "local.device": "auto"},
        {"local.precision": "bfloat16", "local.device": "cuda"},
        {"output.name": "a.b"},
    ],
)
def test_settings_that_just_fit_together_are_accepted(changes):
    checked(changes)


def test_an_integer_will_do_for_a_number():
    settings = checked({"local.lr": 1, "hdc-fl.energy": 1})
    for value in (settings.local.lr, settings.table["energy"]):
        assert (value, type(value)) == (1.0, float)


def test_several_problems_are_reported_together():
    assert len(problems({"rounds.count": 0, "local.lr": -1.0, "hdc-fl.rank": -1})) == 3
    assert len(problems({"a": 0, "b": 0})) == 2
    assert len(parse_problems("a=0", "rounds.count", "rounds.count=x")) == 3
    clash = {"data.clients": 1, "data.unseen-clients": 1, "output.name": "a/b"}
    assert len(problems(clash)) == 2


def test_a_setting_that_did_not_arrive_is_named():
    flat = defaults() | {"method": "fedavg"}
    del flat["local.lr"]
    with pytest.raises(SettingsError, match=r"^local\.lr: missing; give it a value$"):
        check(flat, section="fedavg", classes=())


def test_defaults_given_out_are_a_copy():
    defaults().clear()
    assert defaults()


def test_every_shared_field_has_a_default_and_every_default_a_field():
    for name, section in SECTIONS.items():
        start = f"{name}."
        given = {k.removeprefix(start) for k in defaults() if k.startswith(start)}
        assert kebab(section.model_fields) == given, name


def test_every_field_of_a_method_has_a_default_and_every_default_a_field():
    for name, method in methods.METHODS.items():
        start = f"{method.section or name}."
        given = {k.removeprefix(start) for k in defaults() if k.startswith(start)}
        assert kebab(table_fields(*method.classes)) == given, name


def test_every_table_of_defaults_belongs_to_somebody():
    tables = {name.rpartition(".")[0] for name in defaults()} - {""}
    own = {method.section or name for name, method in methods.table().items()}
    assert tables <= own | set(SECTIONS)


def test_every_setting_has_a_description():
    found = {
        f"{name}.{key}": item.description
        for name, section in SECTIONS.items()
        for key, item in section.model_fields.items()
    }
    for name, method in methods.table().items():
        for key, (_, item) in table_fields(*method.classes).items():
            found[f"{name}.{key}"] = item.description
    assert [name for name, text in found.items() if not text] == []


def test_only_fields_with_a_pydantic_field_are_settings_of_a_method():
    assert table_fields(FedAvg) == {}
    assert "refresh_every" in table_fields(HdcFl, LocalHdcFl)
    assert "fraction" not in table_fields(HdcFl)


def test_build_takes_what_a_class_has_fields_for():
    built = build(FedAvg, {"fraction": 0.5, "refresh_every": 3})
    assert built.fraction == 0.5
    assert not hasattr(built, "refresh_every")


def test_tables_in_tables_flatten_to_dotted_names():
    nested = {"a": 1, "b": {"c": 2, "d": {"e": 3}}}
    assert flatten(nested) == {"a": 1, "b.c": 2, "b.d.e": 3}
