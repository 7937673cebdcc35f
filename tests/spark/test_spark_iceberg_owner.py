"""An Iceberg table knows the query that fills it, and how far: in a real session of the Spark that has a connector."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from gateway_spark.errors import SparkFault
from gateway_spark.job import Job
from pyspark.errors import StreamingQueryException

from tests.sdk.environments import pyspark
from tests.spark import test_spark_owner as of_all_formats
from tests.spark.conftest import QUICK, Log
from tests.spark.iceberg_environment import environment_with
from tests.spark.queries import Queries, Running

pytestmark = [
    pytest.mark.spec("SAFE-85"),
    pytest.mark.timeout(600),
    pytest.mark.full,
    pytest.mark.usefixtures("own_spark"),
]


class Session:
    """A process that runs `iceberg_queries.py`."""

    def __init__(self, lake: Path, environment: dict[str, str]) -> None:
        script = Path(__file__).with_name("iceberg_queries.py")
        command = [str(pyspark("4.1")), str(script), str(lake), json.dumps(QUICK)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def ask(self, *command: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "fault" in answer:
            raise SparkFault(answer["fault"])
        if "error" in answer:
            raise StreamingQueryException(answer["error"])
        return answer["is"]

    def end(self) -> None:
        self._process.communicate()


class IcebergQueries(Queries):
    """In the session of that process."""

    def __init__(self, session: Session, log: Log, folder: Path) -> None:
        super().__init__(log, folder)
        self.session = session

    def make(self, job: Job) -> Running:
        """See `Queries`."""
        return _There(self.session, self.session.ask("make", job.line().decode()))

    def ids(self, job: Job, location: str = "") -> list[int]:
        """See `Queries`."""
        found: list[int] = self.session.ask("ids", location or job.table)
        return found

    def forget(self, job: Job) -> None:
        """See `Queries`."""
        self.session.ask("forget", job.table)


class _There(Running):
    def __init__(self, session: Session, number: int) -> None:
        self._session = session
        self._number = number

    def start(self) -> None:
        self._session.ask("start", self._number)

    def drain(self) -> None:
        self._session.ask("drain", self._number)

    def stop(self) -> list[str]:
        notes: list[str] = self._session.ask("stop", self._number)
        return notes


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("iceberg")
    session = Session(folder / "lake", environment_with(folder))
    yield session
    session.end()


@pytest.fixture
def queries(session: Session, log: Log, tmp_path: Path) -> IcebergQueries:
    return IcebergQueries(session, log, tmp_path)


@pytest.mark.parametrize(
    "promise",
    [
        of_all_formats.test_a_renamed_trigger_continues_its_table_only_if_told_and_has_each_event_once,
        of_all_formats.test_a_take_over_that_fails_before_its_first_batch_begins_again,
        of_all_formats.test_a_deleted_table_is_not_begun_anew_unnoticed,
        of_all_formats.test_a_table_that_is_behind_its_checkpoint_is_noticed,
        of_all_formats.test_tables_by_type_are_taken_over_with_their_names_and_inferred_types,
        of_all_formats.test_a_table_of_an_earlier_version_goes_on_with_its_query,
    ],
    ids=lambda promise: promise.__name__.removeprefix("test_"),
)
def test_what_holds_for_all_formats(promise: Callable[..., None], queries: IcebergQueries, tmp_path: Path) -> None:
    known = {"queries": queries, "tmp_path": tmp_path, "format": "iceberg"}
    promise(**{name: known[name] for name in signature(promise).parameters})


def test_each_of_100_events_is_one_row_after_a_new_name_a_lost_checkpoint_and_a_new_data_directory(
    queries: IcebergQueries, tmp_path: Path
) -> None:
    def job(trigger: str, log: Path = queries.log.folder) -> Job:
        found = queries.job(trigger, format="iceberg", adopt=True)
        return replace(found, options={**found.options, "location": str(log), "maxEventsPerTrigger": "9"})

    def send() -> None:
        queries.send(*(f'{{"n": {n}}}' for n in range(25)))

    def checked(each: Job) -> None:
        with pytest.raises(SparkFault, match=r"belongs to the query .* set `adopt: true`"):
            queries.run(replace(each, adopt=False))
        queries.run(each)

    send()
    queries.run(job("old"))
    send()
    checked(job("new"))
    send()
    shutil.rmtree(tmp_path / "new")
    checked(job("new"))
    send()
    queries.log.close()
    shutil.copytree(queries.log.folder, tmp_path / "elsewhere" / "log")
    checked(replace(job("new", tmp_path / "elsewhere" / "log"), checkpoint=str(tmp_path / "elsewhere" / "checkpoint")))
    assert queries.ids(job("new")) == [*range(1, 101)]


def test_a_query_starts_where_it_is_told_with_small_batches(queries: IcebergQueries) -> None:
    queries.send(*(f'{{"n": {n}}}' for n in range(10)))
    job = queries.job("one", format="iceberg")
    job = replace(job, options={**job.options, "startingOffsets": '{"0": 7}'})
    queries.run(job)
    queries.run(job)
    assert queries.ids(job) == [7, 8, 9, 10]


def test_the_owner_outlives_the_snapshots(queries: IcebergQueries) -> None:
    old, new = (queries.job(name, format="iceberg") for name in ("old", "new"))
    queries.send('{"n": 1}', '{"n": "bad"}', '{"n": 3}')
    queries.run(old)
    queries.session.ask("expire", old.table)
    queries.send('{"n": 4}')
    with pytest.raises(SparkFault, match=r"belongs to the query .* of trigger old"):
        queries.run(new)
    queries.run(old)
    assert queries.ids(old) == [1, 3, 4]
    queries.session.ask("expire", old.table)
    queries.send('{"n": 5}')
    queries.run(replace(new, adopt=True))
    queries.send('{"n": "bad"}', '{"n": 7}')
    queries.run(new)
    assert queries.ids(new) == [1, 3, 4, 5, 7]
    assert queries.ids(new, f"{new.table}_quarantine") == [2, 6]
