"""Lines that deployment scripts of TVM's users contain, with what becomes of them here. docs/tvm.md has the
table (tests/tools/tvm_table.py writes it), test_snippets.py runs each.

Names that all have: tvm, np, graph_executor; lib_path (a library of operators), factory_path (a single-file
library), graph_json (one operator of the input "x"), params_bytes, folder, dev = tvm.cpu(0), lib, module (an
executor of graph_json) and data.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SNIPPETS", "STATES", "Snippet"]

STATES = (
    "works",
    "elsewhere",
    "differs",
)  # as written; names what is missing and the way out; another error


@dataclass(frozen=True)
class Snippet:
    """``releases`` whose scripts have it. ``why``: of one that differs. ``error``: what its text has then."""

    group: str
    code: str
    releases: str = "0.6 to 0.19"
    state: str = "works"
    why: str = ""
    error: str = ""


def _works(group: str, *codes: str, releases: str = "0.6 to 0.19") -> list[Snippet]:
    return [Snippet(group, code, releases) for code in codes]


def _elsewhere(group: str, error: str, *codes: str, releases: str = "0.6 to 0.19") -> list[Snippet]:
    return [Snippet(group, code, releases, "elsewhere", error=error) for code in codes]


SNIPPETS: list[Snippet] = [
    *_works(
        "loading libraries",
        "lib = tvm.runtime.load_module(lib_path)",
        "lib = tvm.runtime.load_module(str(lib_path), 'so')",
        "lib = tvm.runtime.load_module(factory_path)\ngmod = lib['default'](dev)",
        "lib = tvm.runtime.load_module(lib_path)\nassert lib.type_key",
        "lib = tvm.runtime.load_module(lib_path)\nlib.get_function('myadd')",
        "fadd = lib['myadd']\nfadd(tvm.nd.array(data), tvm.nd.empty((4,)))",
        "assert lib.implements_function('myadd')",
        "assert not lib.implements_function('no_such_function')",
        "lib.imported_modules",
        "print(lib)",
        "lib = tvm.runtime.load_module(factory_path)\nlib.get_function('get_graph_json')()",
        "lib.import_module(tvm.runtime.load_module(factory_path))\nassert len(lib.imported_modules) == 1",
        "lib.export_library(str(folder / 'copy.so'))\ntvm.runtime.load_module(folder / 'copy.so')['myadd']",
        "params = tvm.runtime.load_module(factory_path)['get_graph_params']()\n"
        "{name: value.shape for name, value in params.items()}",
        "lib = tvm.runtime.load_module(factory_path)['remove_params']()",
        "assert tvm.runtime.enabled('llvm')",
        "assert not tvm.runtime.enabled('cuda')",
        "tvm.runtime.num_threads()",
        "syslib = tvm.runtime.system_lib()",
        releases="0.7 to 0.19",
    ),
    *_works(
        "loading libraries",
        "lib = tvm.module.load(lib_path)",
        "from tvm import module as m\nm.load(str(lib_path))",
        releases="0.6",
    ),
    *_works(
        "executors",
        "module = graph_executor.create(graph_json, lib, dev)",
        "module = graph_executor.create(graph_json, lib, [dev])",
        "module = graph_executor.create(graph_json_str=graph_json, libmod=lib, device=dev)",
        "module = graph_executor.GraphModule(tvm.runtime.load_module(factory_path)['default'](dev))",
        "gmod = "
        "graph_executor.GraphModule(tvm.runtime.load_module(factory_path)['default'](tvm.device('llvm', 0)))",
        "module = graph_executor.GraphModule(module.module)",
        "graph_executor.get_device(lib, dev)",
        releases="0.8 to 0.19",
    ),
    *_works(
        "executors",
        "from tvm.contrib import graph_runtime\nmodule = graph_runtime.create(graph_json, lib, tvm.cpu(0))",
        "from tvm.contrib import graph_runtime\n"
        "module = graph_runtime.create(graph_json, lib, ctx=tvm.cpu())",
        "import tvm.contrib.graph_runtime as runtime\n"
        "m = runtime.create(graph_json, lib, tvm.context('cpu', 0))",
        releases="0.6, 0.7",
    ),
    *_works(
        "inputs and outputs",
        "module.set_input('x', data)\nmodule.run()\nout = module.get_output(0).numpy()",
        "module.set_input('x', tvm.nd.array(data))",
        "module.set_input('x', tvm.nd.array(data, dev))",
        "module.set_input(0, data)",
        "module.set_input(x=data)",
        "module.set_input(**{'x': data})",
        "module.set_input('x', data, **{'not_in_the_graph': data})",
        "module.set_input('x', data.astype('float64'))",
        "module.set_input('x', [1, 2, 3, 4])",
        "module.run(x=data)",
        "module.run(**{'x': tvm.nd.array(data)})",
        "out = module.get_output(0).asnumpy()",
        "out = tvm.nd.empty((4,))\nmodule.get_output(0, out)",
        "module.get_output(0, tvm.nd.empty((4,), 'float32', dev)).numpy()",
        "[module.get_output(i).numpy() for i in range(module.get_num_outputs())]",
        "assert module.get_num_inputs() == 1",
        "module.get_input(0).numpy()",
        "module.get_input('x')",
        "assert module.get_input_index('x') == 0",
        "shapes, dtypes = module.get_input_info()\nassert shapes['x'] == (4,)",
        "module['set_input']('x', tvm.nd.array(data))\nmodule['run']()\nmodule['get_output'](0)",
        "set_input, run = module['set_input'], module['run']\nset_input('x', tvm.nd.array(data))\nrun()",
        "assert module['get_num_inputs']() == 1",
        "np.testing.assert_allclose(module.get_output(0).numpy().shape, (4,))",
    ),
    *_works(
        "inputs and outputs",
        "a = tvm.nd.array(data)\nmodule.set_input_zero_copy('x', a)\nmodule.run()",
        "module.module['set_input_zero_copy']('x', tvm.nd.array(data))",
        "out = tvm.nd.empty((4,))\nmodule.set_output_zero_copy(0, out)\nmodule.run(x=data)",
        releases="0.7 to 0.19",
    ),
    *_works(
        "parameters",
        "module.load_params(params_bytes)",
        "module.load_params(bytearray(params_bytes))",
        "params = tvm.runtime.load_param_dict(params_bytes)\nmodule.set_input(**params)",
        "params = tvm.runtime.load_param_dict(bytearray(params_bytes))\n"
        "{k: v.numpy() for k, v in params.items()}",
        "raw = tvm.runtime.save_param_dict({'x': tvm.nd.array(data)})\nmodule.load_params(raw)",
        "open(folder / 'p.params', 'wb').write(tvm.runtime.save_param_dict({'x': tvm.nd.array(data)}))\n"
        "module.load_params(bytearray(open(folder / 'p.params', 'rb').read()))",
        "other = graph_executor.create(graph_json, lib, dev)\nmodule.load_params(params_bytes)\n"
        "other.share_params(module, params_bytes)",
        releases="0.7 to 0.19",
    ),
    *_works(
        "timing",
        "ftimer = module.module.time_evaluator('run', dev, number=1, repeat=3)\n"
        "prof_res = np.array(ftimer().results) * 1000\n"
        "print('%.2f (%.2f)' % (np.mean(prof_res), np.std(prof_res)))",
        "t = module.module.time_evaluator('run', dev, number=2)\nprint(t().mean)",
        "timing = lib.time_evaluator('myadd', dev, number=2)\n"
        "timing(tvm.nd.array(data), tvm.nd.empty((4,))).mean",
        "evaluator = lib.time_evaluator(lib.entry_name, dev, repeat=2, number=1) if lib.implements_function("
        "lib.entry_name) else None",
        "timer = module.module.time_evaluator('run', dev, number=1, repeat=2, min_repeat_ms=1)\n"
        "timer().results",
        "module.module.time_evaluator('run', dev, number=1, f_preproc='cache_flush_cpu_non_first_arg')()",
        "timer = lib.time_evaluator('myadd', dev, number=1, f_preproc='cache_flush_cpu_non_first_arg')\n"
        "timer(tvm.nd.array(data), tvm.nd.empty((4,)))",
        "module.module.time_evaluator('run', dev, number=1, cache_flush_bytes=1 << 20)().mean",
    ),
    *_works(
        "timing",
        "print(module.benchmark(dev, repeat=2, number=1))",
        "r = module.benchmark(dev, number=1, repeat=3, end_to_end=True, x=data)\n"
        "r.mean, r.median, r.min, r.max, r.std",
        releases="0.8 to 0.19",
    ),
    *_works(
        "devices",
        "assert str(tvm.cpu(0)) == 'cpu(0)'",
        "dev = tvm.cpu()",
        "assert tvm.cpu(0).exist",
        "assert not tvm.cuda(0).exist",
        "dev = tvm.cuda(0) if tvm.cuda(0).exist else tvm.cpu(0)",
        "assert tvm.cpu(0).device_type == 1 and tvm.cpu(0).device_id == 0",
        "tvm.cpu(0).sync()",
        "dev = tvm.device('cpu', 0)",
        "dev = tvm.device('llvm')",
        "dev = tvm.device('cpu:0')",
        "dev = tvm.runtime.Device(1, 0)",
        "assert tvm.cpu(0) == tvm.device('cpu', 0)",
        "for make in (tvm.opencl, tvm.vulkan, tvm.metal, tvm.rocm, tvm.hexagon, tvm.webgpu, tvm.vpi):\n"
        "    assert not make(0).exist",
        "assert tvm.cpu(0).max_threads_per_block is None",
        releases="0.7 to 0.19",
    ),
    *_works(
        "devices",
        "ctx = tvm.context('cpu', 0)",
        "ctx = tvm.context('llvm')",
        "assert not tvm.gpu(0).exist",
        "ctx = tvm.nd.cpu(0)",
        "isinstance(tvm.cpu(0), tvm.TVMContext)",
        releases="0.6, 0.7",
    ),
    *_works(
        "arrays",
        "a = tvm.nd.array(data)\na.numpy(), a.asnumpy()",
        "a = tvm.nd.array(data, device=dev)",
        "a = tvm.nd.array([1.0, 2.0])",
        "a = tvm.nd.empty((2, 3), 'int8', dev)\nassert a.shape == (2, 3) and a.dtype == 'int8'",
        "a = tvm.nd.empty((4,), dtype='float32', device=dev)\na.copyfrom(data)",
        "a = tvm.nd.array(data)\nb = tvm.nd.empty((4,))\na.copyto(b)",
        "a = tvm.nd.array(data).copyto(tvm.cpu(0))",
        "a = tvm.nd.array(data)\na[:] = data + 1",
        "print(tvm.nd.array(data))",
        "assert isinstance(tvm.nd.array(data), tvm.nd.NDArray)",
        "a = tvm.nd.array(data)\nassert a.same_as(a)",
        "np.testing.assert_array_equal(np.asarray(tvm.nd.array(data)), data)",
        "a = tvm.nd.from_dlpack(tvm.nd.array(data).to_dlpack())",
        "a = tvm.nd.array(np.zeros((1, 3, 224, 224), 'float32'))",
        "tvm.nd.array(data).device, tvm.nd.array(data).ctx",
        "assert tvm.nd.array(data)._create_view((2, 2)).shape == (2, 2)",
        "from tvm.runtime.ndarray import numpyasarray\narr, shape = numpyasarray(data)",
    ),
    *_works(
        "functions by name",
        "f = tvm.get_global_func('tvm.contrib.sort.argsort')\n"
        "f(tvm.nd.array(data), tvm.nd.empty((4,), 'int32'), -1, False)",
        "assert tvm.get_global_func('no.such.function', allow_missing=True) is None",
        "@tvm.register_func('snippets.twice', override=True)\ndef twice(x):\n    return 2 * x\n"
        "assert tvm.get_global_func('snippets.twice')(4) == 8",
        "tvm.register_func('snippets.f', lambda x, y: y.copyfrom(x.numpy()), override=True)\n"
        "tvm.get_global_func('snippets.f')(tvm.nd.array(data), tvm.nd.empty((4,)))",
        "config = tvm.get_global_func('runtime.config_threadpool')\nconfig(1, tvm.runtime.num_threads())",
        "isinstance(tvm.get_global_func('tvm.contrib.sort.sort'), tvm.runtime.PackedFunc)",
        "fcreate = tvm.get_global_func('tvm.graph_executor.create')\n"
        "module = graph_executor.GraphModule(fcreate(graph_json, lib, 1, 0))",
        "load = tvm.get_global_func('runtime.ModuleLoadFromFile')\nload(lib_path, 'so')",
        "f = tvm.runtime.convert(lambda x: x + 1)\nassert f(1) == 2",
    ),
    *_works(
        "debugger",
        "from tvm.contrib.debugger import debug_executor\nm = debug_executor.create(graph_json, lib, dev)\n"
        "m.set_input('x', data)\nm.run(number=1)",
        "from tvm.contrib.debugger import debug_executor\n"
        "m = debug_executor.create(graph_json, lib, dev, dump_root=str(folder))\n"
        "m.run(x=data, number=1)\nm._dump_path",
        "from tvm.contrib.debugger import debug_executor\nm = debug_executor.create(graph_json, lib, dev)\n"
        "print(m.profile(x=data))",
        "from tvm.contrib.debugger import debug_executor\nm = debug_executor.create(graph_json, lib, dev)\n"
        "m.run_individual(1, 2, 0)",
        "from tvm.contrib.debugger.debug_executor import GraphModuleDebug\n"
        "gmod = tvm.runtime.load_module(factory_path)\n"
        "m = GraphModuleDebug(gmod['debug_create']('default', dev), [dev], gmod['get_graph_json'](), "
        "str(folder))",
        releases="0.8 to 0.19",
    ),
    *_works(
        "debugger",
        "from tvm.contrib.debugger import debug_runtime\n"
        "m = debug_runtime.create(graph_json, lib, tvm.cpu(0))\n"
        "m.set_input('x', data)\nm.run(number=1)",
        releases="0.6, 0.7",
    ),
    *_works(
        "helpers",
        "from tvm.contrib import utils\ntemp = utils.tempdir()\npath = temp.relpath('deploy.so')",
        "import tvm.testing\ntvm.testing.assert_allclose(data, data)",
        "import tvm.testing\ntvm.testing.assert_allclose(data + 1e-4, data, rtol=1e-2, atol=1e-3)",
        "assert tvm.__version__",
        "try:\n    module.get_function('fly')\nexcept AttributeError:\n    pass",
        "try:\n    graph_executor.create(graph_json, lib, 'cpu')\nexcept ValueError:\n    pass",
    ),
    *_works(
        "helpers",
        "from tvm.contrib.download import download\n"
        "(folder / 'labels.txt').write_text('cat')\n"
        "download((folder / 'labels.txt').as_uri(), folder / 'fetched.txt')\n"
        "assert (folder / 'fetched.txt').read_text() == 'cat'",
        "from tvm.contrib import download\ndownload.TEST_DATA_ROOT_PATH = folder / 'data'\n"
        "(folder / 'cat.png').write_bytes(b'png')\n"
        "path = download.download_testdata((folder / 'cat.png').as_uri(), 'cat.png', module='data')\n"
        "assert open(path, 'rb').read() == b'png'",
        "from tvm.contrib import cc\nimport subprocess\n"
        "(folder / 'o.c').write_text('int one(void) { return 1; }')\n"
        "subprocess.run([cc.get_cc(), '-fPIC', '-c', 'o.c'], cwd=folder, check=True)\n"
        "cc.create_shared(str(folder / 'o.so'), [str(folder / 'o.o')])",
    ),
    *_works(
        "helpers",
        "from tvm.contrib import cc\nfcompile = cc.cross_compiler('gcc', options=['-O2'])\n"
        "(folder / 'two.c').write_text('int two(void) { return 2; }')\n"
        "fcompile(str(folder / 'two.so'), [str(folder / 'two.c')])",
        "from tvm.contrib import tar\n(folder / 'a.o').write_bytes(b'a')\n"
        "tar.tar(str(folder / 'a.tar'), [str(folder / 'a.o')])\n(folder / 'out').mkdir()\n"
        "tar.untar(str(folder / 'a.tar'), str(folder / 'out'))\n"
        "assert (folder / 'out' / 'a.o').read_bytes() == b'a'",
        "from tvm.contrib import ndk\ntry:\n    ndk.create_shared(str(folder / 'x.so'), [])\n"
        "except RuntimeError as error:\n    assert 'TVM_NDK_CC' in str(error)",
        "from tvm._ffi.base import TVMError\nassert issubclass(tvm.error.TVMError, TVMError)",
        "assert tvm.support.libinfo()['USE_PROFILER'] == 'ON'",
        "import tvm.testing\n@tvm.testing.requires_cuda\ndef test_gpu():\n    pass",
        "assert tvm.runtime.DataType('float32x4').lanes == 4",
        "proxy = tvm.support.FrontendTestModule()\n"
        "proxy['myadd'] = lambda x, y: y.copyfrom(x.numpy() + 1)\n"
        "m = graph_executor.create(graph_json, proxy, dev)\nm.run(x=data)\n"
        "assert m.get_output(0).numpy().tolist() == [1, 2, 3, 4]",
        releases="0.8 to 0.19",
    ),
    *_works("helpers", "from tvm.contrib import util\ntemp = util.tempdir()", releases="0.6"),
    *_works(
        "remote devices",
        "from tvm import rpc\nremote = rpc.LocalSession()\nremote.upload(lib_path)\n"
        "import os\nrlib = remote.load_module(os.path.basename(lib_path))\n"
        "m = graph_executor.create(graph_json, rlib, remote.cpu(0))\nm.run(x=data)",
    ),
    *_elsewhere(
        "the compiler",
        "compile with TVM elsewhere",
        "from tvm import relay",
        "import tvm.relay as relay",
        "from tvm import te",
        "import tvm.relay.testing",
        "from tvm import autotvm",
        "from tvm.driver import tvmc",
        "mod, params = tvm.relay.frontend.from_onnx(None)",
        "lib = tvm.build(None, target='llvm')",
        "target = tvm.target.Target('llvm -mcpu=skylake')",
        "from tvm import auto_scheduler",
        "from tvm import meta_schedule as ms",
        "from tvm import topi",
        "from tvm.relay import transform",
        "with tvm.transform.PassContext(opt_level=3):\n    pass",
        "from tvm.ir import IRModule",
        "from tvm.script import tir as T",
    ),
    *_elsewhere(
        "other executors",
        "is not here",
        "from tvm.runtime import vm",
        "from tvm.runtime.vm import VirtualMachine",
        "from tvm.runtime.executor import AotModule",
        "from tvm.contrib import tflite_runtime",
        "from tvm.contrib import pipeline_executor",
        "from tvm.contrib.cuda_graph import cuda_graph_executor",
        releases="0.8 to 0.19",
    ),
    *_elsewhere(
        "remote devices",
        "docs/cluster.md",
        "from tvm import rpc\nremote = rpc.connect('192.168.0.2', 9090)",
        "from tvm import rpc\ntracker = rpc.connect_tracker('0.0.0.0', 9190)",
    ),
    Snippet(
        "devices",
        "tvm.nd.array(data, tvm.cuda(0))",
        state="differs",
        why="TVM without CUDA fails as well, in its device API",
        error="no cuda device here",
    ),
    Snippet(
        "inputs and outputs",
        "module.set_input('data', data)",
        state="differs",
        why="as TVM, and says which inputs there are",
        error="Could not find",
    ),
]
