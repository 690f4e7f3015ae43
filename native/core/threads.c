/* threads.c: see threads.h.
 *
 * Called by queue.c, workers.c and pack.c, any thread.
 * defines: gr_thread_start
 */
#include "threads.h"

#include <signal.h>

/* Signals (Ctrl-C) belong to the application's threads. What an instruction of a thread causes, or its abort(), is
 * delivered to that thread alone: where it is blocked, the system ends the process without calling a handler, so
 * faulthandler, a sanitizer, guard.c and mapped.c could not say what happened. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};

int gr_thread_start(pthread_t *thread, void *(*work)(void *), void *arg) {
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i) sigdelset(&blocked, faults[i]);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);      /* a thread begins with its starter's mask */
  int refused = pthread_create(thread, NULL, work, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return refused;
}
