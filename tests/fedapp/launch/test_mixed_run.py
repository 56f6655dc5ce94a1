"""Three models in one federation, under Flower's own simulation."""

import json
import subprocess
import sys

import pytest
from conftest import TINY, Finished


@pytest.mark.slow
def test_three_models_under_flower_have_the_bits_of_one_process(tmp_path, run):
    settings = {
        "model.mix": "mlp,cnn,cnn-small",
        "model.projection": 32,
        "data.label-fraction": 0.5,
        "fedsap.supervised": 0.5,
    }
    words = [f"{name}={value}" for name, value in (TINY | settings).items()]
    words = [word.replace("=False", "=false") for word in words if "hdc-fl" not in word]
    place = [f"output.dir={tmp_path}", "output.name=flower"]
    program = [sys.executable, "-c", "from fedapp.cli import main; main()"]

    subprocess.run(
        [*program, "run", "fedsap", "--workers", "2", *words, *place],
        check=True,
        timeout=280,
    )

    found = Finished(tmp_path / "flower")
    inline = run("fedsap", **{n.replace(".", "__"): v for n, v in settings.items()})
    assert found.bits() == inline.bits()
    assert json.loads((found.path / "summary.json").read_text())["rounds"] == 2
