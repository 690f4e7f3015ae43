/* executor.c: runs a lowered program: a loop of indirect calls over flat records.
 *
 * Called by graph_runtime/run/sessions/session.py with the GIL released, on any thread; one thread at a time in one
 * program.
 * defines: gr_program_create, gr_program_circular, gr_program_destroy, gr_program_run, gr_program_hold,
 * gr_program_release
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../tvm/packed.h"
#include "device.h"
#include "guard.h"
#include "gr_core.h"
#include "parallel.h"
#include "status.h"

/* Instructions between two looks at the clock, which costs about 5 ns: twice as many after each look at which
 * it had not moved (its ticks are of milliseconds), so that tiny kernels do not pay for it. */
#define CLOCK_LEAST 8
#define CLOCK_MOST 64

/* WAITING: between two calls of the thread that owns the program, everybody else is refused. */
enum { IDLE, RUNNING, WAITING };

struct gr_program {
  const gr_instr *instrs;    /* [count] the caller's, which keeps them alive */
  int64_t count;
  atomic_int state;
  _Atomic(const char *) owner;   /* &this_thread of the thread that made it RUNNING or WAITING */
  int held;                  /* by gr_program_hold: WAITING, not IDLE, comes after a run */
  int has_room;              /* a run that was interrupted keeps room for circular buffers */
  struct gr_room {
    gr_device *device;
    uint64_t bytes;
  } *rooms;                  /* [num_rooms] what runs need */
  int32_t num_rooms;
  int64_t opening;           /* instructions from this one on open none */
  char holder[64];           /* its holder */
};

static _Thread_local char this_thread;   /* its address tells threads apart */

/* Relaxed will do: only this thread ever writes &this_thread, so it cannot read it by mistake. */
static int is_owner(gr_program *program) {
  return atomic_load_explicit(&program->owner, memory_order_relaxed) == &this_thread;
}

/* Makes an idle program, or one that waits for this thread, this thread's. Acquire pairs with leave's
 * release: what the last owner wrote to the program and its memory is seen. */
static int enter(gr_program *program) {
  int state = IDLE;
  if (atomic_compare_exchange_strong_explicit(&program->state, &state, RUNNING, memory_order_acquire,
                                              memory_order_acquire)) {
    atomic_store_explicit(&program->owner, &this_thread, memory_order_relaxed);
    return 1;
  }
  if (state != WAITING || !is_owner(program)) return 0;
  atomic_store_explicit(&program->state, RUNNING, memory_order_relaxed); /* only the owner leaves WAITING */
  return 1;
}

static void leave(gr_program *program, int state) {
  atomic_store_explicit(&program->state, state, memory_order_release);
}

static int32_t busy(void) { return gr_fail(GR_ERR_BUSY, "another thread is running this session"); }

int32_t gr_program_create(const gr_instr *instrs, int64_t count, gr_program **out) {
  if (count < 0 || (count && !instrs))
    return gr_fail(GR_ERR_ARGUMENT, "a program of %lld instructions cannot be", (long long)count);
  for (int64_t i = 0; i < count; ++i) {
    if (!instrs[i].fn) return gr_fail(GR_ERR_ARGUMENT, "instruction %lld has no kernel", (long long)i);
    if (instrs[i].call.abi != GR_ABI_VERSION)
      return gr_fail(GR_ERR_ARGUMENT, "instruction %lld is of kernel ABI %u, this core has ABI %d",
                     (long long)i, instrs[i].call.abi, GR_ABI_VERSION);
  }
  gr_program *program = malloc(sizeof *program);
  if (!program) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a program");
  program->instrs = instrs;
  program->count = count;
  atomic_init(&program->state, IDLE);
  atomic_init(&program->owner, NULL);
  program->held = program->has_room = 0;
  program->rooms = NULL;
  program->num_rooms = 0;
  program->opening = 0;
  *out = program;
  return GR_OK;
}

int32_t gr_program_circular(gr_program *program, gr_device *device, uint64_t bytes, int64_t last,
                            const char *holder) {
  struct gr_room *rooms = realloc(program->rooms, ((size_t)program->num_rooms + 1) * sizeof *rooms);
  if (!rooms) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for a program");
  program->rooms = rooms;
  rooms[program->num_rooms++] = (struct gr_room){device, bytes};
  program->opening = last;
  snprintf(program->holder, sizeof program->holder, "%s", holder);
  return GR_OK;
}

static void drop_rooms(gr_program *program, int32_t count) {
  while (count-- > 0) gr_circular_drop(program->rooms[count].device, program->rooms[count].bytes);
  program->has_room = 0;
}

