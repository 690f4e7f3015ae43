/* gather.c: copies many tensors to the host in one call, in the calling thread: for small ones going through a queue
 * would take longer than all the copies.
 *
 * Called by graph_runtime/run/tensors/batches.py, any thread.
 * defines: gr_gather
 */
#include "async.h"
#include "clock.h"
#include "status.h"

static int32_t await_source(gr_buffer *source, int64_t deadline_ns) {
  int64_t left = deadline_ns - gr_now_ns();
  int32_t status = gr_buffer_wait(source, 0, left > 0 ? left : 0);
  gr_failure failure;
  if (status || !gr_buffer_failure(source, &failure)) return status;
  return gr_fail(GR_ERR_KERNEL, "%s on %s failed: %s", failure.op, failure.device, failure.text);
}

int32_t gr_gather(gr_buffer *const *sources, const gr_env *env, const gr_arg *args, uint64_t base, int64_t count,
                  int64_t budget_ns, int64_t *next) {
  int64_t deadline = gr_now_ns() + budget_ns;
  int32_t status = GR_OK;
  while (*next < count && !status) {
    gr_arg from = args[2 * *next], to = args[2 * *next + 1];
    status = await_source(sources[*next], deadline);
    from.addr += sources[*next]->addr;
    to.addr += base;
    if (!status) status = gr_copy(env, &from, NULL, &to);
    if (!status) *next += 1;
  }
  return status;
}
