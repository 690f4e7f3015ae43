#!/usr/bin/env bash
# Builds the core under a sanitizer into a scratch folder and runs on it the native tests, the fuzzers, and the tests of what
# queues work: runs, handles, stitching, eager ops. asan has UBSan and LeakSanitizer in it: memory that our C lost fails the
# run (leaks.py says which is ours). Under tsan are the tests that use threads (one_thread.py has the others, and asan's run
# holds them to it), and the soak for SOAK seconds (default: 60).
#
#     tests/tools/sanitize.sh asan|ubsan|tsan [PYTHON [PYTEST ARGUMENT...]]
#
# PYTHON (default: python3) has the test dependencies; its own installed graph_runtime is not touched. Arguments replace the
# folders that are run. SANITIZED=FOLDER: what was built there is used, and what is built stays there for other runs; the
# caller sees to it that it is of this tree.
set -euo pipefail
soak=${SOAK:-60}
flavour=${1:?usage: sanitize.sh asan|ubsan|tsan [PYTHON [PYTEST ARGUMENT...]]}
python=${2:-python3}
shift $(($# < 2 ? $# : 2))
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
case $python in */*) python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python") ;; esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

build() {                                   # the core and the package into $built/site
    mkdir -p "$scratch/source"
    # not the bytecode: files of it come and go while others use this checkout
    tar -C "$root" --exclude=__pycache__ --exclude='*.so' -cf - \
        pyproject.toml README.md LICENSE graph_runtime codegen native schemas | tar -C "$scratch/source" -xf -
    local isolation=()                      # build with what is there, if it is new enough; else pip fetches it
    if "$python" -c 'import cffi, setuptools; assert int(setuptools.__version__.split(".")[0]) >= 77' 2> /dev/null; then
        isolation=(--no-build-isolation)
    fi
    GR_BUILD=$flavour "$python" -m pip install -q --no-deps "${isolation[@]}" --upgrade --target "$built/site" "$scratch/source"
    # torch stays out: its libraries are not instrumented, so a run with it judges torch's threads, locks and leaks with ours
    cat > "$built/site/torch.py" << 'END'
raise ModuleNotFoundError("torch is kept out of sanitized runs, as tests/tools/sanitize.sh says", name="torch")
END
    cp "$root/tests/tools/one_thread.py" "$built/site"
    [ "$flavour" != asan ] || cp "$root/tests/tools/leaks_at_exit.py" "$built/site/sitecustomize.py"
    touch "$built/whole"
}
built=${SANITIZED:-$scratch}/$flavour
mkdir -p "$built"
exec 9> "$built/lock"                       # two runs at once: the second waits for the build of the first
flock 9
[ -e "$built/whole" ] || build
exec 9>&-

runtime() { "${CC:-gcc}" -print-file-name="$1"; }
wrap=()
case $flavour in
    asan) preload="$(runtime libasan.so) $(runtime libstdc++.so)" ;;
    ubsan) preload=$(runtime libubsan.so) ;;
    # it wants its own address ranges free, which a randomised address space may not leave
    tsan) preload=$(runtime libtsan.so) && wrap=(setarch -R) ;;
    *) echo "sanitize.sh: no flavour $flavour: asan, ubsan or tsan" >&2 && exit 2 ;;
esac

folders=(tests/native tests/fuzz tests/runtime tests/eager tests/run/test_async.py tests/run/test_concurrent.py)
case $flavour in                            # every kernel of the cpu; where threads race, those that share their work
    tsan) folders+=(tests/kernels/test_ops_cpu.py::test_threads_change_nothing) ;;
    *) folders+=(tests/kernels/test_ops_cpu.py tests/kernels/test_steps.py) ;;
esac
cd "$root"
# Two faults of gcc's libtsan with glibc 2.34 and later end runs at random, where threads begin and end:
# - It takes a thread-local block at 16 bytes after a page for one of glibc 2.19, reads a size and an address from the
#   16 bytes before it, which are some other block's, and resets that range. intercept_tls_get_addr=0: it does not look;
#   nothing is lost, because glibc takes such blocks from malloc, which it sees.
#   Planted bytes show what that does: 512 bytes from a read-only page of the executable, whose shadow is read-only, are a
#   SIGSEGV in MemoryRangeSet, called by the interceptor of __tls_get_addr; a range across libtsan's own is a failed mmap.
#   In a thread that blocks SIGSEGV, as our workers did (native/core/threads.c), the process ends without a report. With the
#   flag at 0 the same bytes do nothing.
# - A detached thread, as Python's are, may free the thread-local blocks of threads that ended before it, after libtsan
#   forgot it: a false race, reported by a thread that is no longer. stack_cache_size: glibc keeps those stacks.
# Leaks are looked for by leaks_at_exit.py, not at exit, when the interpreter has left its objects. PYTHONMALLOC=malloc:
# LeakSanitizer looks for pointers in what malloc gave, not in the pools of Python's own allocator. stack_trace_format: with
# each frame's library, which leaks.py reads. intercept_tls_get_addr=0 as above, for libasan has that code too.
# capture=sys: reports are written to the file descriptor.
# -P: the checkout, which is the current folder, may have a core of its own, which is not instrumented; tests start Python so too
# OPENBLAS_NUM_THREADS: numpy's own threads, which are not instrumented either, would be taken for races
settings=(PYTHONPATH="$built/site" GR_BUILD="$flavour" LD_PRELOAD="$preload" OPENBLAS_NUM_THREADS=1
    ASAN_OPTIONS='handle_segv=1:detect_leaks=1:leak_check_at_exit=0:intercept_tls_get_addr=0:stack_trace_format="    #%n %p %F %L [%m]"'
    UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:report_signal_unsafe=0:intercept_tls_get_addr=0
    GLIBC_TUNABLES=glibc.pthread.stack_cache_size=8589934592)
run=(${wrap[@]+"${wrap[@]}"} "$python")
if [ "$flavour" = asan ]; then
    mkdir "$scratch/leaks"
    settings+=(PYTHONMALLOC=malloc GR_LEAKS="$scratch/leaks")
fi
plugins=()
if [ $# -eq 0 ]; then
    plugins=(-p one_thread)
    settings+=(ONE_THREAD="$([ "$flavour" = tsan ] && echo leave || echo first)")
fi
status=0
env "${settings[@]}" "${run[@]}" -P -m pytest -q -p no:cacheprovider ${plugins[@]+"${plugins[@]}"} --capture=sys \
    "${@:-${folders[@]}}" || status=$?
if [ "$flavour" = asan ]; then              # of a run that failed too
    "$python" -P tests/tools/leaks.py "$scratch/leaks" || status=1
fi
[ $status -eq 0 ] || exit $status
if [ "$flavour" = tsan ] && [ $# -eq 0 ]; then
    env "${settings[@]}" SECONDS="$soak" "${run[@]}" tests/soak/soak.py
fi
