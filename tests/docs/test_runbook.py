"""docs/runbook.md has a section for each alert of the chart and for each verdict of the monitor, and no other ones."""

import re
import shlex
from functools import cache

import keywords
import pytest
import yaml
from documents import ROOT, anchors
from snippets import faults_of_command

PAGE = "docs/runbook.md"
#: What each section says, in this order.
PARTS = ("Means", "Look first", "Do")
#: Sections of the configuration that the page names keys of.
SECTIONS = ("storage", "augment", "receiver", "recipe", "telemetry", "security")


@cache
def page() -> str:
    return (ROOT / PAGE).read_text()


def alerts() -> list[dict]:
    rules = yaml.safe_load((ROOT / "helm" / "headwater" / "files" / "alerts.yaml").read_text())
    return rules["groups"][0]["rules"]


@cache
def verdicts() -> dict[str, list[str]]:
    """The stages that the monitor may name, each with the causes of a wait that belong to it."""
    code = (ROOT / "src" / "monitor" / "verdict.rs").read_text()
    of_cause, name = (re.search(rf"fn {one}\(.*?\n    }}\n", code, re.DOTALL)[0] for one in ("of_cause", "name"))
    names = dict(re.findall(r'Self::(\w+) => "(\w+)"', name))
    causes = {stage: re.findall(r'"(\w+)"', words) for words, stage in re.findall(r"((?:\"\w+\"[ |]*)+)=> Self::(\w+)", of_cause)}
    return {name: causes.get(stage, []) for stage, name in names.items()}


def sections() -> dict[str, str]:
    """The text of each section of the third level, by its heading."""
    found = {}
    for chapter in re.split(r"^## ", page(), flags=re.MULTILINE)[1:]:
        for section in re.split(r"^### ", chapter, flags=re.MULTILINE)[1:]:
            heading, text = section.split("\n", 1)
            assert heading not in found, heading
            found[heading] = text
    return found


def heading_of_verdict(stage: str) -> str:
    return f"Verdict: {stage}"


def test_there_are_alerts_and_verdicts():
    assert len(alerts()) >= 15
    assert {"storage", "augment", "link", "device", "trainer", "nobody", "host", "none"} == set(verdicts())
    assert verdicts()["nobody"] == ["nobody", "retry"] and verdicts()["none"] == []


def test_every_alert_and_every_verdict_has_a_section_and_there_is_no_other():
    asked = [rule["alert"] for rule in alerts()] + [heading_of_verdict(stage) for stage in verdicts()]
    assert sorted(sections()) == sorted(asked)


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_links_to_its_section(rule):
    path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert path == PAGE and anchor == rule["alert"].lower() and anchor in anchors(page())


@pytest.mark.parametrize("heading", sections())
def test_a_section_says_what_it_means_where_to_look_and_what_to_do(heading):
    parts = re.findall(r"^- \*\*(Means|Look first|Do)[^*]*:\*\* \S", sections()[heading], re.MULTILINE)
    assert list(dict.fromkeys(parts)) == list(PARTS), parts


@pytest.mark.parametrize("stage", verdicts())
def test_a_verdict_names_its_causes(stage):
    text = sections()[heading_of_verdict(stage)]
    assert [cause for cause in verdicts()[stage] if f"`{cause}`" not in text] == []


def test_the_table_of_severities_is_that_of_the_alerts():
    rows = dict(re.findall(r"^\| `(critical|warning|info)` \|[^|]*\|([^|]*)\|$", page(), re.MULTILINE))
    by_severity = {severity: set(re.findall(r"`(\w+)`", names)) for severity, names in rows.items()}
    of_rules = {severity: set() for severity in rows}
    for rule in alerts():
        of_rules[rule["labels"]["severity"]].add(rule["alert"])
    # "All others" are warnings.
    assert by_severity.pop("warning") == set() and of_rules.pop("warning")
    assert by_severity == of_rules


def test_each_kind_of_a_refusal_that_raises_the_alert_has_a_row():
    code = (ROOT / "proto" / "src" / "storage" / "failure.rs").read_text()
    kinds = re.findall(r'=> "(\w+)"', re.search(r"const fn name\(.*?\n    }\n", code, re.DOTALL)[0])
    (rule,) = (one for one in alerts() if one["alert"] == "HeadwaterStorageRefuses")
    assert 'kind!="draining"' in rule["expr"]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", sections()["HeadwaterStorageRefuses"], re.MULTILINE)
    named = [kind for row in rows for kind in re.findall(r"`(\w+)`", row) if kind != "kind"]
    assert sorted(named) == sorted(set(kinds) - {"draining"})


def test_commands_metrics_and_keys_of_the_page_are_there(help_of):
    words = [shlex.split(code) for code in re.findall(r"`(headwater [^`]+)`", page())]
    assert len(words) >= 10
    assert [fault for one in words for fault in faults_of_command(one[1:], help_of)] == []
    metrics = (ROOT / "docs" / "metrics.md").read_text()
    assert [name for name in re.findall(r"`(headwater_\w+)`", page()) if f"| `{name}` |" not in metrics] == []
    named = re.findall(rf"`({'|'.join(SECTIONS)})\.(\w+)`", page())
    assert len(named) >= 10
    # `augment.autoscaling` is a value of the chart.
    values = yaml.safe_load((ROOT / "helm" / "headwater" / "values.yaml").read_text())
    assert [one for one in named if one[1] not in keywords.keys(one[0]) and one[1] not in values.get(one[0], {})] == []
