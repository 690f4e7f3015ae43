/* executor.c: runs a lowered program: a loop of indirect calls over flat records.
 *
 * Called by graph_runtime/session.py with the GIL released, on any thread; one thread at a time in one program.
 * defines: gr_program_create, gr_program_destroy, gr_program_run
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "device.h"
#include "gr_core.h"
#include "status.h"

/* Instructions between two looks at the clock: the coarse clock costs about 5 ns, so it adds well under 1 ns to each. */
#define CLOCK_EVERY 8

struct gr_program {
  const gr_instr *instrs;    /* [count] the caller's, who keeps them alive */
  int64_t count;
  atomic_flag busy;
};

int32_t gr_program_create(const gr_instr *instrs, int64_t count, gr_program **out) {
  if (count < 0 || (count && !instrs))
    return gr_fail(GR_ERR_ARGUMENT, "a program of %lld instructions cannot be", (long long)count);
  for (int64_t i = 0; i < count; ++i) {
    if (!instrs[i].fn) return gr_fail(GR_ERR_ARGUMENT, "instruction %lld has no kernel", (long long)i);
    if (instrs[i].call.abi != GR_ABI_VERSION)
      return gr_fail(GR_ERR_ARGUMENT, "instruction %lld is of kernel ABI %u, this core has ABI %d", (long long)i,
                     instrs[i].call.abi, GR_ABI_VERSION);
  }
  gr_program *program = malloc(sizeof *program);
  if (!program) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a program");
  program->instrs = instrs;
  program->count = count;
  atomic_flag_clear(&program->busy);
  *out = program;
  return GR_OK;
}

void gr_program_destroy(gr_program *program) { free(program); }

static int64_t coarse_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Runs [first, last); returns the first non-zero result and where. */
static int32_t run_some(const gr_instr *instrs, int64_t first, int64_t last, int64_t *at) {
  for (int64_t i = first; i < last; ++i) {
    int32_t status = instrs[i].fn(&instrs[i].call);
    if (__builtin_expect(status != 0, 0)) {
      *at = i;
      return status;
    }
  }
  *at = last;
  return GR_OK;
}

/* The same with every device's memory closed but while its instruction runs. */
static int32_t run_some_guarded(const gr_instr *instrs, int64_t first, int64_t last, int64_t *at) {
  for (int64_t i = first; i < last; ++i) {
    gr_device *device = gr_env_device(instrs[i].call.env);
    gr_device_enter(device);
    int32_t status = instrs[i].fn(&instrs[i].call);
    gr_device_leave(device);
    if (status) {
      *at = i;
      return status;
    }
  }
  *at = last;
  return GR_OK;
}

static int32_t kernel_failed(int32_t status) {
  if (!*gr_error_text()) gr_fail(status, "the kernel returned %d and gave no text", status);
  /* what a kernel returns is its own business; only these mean to the caller what they mean to us */
  return status == GR_ERR_BOUNDS || status == GR_ERR_OUT_OF_MEMORY || status == GR_ERR_ARGUMENT ? status : GR_ERR_KERNEL;
}

static int32_t run(const gr_program *program, int64_t first, int64_t last, int64_t budget_ns, int64_t *stopped_at) {
  int32_t (*some)(const gr_instr *, int64_t, int64_t, int64_t *) = gr_devices_guarded() ? run_some_guarded : run_some;
  int64_t deadline = budget_ns > 0 ? coarse_ns() + budget_ns : INT64_MAX;
  int64_t step = budget_ns > 0 ? CLOCK_EVERY : last - first;
  while (first < last) {
    int64_t stop = last - first < step ? last : first + step;
    int32_t status = some(program->instrs, first, stop, stopped_at);
    if (status) return kernel_failed(status);
    first = stop;
    if (first < last && coarse_ns() >= deadline) return GR_INTERRUPTED;
  }
  *stopped_at = last;
  return GR_OK;
}

int32_t gr_program_run(gr_program *program, int64_t first, int64_t last, int64_t budget_ns, int64_t *stopped_at) {
  *stopped_at = first;
  if (first < 0 || first > last || last > program->count)
    return gr_fail(GR_ERR_ARGUMENT, "instructions %lld to %lld are not in a program of %lld", (long long)first,
                   (long long)last, (long long)program->count);
  if (atomic_flag_test_and_set_explicit(&program->busy, memory_order_acquire))
    return gr_fail(GR_ERR_BUSY, "another thread is running this session");
  gr_error_clear();
  int32_t status = run(program, first, last, budget_ns, stopped_at);
  atomic_flag_clear_explicit(&program->busy, memory_order_release);
  return status;
}
