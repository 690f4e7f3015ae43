"""Libraries as TVM's compilers make them, built once a session from operators.c."""

import subprocess
from pathlib import Path

import pytest

from graph_runtime.artifacts.prepare import read_params
from graph_runtime.ir.documents.params import save_params

SOURCE = Path(__file__).parent / "operators.c"
GOLDEN = Path(__file__).parents[1] / "golden" / "tvm"


@pytest.fixture(scope="session")
def tvm_library(tmp_path_factory):
    """build(*flavours, blob=bytes) -> path of a library, the same path for the same arguments."""
    folder, built = tmp_path_factory.mktemp("tvm"), {}

    def build(*flavours, blob=None, suffix=".so"):
        key = (flavours, blob, suffix)
        if key not in built:
            out = folder / f"lib{len(built)}{suffix}"
            flags = [f"-D{flavour}" for flavour in flavours]
            if blob is not None:
                (folder / f"blob{len(built)}").write_bytes(blob)
                flags.append(f'-DBLOB="\\"{folder}/blob{len(built)}\\""')
            how = ["-shared"] if suffix == ".so" else ["-c"]
            subprocess.run(
                ["gcc", "-O2", "-fPIC", *how, *flags, str(SOURCE), "-o", str(out), "-lm"], check=True
            )
            built[key] = out
        return built[key]

    return build


class BlobWriter:
    """Writes import blobs as the format says, record by record."""

    @staticmethod
    def u64(n):
        return n.to_bytes(8, "little")

    def text(self, value):
        raw = value.encode() if isinstance(value, str) else value
        return self.u64(len(raw)) + raw

    def texts(self, values):
        return self.u64(len(values)) + b"".join(map(self.text, values))

    def arrays(self, params):
        """Array records in sorted order of names: the tail of a parameter file."""
        raw = save_params(params)
        return raw[16 + len(self.texts(sorted(params))) + 8 :]

    def factory(self, json, params, key="GraphExecutorFactory", name="default"):
        names = sorted(params)
        return (
            self.text(key)
            + self.text(json)
            + self.u64(len(names))
            + self.texts(names)
            + self.arrays(params)
            + self.text(name)
        )

    def const_loader(self, arrays, consts, key="const_loader"):
        return (
            self.text(key)
            + self.texts(sorted(arrays))
            + self.u64(len(arrays))
            + self.arrays(arrays)
            + self.texts(list(consts))
            + self.u64(len(consts))
            + b"".join(map(self.texts, consts.values()))
        )

    def lib(self):
        return self.text("_lib")

    def tree(self, rows, children):
        return (
            self.text("_import_tree")
            + self.u64(len(rows))
            + b"".join(map(self.u64, rows))
            + self.u64(len(children))
            + b"".join(map(self.u64, children))
        )

    def blob(self, *records):
        body = self.u64(len(records)) + b"".join(records)
        return self.u64(len(body)) + body

    def model(self, name, key="GraphExecutorFactory"):
        """The single-file library of a golden network: factory, _lib, tree."""
        json, params = (GOLDEN / name / "graph.json").read_text(), read_params(GOLDEN / name / "params.bin")
        return self.blob(self.factory(json, params, key), self.lib(), self.tree([0, 1, 1], [1]))


@pytest.fixture(scope="session")
def blobs():
    return BlobWriter()


@pytest.fixture(scope="session")
def golden_dir():
    """What TVM 0.14 wrote for small networks: graph.json, params.bin, io.npz in a folder each."""
    return GOLDEN
