/* module.c: opens libraries that TVM compiled, fills in their context pointers, and answers what their
 * operators ask by name.
 *
 * Called by graph_runtime/compat/tvm_files/library.py when a library is loaded, and by operators
 * (TVMBackendGetFuncFromEnv, TVMFuncCall) on any thread. One lock, `registry.lock`, guards modules,
 * imports, handles and the global table; it is never held while foreign code runs, but for the constructors
 * of a library that is being opened, which register its functions (so that part has a lock of its own).
 *
 * Generated code keeps a function handle in a static variable and never releases it, and a mapping is
 * shared by all code in the process that opens the file; so a module with a file, once opened, stays open:
 * when its last user is cannot be known.
 *
 * defines: gr_tvm_*, TVMFuncCall, TVMAPISetLastError, TVMGetLastError, TVMBackendGetFuncFromEnv,
 * TVMBackendRegisterSystemLibSymbol
 */
#define _GNU_SOURCE
#include "gr_tvm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"
#include "status.h"
#include "tvm_backend.h"

#define MODULE_CTX "__tvm_module_ctx"      /* a variable for our own use: the asking module in GetFuncFromEnv */

/* The function of a name: the handle that TVMBackendGetFuncFromEnv gives out. */
typedef struct function {
  struct function *next;
  _Atomic(tvm_packed_fn) fn;   /* NULL: taken away */
  void *resource;
  char name[];
} function;

struct gr_tvm_module {
  gr_tvm_module *next;         /* in registry.modules */
  void *dl;                    /* NULL for the system module */
  int32_t contexts;
  gr_tvm_module **imports;     /* [num_imports]; modules stay open, so none is held */
  int32_t num_imports;
  function *functions;         /* handles given out; the system module's: what was registered */
};

static struct {
  pthread_mutex_t lock;
  gr_tvm_module *modules;      /* those that were opened */
  function *globals;
  pthread_mutex_t system_lock;
  gr_tvm_module system;        /* under system_lock */
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .system_lock = PTHREAD_MUTEX_INITIALIZER};

/* ---------------------------------------------------------------- names */

static function *find(function *first, const char *name) {
  for (function *f = first; f; f = f->next)
    if (!strcmp(f->name, name)) return f;
  return NULL;
}

static function *add(function **first, const char *name, void *fn, void *resource) {
  size_t bytes = strlen(name) + 1;
  function *f = malloc(sizeof *f + bytes);
  if (!f) return NULL;
  memcpy(f->name, name, bytes);
  atomic_init(&f->fn, (tvm_packed_fn)fn);
  f->resource = resource;
  f->next = *first;
  *first = f;
  return f;
}

/* Under registry.lock (and, for the system module, system_lock as well). */
static function *own_function(gr_tvm_module *m, const char *name) {
  function *f = find(m->functions, name);
  if (f || !m->dl) return f;
  void *fn = dlsym(m->dl, name);
  return fn ? add(&m->functions, name, fn, NULL) : NULL;
}

static function *imported_function(gr_tvm_module *m, const char *name) {
  for (int32_t i = 0; i < m->num_imports; ++i) {
    function *f = own_function(m->imports[i], name);
    if (!f) f = imported_function(m->imports[i], name);
    if (f) return f;
  }
  return NULL;
}

/* ---------------------------------------------------------------- services */

int32_t TVMBackendGetFuncFromEnv(void *module_ctx, const char *name, void **func) {
  gr_tvm_module *m = module_ctx;
  pthread_mutex_lock(&registry.lock);
  pthread_mutex_lock(&registry.system_lock);
  function *f = m ? imported_function(m, name) : NULL;
  pthread_mutex_unlock(&registry.system_lock);
  if (!f) f = find(registry.globals, name);
  if (f && !atomic_load(&f->fn)) f = NULL;       /* it was taken away */
  pthread_mutex_unlock(&registry.lock);
  if (!f) {
    gr_fail(GR_ERR_KERNEL,
            "Cannot find function %s in the imported modules or global registry: the library was built with a "
            "feature (a device or an external library) that this runtime does not provide", name);
    return -1;
  }
  *func = f;
  return 0;
}

