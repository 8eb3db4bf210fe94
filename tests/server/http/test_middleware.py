"""What every HTTP request and answer passes."""

from email.utils import parsedate_to_datetime

import pytest

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("path", ["/health", "/nothing", "/docs", "/api/v1/actions?x=1"])
async def test_every_answer_keeps_browsers_from_guessing(http, path):
    answer = await http.client.get(path)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert parsedate_to_datetime(answer.headers["date"])
    assert "server" not in answer.headers
    assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_head_is_get_without_a_body(http):
    answer = await http.client.head("/health")
    assert answer.status_code == 200
    assert answer.headers["content-length"] == "15"
    assert answer.content == b""
    assert 'method="HEAD",route="/health",status="200"' in http.metrics.exposition().decode()


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://other.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
    ],
)
async def test_pages_of_other_sites_cannot_change_anything(mail, headers):
    status, body = await mail.ask("POST", "/actions/send-mail/invoke", headers=headers)
    assert status == 403
    assert body["error"]["code"] == "cross_site"
    assert (await mail.get("/actions/send-mail/runs"))[1]["items"] == []


async def test_pages_of_our_own_can(mail):
    for headers in (
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
        {"origin": f"http://127.0.0.1:{mail.door.port}"},
        {},
    ):
        status, _ = await mail.ask("POST", "/actions/send-mail/invoke", headers=headers)
        assert status == 202


async def test_looking_is_free_from_anywhere_but_no_page_is_told_what_was_seen(http):
    answer = await http.client.get("/health", headers={"origin": "http://evil.example"})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers
