"""Results as JUnit XML, as Jenkins, GitLab and others read it: testsuites, testsuite, testcase, failure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from .result import Result, failure_text

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, production 2


def junit(results: Sequence[Result]) -> bytes:
    """The report, with one testsuite per file."""
    root = ET.Element("testsuites", _counts("tidegate test", results))
    by_file: dict[str, list[Result]] = {}
    for result in results:
        by_file.setdefault(result.case.file, []).append(result)
    for file, members in by_file.items():
        suite = ET.SubElement(root, "testsuite", {**_counts(file, members), "skipped": "0"})
        for result in members:
            _case(suite, result)
    ET.indent(root)
    text: bytes = ET.tostring(root, "utf-8")
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + text + b"\n"


def _counts(name: str, results: Sequence[Result]) -> dict[str, str]:
    return {
        "name": _text(name),
        "tests": str(len(results)),
        "failures": str(sum(bool(r.failures) for r in results)),
        "errors": str(sum(bool(r.error) for r in results)),
        "time": f"{sum(r.seconds for r in results):.6f}",
    }


def _case(suite: ET.Element, result: Result) -> None:
    case = result.case
    facts = {"name": _text(case.name), "classname": _text(case.file), "time": f"{result.seconds:.6f}"}
    element = ET.SubElement(suite, "testcase", facts)
    if not result.passed:
        kind = "error" if result.error else "failure"
        first = result.error or f"{result.failures[0].path}: expected {result.failures[0].expected}"
        ET.SubElement(element, kind, {"message": _text(first), "type": kind}).text = _text(failure_text(result))


def _text(text: str) -> str:
    return _FORBIDDEN.sub("�", text)
