"""Finds scenarios: in sections `tests:` of configs, and in files `*.scenario.yaml` next to them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway_core.contract.config_model import GatewayConfig
from gateway_core.contract.config_node import Node, locate
from gateway_core.contract.config_yaml import read
from gateway_core.contract.configs import SUFFIXES, Registry, load_all, validated
from gateway_core.contract.errors import ConfigError, Fault

from . import SUFFIX
from .model import ScenarioConfig, ScenarioFileConfig


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario with its name, its location and the config that it tests."""

    name: str
    scenario: ScenarioConfig
    config: GatewayConfig
    file: str
    line: int

    @property
    def folder(self) -> Path:
        return Path(self.file).parent


def find_cases(paths: Sequence[Path], registry: Registry, env: Mapping[str, str]) -> list[Case]:
    """All scenarios of configs, directories and scenario files. Raises `ConfigError` with the faults of those files.
    Sections `tests:` test all paths as one config, like `tidegate run`; a scenario file names the config that it tests
    (`ScenarioFileConfig`)."""
    configs = [path for path in paths if not is_scenario(path)]
    cases: list[Case] = []
    faults: list[Fault] = []
    if any(map(_has_tests, _yaml_files(configs))):
        loaded = load_all(configs, registry, env)
        for name, scenario in loaded.config.section("tests").items():
            cases.append(Case(name, scenario, loaded.config, *loaded.places["tests"][name]))
    for file in dict.fromkeys([*(p for p in paths if is_scenario(p)), *_beside(configs)]):
        try:
            cases += _cases_of(file, registry, env)
        except ConfigError as e:
            faults += e.faults
    if faults:
        raise ConfigError(list(dict.fromkeys(faults)))
    return cases


def is_scenario(file: Path) -> bool:
    """Whether a file is called `*.scenario.yaml`: it tests a config and is not part of it."""
    return file.suffix in SUFFIXES and file.stem.endswith(SUFFIX)


def _yaml_files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        yield from (f for f in files if f.suffix in SUFFIXES and not is_scenario(f))


def _has_tests(file: Path) -> bool:
    try:
        return any("tests" in document.value for document in read(file.read_bytes(), str(file)).documents)
    except OSError:
        return True  # loading it reports the fault


def _beside(configs: Sequence[Path]) -> Iterator[Path]:
    for path in configs:
        if path.is_dir():
            yield from sorted(p for p in path.iterdir() if is_scenario(p))
        else:
            yield from (f for s in SUFFIXES if (f := path.with_name(f"{path.stem}{SUFFIX}{s}")).is_file())


def _cases_of(file: Path, registry: Registry, env: Mapping[str, str]) -> Iterator[Case]:
    found, root = _read(file, registry, env)
    loaded = load_all(_config_of(file, found), registry, {**env, **found.env})
    for name, scenario in found.tests.items():
        yield Case(name, scenario, loaded.config, str(file), locate(root, ("tests", name))[1])


def _config_of(file: Path, found: ScenarioFileConfig) -> list[Path]:
    if found.config is not None:
        named = found.config if isinstance(found.config, list) else [found.config]
        return [file.parent / path for path in named]
    name = file.stem.removesuffix(SUFFIX)
    same = [f for s in SUFFIXES if (f := file.with_name(name + s)).is_file()]
    return same or [file.parent]


def _read(file: Path, registry: Registry, env: Mapping[str, str]) -> tuple[ScenarioFileConfig, Node]:
    try:
        reading = read(file.read_bytes(), str(file))
    except OSError as e:
        raise ConfigError([Fault(f"can't be read: {e.strerror or e}", file=str(file))]) from e
    if reading.faults:
        raise ConfigError(reading.faults)
    if len(reading.documents) != 1:
        raise ConfigError([Fault("expected one document", file=str(file), remedy="write the section `tests:`")])
    (root,) = reading.documents
    return validated(ScenarioFileConfig, root, registry, env), root