static int32_t hold_rooms(gr_program *program) {
  for (int32_t r = 0; r < program->num_rooms; ++r)
    if (gr_circular_hold(program->rooms[r].device, program->rooms[r].bytes, program->holder)) {
      drop_rooms(program, r);
      return GR_ERR_OUT_OF_MEMORY;
    }
  program->has_room = 1;
  return GR_OK;
}

void gr_program_destroy(gr_program *program) {
  if (!program) return;
  if (program->has_room) drop_rooms(program, program->num_rooms);
  free(program->rooms);
  free(program);
}

static int64_t coarse_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* A packed function is called from here: through its kernel it would cost a second indirect call, which is
 * much of what a tiny one costs. */
static inline int32_t run_one(const gr_instr *instr) {
  return instr->fn == gr_packed_kernel ? gr_packed_call_run(&instr->call) : instr->fn(&instr->call);
}

/* Runs [first, last); returns the first non-zero result and where. Aligned, so that what a node costs does not
 * depend on the code that the linker puts before it. */
__attribute__((aligned(64))) static int32_t run_some(const gr_instr *instrs, int64_t first, int64_t last, int64_t *at) {
  for (int64_t i = first; i < last; ++i) {
    int32_t status = run_one(&instrs[i]);
    if (__builtin_expect(status != 0, 0)) {
      *at = i;
      return status;
    }
  }
  *at = last;
  return GR_OK;
}

/* Opens or closes the blocks of host memory that an instruction is given: one that is the program's own to write.
 * A packed function of a library's may have its arguments in its attributes alone. */
static void open_args(const gr_call *call, int on) {
  for (int32_t a = 0; call->args && a < call->nargs; ++a)
    if (call->args[a].memory == GR_HOST) (on ? gr_guard_open : gr_guard_close)(call->args[a].addr);
}

/* The same, with every device's memory open only while one of its instructions runs. */
static int32_t run_some_guarded(const gr_instr *instrs, int64_t first, int64_t last, int64_t *at) {
  for (int64_t i = first; i < last; ++i) {
    gr_device *device = gr_env_device(instrs[i].call.env);
    gr_device_enter(device);
    open_args(&instrs[i].call, 1);
    int32_t status = instrs[i].fn(&instrs[i].call);
    open_args(&instrs[i].call, 0);
    gr_device_leave(device);
    if (status) {
      *at = i;
      return status;
    }
  }
  *at = last;
  return GR_OK;
}

static int32_t run(const gr_program *program, int64_t first, int64_t last, int64_t budget_ns,
                   int64_t *stopped_at) {
  int32_t (*some)(const gr_instr *, int64_t, int64_t, int64_t *) = gr_devices_guarded() ? run_some_guarded
                                                                                        : run_some;
  int64_t now = budget_ns > 0 ? coarse_ns() : 0, deadline = now + budget_ns;
  int64_t step = budget_ns > 0 ? CLOCK_LEAST : last - first;
  while (first < last) {
    int64_t stop = last - first < step ? last : first + step;
    int32_t status = some(program->instrs, first, stop, stopped_at);
    if (status) return gr_kernel_status(status);
    first = stop;
    if (first == last) break;
    int64_t before = now;
    now = coarse_ns();
    if (now >= deadline) return GR_INTERRUPTED;
    step = now != before ? CLOCK_LEAST : step < CLOCK_MOST ? 2 * step : CLOCK_MOST;
  }
  *stopped_at = last;
  return GR_OK;
}

int32_t gr_program_run(gr_program *program, gr_span *span) {
  if (span->first < 0 || span->first > span->last || span->last > program->count)
    return gr_fail(GR_ERR_ARGUMENT, "instructions %lld to %lld are not in a program of %lld",
                   (long long)span->first, (long long)span->last, (long long)program->count);
  if (!enter(program)) return busy();
  gr_error_clear();
  if (program->num_rooms && !program->has_room && span->first < program->opening && hold_rooms(program)) {
    span->stopped_at = -1;
    leave(program, program->held ? WAITING : IDLE);
    return GR_ERR_OUT_OF_MEMORY;
  }
  gr_pool_enter();
  int32_t status = run(program, span->first, span->last, span->budget_ns, &span->stopped_at);
  gr_pool_leave();
  if (program->has_room && status != GR_INTERRUPTED) drop_rooms(program, program->num_rooms);
  leave(program, status == GR_INTERRUPTED || program->held ? WAITING : IDLE);
  return status;
}

int32_t gr_program_hold(gr_program *program) {
  if (!enter(program)) return busy();
  program->held = 1;
  leave(program, WAITING);
  return GR_OK;
}

void gr_program_release(gr_program *program) {
  if (atomic_load_explicit(&program->state, memory_order_acquire) != WAITING || !is_owner(program)) return;
  program->held = 0;
  if (program->has_room) drop_rooms(program, program->num_rooms);
  leave(program, IDLE);
}
