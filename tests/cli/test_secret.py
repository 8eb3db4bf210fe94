from flo.core.sealing import KeyRing


def test_a_new_key_seals_and_those_before_it_still_open(shell, tmp_path):
    file = tmp_path / "keys"
    shell(f"flo secret new-key {file}")
    sealed = KeyRing.from_file(file).seal(b"x")

    printed = shell(f"flo secret new-key {file}")

    ring = KeyRing.from_file(file)
    assert printed.code == 0
    assert ring.open(sealed) == b"x"
    assert ring.current.hex() in printed.out
    assert file.stat().st_mode & 0o777 == 0o600
