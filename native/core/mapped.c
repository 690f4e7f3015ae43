/* mapped.c: mapped files, so that an access to one that was truncated is explained before it ends the process.
 *
 * Called by graph_runtime/binding/core.py, any thread; the handler runs in the thread that faults, and calls nothing
 * that a signal handler may not.
 * defines: gr_mapped_watch, gr_mapped_forget
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gr_core.h"

typedef struct part {
  uint64_t begin, end;         /* from the beginning of the mapping */
  const char *name;
} part;

/* One mapping. Records are used again and never freed: the handler walks them without a lock. */
typedef struct mapping {
  struct mapping *next;
  _Atomic uint64_t begin, size;   /* size 0: nothing is mapped */
  char *texts;                    /* the file's name, then those of its parts */
  part *parts;
  int32_t count;
} mapping;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;   /* held to change records; the handler reads without */
static mapping *_Atomic mappings;
static struct sigaction previous;
static atomic_bool installed, raised;

/* ---------------------------------------------------------------- the text */
typedef struct text {
  char bytes[1400];
  size_t length;
} text;

static void add(text *to, const char *from) {
  for (size_t i = 0; from[i] && i < 400 && to->length < sizeof to->bytes - 1; ++i) to->bytes[to->length++] = from[i];
}

static void add_number(text *to, uint64_t value) {
  char digits[24];
  size_t at = sizeof digits - 1;
  digits[at] = 0;
  do {
    digits[--at] = (char)('0' + value % 10);
    value /= 10;
  } while (value);
  add(to, digits + at);
}

static void explain(const mapping *in, uint64_t at) {
  text said = {.length = 0};
  add(&said, "graph_runtime: ");
  add(&said, in->texts);
  add(&said, " was cut short while it was in use: byte ");
  add_number(&said, at);
  for (int32_t i = 0; i < in->count; ++i) {
    if (at < in->parts[i].begin || at >= in->parts[i].end) continue;
    add(&said, " of tensor ");
    add(&said, in->parts[i].name);
    break;
  }
  add(&said, " of what was mapped is no longer there. The process ends (SIGBUS). Load the file anew; GR_MAP=0, or "
             "verify=\"full\" for a bundle, reads values instead of mapping them.\n");
  for (size_t done = 0; done < said.length;) {
    ssize_t wrote = write(STDERR_FILENO, said.bytes + done, said.length - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) break;
    done += (size_t)wrote;
  }
}

/* ---------------------------------------------------------------- the signal */
static void rest(int64_t nanoseconds) {
  struct timespec time = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000};
  nanosleep(&time, NULL);
}

/* Threads that share a loop fault together. One tells; the others wait for the end of the process, for a second: the
 * handler that was there before may have gone on. The one that tells lets a text end that faulthandler, enabled later
 * than this handler, may be writing in another thread, because the process ends with the first of them. */
static void take_turn(void) {
  static _Atomic int64_t teller;
  int64_t me = syscall(SYS_gettid), none = 0;
  if (atomic_compare_exchange_strong(&teller, &none, me)) rest(100000000);
  else if (none != me) rest(1000000000);
}

static void on_fault(int number, siginfo_t *info, void *context) {
  int kept = errno;
  if (info->si_code <= 0) {
    /* A signal that was sent, not an access. faulthandler puts back the handler before its own, this one, and raises
     * the signal anew: to return leads back to the access, whose fault has an address. */
    if (info->si_code == SI_TKILL && info->si_pid == getpid() && !atomic_exchange(&raised, true)) return;
  } else {
    uint64_t at = (uint64_t)(uintptr_t)info->si_addr;
    for (mapping *in = atomic_load(&mappings); in; in = in->next) {
      uint64_t begin = atomic_load(&in->begin);
      if (at < begin || at - begin >= atomic_load(&in->size)) continue;
      take_turn();
      explain(in, at - begin);
      break;
    }
  }
  if (previous.sa_flags & SA_SIGINFO)
    previous.sa_sigaction(number, info, context);
  else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    previous.sa_handler(number);
  else {
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(number, &usual, NULL);
    if (info->si_code <= 0) raise(number);       /* an access faults again by itself */
  }
  errno = kept;
}

/* Under lock. */
static void install(void) {
  if (atomic_exchange(&installed, true)) return;
  struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
  sigemptyset(&ours.sa_mask);
  sigaction(SIGBUS, &ours, &previous);
}

/* ---------------------------------------------------------------- the table */
static mapping *find(uint64_t begin) {
  mapping *at = atomic_load(&mappings);
  while (at && !(atomic_load(&at->size) && atomic_load(&at->begin) == begin)) at = at->next;
  return at;
}

static mapping *unused(void) {
  mapping *at = atomic_load(&mappings);
  while (at && atomic_load(&at->size)) at = at->next;
  if (!at && (at = calloc(1, sizeof *at))) {
    at->next = atomic_load(&mappings);
    atomic_store(&mappings, at);
  }
  return at;
}

static void forget(mapping *at) {
  atomic_store(&at->size, 0);
  free(at->texts);
  free(at->parts);
  at->texts = NULL;
  at->parts = NULL;
  at->count = 0;
}

void gr_mapped_watch(uint64_t begin, uint64_t size, const char *texts, uint64_t length, const uint64_t *spans,
                     int32_t count) {
  char *own = malloc(length + 1);
  part *parts = malloc(((size_t)count + 1) * sizeof *parts);
  pthread_mutex_lock(&lock);
  mapping *at = find(begin);
  if (at) forget(at);
  at = own && parts ? unused() : NULL;
  if (at) {
    memcpy(own, texts, length);
    own[length] = 0;
    const char *name = own;
    for (int32_t i = 0; i < count; ++i) {
      name += strlen(name) + 1;
      parts[i] = (part){spans[2 * i], spans[2 * i + 1], name};
    }
    at->texts = own;
    at->parts = parts;
    at->count = count;
    atomic_store(&at->begin, begin);
    atomic_store(&at->size, size);
    install();
  } else {
    free(own);
    free(parts);
  }
  pthread_mutex_unlock(&lock);
}

void gr_mapped_forget(uint64_t begin) {
  pthread_mutex_lock(&lock);
  mapping *at = find(begin);
  if (at) forget(at);
  pthread_mutex_unlock(&lock);
}