int32_t TVMFuncCall(void *func, tvm_value *args, int32_t *codes, int32_t num_args, tvm_value *ret,
                    int32_t *ret_code) {
  function *f = func;
  tvm_packed_fn fn = atomic_load(&f->fn);
  *ret_code = TVM_NULL;
  if (fn) return fn(args, codes, num_args, ret, ret_code, f->resource);
  gr_fail(GR_ERR_KERNEL, "function %s was taken away while the library has it", f->name);
  return -1;
}

void TVMAPISetLastError(const char *message) {
  gr_fail(GR_ERR_KERNEL, "%s", message ? message : "(no message)");
}

const char *TVMGetLastError(void) { return gr_error_text(); }

int32_t TVMBackendRegisterSystemLibSymbol(const char *name, void *symbol) {
  pthread_mutex_lock(&registry.system_lock);
  function *f = find(registry.system.functions, name);
  if (f) atomic_store(&f->fn, (tvm_packed_fn)symbol);   /* the same library opened anew */
  else f = add(&registry.system.functions, name, symbol, NULL);
  pthread_mutex_unlock(&registry.system_lock);
  /* its name may have the library's prefix, and the variable need not be exported */
  size_t length = strlen(name), suffix = sizeof MODULE_CTX - 1;
  if (length >= suffix && !strcmp(name + length - suffix, MODULE_CTX)) *(void **)symbol = &registry.system;
  return f ? 0 : -1;
}

/* __tvm_set_device(type, id): every launch of device code is preceded by it; there is one host here. */
static int32_t set_device(tvm_value *args, int32_t *codes, int32_t num_args, tvm_value *ret, int32_t *ret_code,
                          void *resource) {
  (void)args, (void)codes, (void)num_args, (void)ret, (void)ret_code, (void)resource;
  return 0;
}

__attribute__((constructor)) static void register_builtins(void) { gr_tvm_provide("__tvm_set_device", set_device); }

void gr_tvm_provide(const char *name, tvm_packed_fn fn) { add(&registry.globals, name, (void *)fn, NULL); }

/* ---------------------------------------------------------------- the user's functions */

int32_t gr_tvm_register(const char *name, void *fn, int32_t override) {
  int32_t status = GR_OK;
  pthread_mutex_lock(&registry.lock);
  function *f = find(registry.globals, name);
  if (f && fn && !override && atomic_load(&f->fn))
    status = gr_fail(GR_ERR_ARGUMENT, "there is a function %s already: override=True takes its place", name);
  else if (f) atomic_store(&f->fn, (tvm_packed_fn)fn);
  else if (fn && !add(&registry.globals, name, fn, NULL)) status = gr_fail(GR_ERR_OUT_OF_MEMORY, "no memory");
  pthread_mutex_unlock(&registry.lock);
  return status;
}

void gr_tvm_fail(const char *text) { gr_fail(GR_ERR_KERNEL, "%s", text); }

void *gr_tvm_global(const char *name) {
  pthread_mutex_lock(&registry.lock);
  function *f = find(registry.globals, name);
  pthread_mutex_unlock(&registry.lock);
  return f ? (void *)atomic_load(&f->fn) : NULL;
}

const char *gr_tvm_global_name(int32_t i) {
  pthread_mutex_lock(&registry.lock);
  function *f = registry.globals;
  for (; f && (i > 0 || !atomic_load(&f->fn)); f = f->next) i -= atomic_load(&f->fn) != NULL;
  pthread_mutex_unlock(&registry.lock);
  return f ? f->name : NULL;
}

/* ---------------------------------------------------------------- context pointers */

static const struct {
  const char *name;
  void *service;
} contexts[] = {
    {"__TVMFuncCall", (void *)TVMFuncCall},
    {"__TVMAPISetLastError", (void *)TVMAPISetLastError},
    {"__TVMBackendGetFuncFromEnv", (void *)TVMBackendGetFuncFromEnv},
    {"__TVMBackendAllocWorkspace", (void *)TVMBackendAllocWorkspace},
    {"__TVMBackendFreeWorkspace", (void *)TVMBackendFreeWorkspace},
    {"__TVMBackendParallelLaunch", (void *)TVMBackendParallelLaunch},
    {"__TVMBackendParallelBarrier", (void *)TVMBackendParallelBarrier},
};
#define NUM_CONTEXTS ((int32_t)(sizeof contexts / sizeof *contexts))

