#!/usr/bin/env bash
# Builds the wheel for AArch64 and runs tests of it in a program that plays such a machine (qemu-user), on Debian or Ubuntu.
#
#     tests/tools/aarch64.sh [PYTHON [FOLDER [PYTEST ARGUMENT...]]]
#
# PYTHON (default: python3, 3.11 or newer) has pip; nothing is installed into it. FOLDER is where all is made, and is left
# there: source/dist has the wheel, site the packages, python runs the interpreter. Without it a scratch folder, which goes.
# Arguments replace the tests that are run. SAMPLED_PART=N: of those that are run without arguments one case of N of each
# function, drawn by SEED (sampled.py), and none that asks Python's own code only.
#
# - root has Debian's python3.11 and its libraries, unpacked from arm64 packages, which apt fetches by lists and a status
#   of its own: this machine's packages stay as they are, and no root is needed.
# - That interpreter, played by qemu, builds the wheel as on an ARM machine. The compiler that it starts is the cross
#   compiler, which is a program of this machine and runs on it, at its speed. So it is for kernels that tests compile.
# - How fast a kernel is on an ARM machine cannot be seen here, and the order of memory accesses is this machine's, which is
#   stricter.
set -euo pipefail
python=${1:-python3} folder=${2:-}
shift $(($# < 2 ? $# : 2))
case $python in */*) python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python") ;; esac
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [ -z "$folder" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# ---------------------------------------------------------------- the compiler and the machine

missing=()
command -v aarch64-linux-gnu-gcc > /dev/null || missing+=(gcc-aarch64-linux-gnu)
command -v qemu-aarch64-static > /dev/null || missing+=(qemu-user-static)
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null; then
        echo "aarch64.sh: not here: ${missing[*]} (as root: apt-get install ${missing[*]})" >&2
        exit 1
    fi
    apt-get -q update > "$folder/apt.log" 2>&1
    DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "${missing[@]}" libc6-dev-arm64-cross \
        >> "$folder/apt.log" 2>&1 || { tail -20 "$folder/apt.log" && exit 1; }
fi

packages() {                # Debian's for arm64, unpacked into root
    local apt=(apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$folder/apt/state"
        -o Dir::State::status="$folder/apt/status" -o Dir::Cache="$folder/apt/cache" -o APT::Sandbox::User="$(id -un)"
        -o Debug::NoLocking=1)
    mkdir -p "$folder"/apt/{state/lists,cache/archives}/partial "$folder/root"
    touch "$folder/apt/status"
    "${apt[@]}" update
    "${apt[@]}" install --download-only --no-install-recommends python3.11 libpython3.11-dev libstdc++6
    for package in "$folder"/apt/cache/archives/*.deb; do dpkg-deb -x "$package" "$folder/root"; done
}
packages > "$folder/packages.log" 2>&1 || { tail -20 "$folder/packages.log" && exit 1; }

# ---------------------------------------------------------------- the interpreter

mkdir -p "$folder"/{bin,site,source}
cat > "$folder/python" << END
#!/bin/sh
export PYTHONHOME="$folder/root/usr" PYTHONPATH="$folder/site"
exec qemu-aarch64-static -L "$folder/root" -0 "$folder/python" "$folder/root/usr/bin/python3.11" "\$@"
END
chmod +x "$folder/python"
compiler=$(command -v aarch64-linux-gnu-gcc)
for name in gcc cc aarch64-linux-gnu-gcc; do    # the last: as that interpreter's sysconfig spells it
    printf '#!/bin/sh\nexec "%s" "$@" -idirafter "%s"\n' "$compiler" "$folder/root/usr/include" > "$folder/bin/$name"
    chmod +x "$folder/bin/$name"
done
export PATH="$folder/bin:$PATH" GR_CACHE_DIR="$folder/cache" GR_TRUST_DIR="$folder/trust"

fetch() {                   # packages of the index for that interpreter
    "$python" -m pip install -q --upgrade --target "$folder/site" --python-version 3.11 --implementation cp --abi cp311 \
        --abi abi3 --abi none --only-binary=:all: --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 \
        --platform manylinux2014_aarch64 --platform linux_aarch64 "$@" 2>&1 | grep -v WARNING || true
}

# ---------------------------------------------------------------- the wheel, then what it and the tests need

# not the bytecode and the objects: they are this machine's
tar -C "$checkout" --exclude=__pycache__ --exclude='*.so' -cf - \
    pyproject.toml README.md LICENSE graph_runtime codegen native schemas | tar -C "$folder/source" -xf -
mapfile -t backend < <("$python" -c '
import sys, tomllib
print(*tomllib.load(open(sys.argv[1], "rb"))["build-system"]["requires"], sep="\n")' "$checkout/pyproject.toml")
fetch "${backend[@]}"
cd "$folder/source"
"$folder/python" -c '
from setuptools import build_meta
print(build_meta.build_wheel("dist"))' > "$folder/build.log" 2>&1 || { tail -50 "$folder/build.log" && exit 1; }
wheel=$(echo dist/graph_runtime-*-linux_aarch64.whl)
fetch "graph-runtime[test] @ file://$folder/source/$wheel"
echo "built $wheel"

# ---------------------------------------------------------------- the tests

# far from the checkout, whose package would be taken for the wheel's
mkdir -p "$folder/tests"
for name in tests native examples schemas pyproject.toml; do ln -sfn "$checkout/$name" "$folder/tests/$name"; done
cd "$folder/tests"
"$folder/python" -c '
import platform, graph_runtime as gr
assert platform.machine() == "aarch64", platform.machine()
print(gr.__file__)'
# a bundle that is compiled there; every kernel in every case; each form of the vector code; threads
if [ $# -eq 0 ]; then
    cp -r "$checkout/examples" "$folder/copied"
    (cd "$folder/copied" && "$folder/python" digits/run.py)
    set -- tests/kernels/test_ops_cpu.py tests/native/test_gemm.py tests/native/test_panels.py tests/native/test_pool.py \
        tests/native/test_executor.py tests/codegen/test_library.py
    if [ "${SAMPLED_PART:-1}" -gt 1 ]; then
        cp "$checkout/tests/tools/sampled.py" "$folder/site"
        set -- -p sampled -k "not any_bytes and not any_json and not that_lies" "$@"
    fi
fi
"$folder/python" -m pytest -q -m "slow or not slow" --timeout=400 -p no:cacheprovider "$@"
