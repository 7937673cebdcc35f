"""Which session each source has, as its config and the data directory say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from gateway_mqtt.sessions import overlap
from hypothesis import given
from hypothesis import strategies as st

from gateway_core.contract.component import SourceRef
from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.configs import load_all
from gateway_core.contract.errors import ConfigError
from gateway_core.runtime.durable_names import ConfigNames
from tests.installed import REGISTRY


def config(brokers: Mapping[str, Sequence[str | dict[str, Any]]]) -> GatewayConfig:
    made = GatewayConfig.model_validate({"brokers": {name: {"ingress": []} for name in brokers}})
    for name, ingress in brokers.items():
        for one in ingress:
            ref = SourceRef("mqtt", {"topic": one} if isinstance(one, str) else one)
            offer = REGISTRY.find("source", "mqtt")
            assert offer is not None
            ref.options = offer.component.model.model_validate(ref.raw)
            made.brokers[name].ingress.append(ref)
    return made


def run(folder: Path, **brokers: Sequence[str | dict[str, Any]]) -> dict[str, str]:
    """What a gateway that runs this config would do; the session of each topic."""
    names = ConfigNames(config(brokers), REGISTRY, folder)
    names.note()
    return {"+".join(name.facts["topics"]): name.name for name in names.names if name.transport == "mqtt"}


@pytest.mark.spec("SAFE-70")
def test_a_session_stays_with_its_topics(tmp_path: Path) -> None:
    first = run(tmp_path, a=["orders/#"])
    both = run(tmp_path, a=["billing/#", "orders/#"])
    assert both["orders/#"] == first["orders/#"]
    assert len({*both.values()}) == 2
    assert run(tmp_path, a=["orders/#", "billing/#"]) == both
    assert run(tmp_path, b=["orders/#", "billing/#"]) == both  # the broker was renamed
    assert run(tmp_path / "lost", b=["billing/#"])["billing/#"] == run(tmp_path / "too", b=["billing/#"])["billing/#"]


@pytest.mark.spec("SAFE-70")
def test_a_session_stays_with_an_ingress_whose_topics_change(tmp_path: Path) -> None:
    first = run(tmp_path, a=["orders/#", "billing/#"])
    assert run(tmp_path, a=["billing/#", "orders/+"])["orders/+"] == first["orders/#"]
    assert run(tmp_path, a=["billing/#", "returns"])["returns"] == first["orders/#"]
    new = run(tmp_path, a=["billing/#", "returns", "orders/#"])["orders/#"]  # its first name is in use
    assert new not in first.values()
    assert run(tmp_path, a=["orders/#", "billing/#", "returns"])["orders/#"] == new
    assert run(tmp_path, a=[{"topic": "orders/#", "client_id": "mine"}, "billing/#", "returns"])["orders/#"] == "mine"
    assert run(tmp_path, a=["orders/#", "billing/#", "returns"])["orders/#"] == new


TOPICS = st.lists(st.sampled_from(["a/#", "a/b", "a/+", "b/#", "c"]), min_size=1, max_size=3, unique=True).map(sorted)
CONFIGS = st.dictionaries(
    st.sampled_from(["x", "y"]), st.lists(TOPICS, max_size=4, unique_by=tuple), min_size=1, max_size=2
)


@pytest.mark.spec("SAFE-70")
@given(steps=st.lists(CONFIGS, min_size=1, max_size=5))
@pytest.mark.slow
def test_no_two_sources_ever_have_one_session(steps: list[dict[str, Any]], tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("names")
    for step in steps:
        asked = {name: [{"topic": topics} for topics in ingress] for name, ingress in step.items()}
        names = ConfigNames(config(asked), REGISTRY, folder)
        mine = [name.name for name in names.names if name.transport == "mqtt"]
        assert len({*mine}) == len(mine)
        assert mine == [
            name.name for name in ConfigNames(config(asked), REGISTRY, folder).names if name.transport == "mqtt"
        ]
        names.note()
        again = ConfigNames(config(asked), REGISTRY, folder)  # another worker, a little later
        assert mine == [name.name for name in again.names if name.transport == "mqtt"]


@pytest.mark.parametrize(
    ("one", "other", "yes"),
    [
        ("a/#", "a/b/c", True),
        ("a/#", "a", True),
        ("a/+", "a/b", True),
        ("a/+", "a/b/c", False),
        ("+/b", "a/+", True),
        ("a/b", "a/c", False),
        ("#", "x", True),
    ],
)
def test_filters_overlap_if_a_topic_matches_both(one: str, other: str, yes: bool) -> None:
    assert overlap(one, other) is overlap(other, one) is yes


@pytest.mark.spec("SAFE-71")
def test_two_ingresses_with_one_session_are_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "tidegate.yaml"
    file.write_text(
        "brokers: {default: {ingress: [{mqtt: {topic: a, client_id: x}}, {mqtt: {topic: b, client_id: x}}]}}\n"
    )
    with pytest.raises(ConfigError, match="uses the MQTT session x") as caught:
        load_all([file], REGISTRY)
    (fault,) = caught.value.faults
    assert (fault.path, fault.remedy) == ("brokers.default.ingress[1]", "give one of them a `client_id` of its own")
    file.write_text("brokers: {default: {ingress: [{mqtt: {topic: a}}, {mqtt: {topic: a}}]}}\n")
    with pytest.raises(ConfigError, match="uses the MQTT session"):
        load_all([file], REGISTRY)
