/* gr_async.h: asynchronous execution: buffers with their events, queues, templates of submissions, runs.
 *
 * Every device has three queues, each with a thread of its own that starts at first use. A submission (gr_run)
 * is one instance of a template: lanes of steps, a lane for each queue. A lane goes in order, steps wait for
 * steps of other lanes, and lanes of different submissions in one queue may overtake each other where one is
 * waiting. An event is a place in a lane: it is over when so many of its steps are.
 *
 * A gr_buffer knows which events last wrote it and which still read it. gr_submit waits for no work: it makes
 * each lane's first read of a buffer wait for its writers, the first write for its readers too, in the order
 * of submissions, and then is the last writer or one more reader itself. A buffer without a holder
 * goes back to its device together with its events, and the next taker waits for them.
 *
 * A step that fails poisons its lane and everything that reads what it would have written, in any run, with
 * the first cause; all else goes on. Threads never call Python. After fork() the child's calls fail.
 *
 * defines: the asynchronous functions of graph_runtime._core
 */
#ifndef GR_ASYNC_H
#define GR_ASYNC_H

#include "gr_core.h"

/* cdef-begin */
typedef struct gr_buffer gr_buffer;
typedef struct gr_template gr_template;
typedef struct gr_run gr_run;

enum gr_role { GR_COMPUTE = 0, GR_COPY_IN = 1, GR_COPY_OUT = 2 };

/* What went wrong first. */
typedef struct gr_failure {
  int32_t status;        /* gr_status */
  int32_t step;          /* of the template that failed */
  char node[128];        /* cut to fit; "" where it was not given */
  char op[64];
  char device[32];
  char text[2048];
} gr_failure;

/* ---------------------------------------------------------------- buffers
 * Any thread. Functions that return a pointer return NULL on failure, with gr_last_error and
 * gr_last_status. */
int32_t gr_last_status(void);               /* gr_status of this thread's last failing call */
/* extent bytes (per bank) of a memory of a device. Never waits; GR_ERR_OUT_OF_MEMORY where nothing is free
 * now: gr_reclaim and try again. Queued work may still use the block, for which later work waits by itself.
 * to_write: the caller will write it (gr_buffer_write): a block that makes him wait is taken only where idle ones
 * hold much memory. */
gr_buffer *gr_buffer_alloc(gr_device *device, int32_t memory, uint64_t extent, const char *holder, int32_t to_write);
/* Memory of another owner, which keeps it as long as gr_buffer_pending(.., 1) after the last reference. What begins
 * at one address is one buffer: its events are those of all its borrowers. */
gr_buffer *gr_buffer_borrow(gr_device *device, int32_t memory, uint64_t addr, uint64_t extent);
void gr_buffer_release(gr_buffer *buffer);
/* The same for memory that shall not be kept idle: it goes back at once, or as soon as no queued work needs it. */
void gr_buffer_return(gr_buffer *buffer);
uint64_t gr_buffer_addr(const gr_buffer *buffer);
uint64_t gr_buffer_id(const gr_buffer *buffer);       /* never used twice */
uint64_t gr_buffer_version(gr_buffer *buffer);        /* submissions that write it, so far */
/* Whether queued work still writes it, or with `readers` set, reads it. */
int32_t gr_buffer_pending(gr_buffer *buffer, int32_t readers);
/* Waits for that: GR_OK when it is over, GR_INTERRUPTED after about budget_ns. */
int32_t gr_buffer_wait(gr_buffer *buffer, int32_t readers, int64_t budget_ns);
/* The first cause of a failure to write the buffer; 0: nothing failed (yet). out may be NULL. */
int32_t gr_buffer_failure(gr_buffer *buffer, gr_failure *out);
/* Before the caller's own instructions write a buffer: waits until queued work neither writes nor reads it, and
 * opens its memory in guard mode; what failed before is forgotten. GR_INTERRUPTED after about budget_ns; GR_OK is
 * followed by one gr_buffer_written. */
int32_t gr_buffer_write(gr_buffer *buffer, int64_t budget_ns);
/* Another buffer takes the block, and its contents count as what they should be. The old one keeps what failed, so that
 * what reads it fails as before, and is not written any more. NULL where the old one is in use, or has another version,
 * so that other work was to write it; then it stays as it is. */
