from pathlib import Path

import pytest

from flo.model.errors import Invalid, NotFound
from flo.server.config import Durability, LogFormat, ServerConfig, load_config


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty folder to start a server in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(text, name="flo.toml"):
    Path(name).write_text(text, encoding="utf-8")
    return Path(name)


def refusal(flags=None, environment=None, file=None):
    with pytest.raises(Invalid) as error:
        load_config(flags or {}, environment or {}, file)
    assert error.value.code == "invalid_configuration"
    return error.value.message


def test_without_a_word_everything_has_its_default():
    config = load_config({}, {})

    assert config == ServerConfig()
    assert (config.host, config.port, config.http_port) == ("127.0.0.1", 9000, 9002)
    assert config.durability is Durability.SYNC
    assert config.data_dir == Path("flo-data")


@pytest.mark.parametrize(
    ("in_file", "in_environment", "in_flags", "port"),
    [
        (None, None, None, 9000),
        (7001, None, None, 7001),
        (None, 7002, None, 7002),
        (None, None, 7003, 7003),
        (7001, 7002, None, 7002),
        (7001, None, 7003, 7003),
        (None, 7002, 7003, 7003),
        (7001, 7002, 7003, 7003),
    ],
)
def test_flags_win_over_the_environment_and_that_over_the_file(
    in_file, in_environment, in_flags, port
):
    if in_file is not None:
        written(f"[server]\nport = {in_file}")
    environment = {} if in_environment is None else {"FLO_SERVER_PORT": str(in_environment)}

    assert load_config({"port": in_flags}, environment).port == port


def test_each_value_may_come_from_another_place():
    written('[server]\nhost = "0.0.0.0"\ndurability = "async"\narchive_retention_hours = 1.5')

    config = load_config(
        {"http_port": -1}, {"FLO_SERVER_DATA_DIR": "/var/flo", "FLO_SERVER_LOG_FORMAT": "json"}
    )

    assert config == ServerConfig(
        host="0.0.0.0",
        durability=Durability.ASYNC,
        archive_retention_hours=1.5,
        http_port=-1,
        data_dir=Path("/var/flo"),
        log_format=LogFormat.JSON,
    )


def test_a_path_is_a_path_wherever_it_comes_from():
    written('[server]\ndata_dir = "data"')

    assert load_config({}, {}).data_dir == Path("data")
    assert load_config({"data_dir": Path("other")}, {}).data_dir == Path("other")


def test_what_is_not_meant_for_the_server_is_left_alone():
    written('[client]\nserver = "flo.example:9000"\n')
    environment = {"FLO_SERVER": "flo.example:9000", "PATH": "/bin", "flo_server_port": "1"}

    assert load_config({}, environment) == ServerConfig()


def test_a_file_named_by_hand_is_read_instead_of_the_default_one():
    written("[server]\nport = 1")
    other = written("[server]\nport = 2", "other.toml")

    assert load_config({}, {}, other).port == 2


def test_a_file_named_by_hand_must_exist():
    with pytest.raises(NotFound, match=r"nowhere\.toml does not exist"):
        load_config({}, {}, Path("nowhere.toml"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[server", "flo.toml: "),
        ("server = 5", "flo.toml: expected a table"),
        ("[server]\nport = = 1", "flo.toml: "),
    ],
)
def test_a_file_that_makes_no_sense_is_named(text, message):
    written(text)

    assert message in refusal()


def test_a_file_that_is_no_text_is_named():
    Path("flo.toml").write_bytes(b"\xff\xfe\x00")

    assert "flo.toml: " in refusal()


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("prot", "did you mean 'port'?"),
        ("data_directory", "did you mean 'data_dir'?"),
        ("durabilty", "did you mean 'durability'?"),
        ("zzz", ""),
    ],
)
def test_a_setting_nobody_knows_is_refused_with_the_nearest_one(name, suggestion):
    written(f"[server]\n{name} = 1")
    in_file = refusal()
    Path("flo.toml").unlink()
    in_environment = refusal(environment={f"FLO_SERVER_{name.upper()}": "1"})

    assert f"flo.toml: unknown setting {name!r}" in in_file
    assert f"the environment (FLO_SERVER_*): unknown setting {name!r}" in in_environment
    for message in (in_file, in_environment):
        assert message.endswith(suggestion)
        assert ("did you mean" in message) is bool(suggestion)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "many"),
        ("port", "9000.5"),
        ("port", ""),
        ("durability", "sometimes"),
        ("log_format", "xml"),
        ("archive_retention_hours", "soon"),
        ("snapshot_events", "1e"),
    ],
)
def test_a_value_of_another_kind_is_refused_and_its_setting_named(name, value):
    assert f"$.{name}" in refusal(environment={f"FLO_SERVER_{name.upper()}": value})


@pytest.mark.parametrize("text", ["port = [1]", "data_dir = 5", "host = true", "port = 1.5"])
def test_a_value_of_another_kind_in_the_file_is_refused(text):
    written(f"[server]\n{text}")

    assert f"$.{text.partition(' ')[0]}" in refusal()


def test_a_flag_that_was_not_given_says_nothing():
    written("[server]\nport = 1")

    assert load_config({"port": None, "host": None}, {}).port == 1


@pytest.mark.parametrize("count", [0, -1])
def test_modules_that_could_never_run_are_refused_at_the_start(count):
    flags = {"max_concurrent_executions": count}

    assert f"max_concurrent_executions to be 1 or more, got {count}" in refusal(flags)
    written(f"[server]\nmax_concurrent_executions = {count}")
    assert f"max_concurrent_executions to be 1 or more, got {count}" in refusal()
    with pytest.raises(Invalid, match="no WebAssembly action would run"):
        ServerConfig(**flags)


def test_tables_about_access_stand_beside_the_server():
    written(
        """
        [roles.deployer]
        permissions = ["workflows:deploy", "*:read"]
        [oidc]
        issuer = "https://login.example.com"
        audience = "flo"
        jwks = "keys.json"
        rules = [{ claim = "groups", value = "ops", role = "operator", namespaces = ["shop"] }]
        [certificates.mailer]
        role = "worker"
        """
    )

    access = load_config({}, {}).access

    assert access.roles["deployer"].permissions == ("workflows:deploy", "*:read")
    assert access.oidc.rules[0].namespaces == ("shop",)
    assert access.certificates["mailer"].role == "worker"


def test_a_certificate_without_its_key_is_refused():
    with pytest.raises(Invalid):
        load_config({"tls_cert": "cert.pem"}, {})
