"""headwater.toml as the chart writes it and as the program reads it."""

import json
import os
import subprocess
import sys
import tomllib

import pytest
import yaml

from conftest import CASES, CHART, ROOT, of_kind, refusal, render

TIERS = ["storage", "augment", "receiver"]


def files(case, *flags):
    (config, *_) = of_kind(render(case, "1.37.0", *flags), "ConfigMap", "headwater")
    return {name.removesuffix(".toml"): text for name, text in config["data"].items()}


def run(program, folder, text, *args):
    """The program with a file, without the caller's variables."""
    file = folder / "headwater.toml"
    file.write_text(text)
    env = {key: value for key, value in os.environ.items() if not key.startswith("HEADWATER_")}
    command = [program, "--config", file, *args]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env)


@pytest.mark.parametrize("case", CASES)
def test_the_program_takes_every_file(case, program, tmp_path):
    for tier, text in files(case).items():
        done = run(program, tmp_path, text, "--check-config")
        assert done.returncode == 0, f"{tier}: {done.stderr}\n{text}"


@pytest.mark.parametrize("case", CASES)
def test_every_value_reaches_the_program(case, program, tmp_path):
    values = yaml.safe_load((CHART / "ci" / f"{case}-values.yaml").read_text())["config"]
    texts = files(case)
    reads = {"dataset": TIERS, "links": ["augment", "receiver"], "recipe": ["receiver"], "curriculum": ["receiver"]}
    for section, keys in values.items():
        for tier in reads.get(section, [section]):
            done = run(program, tmp_path, texts[tier], "config")
            assert done.returncode == 0, done.stderr
            effective = tomllib.loads(done.stdout)[section]
            if section in ("dataset", "curriculum"):
                assert [wanted.items() <= got.items() for wanted, got in zip(keys, effective)] == [
                    True
                ] * len(keys)
                continue
            for key, wanted in keys.items():
                got = effective[key]
                # Tables are printed with their defaults.
                assert wanted.items() <= got.items() if isinstance(wanted, dict) else wanted == got


def test_a_seed_of_64_bits_reaches_the_program(program, tmp_path):
    for seed in [2**53 + 1, 2**64 - 1]:
        text = files("defaults", "--set-string", f"config.receiver.seed={seed}")["receiver"]
        done = run(program, tmp_path, text, "config")
        assert done.returncode == 0, done.stderr
        assert tomllib.loads(done.stdout)["receiver"]["seed"] == seed
        # As a number Helm would have rounded it without a word.
        said = refusal("--set-json", f"config.receiver.seed={seed}")
        assert "config.receiver.seed: Must be less than or equal to 9.007199254740991e+15" in said, said


def test_awkward_values_come_out_as_they_went_in():
    awkward = {
        "dataset": [{"name": "'", "shards": ["C:\\data", "#.tar"], "weight": 0}],
        "receiver": {
            "job": 'a "b" \\ c\n<d> & é',
            "seed": 2**40 + 1,
            "hedge_median_multiple": 1.5e-07,
            "huge_pages": True,
            "links": [],
            "masks": {"patch": 14, "ratio_min": 0.25, "tensor": "a.b"},
        },
        "recipe": {"tensors": [{"name": "x", "views": [{"crop": {"scale": [0.32, 1]}}]}]},
        "curriculum": [{"step": 4294967296, "weights": [0.5, 1e-9]}],
    }
    text = files("defaults", "--set-json", f"config={json.dumps(awkward)}")["receiver"]
    read = tomllib.loads(text)
    for section in ("dataset", "recipe", "curriculum"):
        assert read[section] == awkward[section]
    assert awkward["receiver"].items() <= read["receiver"].items()


def test_filters_of_storage_nodes_are_about_the_image_that_receivers_take(program, tmp_path):
    config = {"filter": [{"kind": "width", "min": 9}], "receiver": {"image_field": "large.jpg", "seed": 3}}
    texts = files("defaults", "--set-json", f"config.filter={json.dumps(config['filter'])}", "--set-json", f"config.receiver={json.dumps(config['receiver'])}")
    assert tomllib.loads(texts["storage"])["receiver"] == {"image_field": "large.jpg"}
    assert [tier for tier in TIERS if "filter" in tomllib.loads(texts[tier])] == ["storage"]
    done = run(program, tmp_path, texts["storage"], "--check-config")
    assert done.returncode == 0, done.stderr
    assert "receiver" not in tomllib.loads(files("defaults")["storage"])


def test_a_key_that_the_chart_fills_in_may_be_set():
    text = files(
        "defaults", "--set", "config.augment.listen=127.0.0.1:9,config.augment.advertise=me"
    )
    assert tomllib.loads(text["augment"])["augment"]["listen"] == "127.0.0.1:9"
    objects = render("defaults", "1.37.0", "--set", "config.augment.advertise=me")
    assert "HEADWATER_AUGMENT__ADVERTISE" not in str(objects)
    assert "HEADWATER_AUGMENT__ADVERTISE" in str(render("defaults"))


def test_tiers_find_each_other_by_the_names_of_the_services():
    def places(case):
        texts = files(case)
        receiver = tomllib.loads(texts["receiver"])["receiver"]
        augment = tomllib.loads(texts["augment"])["augment"]
        assert augment["storage"] == receiver["storage"]
        services = {
            service["metadata"]["name"].removeprefix("run-headwater-"): "{}.ml.svc:{}".format(
                service["metadata"]["name"], service["spec"]["ports"][0]["port"]
            )
            for service in of_kind(render(case), "Service")
        }
        assert receiver["workers"] == [f"dns:{services['augment']}"]
        return services["storage"], receiver["storage"]

    service, nodes = places("gpu")
    assert nodes == [f"dns:{service}"]
    # Each by its own name: its address may be another when it comes back.
    service, nodes = places("tls")
    (storage,) = of_kind(render("tls"), "StatefulSet")
    assert storage["spec"]["serviceName"] == service.partition(".")[0]
    assert nodes == [f"{storage['metadata']['name']}-{node}.{service}" for node in range(3)]


def test_without_a_name_service_all_find_each_other_by_slices():
    texts = files("slices")
    augment = tomllib.loads(texts["augment"])["augment"]
    receiver = tomllib.loads(texts["receiver"])["receiver"]
    assert augment["storage"] == receiver["storage"] == ["slices:ml/run-headwater-storage:grpc"]
    assert receiver["workers"] == ["slices:ml/run-headwater-augment:grpc"]
    services = {entry["metadata"]["name"]: entry["spec"] for entry in of_kind(render("slices"), "Service")}
    for place in (*receiver["workers"], *augment["storage"]):
        service, _, port = place.removeprefix("slices:ml/").partition(":")
        assert port in [port["name"] for port in services[service]["ports"]]


def test_a_section_that_no_tier_gets_is_refused():
    schema = json.loads((CHART / "values.schema.json").read_text())
    gets = (CHART / "templates" / "_config.tpl").read_text().partition("$sections := dict")[2]
    sections = schema["definitions"]["config"]["properties"]
    assert [name for name in sections if f'"{name}"' not in gets.partition("hasKey")[0]] == []
    said = refusal("--set", "config.scaling.workers_max=4")
    assert "scaling" in said and "not allowed" in said, said


def test_the_schema_has_the_programs_keys():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "chart-schema.py", "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