gr_buffer *gr_buffer_renew(gr_buffer *buffer, uint64_t version);
void gr_buffer_written(gr_buffer *buffer);
/* Gives the memory of idle buffers back to the system. 1: some was freed; 2: none, but work that holds idle buffers, or
 * keeps room for circular buffers, ended meanwhile or still goes on after budget_ns; 0: none will come. */
int32_t gr_reclaim(gr_device *device, int32_t memory, int64_t budget_ns);
/* Bytes (per bank) that idle buffers hold: counted as allocated by gr_device_stats. */
uint64_t gr_buffers_idle(gr_device *device, int32_t memory);
/* The most bytes (per bank) of a memory since the device was made or this was last reset (reset = 1: from now on):
 * out[0] in use at once, idle buffers not counted, out[1] with them. */
int32_t gr_buffers_most(gr_device *device, int32_t memory, int32_t reset, uint64_t *out);
/* Gives the memory of a device's idle buffers back, as soon as no queued work needs it. */
void gr_buffers_let_go(gr_device *device);

enum gr_block_state {
  GR_BLOCK_RESERVED = 0,   /* taken by gr_device_alloc */
  GR_BLOCK_HELD,           /* a buffer with a holder */
  GR_BLOCK_QUEUED,         /* a buffer that queued work alone needs */
  GR_BLOCK_IDLE            /* a buffer that is kept to be used again */
};
typedef struct gr_block {
  uint64_t addr;
  uint64_t extent;         /* bytes, per bank */
  int32_t state;           /* gr_block_state */
  char holder[64];         /* its first holder's name, cut to fit */
} gr_block;
/* All blocks of a memory at one time, by address: their extents are what gr_device_stats counts as allocated.
 * Writes the first `most`; returns how many there are. */
int64_t gr_device_blocks(gr_device *device, int32_t memory, gr_block *out, int64_t most);

/* ---------------------------------------------------------------- templates */
typedef struct gr_step {
  gr_kernel_fn fn;
  const int64_t *attrs;
  const gr_env *env;
  uint64_t scratch;      /* bytes */
  int64_t first_arg;     /* its arguments are first_arg .. first_arg + nargs - 1 */
  int32_t nargs;
  int32_t lane;
  int64_t first_wait;    /* waits[first_wait .. + num_waits - 1]: earlier steps of other lanes */
  int32_t num_waits;
  int32_t num_inputs;    /* arguments before this one are read, the others written */
  const char *node;      /* for errors; may be NULL */
  const char *op;
} gr_step;

typedef struct gr_lane {
  gr_device *device;
  int32_t role;          /* gr_role */
  uint32_t circular;     /* the most bytes of circular buffers that one of its kernels opens on a core */
} gr_lane;

/* A buffer that a submission needs. */
typedef struct gr_slot {
  gr_device *device;     /* where gr_submit is given no buffer it takes one here, */
  int32_t memory;
  int32_t keep;          /* 1: and gives the caller a reference to it */
  uint64_t extent;       /* 0: the caller must give one */
} gr_slot;

/* Arrays of the caller's. gr_template_create copies steps, slots, lanes and waits; what attrs, args' shapes,
 * node and op point to must stay until gr_template_busy is 0 after the last submission. */
typedef struct gr_template_desc {
  const gr_step *steps;          /* in an order in which they could run one by one */
  const gr_arg *args;            /* addr: bytes from the start of its slot's buffer */
  const int32_t *arg_slot;       /* [num_args] */
  const int64_t *waits;
  const gr_lane *lanes;
  const gr_slot *slots;
  const void *tensors;           /* DLTensor [num_args] where steps call packed functions, else NULL */
  int64_t num_steps;
  int64_t num_args;
  int64_t num_waits;
  int32_t num_lanes;
  int32_t num_slots;
  const char *holder;            /* the name in out-of-memory texts; copied */
} gr_template_desc;

gr_template *gr_template_create(const gr_template_desc *desc);
int32_t gr_template_busy(const gr_template *tmpl);   /* runs that are not over */
/* From now on workers write into times[2 * step] and times[2 * step + 1] when a step began and ended (ns of
 * the monotonic clock); NULL: no longer. One run at a time, and none while it is changed. */
