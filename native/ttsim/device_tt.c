/* device_tt.c: a simulated Tenstorrent device: banked DRAM and L1 that only copies and cores' page
 * transfers reach. Function, not time.
 *
 * defines: the device kind "tt"
 */
#include <stdlib.h>

#include "status.h"
#include "tt.h"

static _Atomic uint64_t devices_made;

static int32_t open_tt(gr_device *device) {
  for (int32_t m = 0; m < device->num_memories; ++m)
    if (device->memories[m].desc.kind == GR_HOST)
      return gr_fail(GR_ERR_ARGUMENT, "memory %d of %s is host memory, which a tt device has not", m,
                     device->name);
  gr_tt_device *tt = calloc(1, sizeof *tt);
  if (!tt) return gr_fail(GR_ERR_OUT_OF_MEMORY, "no host memory for device %s", device->name);
  tt->serial = atomic_fetch_add_explicit(&devices_made, 1, memory_order_relaxed) + 1;
  tt->l1_floor = UINT64_MAX;
  device->impl = tt;
  device->env.core_open = gr_tt_core_open;
  device->env.page_read = gr_tt_page_read;
  device->env.page_write = gr_tt_page_write;
  return GR_OK;
}

static void close_tt(gr_device *device) {
  gr_tt_core_close(device);
  gr_tt_bank_close(device);
  free(device->impl);
}

static void expose_tt(gr_device *device, int32_t on) {
  gr_tt_bank_expose(device, on);
  gr_tt_core_expose(device, on);
}

static const gr_device_ops tt_ops = {.kind = "tt",
                                     .open = open_tt,
                                     .close = close_tt,
                                     .alloc = gr_tt_bank_alloc,
                                     .release = gr_tt_bank_release,
                                     .copy_in = gr_tt_copy_in,
                                     .copy_out = gr_tt_copy_out,
                                     .locate = gr_tt_locate,
                                     .count = gr_tt_count,
                                     .expose = expose_tt,
                                     .cores = gr_tt_core_counts};

GR_REGISTER_DEVICE(tt_ops)
