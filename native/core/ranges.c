/* ranges.c: see ranges.h.
 *
 * Called under a device's lock or the handles', which a fork waits for, so that a child finds the lock free.
 * defines: gr_range_claim, gr_range_drop, gr_range_map, gr_range_unmap
 */
#define _GNU_SOURCE            /* MAP_FIXED_NOREPLACE */
#include "ranges.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define ALIGNMENT (UINT64_C(2) << 20)     /* of large pages; as much stays free behind each range */
#define SAMPLES 16
#define TRIES 64                          /* places looked at in a zone, where others have mapped something */

typedef struct range {
  uint64_t begin, end;
  struct range *next;
} range;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static range *claimed;                    /* sorted */

static void *place(uint64_t address) { return (void *)(uintptr_t)address; }

static int map_at(uint64_t address, uint64_t bytes) {
  void *got = mmap(place(address), bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == place(address)) return 1;
  if (got != MAP_FAILED) {                /* an older kernel, or a sanitizer, takes the address for a wish */
    munmap(got, bytes);
    errno = EEXIST;
  }
  return 0;
}

/* Whether nothing is mapped at places spread over a range: what others keep here is large. A limit that is reached
 * says nothing against the place. */
static int is_free(uint64_t begin, uint64_t bytes) {
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), step = (bytes - page) / SAMPLES / page * page;
  for (uint64_t at = begin, last = begin + bytes - page;; at = at + step < last ? at + step : last) {
    if (map_at(at, page)) munmap(place(at), page);
    else if (errno != ENOMEM) return 0;
    if (at == last) return 1;
  }
}

/* The first free range of a zone, entered in the list; 0 where there is none. Under the lock. */
static uint64_t claim_in(uint64_t zone, uint64_t end, uint64_t bytes, range *made) {
  range **at = &claimed;
  uint64_t begin = zone;
  for (int tries = 0; tries < TRIES; ++tries) {
    for (; *at && (*at)->begin < begin + bytes; at = &(*at)->next)
      if ((*at)->end > begin) begin = (*at)->end;
    if (begin > end || bytes > end - begin) return 0;
    if (is_free(begin, bytes)) {
      *made = (range){.begin = begin, .end = begin + bytes, .next = *at};
      *at = made;
      return begin;
    }
    begin += bytes;
  }
  return 0;
}

/* The end of a process's addresses: the power of two above its stacks. */
static uint64_t address_space(void) {
  char here;
  uint64_t top = UINT64_C(1) << 32;
  while (top && top <= (uint64_t)(uintptr_t)&here) top <<= 1;
  return top;
}

/* The zones that ranges are cut from: zones[i] = {begin, end}. x86-64's ThreadSanitizer leaves a program these two
 * places beside its libraries and its heap. It changes any other address to 0, even of MAP_FIXED_NOREPLACE, and ends
 * the process where the system then maps page 0, as it does for root. */
#if defined(__SANITIZE_THREAD__) && defined(__x86_64__)
#define ZONES {{UINT64_C(1) << 36, UINT64_C(1) << 39}, {UINT64_C(0x5580) << 32, UINT64_C(0x5680) << 32}}
#else
#define ZONES {{top / 16 * 3, top / 4}}
#endif

uint64_t gr_range_claim(uint64_t bytes) {
  uint64_t top = address_space();
  uint64_t zones[][2] = ZONES;
  uint64_t rounded;
  if (!top || __builtin_add_overflow(bytes, 2 * ALIGNMENT - 1, &rounded)) return 0;
  rounded = rounded / ALIGNMENT * ALIGNMENT;
  range *made = malloc(sizeof *made);
  if (!made) return 0;
  uint64_t found = 0;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; !found && i < sizeof zones / sizeof *zones; ++i)
    found = claim_in(zones[i][0], zones[i][1], rounded, made);
  pthread_mutex_unlock(&lock);
  if (!found) free(made);
  return found;
}

void gr_range_drop(uint64_t address) {
  range *gone = NULL;
  pthread_mutex_lock(&lock);
  for (range **at = &claimed; *at; at = &(*at)->next)
    if ((*at)->begin == address) {
      gone = *at;
      *at = gone->next;
      break;
    }
  pthread_mutex_unlock(&lock);
  free(gone);
}

int gr_range_map(uint64_t address, uint64_t bytes) { return map_at(address, bytes); }

void gr_range_unmap(uint64_t address, uint64_t bytes) { munmap(place(address), bytes); }