void gr_template_clock(gr_template *tmpl, int64_t *times);
void gr_template_destroy(gr_template *tmpl);         /* when no longer busy */

/* ---------------------------------------------------------------- submissions and runs */
/* buffers [num_slots]: NULL where gr_submit shall take one; those of slots with keep are written back. The
 * run's references to buffers are its events': the caller may release all at once. From now until a lane is over
 * no tensor is put where its circular buffers will be. NULL on failure, and then nothing was queued. */
gr_run *gr_submit(gr_template *tmpl, gr_buffer **buffers);
/* The same without the run: GR_OK, or why nothing was queued. Where too much is queued already it waits for some to end;
 * GR_INTERRUPTED after about 50 ms. */
int32_t gr_submit_call(gr_template *tmpl, gr_buffer **buffers);
/* The same for a template of up to three inputs and one output, its last slot: returns the new buffer. */
gr_buffer *gr_submit_op(gr_template *tmpl, gr_buffer *a, gr_buffer *b, gr_buffer *c);
int32_t gr_run_done(const gr_run *run);
int32_t gr_run_wait(gr_run *run, int64_t budget_ns);       /* GR_OK or GR_INTERRUPTED */
/* The failure of the run's earliest step that failed, with its first cause; 0: none. out may be NULL. */
int32_t gr_run_failure(const gr_run *run, gr_failure *out);
/* State of a slot's buffer after a run: the value; unchanged, because one of its own steps failed, or because earlier
 * work that it needs did; undefined; or the run may still write there. tmpl: the run's. */
enum gr_left {
  GR_LEFT_WRITTEN = 0, GR_LEFT_UNCHANGED = 1, GR_LEFT_UNREACHED = 2, GR_LEFT_UNDEFINED = 3, GR_LEFT_PENDING = 4
};
int32_t gr_run_left(const gr_run *run, const gr_template *tmpl, int32_t slot);
void gr_run_cancel(gr_run *run);            /* steps that have not begun will not; readers fail, too */
void gr_run_retain(gr_run *run);
void gr_run_release(gr_run *run);

/* ---------------------------------------------------------------- reading many
 * Copies tensors of a device to host memory in this thread, from number *next on: waits until queued work has
 * written sources[i], then copies. args [2 * count] are pairs, the source with addr counted from its buffer,
 * the target with addr counted from base. GR_INTERRUPTED after about budget_ns, GR_ERR_KERNEL where what should
 * have written it failed; *next is then the one to go on with. */
int32_t gr_gather(gr_buffer *const *sources, const gr_env *env, const gr_arg *args, uint64_t base, int64_t count,
                  int64_t budget_ns, int64_t *next);

/* ---------------------------------------------------------------- the process */
/* Waits until the count of runs that ended is not `seen`, at most about budget_ns; returns it. */
uint64_t gr_runs_ended(uint64_t seen, int64_t budget_ns);
/* Waits until nothing is queued on a device, and what runs kept is given back: a waiter for values may come before that.
 * GR_INTERRUPTED after about budget_ns. */
int32_t gr_async_drain(const gr_device *device, int64_t budget_ns);
/* Number of lanes that came to a device's queues so far, one a role: marks [3]. */
void gr_async_marks(const gr_device *device, uint64_t *marks);
/* Waits until all work up to these marks is over, even if none of its buffers is held any more: GR_OK, or
 * GR_INTERRUPTED after about budget_ns. Never waits for later work. */
int32_t gr_async_reached(const gr_device *device, const uint64_t *marks, int64_t budget_ns);
/* The same for all but the newest `most` in each queue. */
int32_t gr_async_within(const gr_device *device, uint64_t most, int64_t budget_ns);
/* Cancels everything and lets nothing new in; GR_OK when all threads are gone, else GR_INTERRUPTED after
 * about budget_ns. */
int32_t gr_async_shutdown(int64_t budget_ns);
/* GR_OK, or with gr_last_error why nothing can be queued, and nothing that is queued will end, in this process: it
 * is a child of fork, whose parent has the threads, or it is ending. */
int32_t gr_async_usable(void);
/* cdef-end */

#endif
