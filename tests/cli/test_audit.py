import json


def entries(shell, *flags):
    return json.loads(shell(f"flo audit list --format json {' '.join(flags)}").out)


def test_what_was_done_and_what_was_refused_is_listed_the_newest_first(shell):
    shell("flo action register send-email")
    shell("flo action delete send-sms --force")

    listed = entries(shell)

    assert [(one["operation"], one["target"], one["outcome"]) for one in listed] == [
        ("delete_action", "send-sms", "action_not_found"),
        ("register_action", "send-email", "allowed"),
    ]
    assert {one["source"] for one in listed} == {"rpc"}
    assert listed[0]["position"] > listed[1]["position"] > 0


def test_entries_are_found_by_what_they_are_about(shell):
    for name in ("a", "b"):
        shell(f"flo action register {name}")
    shell("flo action disable a")

    assert len(entries(shell, "--target a")) == 2
    assert len(entries(shell, "--target a", "--operation disable_action")) == 1
    assert len(entries(shell, "--operation register_action", "--since 1h")) == 2
    assert entries(shell, "--refused") == []
    assert entries(shell, "--actor nobody") == []


def test_what_data_consists_of_is_not_audited_one_by_one(shell):
    shell("flo action register a")
    shell("flo action invoke a '{}'")
    shell("flo kv set k v")

    assert [one["operation"] for one in entries(shell)] == ["register_action"]


def test_a_page_says_how_to_see_more(shell):
    for number in range(4):
        shell(f"flo action register a{number}")

    printed = shell("flo audit list --limit 2")

    assert "a3" in printed.out
    assert "--cursor" in printed.err
