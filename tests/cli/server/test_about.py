from flo.cli.server.about import ask_about
from flo.model.version import VERSION


def test_a_server_tells_about_itself(server):
    about = ask_about(server.address, server.http_port)

    assert about.version == VERSION
    assert about.address == server.address


def test_nobody_there_tells_nothing():
    assert ask_about("127.0.0.1:9000", 1) is None


def test_another_server_tells_nothing_about_this_one(server):
    assert ask_about("127.0.0.1:1", server.http_port) is None


def test_what_does_not_speak_http_tells_nothing(server):
    assert ask_about(server.address, server.port) is None
