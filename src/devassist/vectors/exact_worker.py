"""The process that holds the matrices of the exact index."""

from __future__ import annotations

from devassist.vectors import wire
from devassist.vectors.frames import Header
from devassist.vectors.matrix import Matrix, read_vectors
from devassist.vectors.worker import Answer, Handler, Refused, serve


class ExactVersions:
    """Answers the requests of ``WorkerIndex``. A version has no matrix before its first vectors come."""

    def __init__(self) -> None:
        self._versions: dict[str, Matrix | None] = {}
        self._pages = wire.KeyPages(self._keys)

    def answer(self, header: Header, body: bytes) -> Answer:
        operation, version = header["op"], header.get("version", "")
        match operation:
            case "versions":
                return {"versions": {name: len(matrix or ()) for name, matrix in self._versions.items()}}, b""
            case "create":
                self._versions.setdefault(version)
            case "drop":
                self._versions.pop(version, None)
            case "keys":
                return {"keys": self._pages.page(version, header["after"])}, b""
            case "search":
                return {"hits": self._search(version, header, body)}, b""
            case "upsert":
                self._put(version, header, body)
            case "remove":
                if (matrix := self._of(version)) is not None:
                    matrix.remove(header["keys"])
            case _:
                raise Refused(f"it knows no {operation!r}")
        return {}, b""

    def _search(self, version: str, header: Header, body: bytes) -> list[tuple[int, float]]:
        matrix = self._of(version)
        (vector,) = read_vectors(body, 1, matrix.dimension if matrix else 0, version)
        return matrix.search(vector, header["k"], header) if matrix else []

    def _put(self, version: str, header: Header, body: bytes) -> None:
        matrix, rows = self._of(version), wire.rows(header)
        vectors = read_vectors(body, len(rows), matrix.dimension if matrix else 0, version)
        if matrix is None:
            matrix = self._versions[version] = Matrix(vectors.shape[1])
        matrix.put(rows, vectors)

    def _keys(self, version: str) -> dict[int, str]:
        matrix = self._of(version)
        return matrix.keys() if matrix else {}

    def _of(self, version: str) -> Matrix | None:
        if version not in self._versions:
            raise Refused(f"there is no version {version!r}; it has to be created and filled")
        return self._versions[version]


def open_versions(_: Header) -> Handler:
    return ExactVersions().answer


if __name__ == "__main__":
    serve(open_versions)
