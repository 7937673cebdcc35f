"""Areas run when one of their paths has changed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests import areas

pytest_plugins = ["pytester"]


def test_the_paths_of_areas_exist() -> None:
    for path in {path for paths in areas.areas().values() for path in paths}:
        assert find_spec(path) if areas.is_package(path) else (areas.ROOT / path).exists(), path


def test_an_area_depends_on_its_paths() -> None:
    assert areas.touched(["plugins/gateway_nats/source.py", "README.md"]) == ["sdk"]
    assert areas.touched(["tests/sdk_other/x.py", "CHANGELOG.md"]) == []
    assert areas.touched(["gateway_core/contract/event.py"]) == ["plugin_packages"]
    assert areas.touched(["requirements/dev.txt"]) == list(areas.areas())
    assert areas.expression(["sdk", "demo"]) == "area(name='sdk') or area(name='demo')"
    assert areas.expression([]) == ""


@pytest.mark.usefixtures("processes")
def test_an_area_that_no_table_has_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers = area(name)\n")
    pytester.makepyfile(test_it='import pytest\n@pytest.mark.area(name="sdks")\ndef test_x(): pass\n')
    ran = pytester.runpytest_subprocess("-p", "tests.areas", "-p", "no:cacheprovider")
    assert ran.ret != 0
    assert "no area 'sdks' in tests/areas.toml" in ran.stdout.str() + ran.stderr.str()
