"""A gateway with a table, restored from a backup while the table is further on: no event is missing in the table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gateway_testing import GatewayProcess

from tests import web
from tests.spark.table_files import rows

pytestmark = [pytest.mark.full, pytest.mark.timeout(300)]

CONFIG = """
brokers: {default: {ingress: [{http: {listen: "127.0.0.1:0"}}]}}
triggers:
  table:
    start: earliest
    subscriber: {spark: {path: TABLE, format: delta, trigger_interval_s: 0.2}}
"""


def tidegate(*arguments: object) -> None:
    subprocess.run([sys.executable, "-m", "gateway_core.cli", *map(str, arguments)], check=True, timeout=60)


@pytest.mark.spec("SAFE-53")
@pytest.mark.usefixtures("own_spark")
def test_a_table_that_is_ahead_of_a_restored_log_gets_all_new_events(tmp_path: Path) -> None:
    table = tmp_path / "table"

    def ids() -> set[str]:
        return {row["id"] for row in rows(table, "delta", ["id"])}

    def send(gateway: GatewayProcess, *events: str) -> None:
        """One by one, so that the query makes batches of them."""
        for id in events:
            headers = {"ce-id": id, "ce-source": "/s", "ce-type": "t", "ce-specversion": "1.0"}
            assert web.post(gateway.ingress(), headers=headers, verify=False).status_code == 202
            gateway.wait_until(lambda id=id: id in ids(), 120, f"{id} in the table")

    with GatewayProcess(CONFIG.replace("TABLE", str(table)), tmp_path) as gateway:
        send(gateway, "a1", "a2")
        tidegate("backup", tmp_path / "copy", "--data-dir", gateway.data_dir)
        send(gateway, "b1", "b2", "b3")
        gateway.stop()
        tidegate("restore", tmp_path / "copy", "--data-dir", gateway.data_dir, "--force")
        gateway.start()
        # the same numbers of batches and of events as those that the table has
        send(gateway, "c1", "c2", "c3", "c4")
        assert {"a1", "a2", "c1", "c2", "c3", "c4"} <= ids()
