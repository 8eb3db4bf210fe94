import pytest

from cli.servers import ORDER
from flo.cli.dev.documents import SavedDocument, development_version


@pytest.mark.parametrize(
    ("text", "deployed"),
    [
        ('kind: Workflow\nversion: "1.2"\n', 'kind: Workflow\nversion: "1.2-dev.7"\n'),
        ("version: 1\nversion_of: 2\n", 'version: "1-dev.7"\nversion_of: 2\n'),
        ('{"version": "1"}', '{"version": "1"}'),
        ("name: order\n", "name: order\n"),
    ],
)
def test_a_development_version_is_the_same_text_under_a_version_of_its_own(text, deployed):
    assert development_version(text, "7") == deployed


def test_a_file_is_deployed_when_it_is_saved_and_not_without_a_change(client, tmp_path, capsys):
    path = tmp_path / "order.yaml"
    path.write_text(ORDER)
    document = SavedDocument(path)
    document.deploy_if_changed(client)
    document.deploy_if_changed(client)
    SavedDocument(path).deploy_if_changed(client)

    (version,) = client.workflows.get("order").versions
    assert version.startswith("1-dev.")
    assert capsys.readouterr().out.splitlines() == [
        f"Deployed: order {version}",
        f"Unchanged: {path}",
    ]


def test_what_is_wrong_with_a_saved_file_is_said_and_the_last_one_stays(client, tmp_path, capsys):
    path = tmp_path / "order.yaml"
    path.write_text(ORDER.replace("success: ship", "success: shp"))
    SavedDocument(path).deploy_if_changed(client)

    assert "[E201] error: " in capsys.readouterr().err
    assert client.workflows.list().items == []
