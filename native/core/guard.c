/* guard.c: blocks of host memory that can be written only while they are opened (guard.h).
 *
 * Called by host.c, idle.c, access.c, executor.c and worker.c, any thread. The handler of SIGSEGV runs in the thread
 * that wrote.
 * defines: gr_guard_map, gr_guard_unmap, gr_guard_open, gr_guard_close,
 * gr_guard_blocks
 */
#include "guard.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

typedef struct block {
  uint64_t addr, bytes;        /* whole pages */
  int32_t openings;
  char holder[64];
} block;

static struct {
  pthread_mutex_t lock;
  block *items;                /* [capacity] by addr */
  int64_t capacity;
  int handles;                 /* whether our handler is there */
  struct sigaction before;     /* the handler that was there */
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER};

_Atomic int64_t gr_guard_blocks;       /* in items; changes under the lock */

/* ---------------------------------------------------------------- under the lock */

static int64_t upper_bound(uint64_t addr) {
  int64_t low = 0, high = gr_guard_blocks;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (guard.items[middle].addr <= addr) low = middle + 1;
    else high = middle;
  }
  return low;
}

static block *find(uint64_t addr) {
  int64_t at = upper_bound(addr) - 1;
  return at >= 0 && addr - guard.items[at].addr < guard.items[at].bytes ? guard.items + at : NULL;
}

static int has_room(void) {
  if (gr_guard_blocks < guard.capacity) return 1;
  int64_t capacity = guard.capacity ? 2 * guard.capacity : 64;
  block *items = realloc(guard.items, (size_t)capacity * sizeof *items);
  if (!items) return 0;
  guard.items = items;
  guard.capacity = capacity;
  return 1;
}

/* ---------------------------------------------------------------- the report */

/* Text and a number in hex, by calls that a handler of signals may make. */
static void say(const char *text, uint64_t number, int with_number) {
  char digits[19] = "0x";
  int length = 2;
  if (write(STDERR_FILENO, text, strlen(text)) < 0 || !with_number) return;
  for (int shift = 60; shift >= 0; shift -= 4)
    if (number >> shift || !shift) digits[length++] = "0123456789abcdef"[number >> shift & 15];
  if (write(STDERR_FILENO, digits, (size_t)length) < 0) return;
}

/* The lock, which another thread may hold for the time of an mprotect; 0 after a second without it, when the thread that
 * holds it is the one that the signal came to. */
static int lock_in_handler(void) {
  const struct timespec moment = {.tv_nsec = 100000};
  for (int tries = 0; tries < 10000; ++tries) {
    if (!pthread_mutex_trylock(&guard.lock)) return 1;
    nanosleep(&moment, NULL);
  }
  return 0;
}

static void report(int signal_number, siginfo_t *info, void *context) {
  (void)signal_number;
  (void)context;
  uint64_t addr = (uint64_t)(uintptr_t)info->si_addr;
  if (lock_in_handler()) {
    const block *found = find(addr);
    if (found) {
      say("graph_runtime: guard: a write to host memory at ", addr, 1);
      say(", in the block of '", 0, 0);
      say(found->holder, 0, 0);
      say("' at ", found->addr, 1);
      say(", did not wait for the queued work that may use it: only Buffer.writing() opens a block\n", 0, 0);
    }
    pthread_mutex_unlock(&guard.lock);
  }
  sigaction(SIGSEGV, &guard.before, NULL);      /* the instruction runs again and calls the earlier handler */
}

static void handle_faults(void) {
  if (guard.handles) return;
  struct sigaction ours;
  memset(&ours, 0, sizeof ours);
  ours.sa_sigaction = report;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  guard.handles = sigaction(SIGSEGV, &ours, &guard.before) == 0;
}

/* ---------------------------------------------------------------- blocks */

void *gr_guard_map(uint64_t extent, const char *holder) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes = (extent + page - 1) / page * page;
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return NULL;
  pthread_mutex_lock(&guard.lock);
  int room = has_room();
  if (room) {
    handle_faults();
    uint64_t addr = (uint64_t)(uintptr_t)mapped;
    int64_t at = upper_bound(addr);
    memmove(guard.items + at + 1, guard.items + at, (size_t)(gr_guard_blocks - at) * sizeof *guard.items);
    guard.items[at] = (block){.addr = addr, .bytes = bytes, .openings = 1};
    snprintf(guard.items[at].holder, sizeof guard.items[at].holder, "%s", holder && *holder ? holder : "(unnamed)");
    gr_guard_blocks += 1;
  }
  pthread_mutex_unlock(&guard.lock);
  if (room) return mapped;
  munmap(mapped, bytes);
  return NULL;
}

int gr_guard_unmap(uint64_t addr) {
  if (!atomic_load_explicit(&gr_guard_blocks, memory_order_relaxed)) return 0;
  pthread_mutex_lock(&guard.lock);
  block *found = find(addr);
  if (found) {
    munmap((void *)(uintptr_t)found->addr, found->bytes);
    gr_guard_blocks -= 1;
    memmove(found, found + 1, (size_t)(guard.items + gr_guard_blocks - found) * sizeof *found);
  }
  pthread_mutex_unlock(&guard.lock);
  return found != NULL;
}

static void count(uint64_t addr, int32_t more) {
  if (!atomic_load_explicit(&gr_guard_blocks, memory_order_relaxed)) return;
  pthread_mutex_lock(&guard.lock);
  block *found = find(addr);
  if (found) {
    int before = found->openings > 0;
    found->openings += more;
    int now = found->openings > 0;
    if (now != before)
      mprotect((void *)(uintptr_t)found->addr, found->bytes, now ? PROT_READ | PROT_WRITE : PROT_READ);
  }
  pthread_mutex_unlock(&guard.lock);
}

void gr_guard_open(uint64_t addr) { count(addr, 1); }

void gr_guard_close(uint64_t addr) { count(addr, -1); }
