"""examples/profile_step.py: the step trains on our operators, and the report is written."""

import pytest

SMALL = dict(width=32, layers=1, heads=2, kv_heads=1, hidden=64, length=16)


@pytest.mark.parametrize("plain", [False, True])
def test_a_step_is_profiled(tmp_path, monkeypatch, capsys, device, plain):
    pytest.importorskip("PIL")
    import profile_step

    monkeypatch.setattr(profile_step, "OUTPUT", tmp_path)
    monkeypatch.setitem(profile_step.SIZES, device.type, SMALL)
    report = profile_step.main(["--device", device.type, *["--torch"] * plain])
    names = {row.name for row in report.operators if row.ours}
    assert not names if plain else {"tile::attention_backward", "tile::adamw_", "tile::cross_entropy"} <= names
    assert "roofs: memory" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["profile.json", "profile.png"]
