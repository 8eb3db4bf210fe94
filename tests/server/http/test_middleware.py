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


async def test_pages_of_other_sites_see_nothing_but_a_link_may_lead_here(http):
    answer = await http.client.get("/health", headers={"origin": "http://evil.example"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")
    assert "access-control-allow-origin" not in answer.headers

    answer = await http.client.get("/health", headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9002", "127.0.0.1.evil.example"])
@pytest.mark.parametrize("path", ["/health", "/metrics", "/nothing", "/api/v1/actions"])
async def test_a_request_that_names_another_host_is_refused_before_anything_else(http, host, path):
    for method in ("GET", "HEAD", "POST", "OPTIONS"):
        answer = await http.client.request(method, path, headers={"host": host})
        assert answer.status_code == 421
    answer = await http.client.get(path, headers={"host": host})
    error = answer.json()["error"]
    assert error["code"] == "host_not_allowed"
    assert repr(host) in error["message"]
    assert "--allowed-host" in error["message"]
