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


def test_a_secret_is_set_from_a_file_and_never_shown(shell, tmp_path):
    (tmp_path / "value").write_text("sk_live_0123456789\n")

    printed = shell(f"flo secret set STRIPE_KEY --file {tmp_path / 'value'}")
    listed = shell("flo secret list")

    assert printed.out == "Secret STRIPE_KEY has version 1\n"
    assert "STRIPE_KEY" in listed.out
    assert "sk_live" not in printed.out + listed.out


def test_a_secret_that_is_not_there_cannot_be_deleted(shell):
    printed = shell("flo secret delete NOTHING")

    assert printed.code != 0
    assert "secret 'NOTHING' does not exist" in printed.err


def test_keys_are_rotated_while_the_server_runs(shell, tmp_path):
    (tmp_path / "value").write_text("sk_live_0123456789")
    shell(f"flo secret set STRIPE_KEY --file {tmp_path / 'value'}")

    printed = shell("flo secret rotate-key")

    assert printed.code == 0
    assert "Key id" in printed.out
