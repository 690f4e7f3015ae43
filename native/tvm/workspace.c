/* workspace.c: temporary memory of TVM operators. Each thread has its own pool, so nothing is locked and a
 * block is freed by the thread that took it (generated code nests them strictly). Blocks stay with the
 * thread until it ends.
 *
 * Called by operators of TVM-made libraries, on any thread.
 * defines: TVMBackendAllocWorkspace, TVMBackendFreeWorkspace
 */
#include <pthread.h>
#include <stdlib.h>

#include "status.h"
#include "tvm_backend.h"

#define ALIGNMENT 64          /* kTempAllocaAlignment */
#define GRANULE 4096
#define MOST_BYTES (UINT64_C(1) << 40)
#define DEVICE_CPU 1

typedef struct block {
  struct block *next;
  void *data;
  uint64_t bytes;
  int32_t taken;
} block;

static _Thread_local block *blocks;      /* of this thread, in no order: there are few */
static pthread_key_t at_thread_end;

static void free_blocks(void *first) {
  for (block *b = first; b;) {
    block *next = b->next;
    free(b->data);
    free(b);
    b = next;
  }
}

__attribute__((constructor)) static void make_key(void) { pthread_key_create(&at_thread_end, free_blocks); }

/* The smallest free block that is large enough, else the largest free one, else NULL. */
static block *find_free(uint64_t bytes) {
  block *fits = NULL, *largest = NULL;
  for (block *b = blocks; b; b = b->next) {
    if (b->taken) continue;
    if (b->bytes >= bytes && (!fits || b->bytes < fits->bytes)) fits = b;
    if (!largest || b->bytes > largest->bytes) largest = b;
  }
  return fits ? fits : largest;
}

static block *new_block(void) {
  block *b = calloc(1, sizeof *b);
  if (!b) return NULL;
  b->next = blocks;
  blocks = b;
  pthread_setspecific(at_thread_end, blocks);
  return b;
}

void *TVMBackendAllocWorkspace(int32_t device_type, int32_t device_id, uint64_t nbytes, int32_t dtype_code,
                               int32_t dtype_bits) {
  (void)device_id, (void)dtype_code, (void)dtype_bits;
  if (device_type != DEVICE_CPU) {
    gr_fail(GR_ERR_ARGUMENT,
            "an operator asks for workspace on device type %d: only cpu (1) has workspaces here", device_type);
    return NULL;
  }
  if (nbytes > MOST_BYTES) {
    gr_fail(GR_ERR_OUT_OF_MEMORY, "an operator asks for a workspace of %llu bytes", (unsigned long long)nbytes);
    return NULL;
  }
  uint64_t bytes = nbytes ? (nbytes + GRANULE - 1) / GRANULE * GRANULE : GRANULE;
  block *b = find_free(bytes);
  if (!b && !(b = new_block())) return NULL;
  if (b->bytes < bytes) {
    free(b->data);
    b->data = aligned_alloc(ALIGNMENT, bytes);
    b->bytes = b->data ? bytes : 0;
    if (!b->data) {
      gr_fail(GR_ERR_OUT_OF_MEMORY, "no memory for a workspace of %llu bytes", (unsigned long long)bytes);
      return NULL;
    }
  }
  b->taken = 1;
  return b->data;
}

int32_t TVMBackendFreeWorkspace(int32_t device_type, int32_t device_id, void *data) {
  (void)device_type, (void)device_id;
  for (block *b = blocks; b; b = b->next) {
    if (b->data != data || !b->taken) continue;
    b->taken = 0;
    return 0;
  }
  gr_fail(GR_ERR_ARGUMENT, "an operator frees a workspace that this thread has not taken");
  return -1;
}
