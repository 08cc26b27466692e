"""The process of the embedded model: llama.cpp's server on a Unix socket (``python -m devassist.llm.embedded_server``).

Its first line of input is the JSON of ``embedded_process.Settings``: the key comes that way because a command line and
an environment can be read by others. It prints ``ready`` once it can be asked, and ends when its input does, so that it
never outlives the service, however that one ends; then it also removes the directory of its socket.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

_NICE = 10
"""Below the service: a token later is no harm, an answer of the API later is."""


def main() -> None:
    given: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    os.umask(0o077)
    os.nice(_NICE)
    watcher = threading.Thread(target=_end_with_input, args=(Path(given["socket"]).parent,), daemon=True)
    watcher.start()
    said, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # what the library prints is nobody's answer
    server = _serve(given)
    os.write(said, b"ready\n")
    os.dup2(nothing, 2)  # until here its complaints tell why a start failed; from here on they would fill a disk
    watcher.join()
    del server


def _serve(given: dict[str, Any]) -> object:
    """Loads the model and listens. Left to itself it would open a TCP port, without a key, to every web page."""
    llama: Any = import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = given["gguf"]
    params.model_alias = {given["name"]}
    params.hostnames = [given["socket"]]
    params.api_keys = [given["key"]]
    params.cors_origins = ""
    params.ui = False
    params.n_parallel = given["slots"]
    params.n_ctx = given["slots"] * given["context"]
    params.n_batch = params.n_ubatch = given["batch"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = given["threads"]
    params.n_gpu_layers = 0
    params.fit_params = False  # the settings are meant; none is changed to what fits the memory
    params.cache_ram_mib = 0
    params.verbosity = -1
    return llama.Server(params)


def _end_with_input(directory: Path) -> None:
    while os.read(0, 4096):
        pass
    shutil.rmtree(directory, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
