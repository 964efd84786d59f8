"""Alerts, dashboard and autoscaling ask only for metrics that the tiers have."""

import functools
import json
import re

import pytest
import yaml

from conftest import CHART, ROOT, of_kind, render

NAME = re.compile(r"\bheadwater_[a-z0-9_]+")
PARTS_OF_HISTOGRAMS = ("_sum", "_count", "_bucket")
# The external metric that an adapter makes; docs/kubernetes.md has its rule.
MADE_BY_ADAPTER = {"headwater_receiver_stall_share"}


@functools.cache
def metrics():
    """Names in the tiers' sources, each with whether it is a histogram."""
    found = {}
    for folder in ("app", "libs", "storage-tier", "augment-tier", "gpu-receiver"):
        for source in (ROOT / folder).glob("**/src/**/*.rs"):
            text = source.read_text()
            constants = dict(re.findall(r'const (\w+): &str = "(headwater_\w+)"', text))
            for name in NAME.findall(text):
                found.setdefault(name, False)
            for used in re.findall(r'\bhistogram!\(\s*("?\w+"?)', text):
                found[constants.get(used, used.strip('"'))] = True
    return found


def asked(expression):
    """Breaches of an expression, in words."""
    known = metrics()
    for name in NAME.findall(expression):
        part = next((part for part in PARTS_OF_HISTOGRAMS if name.endswith(part)), "")
        whole = name.removesuffix(part)
        if part and known.get(whole):
            continue
        if name not in known:
            yield f"{name} is no metric"
        elif known[name]:
            yield f"{name} is a histogram: ask for its _sum, _count or _bucket"


def alerts():
    return yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"][0]["rules"]


def panels():
    return json.loads((CHART / "files" / "dashboard.json").read_text())["panels"]


def test_the_sources_have_metrics_of_both_kinds():
    known = metrics()
    assert known["headwater_receiver_stall_seconds"] and known["headwater_augment_read_seconds"]
    assert known["headwater_augment_pool_busy_seconds"] is False
    assert known["headwater_link_parts_total"] is False
    assert [*asked("rate(headwater_receiver_stall_seconds[1m])")] and [*asked("headwater_no_such")]


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_asks_for_metrics_there_are(alert):
    assert NAME.search(alert["expr"])
    assert [*asked(alert["expr"])] == []
    assert alert["annotations"]["summary"] and alert["annotations"]["description"]
    assert alert["labels"]["severity"] in ("info", "warning", "critical")


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_asks_for_metrics_there_are(panel):
    for target in panel["targets"]:
        assert NAME.search(target["expr"])
        assert [*asked(target["expr"])] == []
        assert target["expr"].count("(") == target["expr"].count(")")


def targets_of(metric):
    """Expressions that ask for a metric, and their legends."""
    targets = [target for panel in panels() for target in panel["targets"]]
    found = [(target["expr"], target["legendFormat"]) for target in targets if metric + "{" in target["expr"]]
    assert found, metric
    return found


def test_a_legend_says_what_its_metric_counts():
    # The meanings are those of docs/metrics.md.
    for metric, meaning in [
        ("headwater_receiver_samples_total", "made ready"),
        ("headwater_augment_queue_parts", "queued or under way"),
        ("headwater_augment_queue_samples", "not begun"),
        ("headwater_link_gone_total", "data paths ended"),
    ]:
        for expression, legend in targets_of(metric):
            assert meaning in legend, f"{expression} is called `{legend}`"


def test_what_each_process_reports_of_its_whole_host_is_not_added_up():
    text = (ROOT / "docs" / "metrics.md").read_text()
    assert "| `headwater_cache_bytes` | gauge | `cache`, `level` | Bytes of all processes' entries" in text
    for metric in ("headwater_cache_bytes", "headwater_cache_bytes_limit"):
        for expression, _ in targets_of(metric):
            assert expression.startswith("max by (cache, level)"), expression


def test_autoscaling_and_its_documentation_ask_for_metrics_there_are():
    (scaled,) = of_kind(render("keda"), "ScaledObject")
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]
    assert 'namespace="ml"' in query and [*asked(query)] == []
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    assert MADE_BY_ADAPTER <= set(NAME.findall(text))
    names = set(NAME.findall(text)) - MADE_BY_ADAPTER
    assert [breach for name in names for breach in asked(name)] == []


def test_runbooks_of_alerts_are_where_the_docs_are_published():
    published = "https://docs.example/headwater/runbook.html"
    (rule,) = of_kind(render("gpu", "1.37.0", "--set", f"monitoring.alerts.runbook={published}"), "PrometheusRule")
    urls = {one["alert"]: one["annotations"]["runbook_url"] for one in rule["spec"]["groups"][0]["rules"]}
    assert urls == {one["alert"]: f"{published}#{one['alert'].lower()}" for one in alerts()}


def test_alerts_and_dashboard_are_in_the_cluster_as_they_are_in_the_files():
    objects = render("gpu")
    (rule,) = of_kind(objects, "PrometheusRule")
    assert rule["spec"]["groups"][0]["rules"] == alerts()
    (dashboard,) = of_kind(objects, "ConfigMap", "-dashboard")
    assert json.loads(dashboard["data"]["headwater.json"])["panels"] == panels()
    monitored = {
        entry["metadata"]["name"]: entry["spec"] for entry in objects if "Monitor" in entry["kind"]
    }
    assert len(monitored) == 3
