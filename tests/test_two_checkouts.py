"""benchmarks/two_checkouts.py: a checkout compared with itself, emulated."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import two_checkouts

ROOT = Path(__file__).resolve().parents[1]


def test_a_checkout_beside_itself(tmp_path):
    kept = tmp_path / "both.json"
    given = [str(ROOT), str(ROOT), "--operation", "vector_add", "--rounds", "1", "--json", str(kept)]
    two_checkouts.main(two_checkouts.parser().parse_args(given))
    records = json.loads(kept.read_text())["records"]
    assert {record["rung"][:3] for record in records} == {"k01", "k02", "k03", "k04", "k05"}
    assert all(record["same"] and record["ratio"] > 0 for record in records)


def test_rungs_that_were_renamed_are_matched_by_number():
    assert two_checkouts._numbered("k20_new", {"k02_other": [], "k20_old": []}) == "k20_old"
    assert two_checkouts._numbered("k21_new", {"k20_old": []}) is None
