import pytest

from flo.server.rpc.wrong_port import METHODS, TLS_ALERT, answer_to_stranger


@pytest.mark.parametrize("method", METHODS)
def test_who_speaks_http_hears_where_the_api_is(method):
    answer = answer_to_stranger(method + b"/ HTTP/1.1\r\n", "http://127.0.0.1:9002")

    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"the HTTP API is at http://127.0.0.1:9002." in answer


def test_or_that_there_is_none():
    assert b"there is no HTTP API" in answer_to_stranger(b"GET / HTTP/1.1\r\n", None)


def test_who_speaks_tls_hears_an_alert():
    assert answer_to_stranger(b"\x16\x03\x01\x02\x00\x01", None) == TLS_ALERT


@pytest.mark.parametrize("data", [b"\0\0\0\x2aabcd", b"", b"GETAWAY"])
def test_frames_have_no_such_answer(data):
    assert answer_to_stranger(data, None) is None