/* All are optional: the compiler drops those that the operators do not use. */
static void fill_contexts(gr_tvm_module *m) {
  for (int32_t i = 0; i < NUM_CONTEXTS; ++i) {
    void **slot = dlsym(m->dl, contexts[i].name);
    if (!slot) continue;
    *slot = contexts[i].service;
    m->contexts |= 1 << i;
  }
  void **ctx = dlsym(m->dl, MODULE_CTX);
  if (ctx) *ctx = m;
}

const char *gr_tvm_context_name(int32_t i) { return i >= 0 && i < NUM_CONTEXTS ? contexts[i].name : NULL; }
int32_t gr_tvm_contexts(const gr_tvm_module *module) { return module->contexts; }

/* ---------------------------------------------------------------- modules */

static gr_tvm_module *find_open(void *dl) {
  for (gr_tvm_module *m = registry.modules; m; m = m->next)
    if (m->dl == dl) return m;
  return NULL;
}

int32_t gr_tvm_publish(void) {
  if (gr_publish()) return GR_OK;
  return gr_fail(GR_ERR_ARGUMENT, "cannot make the runtime's services visible to libraries: %s", dlerror());
}

int32_t gr_tvm_open(const char *path, int32_t externs, gr_tvm_module **out) {
  int32_t status = externs ? gr_tvm_publish() : GR_OK;
  if (status) return status;
  /* NOW: a function that is missing is told here, and does not end the process when it is called. Runs constructors: not
   * under registry.lock */
  void *dl = gr_dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!dl) return gr_fail(GR_ERR_ARGUMENT, "%s", gr_dlerror(path));
  pthread_mutex_lock(&registry.lock);
  gr_tvm_module *m = find_open(dl);
  if (m) {
    dlclose(dl);                                       /* the module has the mapping already */
  } else if ((m = calloc(1, sizeof *m))) {
    m->dl = dl;
    m->next = registry.modules;
    registry.modules = m;
    fill_contexts(m);
  }
  pthread_mutex_unlock(&registry.lock);
  if (!m) {
    dlclose(dl);
    return gr_fail(GR_ERR_OUT_OF_MEMORY, "no memory for a module");
  }
  *out = m;
  return GR_OK;
}

gr_tvm_module *gr_tvm_system(void) { return &registry.system; }

static int reaches(const gr_tvm_module *from, const gr_tvm_module *to) {
  for (int32_t i = 0; from != to && i < from->num_imports; ++i)
    if (reaches(from->imports[i], to)) return 1;
  return from == to;
}

int32_t gr_tvm_import(gr_tvm_module *parent, gr_tvm_module *child) {
  pthread_mutex_lock(&registry.lock);
  if (reaches(child, parent)) {
    pthread_mutex_unlock(&registry.lock);
    return gr_fail(GR_ERR_ARGUMENT, "the module imports its importer: imports in a circle are not possible");
  }
  for (int32_t i = 0; i < parent->num_imports; ++i)
    if (parent->imports[i] == child) {
      pthread_mutex_unlock(&registry.lock);
      return GR_OK;
    }
  gr_tvm_module **grown = realloc(parent->imports, sizeof *grown * (size_t)(parent->num_imports + 1));
  if (grown) {
    grown[parent->num_imports++] = child;
    parent->imports = grown;
  }
  pthread_mutex_unlock(&registry.lock);
  return grown ? GR_OK : gr_fail(GR_ERR_OUT_OF_MEMORY, "no memory for an import");
}

void *gr_tvm_function(gr_tvm_module *module, const char *name, int32_t with_imports) {
  pthread_mutex_lock(&registry.lock);
  pthread_mutex_lock(&registry.system_lock);
  function *f = own_function(module, name);
  if (!f && with_imports) f = imported_function(module, name);
  pthread_mutex_unlock(&registry.system_lock);
  pthread_mutex_unlock(&registry.lock);
  return f ? (void *)atomic_load(&f->fn) : NULL;
}

int32_t gr_tvm_call(void *fn, void *values, int32_t *codes, int32_t num_args, void *ret, int32_t *ret_code) {
  gr_error_clear();
  *ret_code = TVM_NULL;
  if (!((tvm_packed_fn)fn)(values, codes, num_args, ret, ret_code, NULL)) return GR_OK;
  return *gr_error_text() ? GR_ERR_KERNEL : gr_fail(GR_ERR_KERNEL, "the function failed and set no message");
}
