"""The settings that the guide shows for two kinds of hub are loaded by these hubs' own loaders.

Beside what hub.py names, HUB may hold
- `tljh`: the hub's environment of The Littlest JupyterHub: pip install it (a checkout), what its
  tljh/requirements-hub-env.txt lists, ngshare and sqlalchemy<2
- `z2jh`: values.yaml and values.schema.yaml of Zero to JupyterHub's chart, from its repository
"""

import json
import os
import subprocess
import sys

import pytest
import yaml
from hub import HUB, NEEDED, paths, shown
from jsonschema import Draft7Validator

pytestmark = [pytest.mark.slow, NEEDED]

TLJH, CHART = HUB / "tljh", HUB / "z2jh"


def services(jupyterhub, config, **environment) -> dict:
    """The services in a hub's config, by name, as that hub's own command loads it."""
    command = [str(jupyterhub), "-f", str(config), "--show-config-json"]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, cwd=config.parent, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {service["name"]: service for service in json.loads(done.stdout)["JupyterHub"]["services"]}


@pytest.mark.skipif(not TLJH.exists(), reason="NOT TESTED: HUB holds no The Littlest JupyterHub")
def test_the_littlest_jupyterhub_takes_the_service_beside_its_own(tmp_path):
    (config,) = TLJH.glob("lib/python*/site-packages/tljh/jupyterhub_config.py")
    mine = tmp_path / "config" / "jupyterhub_config.d" / "ngshare.py"
    mine.parent.mkdir(parents=True)
    (tmp_path / "jupyterhub_config.py").symlink_to(config)
    settings = {"TLJH_INSTALL_PREFIX": str(tmp_path)}
    before = services(TLJH / "bin" / "jupyterhub", tmp_path / "jupyterhub_config.py", **settings)
    mine.write_text(shown("jupyterhub_config.d/ngshare.py"), encoding="utf-8")
    after = services(TLJH / "bin" / "jupyterhub", tmp_path / "jupyterhub_config.py", **settings)
    assert set(after) - set(before) == {"ngshare"}
    assert after["ngshare"]["command"][:3] == ["/opt/tljh/hub/bin/python3", "-m", "ngshare"]


@pytest.fixture
def values():
    return yaml.safe_load(shown("give the hub's chart these values", "yaml"))


def test_a_hub_takes_what_the_values_for_kubernetes_add(values, tmp_path):
    (added,) = values["hub"]["extraConfig"].values()
    config = tmp_path / "jupyterhub_config.py"
    config.write_text(f"c = get_config()\nc.JupyterHub.services = []\nexec({added!r})\n")  # as the chart's own does
    found = services(HUB / "venv" / "bin" / "jupyterhub", config)["ngshare"]
    assert found["url"] == "http://ngshare:8080"
    assert found["api_token"] in shown("give the hub's chart these values", "yaml")


def test_nbgrader_takes_what_the_values_mount(values, tmp_path):
    (mounted,) = values["singleuser"]["extraFiles"].values()
    (tmp_path / "nbgrader_config.py").write_text(mounted["stringData"], encoding="utf-8")
    look = "from nbgrader.apps import NbGrader as N; n = N(); n.load_config_file(); e = n.config.ExchangeFactory; "
    look += "print(e.collect.__module__, e.exchange().ngshare_url, n.config.CourseDirectory.course_id)"
    done = subprocess.run(
        [sys.executable, "-c", look],
        cwd=tmp_path,
        env={**paths(), "HOME": str(tmp_path), "USER": "sam"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["ngshare_exchange.collect", "http://ngshare:8080/services/ngshare", "attention"]


def merged(defaults: dict, values: dict) -> dict:
    """The chart's values with ours, as Helm merges them before it looks at the schema."""
    both = {name: merged(defaults[name], values[name]) for name in values if isinstance(defaults.get(name), dict)}
    return {**defaults, **values, **both}


@pytest.mark.skipif(not CHART.exists(), reason="NOT TESTED: HUB holds no chart of Zero to JupyterHub")
def test_the_chart_s_schema_accepts_the_values_and_refuses_a_wrong_name(values):
    schema = Draft7Validator(yaml.safe_load((CHART / "values.schema.yaml").read_text(encoding="utf-8")))
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert [error.message for error in schema.iter_errors(merged(defaults, values))] == []
    values["singleuser"]["networkPolicies"] = values["singleuser"].pop("networkPolicy")
    (error,) = schema.iter_errors(merged(defaults, values))
    assert "'networkPolicies' was unexpected" in error.message
