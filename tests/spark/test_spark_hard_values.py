"""Typed columns have the value that the JSON has, or the event is refused: nothing is changed silently."""

from __future__ import annotations

from datetime import UTC
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pytest
from gateway_spark.data.typed import NOT_JSON, UNFIT, fault, parsed, reason
from gateway_spark.data.types import parse

from tests.spark import hard_values

pytestmark = [pytest.mark.spec("SAFE-87"), pytest.mark.timeout(600)]


def read(spark: Any, ddl: str, texts: list[str], reasons: bool = False) -> list[tuple[Any, str | None]]:
    """The value of the field `v` and the fault, for each text."""
    from pyspark.sql import functions as f

    of = parse(ddl)
    rows = spark.createDataFrame(list(enumerate(texts)), "n int, t string").coalesce(1)
    rows = rows.withColumn("p", parsed(f.col("t"), of))
    rows = rows.withColumn("f", fault(f.col("p"), f.col("t"), f.col("t").cast("binary"), of))
    if reasons:
        rows = rows.withColumn("f", reason(f.col("p"), f.col("t"), f.col("f"), of))
    good = f.when(f.col("f").isNull(), f.col("p")["d"])
    found = rows.select("n", good.alias("d"), "f").collect()
    return [(r.d and r.d.asDict(True)["v"], r.f) for r in sorted(found)]


@pytest.mark.parametrize("of", sorted({of for of, _, _ in hard_values.CASES}))
def test_a_column_has_what_the_json_has_or_the_event_is_refused(spark: Any, of: str) -> None:
    cases = [(text, wanted) for each, text, wanted in hard_values.CASES if each == of]
    found = read(spark, f"v {of}", [f'{{"v": {text}}}' for text, _ in cases], reasons=True)
    for (text, wanted), (value, words) in zip(cases, found, strict=True):
        if wanted is hard_values.NO_JSON:
            assert words == NOT_JSON, text
        elif wanted is hard_values.UNFIT:
            assert (words or "").startswith(UNFIT), (text, value)
        else:
            in_utc = value.astimezone(UTC).replace(tzinfo=None) if of == "TIMESTAMP" else value
            assert (in_utc, words) == (wanted, None), text


def test_numbers_are_what_they_are_in_each_type(spark: Any) -> None:
    texts = [*hard_values.numbers(400, 5)]
    wrapped = [f'{{"v": {{"s": {t}, "d": {t}, "l": [{t}], "x": "1.0 {t}"}}}}' for t in texts]
    found = read(spark, "v STRUCT<s STRING, d DOUBLE, l ARRAY<STRING>, x STRING>", wrapped)
    assert found == [({"s": t, "d": float(t), "l": [t], "x": f"1.0 {t}"}, None) for t in texts]

    context = Context(prec=2000)
    for (value, words), text in zip(
        read(spark, "v DECIMAL(38,9)", [f'{{"v": {t}}}' for t in texts]), texts, strict=True
    ):
        rounded = Decimal(text).quantize(Decimal("1e-9"), ROUND_HALF_UP, context)
        fits = abs(rounded) < Decimal(10) ** 29
        assert (value, words is None) == (rounded if fits else None, fits), text
